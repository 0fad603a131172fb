//! The files about a process's state: `stat`, `status`, `statm`, `limits` and smaller ones.

use super::process::Subject;
use crate::fs::pseudo::Text;
use crate::mm::PAGE_SIZE;
use crate::sched::inspect::each_return;
use crate::sched::{Policy, TaskState};
use crate::signal::SigSet;
use crate::task::current;
use crate::task::ns::pid::each_down_to;
use crate::task::ns::time;
use crate::task::ns::user::{gid_shown, uid_shown};
use crate::task::pid::seen_from;
use crate::task::process::ExitState;
use crate::task::{Task, TaskFlags, Usage};
use crate::trace::symbols::Symbol;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt::Write;
use core::sync::atomic::Ordering::Relaxed;
use limen_linux_abi::Errno;

/// A `USER_HZ` tick in nanoseconds.
const TICK_NS: u64 = 10_000_000;
const KIB: usize = PAGE_SIZE / 1024;

/// Adds the name of the thread, or the one that the zombie had. It may have any bytes.
pub fn name(subject: &Subject, out: &mut Text) {
    out.add(subject.comm().split(|b| *b == 0).next().unwrap_or_default());
}

fn state(subject: &Subject) -> (char, &'static str) {
    if subject.process.exit_state() != ExitState::Alive {
        return ('Z', "zombie");
    }
    let Some(task) = subject.task() else {
        return ('Z', "zombie");
    };
    let state = task.sched.state();
    if state.contains(TaskState::ZOMBIE) || state.contains(TaskState::DEAD) {
        ('Z', "zombie")
    } else if state.contains(TaskState::STOPPED) {
        ('T', "stopped")
    } else if state.contains(TaskState::TRACED) {
        ('t', "tracing stop")
    } else if state.contains(TaskState::INTERRUPTIBLE) {
        ('S', "sleeping")
    } else if state.contains(TaskState::UNINTERRUPTIBLE) || state.contains(TaskState::KILLABLE) {
        ('D', "disk sleep")
    } else {
        ('R', "running")
    }
}

/// What the thread, or the process, has used so far.
fn used(subject: &Subject) -> Usage {
    match subject.task() {
        Some(task) if subject.thread => Usage::of_task(&task),
        _ => subject.process.usage(),
    }
}

/// The signals that are pending for the thread, pending for the process, blocked, ignored, caught; and how
/// many are queued.
fn signals(subject: &Subject) -> ([SigSet; 5], usize) {
    let mut sets = [SigSet::EMPTY; 5];
    let queued;
    if let Some(task) = subject.task() {
        let own = task.signals.lock();
        sets[0] = own.pending.set();
        sets[2] = own.blocked;
    }
    let actions = {
        let shared = subject.process.signals.lock();
        sets[1] = shared.pending.set();
        queued = shared.pending.account().map_or(0, |account| account.signals());
        shared.actions.clone()
    };
    for sig in 1..=64 {
        match actions.get(sig).handler {
            0 => {}
            1 => sets[3] = sets[3].with(sig),
            _ => sets[4] = sets[4].with(sig),
        }
    }
    (sets, queued)
}

fn priority(task: &Task) -> (i32, i32) {
    let nice = task.sched.nice();
    let rt = i32::from(task.sched.rt_priority());
    (if rt > 0 { -1 - rt } else { 20 + nice }, nice)
}

/// `PF_EXITING`.
const EXITING: u32 = 4;

/// The bits of `PF_*` that this kernel has.
fn flags(task: &Task) -> u32 {
    use TaskFlags as F;
    const RANDOMIZE: u32 = 0x40_0000;
    let known = [
        (F::EXITING, EXITING),
        (F::FORKNOEXEC, 0x40),
        (F::SUPERPRIV, 0x100),
        (F::SIGNALED, 0x400),
        (F::NPROC_EXCEEDED, 0x1000),
    ];
    let set = task.flags();
    let shown = known.iter().filter(|(flag, _)| set.contains(*flag));
    shown.fold(RANDOMIZE, |all, (_, bit)| all | bit)
}

