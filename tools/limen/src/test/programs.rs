//! Programs of this tree. `programs/hostile` makes every system call with random and boundary arguments, as
//! root and as an ordinary user, on two processors: the kernel must not panic or hang, and a shell must still
//! work afterwards. `programs/registers` checks that system calls keep registers, and its `storm` takes many
//! faults at the same time. `programs/threads` checks threads, `programs/abi` what differs between ABIs.

use anyhow::bail;

use super::flavour::{self, Flavour};
use super::guest::Guest;
use super::{Context, Step, Verdict};
use crate::agent;
use crate::arch::Arch;

/// Calls per user; with two users these are over four million.
const CALLS: u32 = 2_100_000;
/// The same on 32-bit Arm, where a call takes ten times as long: QEMU forgets all translations at every
/// kernel entry.
const CALLS_ARM: u32 = CALLS / 4;
/// The same on kernels with other pages: most calls do not know of these.
const CALLS_PAGES: u32 = CALLS / 4;

/// Requests of tracers per user, and in the long step.
const TRACER_REQUESTS: u32 = 60_000;
const TRACER_REQUESTS_LONG: u32 = 1_000_000;

/// KiB of memory that may stay in use after the program: inodes, dentries and the like that are cached.
const KEPT: u64 = 16 << 10;

/// The number of times each thread's timer interrupts its faults.
const STORM_ROUNDS: &str = "200";

/// The programs of `programs/abi`, each in an empty folder of its own.
const ASKING: &[&str] = &[
    "abi",
    "accounts",
    "answers",
    "acls",
    "behaviour",
    "mappings",
    "mlocked",
    "secret",
    "edges",
    "futexes",
    "files",
    "sockets",
    "tasks",
    "terminals",
    "trees",
    "walks",
    "wakes",
    "clones",
    "sysctl",
    "clocks",
    "events",
    "signalled",
    "expiries",
    "watchers",
    "locks",
    "leases",
    "descriptors",
    "traced",
    "filters",
    "listening",
    "dispatched",
    "ptraced",
    "ptraced_calls",
    "regressions",
    "stepped",
    "watched",
    "debugged",
    "dumped",
    "audited",
    "recorded",
    "witnessed",
    "crossings",
    "views",
    "unwinding",
    "segments",
    "int80",
    "int80_threads",
    "shared_memory",
    "semaphores",
    "userns",
    "messages",
    "queues",
    "queue_notices",
    "pidns",
    "mountns",
    "vectors",
    "namespaces",
    "timens",
];

/// For a script with a function `run`: afterwards the kernel's map is what it was before, leaf by leaf, and
/// no table was lost. What ended programs had comes back a little later. On Linux blocks stay split.
const MAP_IS_KEPT: &str = r#"
mount -t debugfs none /sys/kernel/debug 2> /dev/null
figures() { grep DirectMap /proc/meminfo; grep -E '^(leaves|linear_tables) ' /sys/kernel/debug/kernel_map; }
before=$(figures)
run
for n in 1 2 3 4 5; do [ "$(figures)" = "$before" ] && exit; sleep 1; done
echo "the kernel's map was:"; echo "$before"; echo "and is:"; figures
exit 1
"#;

