//! The rows of the benchmark: names, descriptions, and how lines of the guest become figures. The names are
//! those of `programs/bench`; `docs/bench.md` lists them.

use std::collections::BTreeMap;

/// A row of the tables.
pub struct Row {
    /// Its name in `programs/bench`.
    pub name: &'static str,
    /// The operation that is measured.
    pub what: &'static str,
    /// The unit of its size, for rows that have sizes.
    pub size: Option<&'static str>,
    /// Whether the cost per operation should stay the same when the size grows.
    pub flat: bool,
}

const fn row(name: &'static str, what: &'static str) -> Row {
    Row {
        name,
        what,
        size: None,
        flat: false,
    }
}

const fn sized(name: &'static str, what: &'static str, size: &'static str, flat: bool) -> Row {
    Row {
        name,
        what,
        size: Some(size),
        flat,
    }
}

/// Every row, in the order of the tables.
pub const ROWS: &[Row] = &[
    row("calibrate", "a million turns of a loop of two instructions"),
    row("getppid", "getppid through syscall()"),
    row("getppid-rseq", "the same with a registered rseq"),
    row("gettid", "gettid through syscall()"),
    row("enosys", "a system call that is none (ENOSYS)"),
    row("read-zero", "read 1 byte of /dev/zero"),
    row(
        "read-zero-shared",
        "the same with descriptors that another process shares",
    ),
    row("write-null", "write 1 byte to /dev/null"),
    row("yield-alone", "sched_yield, nothing else to run"),
    row("clock-gettime", "clock_gettime (vDSO)"),
    row("signal", "signal to self, handler, return"),
    row("signal-siginfo", "the same with SA_SIGINFO"),
    row("signal-rseq", "signal to self with a registered rseq"),
    row("fault-write", "page fault, anonymous write, per 4 KiB page"),
    row("fault-read", "page fault, read of the zero page"),
    row("munmap-touched", "munmap, per touched page"),
    row("mmap-munmap", "mmap + munmap of one page"),
    row("mmap-touch-munmap", "mmap + touch + munmap of one page"),
    sized(
        "fault-threads",
        "write faults of n threads, per page",
        "threads",
        true,
    ),
    sized("mmap-regions", "mmap beside n regions", "regions", true),
    sized("munmap-regions", "munmap beside n regions", "regions", true),
    sized("mprotect-regions", "mprotect beside n regions", "regions", true),
    row("fork", "fork + exit + wait"),
    row("vfork", "vfork + exit + wait"),
    row("fork-exec-tiny", "fork + exec of a tiny static program"),
    row("vfork-exec-tiny", "vfork + exec of the same"),
    row("fork-exec-static", "fork + exec of a static glibc program"),
    row("fork-exec-dynamic", "fork + exec of a dynamic glibc program"),
    row("pthread", "pthread create + join"),
    sized("fork-touched", "fork + exit with n MiB touched", "MiB", false),
    row("pipe", "pipe ping-pong, round trip, two processes"),
    row("futex", "futex ping-pong, round trip, two threads"),
    row("yield-pair", "yield with a switch, two processes"),
    row("pipe-rseq", "pipe round trip with a registered rseq"),
    row("yield-pair-rseq", "yield with a switch with a registered rseq"),
    sized(
        "switch-ring",
        "a byte handed on in a ring of n processes",
        "processes",
        true,
    ),
    sized(
        "futex-wake",
        "futex wake of n waiters, per waiter",
        "waiters",
        true,
    ),
    row("open-close", "open + close"),
    row(
        "open-close-shared",
        "the same with descriptors that another process shares",
    ),
    row("stat", "stat"),
    row(
        "stat-shared",
        "the same with directories that another process shares",
    ),
    sized(
        "getdents",
        "getdents, per entry of a directory of n",
        "entries",
        true,
    ),
    sized("read-file", "read n bytes from the page cache", "bytes", false),
    sized("write-file", "write n bytes to the page cache", "bytes", false),
    sized("poll", "poll of n descriptors, one ready", "descriptors", false),
    sized(
        "epoll",
        "epoll_wait of n descriptors, one ready",
        "descriptors",
        true,
    ),
    sized(
        "epoll-shared",
        "the same with descriptors that another process shares",
        "descriptors",
        true,
    ),
    row("timer-arm", "timerfd set + taken back"),
    row("timer-expire", "timerfd set to now + read"),
    row("filter-all", "getppid with a filter that allows all"),
    row("filter-arguments", "getppid with a filter of 50 instructions"),
    row("listener", "a call that a seccomp listener answers"),
    row("dispatch-allowed", "getppid that user dispatch lets pass"),
    row("dispatch-blocked", "a call that user dispatch makes SIGSYS"),
    row("getppid-tracked", "getppid with context tracking"),
    row("fault-write-tracked", "a write fault with context tracking"),
    row("pipe-tracked", "pipe round trip with context tracking"),
    row(
        "getppid-random",
        "getppid with a random distance on the kernel stack",
    ),
    row("getppid-erased", "getppid with its kernel stack erased"),
    row("fault-write-erased", "a write fault with its kernel stack erased"),
    row("perf-syscall", "perf bench syscall all: getppid"),
    row("perf-pipe", "perf bench sched pipe, per round trip"),
    row("perf-messaging", "perf bench sched messaging, the whole run"),
    row("perf-futex-hash", "perf bench futex hash, per operation"),
];

