//! One line each for what went wrong with a trace: a setting that the guest refused, records that were lost.

use rustix::io::Errno;

use super::near::near;
use super::parcels::Parcels;
use super::{Setting, Source};

/// Why there is no trace. `setting` is the one that the guest refused, `None` if it has no tracefs; `names`
/// is what that setting chooses from.
pub fn reason(setting: Option<&Setting>, errno: i32, names: &[u8]) -> String {
    let error = std::io::Error::from_raw_os_error(errno);
    let Some(setting) = setting else {
        return format!(
            "this kernel has no tracefs ({error}), so nothing can be traced: run one that has it, or leave \
             --trace out"
        );
    };
    let names = String::from_utf8_lossy(names);
    let file = setting.value.split(' ').next().unwrap_or_default();
    if Errno::from_raw_os_error(errno) == Errno::NOENT {
        let flag = setting
            .from
            .as_ref()
            .map_or("--trace", |(option, word)| option.flag(word));
        return format!(
            "{flag}: this kernel has no /sys/kernel/tracing/{file}; leave {flag} out, or run another"
        );
    }
    // What a name can be refused for; anything else is no fault of the name.
    let unknown = Errno::from_raw_os_error(errno) == Errno::INVAL;
    let Some((option, word)) = setting.from.as_ref().filter(|_| unknown) else {
        let more = if Errno::from_raw_os_error(errno) == Errno::NOMEM {
            "; give more memory with --mem"
        } else {
            ""
        };
        return format!(
            "the guest refused {:?} in /sys/kernel/tracing: {error}{more}",
            setting.value
        );
    };
    let advice = || match near(word, &names).as_slice() {
        [] => String::new(),
        near => format!(" Near names: {}.", near.join(", ")),
    };
    let flag = option.flag(word);
    let (what, list) = match option {
        Source::Trace | Source::Graph => ("function", "available_filter_functions"),
        Source::Events => ("event", "available_events"),
        Source::Calls => return format!("{flag}: this kernel has no events of system calls"),
        Source::Tracer => {
            let tracers: Vec<&str> = names.split_whitespace().filter(|t| *t != "nop").collect();
            let others = if tracers.is_empty() {
                "nop".to_owned()
            } else {
                tracers.join(", ")
            };
            return format!(
                "{flag}: this kernel has no tracer {word}, only {others}; leave {flag} out, or run another"
            );
        }
    };
    if names.trim().is_empty() {
        return format!("{flag} {word}: this kernel has no {what} that can be traced ({list} is empty)");
    }
    // Most kernels know only this one pattern.
    let pattern = if *option == Source::Events && word.contains('*') {
        " A * is for all of a group only, as in sched:*."
    } else {
        ""
    };
    format!(
        "{flag} {word}: no {what} of this kernel matches.{pattern}{} All are in \
         /sys/kernel/tracing/{list} of the guest",
        advice()
    )
}

impl Source {
    /// The option's name; `word` is what was given with it.
    fn flag(self, word: &str) -> &'static str {
        match self {
            Source::Trace => "--trace",
            Source::Events => "--trace-events",
            Source::Calls => "--trace-syscalls",
            Source::Tracer if word == "function" => "--trace",
            Source::Graph | Source::Tracer => "--trace-graph",
        }
    }
}

/// What is missing of the trace, if anything is.
pub fn loss(given: &Parcels) -> Option<String> {
    if given.trace.is_empty() && given.files.is_empty() {
        return Some("no trace came from the guest; see --log for what its kernel says".to_owned());
    }
    let mut lost: u64 = 0;
    for line in String::from_utf8_lossy(&given.stats).lines() {
        if let Some((key, number)) = line.split_once(':')
            && ["overrun", "commit overrun", "dropped events"].contains(&key.trim())
        {
            lost = lost.saturating_add(number.trim().parse().unwrap_or(0));
        }
    }
    if lost > 0 {
        return Some(format!(
            "the trace lacks {lost} events, the buffer was too small: trace less, or give --append \
             trace_buf_size=16M (for each CPU)"
        ));
    }
    given
        .cut
        .then(|| "the trace lacks its end, it is longer than 1 GiB: trace less".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(from: Option<(Source, &str)>) -> Setting {
        Setting {
            key: "trace",
            value: "file word".into(),
            from: from.map(|(o, w)| (o, w.to_owned())),
        }
    }

    #[test]
    fn each_reason_is_one_line() {
        let inval = Errno::INVAL.raw_os_error();
        let function = setting(Some((Source::Trace, "vfs_raed")));
        let tracer = setting(Some((Source::Tracer, "function_graph")));
        let event = setting(Some((Source::Events, "sched:swich")));
        let graph = setting(Some((Source::Graph, "x")));
        let events = setting(Some((Source::Events, "sched:sched_*")));
        let cases: [(Option<&Setting>, i32, &str, &str); 9] = [
            (
                Some(&graph),
                Errno::NOENT.raw_os_error(),
                "x\n",
                "tracing/file; leave --trace-graph",
            ),
            (Some(&events), inval, "sched:sched_switch\n", "sched:*."),
            (None, Errno::NODEV.raw_os_error(), "", "tracefs"),
            (Some(&function), inval, "vfs_read\nx\n", "vfs_read."),
            (Some(&function), inval, "", "no function"),
            (Some(&function), Errno::NOMEM.raw_os_error(), "a\n", "--mem"),
            (Some(&tracer), inval, "function nop\n", "only function;"),
            (Some(&event), inval, "sched:switch\n", "sched:switch"),
            (Some(&setting(None)), 13, "", "\"file word\""),
        ];
        for (setting, errno, names, word) in cases {
            let line = reason(setting, errno, names.as_bytes());
            assert!(line.contains(word) && !line.contains('\n'), "{line}");
        }
    }

    #[test]
    fn losses_are_summed() {
        let mut given = Parcels::default();
        assert!(loss(&given).is_some_and(|l| l.contains("no trace came")));
        given.trace = b"# tracer: nop\n".to_vec();
        given.stats = b"entries: 5\noverrun: 0\ndropped events: 0\n".to_vec();
        assert_eq!(loss(&given), None);
        given
            .stats
            .extend_from_slice(b"overrun: 7\ncommit overrun: x\ndropped events: 3\n\xff\noverrun");
        assert!(loss(&given).is_some_and(|l| l.contains("lacks 10 events") && l.contains("trace_buf_size")));
    }
}