/// The steps of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let hostile = Step::on(arch, "hostile", move |context| {
        let calls = if arch == Arch::Arm { CALLS_ARM } else { CALLS };
        hostile(context, arch, calls, &[])
    });
    let tracer = Step::on(arch, "tracer", move |context| {
        tracers(context, arch, TRACER_REQUESTS, 11)
    });
    let tracer_long = Step::on(arch, "tracer-long", move |context| {
        tracers(context, arch, TRACER_REQUESTS_LONG, 12)
    });
    let registers = Step::on(arch, "registers", move |context| {
        let program = agent::program(arch, "registers")?;
        let apart = agent::program_in(arch, "registers", "apart")?;
        let mut said = Vec::new();
        for cpu in least_and_most(arch) {
            let ran = Guest::new(context, arch)
                .smp(2)
                .option(format!("--cpu={cpu}"))
                .program(&[&program.to_string_lossy()])
                .run_well()?;
            let text = ran.text();
            let Some(found) = text.strip_suffix("registers kept\n") else {
                bail!("{cpu}: it said something else\n{}", ran.everything());
            };
            let ran = Guest::new(context, arch)
                .option(format!("--cpu={cpu}"))
                .program(&[&apart.to_string_lossy()])
                .run_well()?;
            let text = ran.text();
            let Some(used) = text.strip_suffix("registers apart\n") else {
                bail!("{cpu}: not apart\n{}", ran.everything());
            };
            said.push(format!(
                "{cpu}: {}; {}",
                found.trim().replace('\n', "; "),
                used.trim()
            ));
        }
        Ok(Verdict::Passed(said.join(". ")))
    });
    let abi = Step::on(arch, "abi", move |context| ask(context, arch, &[]));
    // The same programs on a kernel with lock validation, which must not complain.
    let validated = flavour::LOCKDEP.on(arch, "lockdep-abi", move |context| {
        ask(context, arch, &flavour::LOCKDEP.options())
    });
    let storm = Step::on(arch, "storm", move |context| {
        let program = agent::program_in(arch, "registers", "storm")?;
        let mut said = Vec::new();
        for cpus in [1, 2, 4] {
            let threads = (cpus * 2).to_string();
            let ran = Guest::new(context, arch)
                .smp(cpus)
                .timeout(300)
                .program(&[&program.to_string_lossy(), &threads, STORM_ROUNDS])
                .run_well()?;
            let Some((what, "nothing lost\n")) = ran.text().split_once('\n').map(|(a, b)| (a.to_owned(), b))
            else {
                bail!("{cpus} CPUs: it said something else\n{}", ran.everything());
            };
            said.push(what);
        }
        Ok(Verdict::Passed(said.join("; ")))
    });
    let threads = Step::on(arch, "threads", move |context| threads(context, arch, &[]));
    let boot = format!("boot-{arch}");
    let mut steps = vec![
        threads.after(&boot).alone(),
        registers.after(&boot),
        validated.after(format!("abi-{arch}")),
        abi.after(&boot),
        storm.after(&boot).alone(),
        hostile.after(&boot).long(),
        tracer.after(&boot).long(),
        tracer_long.after(&boot).alone(),
    ];
    steps.extend(
        flavour::pages(arch)
            .iter()
            .flat_map(|flavour| on_pages(arch, flavour)),
    );
    steps
}

/// The steps on a kernel with other pages.
fn on_pages(arch: Arch, flavour: &'static Flavour) -> [Step; 3] {
    let options = flavour.options();
    let abi = flavour.on(arch, &flavour.named("abi"), move |context| {
        ask(context, arch, &options)
    });
    let threads = flavour.on(arch, &flavour.named("threads"), move |context| {
        threads(context, arch, &options)
    });
    let hostile = flavour.on(arch, &flavour.named("hostile"), move |context| {
        hostile(context, arch, CALLS_PAGES, &options)
    });
    [abi, threads.alone(), hostile]
}

/// `calls` hostile calls per user. `options` choose the kernel.
fn hostile(context: &Context, arch: Arch, calls: u32, options: &[&str]) -> anyhow::Result<Verdict> {
    let program = agent::program(arch, "hostile")?;
    let mut total = 0u64;
    for (uid, seed) in [(0, 7), (1000, 8)] {
        let script = format!(
            "free() {{ sed -n 's/^MemFree: *\\([0-9]*\\).*/free \\1/p' /proc/meminfo; }}\n\
             free; mkdir -p /tmp/h && chmod 777 /tmp/h && cd /tmp/h && \
             /hostile {calls} {uid} {seed} -v; echo status $?\n\
             echo alive | tr a-z A-Z; ls / > /dev/null && echo shell works; \
             cd /; rm -rf /tmp/h; sleep 1; free\n"
        );
        let guest = Guest::new(context, arch).smp(2).timeout(500).option("--mem=256M");
        let guest = guest.options(options);
        let ran = guest
            .option(format!("--add={}:/hostile", program.display()))
            .script(&script)
            .run()?;
        let text = ran.text();
        if ran.status != 0 || !text.contains("status 0\nALIVE\nshell works\n") {
            bail!("as user {uid}: status {}\n{}", ran.status, ran.everything());
        }
        ran.clean_log()?;
        let number = |line: &str, name: &str| line.strip_prefix(name).and_then(|n| n.parse::<u64>().ok());
        let free: Vec<u64> = text.lines().filter_map(|l| number(l, "free ")).collect();
        match free[..] {
            [before, after] if after + KEPT >= before => {}
            _ => bail!(
                "as user {uid}: free memory before and after, in KiB: {free:?}\n{}",
                ran.everything()
            ),
        }
        total += text.lines().find_map(|l| number(l, "calls ")).unwrap_or(0);
    }
    if total < 2 * u64::from(calls) {
        bail!("only {total} calls were made");
    }
    Ok(Verdict::Passed(format!("{total} calls, as root and as a user")))
}