/// `stat`: 52 fields in one line.
pub fn stat(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    let process = &subject.process;
    let task = subject.task();
    let task = task.as_ref();
    let group = process.group();
    let terminal = group.session.terminal();
    let (tty, foreground) = terminal.map_or((0, -1), |t| {
        let group = t.foreground();
        let seen = seen_from(&subject.ns, group);
        (t.number(), if group > 0 { seen } else { -1 })
    });
    let seen = subject.look(|mm| mm.cloned());
    let visible = seen.is_ok();
    let seen = seen.unwrap_or_default();
    let layout = seen.as_ref().map(|m| m.layout());
    let brk = seen.map_or(0, |m| m.brk_range().0);
    let usage = task.and_then(|t| t.mm()).map(|m| m.usage());
    let used = used(subject);
    let children = *process.dead_children.lock();
    let ([pending, _, blocked, ignored, caught], _) = signals(subject);
    let (priority, nice) = task.map_or((20, 0), |t| priority(t));
    let start = task.map_or(process.start_ns, |t| t.start_ns);
    let threads = subject.threads();
    let state = state(subject).0;
    // Where it waits is shown for a single thread, and for a process that has only one.
    let waits = visible && (subject.thread || threads < 2) && state != 'R';
    let exit_signal = match subject.is_leader() {
        true => process.exit_signal.load(Relaxed),
        false => -1,
    };
    // Signal sets as wide as when there were 31 signals.
    let old = |set: SigSet| set.0 & 0x7fff_ffff;
    let l = |f: fn(&crate::mm::Layout) -> usize| layout.as_ref().map_or(0, f);
    let _ = write!(out, "{} (", subject.shown);
    name(subject, out);
    let _ = write!(
        out,
        ") {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} 0 {} {} {} {} ",
        state,
        process.ppid_in(&subject.ns),
        group.number_in(&subject.ns),
        group.session.number_in(&subject.ns),
        tty,
        foreground,
        task.map_or(EXITING, |t| flags(t)),
        used.minor_faults,
        children.minor_faults,
        used.major_faults,
        children.major_faults,
        used.user_ns / TICK_NS,
        used.system_ns / TICK_NS,
        children.user_ns / TICK_NS,
        children.system_ns / TICK_NS,
        priority,
        nice,
        threads,
        time::shown_boottime(start) / TICK_NS,
        usage.as_ref().map_or(0, |u| u.total * PAGE_SIZE),
        usage.as_ref().map_or(0, |u| u.rss()),
        process.limits.soft(crate::task::rlimit::which::RSS),
    );
    let _ = writeln!(
        out,
        "{} {} {} 0 0 {} {} {} {} {} 0 0 {} {} {} {} 0 0 0 {} {} {} {} {} {} {} {}",
        l(|l| l.start_code),
        l(|l| l.end_code),
        l(|l| l.start_stack),
        old(pending),
        old(blocked),
        old(ignored),
        old(caught),
        u8::from(waits),
        exit_signal,
        task.map_or(0, |t| t.info.cpu.load(Relaxed)),
        task.map_or(0, |t| t.sched.rt_priority()),
        task.map_or(0, |t| policy(t.sched.policy())),
        l(|l| l.start_data),
        l(|l| l.end_data),
        brk,
        l(|l| l.arg_start),
        l(|l| l.arg_end),
        l(|l| l.env_start),
        l(|l| l.env_end),
        match task {
            _ if !visible => 0,
            Some(task) => task.exit_code.load(Relaxed),
            None => process.exit_code.load(Relaxed),
        },
    );
    Ok(())
}

fn policy(policy: Policy) -> u32 {
    policy as u32
}

/// `statm`: sizes in pages.
pub fn statm(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    let usage = subject.task().and_then(|t| t.mm()).map(|m| m.usage());
    match usage {
        Some(u) => {
            let _ = writeln!(
                out,
                "{} {} {} {} 0 {} 0",
                u.total,
                u.rss(),
                u.file,
                u.exec,
                u.data + u.stack
            );
        }
        None => out.add(b"0 0 0 0 0 0 0\n"),
    }
    Ok(())
}