/// The row called `name`.
pub fn find(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|r| r.name == name)
}

/// The name of a row and a size; 0 for rows without sizes.
pub type Key = (String, u64);

/// A key as text: `name` or `name/size`.
pub fn shown(key: &Key) -> String {
    match key.1 {
        0 => key.0.clone(),
        n => format!("{}/{n}", key.0),
    }
}

/// The measurement of a row on one kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Operations per round.
    pub operations: u64,
    /// Instructions (with `--wall`, ns) of each round.
    pub rounds: Vec<u64>,
}

impl Figure {
    /// The middle round, per operation.
    pub fn per_operation(&self) -> f64 {
        let mut sorted = self.rounds.clone();
        sorted.sort_unstable();
        let middle = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
        middle as f64 / self.operations.max(1) as f64
    }
}

/// The results of one run.
#[derive(Default)]
pub struct Figures {
    /// Rows that were measured.
    pub rows: BTreeMap<Key, Figure>,
    /// Rows that could not be measured, and why.
    pub failed: Vec<(String, String)>,
    /// Whether the program reached its end.
    pub complete: bool,
}

impl Figures {
    /// Reads the lines of a run.
    pub fn parse(lines: &[String]) -> Figures {
        let mut found = Figures::default();
        let mut current = String::new();
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["bench-begin", name, size] => {
                    current = shown(&((*name).to_owned(), size.parse().unwrap_or(0)));
                }
                ["bench", name, size, operations, rounds @ ..] => {
                    let numbers: Result<Vec<u64>, _> = rounds.iter().map(|r| r.parse()).collect();
                    let (Ok(size), Ok(operations), Ok(rounds)) = (size.parse(), operations.parse(), numbers)
                    else {
                        continue;
                    };
                    if rounds.is_empty() {
                        continue;
                    }
                    found
                        .rows
                        .insert(((*name).to_owned(), size), Figure { operations, rounds });
                }
                ["bench-failed", why @ ..] => match found.failed.last_mut() {
                    // The row prints what went wrong, then its parent process prints how it ended; the first
                    // message is kept.
                    Some((name, _)) if *name == current => {}
                    _ => found.failed.push((current.clone(), why.join(" "))),
                },
                ["bench-end"] => found.complete = true,
                _ => {}
            }
        }
        found
    }

    /// Fails unless the count of a loop of known length is right.
    pub fn check_calibration(&self, kernel: &str) -> anyhow::Result<f64> {
        let Some(figure) = self.rows.get(&("calibrate".to_owned(), 0)) else {
            anyhow::bail!("{kernel} did not get through the calibration loop; no figures");
        };
        let per_turn = figure.per_operation() / 1e6;
        if (per_turn - 2.0).abs() > 0.01 {
            anyhow::bail!(
                "{kernel}: a loop of two instructions took {per_turn:.4} per turn: the guest's clock does \
                 not count \
                 instructions, so no figure means anything"
            );
        }
        Ok(per_turn)
    }
}

/// A number for people: thousands separated, decimals only where they matter.
pub fn number(value: f64) -> String {
    if value < 99.95 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_become_figures() {
        let found = Figures::parse(&lines(
            "[ 0.1] noise\nbench-begin getppid 0\nbench getppid 0 10 1000 1100 1050\nbench-begin poll 100\n\
             bench-failed x == 1 (errno 2)\nbench-failed poll 100 status 0x300\nbench-end",
        ));
        assert!(found.complete);
        assert_eq!(found.rows[&("getppid".to_owned(), 0)].per_operation(), 105.0);
        assert_eq!(
            found.failed,
            [("poll/100".to_owned(), "x == 1 (errno 2)".to_owned())]
        );
    }

    #[test]
    fn wrong_counting_is_refused() {
        let figures = Figures::parse(&lines("bench calibrate 0 1 2000003 2000003"));
        assert!(figures.check_calibration("k").is_ok());
        let figures = Figures::parse(&lines("bench calibrate 0 1 9000003 9000003"));
        assert!(figures.check_calibration("k").is_err());
        assert!(Figures::default().check_calibration("k").is_err());
    }

    #[test]
    fn numbers() {
        assert_eq!(number(2.0), "2.0");
        assert_eq!(number(99.99), "100");
        assert_eq!(number(1234567.4), "1,234,567");
    }
}