/// So many requests of `programs/hostile/tracer.c` per user.
fn tracers(context: &Context, arch: Arch, requests: u32, seed: u32) -> anyhow::Result<Verdict> {
    let program = agent::program_in(arch, "hostile", "tracer")?;
    let mut said = Vec::new();
    for uid in [0, 1000] {
        let ran = Guest::new(context, arch)
            .smp(3)
            .timeout(60 + requests / 500)
            .option("--mem=256M")
            .option(format!("--add={}:/tracer", program.display()))
            .script(&format!(
                "/tracer {requests} {uid} {seed}; echo status $?; echo alive | tr a-z A-Z\n"
            ))
            .run()?;
        let text = ran.text();
        if ran.status != 0 || !text.contains("status 0\nALIVE\n") {
            bail!("as user {uid}: status {}\n{}", ran.status, ran.everything());
        }
        ran.clean_log()?;
        said.extend(
            text.lines()
                .find(|l| l.contains(" requests of "))
                .map(str::to_owned),
        );
    }
    Ok(Verdict::Passed(said.join("; ")))
}

/// Runs all of `programs/abi` in one guest; `options` choose its kernel.
fn ask(context: &Context, arch: Arch, options: &[&str]) -> anyhow::Result<Verdict> {
    let guest = Guest::new(context, arch)
        .smp(2)
        .timeout(900)
        // Linux before 6.5 has it off.
        .option("--append=secretmem.enable=1");
    let mut guest = guest.options(options);
    for name in ASKING {
        let program = agent::program_in(arch, "abi", name)?;
        guest = guest.option(format!("--add={}:/{name}", program.display()));
    }
    let map = if context.kernel.is_some() { "" } else { MAP_IS_KEPT };
    let ran = guest
        .script(&format!(
            "one() {{ mkdir /tmp/$1 && cd /tmp/$1 && /$1; }}\n\
             end() {{ echo \"$1 ended with $2\"; exit $2; }}\n\
             run() {{ for name in {}; do one $name || end $name $?; done; }}\n\
             {map}run\n",
            ASKING.join(" ")
        ))
        .run()?;
    if ran.status != 0 {
        let text = ran.text();
        // What is wrong comes first: of a long report the rest may be cut.
        let wrong: Vec<&str> = text
            .lines()
            .filter(|line| !line.ends_with(" 0 failed"))
            .take(12)
            .collect();
        bail!(
            "status {}: {}\n{}",
            ran.status,
            wrong.join("; "),
            ran.everything()
        );
    }
    ran.clean_log()?;
    Ok(Verdict::Passed(ran.text().trim().replace('\n', "; ")))
}

/// The behaviour that programs with threads rely on (`programs/threads`), on four processors: with Debian's
/// glibc and musl, static and dynamic. `options` choose the kernel.
fn threads(context: &Context, arch: Arch, options: &[&str]) -> anyhow::Result<Verdict> {
    let (musl, _) = agent::musl(arch, "threads", true)?;
    let (dynamic_musl, tree) = agent::musl(arch, "threads", false)?;
    let programs = [
        ("glibc", agent::program(arch, "threads")?, None),
        ("dynamic glibc", agent::dynamic(arch, "threads")?, None),
        ("musl", musl, None),
        ("dynamic musl", dynamic_musl, Some(tree)),
    ];
    let mut said = Vec::new();
    for (library, program, tree) in programs {
        let guest = Guest::new(context, arch).smp(4).options(options);
        let program = program.display();
        let ran = match tree {
            Some(tree) => guest
                .option(format!("--root={}", tree.display()))
                .option(format!("--add={program}:/threads"))
                .program(&["/threads"]),
            None => guest.program(&[&program.to_string()]),
        }
        .run_well()?;
        let text = ran.text();
        let last = text.lines().last().unwrap_or_default();
        if !last.ends_with(" well") {
            bail!("with {library} it said something else\n{}", ran.everything());
        }
        said.push(format!("{library}: {last}"));
    }
    Ok(Verdict::Passed(said.join("; ")))
}

/// Two processor models: with the older one the kernel must do without optional features, with the newer one
/// it uses all it knows.
fn least_and_most(arch: Arch) -> [&'static str; 2] {
    match arch {
        Arch::X86_64 => ["qemu64", "max"],
        Arch::Arm64 => ["cortex-a53", "max"],
        Arch::Arm => ["cortex-a7", "max"],
        Arch::Powerpc64 => ["power9", "power10"],
    }
}