/// `status`: a line for each value.
pub fn status(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    let process = &subject.process;
    let task = subject.task();
    let task = task.as_ref();
    let (letter, word) = state(subject);
    out.add(b"Name:\t");
    for byte in subject.comm().into_iter().take_while(|b| *b != 0) {
        // The name must stay on one line.
        match byte {
            b'\n' => out.add(b"\\n"),
            b'\\' => out.add(b"\\\\"),
            _ => out.add([byte]),
        }
    }
    out.add(b"\n");
    if let Some(fs) = task.and_then(|t| t.try_fs()) {
        let _ = writeln!(out, "Umask:\t{:04o}", fs.umask());
    }
    let ns = &subject.ns;
    let _ = writeln!(
        out,
        "State:\t{letter} ({word})\nTgid:\t{}\nNgid:\t0\nPid:\t{}\nPPid:\t{}\nTracerPid:\t{}",
        process.number_in(ns),
        subject.shown,
        process.ppid_in(ns),
        task.and_then(|t| t.trace.tracer())
            .map_or(0, |tracer| tracer.number_in(ns))
    );
    let c = subject.creds();
    let (u, g) = (uid_shown, gid_shown);
    let _ = writeln!(
        out,
        "Uid:\t{}\t{}\t{}\t{}",
        u(c.uid),
        u(c.euid),
        u(c.suid),
        u(c.fsuid)
    );
    let _ = writeln!(
        out,
        "Gid:\t{}\t{}\t{}\t{}",
        g(c.gid),
        g(c.egid),
        g(c.sgid),
        g(c.fsgid)
    );
    let _ = writeln!(
        out,
        "FDSize:\t{}",
        task.and_then(|t| t.try_files()).map_or(0, |f| f.size())
    );
    out.add(b"Groups:\t");
    for group in c.groups.iter() {
        let _ = write!(out, "{} ", g(*group));
    }
    out.add(b"\n");
    let group = process.group();
    for (name, what) in [
        ("NStgid", &process.id()),
        ("NSpid", &task.map_or_else(|| process.id(), |task| task.id())),
        ("NSpgid", &group.name()),
        ("NSsid", &group.session.name()),
    ] {
        let _ = write!(out, "{name}:");
        each_down_to(ns, &process.pid_ns, &mut |level| {
            let _ = write!(out, "\t{}", what.seen_from(level));
        });
        out.add(b"\n");
    }
    out.add(b"Kthread:\t0\n");
    if let Some(u) = task.and_then(|t| t.mm()).map(|m| m.usage()) {
        let rows = [
            ("VmPeak", u.peak),
            ("VmSize", u.total),
            ("VmLck", u.locked),
            ("VmPin", 0),
            ("VmHWM", u.peak_rss),
            ("VmRSS", u.rss()),
            ("RssAnon", u.anon),
            ("RssFile", u.file),
            ("RssShmem", 0),
            ("VmData", u.data),
            ("VmStk", u.stack),
            ("VmExe", u.exec),
            ("VmLib", 0),
            ("VmPTE", u.tables),
            ("VmSwap", 0),
        ];
        for (name, pages) in rows {
            let _ = writeln!(out, "{name}:\t{:8} kB", pages * KIB);
        }
        let dumping = u8::from(process.signals.lock().dump.is_some());
        let _ = writeln!(
            out,
            "HugetlbPages:\t       0 kB\nCoreDumping:\t{dumping}\nTHP_enabled:\t0"
        );
    }
    let ([pending, shared, blocked, ignored, caught], queued) = signals(subject);
    let _ = writeln!(
        out,
        "Threads:\t{}\nSigQ:\t{queued}/{}\nSigPnd:\t{:016x}\nShdPnd:\t{:016x}\nSigBlk:\t{:016x}\n\
         SigIgn:\t{:016x}\nSigCgt:\t{:016x}",
        subject.threads(),
        process.limits.soft(crate::task::rlimit::which::SIGPENDING),
        pending.0,
        shared.0,
        blocked.0,
        ignored.0,
        caught.0
    );
    let _ = writeln!(
        out,
        "CapInh:\t{:016x}\nCapPrm:\t{:016x}\nCapEff:\t{:016x}\nCapBnd:\t{:016x}\nCapAmb:\t{:016x}",
        c.inheritable, c.permitted, c.effective, c.bounding, c.ambient
    );
    let no_new_privs = task.is_some_and(|t| t.flags().contains(TaskFlags::NO_NEW_PRIVS));
    let _ = writeln!(
        out,
        "NoNewPrivs:\t{}\nSeccomp:\t{}\nSeccomp_filters:\t{}",
        u8::from(no_new_privs),
        task.map_or(0, |t| t.seccomp.mode() as u8),
        task.map_or(0, |t| t.seccomp.filters())
    );
    if let Some(task) = task {
        let online = crate::sched::online();
        let allowed = task.sched.affinity().and(online);
        let mask = cpu_mask(allowed.bits());
        let _ = write!(out, "Cpus_allowed:\t{mask}\nCpus_allowed_list:\t{allowed}");
        let (voluntary, involuntary) = task.sched.switches();
        let _ = writeln!(
            out,
            "\nMems_allowed:\t1\nMems_allowed_list:\t0\nvoluntary_ctxt_switches:\t{voluntary}\n\
             nonvoluntary_ctxt_switches:\t{involuntary}"
        );
    }
    Ok(())
}

/// A bit for each CPU, in groups of 32, with as many digits as the machine's CPUs need.
fn cpu_mask(mask: u64) -> String {
    let digits = crate::sched::online().count().max(1).div_ceil(4);
    match digits.checked_sub(8) {
        None | Some(0) => alloc::format!("{mask:0digits$x}"),
        Some(more) => alloc::format!("{:0more$x},{:08x}", mask >> 32, mask as u32),
    }
}

/// `limits`.
pub fn limits(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    const ROWS: [(&str, &str); 16] = [
        ("Max cpu time", "seconds"),
        ("Max file size", "bytes"),
        ("Max data size", "bytes"),
        ("Max stack size", "bytes"),
        ("Max core file size", "bytes"),
        ("Max resident set", "bytes"),
        ("Max processes", "processes"),
        ("Max open files", "files"),
        ("Max locked memory", "bytes"),
        ("Max address space", "bytes"),
        ("Max file locks", "locks"),
        ("Max pending signals", "signals"),
        ("Max msgqueue size", "bytes"),
        ("Max nice priority", ""),
        ("Max realtime priority", ""),
        ("Max realtime timeout", "us"),
    ];
    let _ = writeln!(
        out,
        "{:<25} {:<20} {:<20} {:<10}",
        "Limit", "Soft Limit", "Hard Limit", "Units"
    );
    for (which, (name, unit)) in ROWS.into_iter().enumerate() {
        let limit = subject.process.limits.get(which);
        let show = |n: u64| {
            if n == u64::MAX {
                String::from("unlimited")
            } else {
                alloc::format!("{n}")
            }
        };
        let _ = write!(
            out,
            "{name:<25} {:<20} {:<20} ",
            show(limit.soft),
            show(limit.hard)
        );
        let _ = if unit.is_empty() {
            writeln!(out)
        } else {
            writeln!(out, "{unit:<10}")
        };
    }
    Ok(())
}

/// `io`: this kernel counts nothing of it.
pub fn io(_: &Subject, out: &mut Text) -> Result<(), Errno> {
    out.add(
        b"rchar: 0\nwchar: 0\nsyscr: 0\nsyscw: 0\nread_bytes: 0\nwrite_bytes: 0\ncancelled_write_bytes: 0\n",
    );
    Ok(())
}

/// `oom_score`: the share of memory that the process has, in thousandths, adjusted; on a scale from 0 to 2000
/// on which 666 stands for no memory.
pub fn oom_score(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    let pages = subject.task().and_then(|t| t.mm()).map_or(0, |m| m.badness());
    let share = (pages * 1000 / crate::mm::total_pages().max(1)) as i32;
    let adj = subject.process.oom_score_adj.load(Relaxed);
    let score = if adj == -1000 {
        0
    } else {
        ((1000 + share + adj).max(0) * 2) / 3
    };
    let _ = writeln!(out, "{score}");
    Ok(())
}

/// `personality`.
pub fn personality(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    let _ = writeln!(out, "{:08x}", subject.living()?.personality.load(Relaxed));
    Ok(())
}

/// `schedstat`: run time; time spent waiting for a CPU (not measured); slices.
pub fn schedstat(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    let task = &*subject.living()?;
    let (voluntary, involuntary) = task.sched.switches();
    let _ = writeln!(
        out,
        "{} 0 {}",
        crate::sched::stats::run_time_ns(task),
        voluntary + involuntary
    );
    Ok(())
}

/// `sched`: how it is scheduled, as far as that is counted here.
pub fn sched(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    let task = &*subject.living()?;
    let account = crate::sched::stats::account(task);
    let (voluntary, involuntary) = task.sched.switches();
    name(subject, out);
    let _ = writeln!(out, " ({}, #threads: {})", subject.shown, subject.threads());
    let _ = writeln!(out, "{:-<67}", "");
    for (name, ns) in [
        ("se.exec_start", account.charged),
        ("se.vruntime", account.virtual_ns),
        ("se.sum_exec_runtime", account.run_ns),
    ] {
        let _ = writeln!(out, "{name:<45}:{:>14}.{:06}", ns / 1_000_000, ns % 1_000_000);
    }
    // 64-bit machines count in smaller units.
    let weight = u64::from(account.weight) << if usize::BITS == 64 { 10 } else { 0 };
    let clock = crate::time::raw_ns();
    for (name, value) in [
        ("se.nr_migrations", account.migrations as i64),
        ("nr_switches", (voluntary + involuntary) as i64),
        ("nr_voluntary_switches", voluntary as i64),
        ("nr_involuntary_switches", involuntary as i64),
        ("se.load.weight", weight as i64),
        ("policy", task.sched.policy() as i64),
        ("prio", i64::from(crate::sched::policy::kernel_priority(task))),
        ("clock-delta", crate::time::raw_ns().saturating_sub(clock) as i64),
    ] {
        let _ = writeln!(out, "{name:<45}:{value:>21}");
    }
    Ok(())
}

/// `stack`: which functions of the kernel the thread is in, the innermost first.
pub fn stack(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    let mut result = Ok(());
    each_return(&subject.living()?, |ip| {
        // If a call never returns, its return address may already belong to the next function.
        result = result.and(write!(out, "[<0>] ").and_then(|()| Symbol(ip - 1).write_short(true, out)));
        out.add(b"\n");
    });
    result.map_err(|_| Errno::ENOMEM)
}

/// Rooms whose functions wait for others: the name of one would tell nothing.
const WAITING: [&str; 2] = ["limen_kernel::sched::", "limen_kernel::sync::"];

/// `wchan`: the function in which the thread waits, outside the scheduler and locks; 0 if it does not wait.
pub fn wchan(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    let task = subject.task();
    let mut function = None;
    if let Some(task) = task.filter(|task| !Arc::ptr_eq(task, &current())) {
        each_return(&task, |ip| {
            let waits = |symbol: Symbol| {
                let mut path = Text::default();
                let _ = symbol.write(false, &mut path);
                let path = path.whole().unwrap_or_default();
                let path = path.strip_prefix(b"<").unwrap_or(&path);
                WAITING.iter().any(|room| path.starts_with(room.as_bytes()))
            };
            if function.is_none() && !waits(Symbol(ip - 1)) {
                function = Some(Symbol(ip - 1));
            }
        });
    }
    match function {
        Some(function) => function.write_short(false, out),
        None => write!(out, "0"),
    }
    .map_err(|_| Errno::ENOMEM)
}

/// `patch_state`: whether the thread calls the functions of a live patch that comes or goes; -1: none does.
pub fn patch_state(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    let _ = writeln!(out, "{}", crate::task::patch::state(&*subject.living()?));
    Ok(())
}

/// `syscall`: in which system call the thread waits, its arguments, its stack and its next instruction.
pub fn syscall(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    let task = subject.living()?;
    let Some(at) = crate::sched::user_state(&task) else {
        out.add(b"running\n");
        return Ok(());
    };
    let _ = write!(out, "{}", at.number);
    if at.number >= 0 {
        for argument in at.arguments {
            let _ = write!(out, " {argument:#x}");
        }
    }
    let _ = writeln!(out, " {:#x} {:#x}", at.sp, at.ip);
    Ok(())
}
