//! The files about a process's state: `stat`, `status`, `statm`, `limits` and smaller ones.

use super::process::Subject;
use crate::fs::pseudo::Text;
use crate::mm::PAGE_SIZE;
use crate::sched::{Policy, TaskState};
use crate::signal::SigSet;
use crate::task::process::ExitState;
use crate::task::{Task, Usage};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::Ordering::Relaxed;
use limen_linux_abi::Errno;

/// One `USER_HZ` tick.
const TICK_NS: u64 = 10_000_000;
const KIB: usize = PAGE_SIZE / 1024;

/// Adds the name of the thread (or that the zombie had), whatever bytes it is of.
pub fn name(subject: &Subject, out: &mut Text) {
    out.add(subject.comm().split(|b| *b == 0).next().unwrap_or_default());
}

fn state(subject: &Subject) -> (char, &'static str) {
    if subject.process.exit_state() != ExitState::Alive {
        return ('Z', "zombie");
    }
    let Some(task) = &subject.task else {
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

/// What the thread or the process used so far.
fn used(subject: &Subject) -> Usage {
    match (&subject.task, subject.thread) {
        (Some(task), true) => Usage::of_task(task),
        _ => subject.process.usage(),
    }
}

/// Signal sets: pending for the thread, for the process, blocked, ignored, caught; and how many are queued.
fn signals(subject: &Subject) -> ([SigSet; 5], usize) {
    let mut sets = [SigSet::EMPTY; 5];
    let mut queued = 0;
    if let Some(task) = &subject.task {
        let own = task.signals.lock();
        sets[0] = own.pending.set();
        sets[2] = own.blocked;
        queued += own.pending.len();
    }
    let actions = {
        let shared = subject.process.signals.lock();
        sets[1] = shared.pending.set();
        queued += shared.pending.len();
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

/// `stat`: 52 fields in one line.
pub fn stat(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    let process = &subject.process;
    let task = subject.task.as_ref();
    let group = process.group();
    let terminal = group.session.terminal();
    let (tty, foreground) = terminal.map_or((0, -1), |t| {
        let group = t.foreground();
        (t.number(), if group > 0 { group } else { -1 })
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
    let start = if subject.thread {
        task.map_or(0, |t| t.start_ns)
    } else {
        process.start_ns
    };
    let l = |f: fn(&crate::mm::Layout) -> usize| layout.as_ref().map_or(0, f);
    let _ = write!(
        out,
        "{} (",
        if subject.thread {
            task.map_or(process.tgid, |t| t.tid())
        } else {
            process.tgid
        },
    );
    name(subject, out);
    let _ = write!(
        out,
        ") {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} 0 {} {} {} {} ",
        state(subject).0,
        process.ppid.load(Relaxed),
        group.id,
        group.session.id,
        tty,
        foreground,
        0x400100, // PF_RANDOMIZE | PF_SUPERPRIV: what a user process typically shows
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
        process.thread_count().max(1),
        start / TICK_NS,
        usage.as_ref().map_or(0, |u| u.total * PAGE_SIZE),
        usage.as_ref().map_or(0, |u| u.rss()),
        process.limits.soft(crate::task::rlimit::which::RSS),
    );
    let _ = writeln!(
        out,
        "{} {} {} 0 0 {} {} {} {} 0 0 0 {} {} {} {} 0 0 0 {} {} {} {} {} {} {} {}",
        l(|l| l.start_code),
        l(|l| l.end_code),
        l(|l| l.start_stack),
        pending.0,
        blocked.0,
        ignored.0,
        caught.0,
        task.map_or(17, |t| t.exit_signal.load(Relaxed)),
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
        if visible {
            process.exit_code.load(Relaxed)
        } else {
            0
        },
    );
    Ok(())
}

fn policy(policy: Policy) -> u32 {
    policy as u32
}

/// `statm`: sizes in pages.
pub fn statm(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    let usage = subject.task.as_ref().and_then(|t| t.mm()).map(|m| m.usage());
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

/// `status`: the same for people.
pub fn status(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    let process = &subject.process;
    let task = subject.task.as_ref();
    let (letter, word) = state(subject);
    out.add(b"Name:\t");
    for byte in subject.comm().into_iter().take_while(|b| *b != 0) {
        // One line, whatever the name.
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
    let tid = if subject.thread {
        task.map_or(process.tgid, |t| t.tid())
    } else {
        process.tgid
    };
    let _ = writeln!(
        out,
        "State:\t{letter} ({word})\nTgid:\t{}\nNgid:\t0\nPid:\t{tid}\nPPid:\t{}\nTracerPid:\t0",
        process.tgid,
        process.ppid.load(Relaxed)
    );
    let c = subject.creds();
    let _ = writeln!(out, "Uid:\t{}\t{}\t{}\t{}", c.uid, c.euid, c.suid, c.fsuid);
    let _ = writeln!(out, "Gid:\t{}\t{}\t{}\t{}", c.gid, c.egid, c.sgid, c.fsgid);
    let _ = writeln!(
        out,
        "FDSize:\t{}",
        task.and_then(|t| t.try_files()).map_or(0, |f| f.size())
    );
    out.add(b"Groups:\t");
    for group in c.groups.iter() {
        let _ = write!(out, "{group} ");
    }
    let _ = writeln!(
        out,
        "\nNStgid:\t{}\nNSpid:\t{tid}\nNSpgid:\t{}\nNSsid:\t{}\nKthread:\t0",
        process.tgid,
        process.pgrp(),
        process.sid()
    );
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
        out.add(b"HugetlbPages:\t       0 kB\nCoreDumping:\t0\nTHP_enabled:\t0\n");
    }
    let ([pending, shared, blocked, ignored, caught], queued) = signals(subject);
    let _ = writeln!(
        out,
        "Threads:\t{}\nSigQ:\t{queued}/{}\nSigPnd:\t{:016x}\nShdPnd:\t{:016x}\nSigBlk:\t{:016x}\nSigIgn:\t{:016x}\nSigCgt:\t{:016x}",
        process.thread_count().max(1),
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
    out.add(b"NoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\n");
    if let Some(task) = task {
        let online = crate::sched::online();
        let allowed: Vec<usize> = online
            .iter()
            .filter(|c| task.sched.affinity().contains(*c))
            .collect();
        let mask = allowed.iter().fold(0u64, |m, c| m | 1 << c);
        let _ = write!(out, "Cpus_allowed:\t{mask:x}\nCpus_allowed_list:\t");
        cpu_list(out, &allowed);
        let (voluntary, involuntary) = task.sched.switches();
        let _ = writeln!(
            out,
            "\nMems_allowed:\t1\nMems_allowed_list:\t0\nvoluntary_ctxt_switches:\t{voluntary}\nnonvoluntary_ctxt_switches:\t{involuntary}"
        );
    }
    Ok(())
}

/// `0-3,5`.
pub fn cpu_list(out: &mut Text, cpus: &[usize]) {
    let mut i = 0;
    while i < cpus.len() {
        let first = cpus[i];
        while i + 1 < cpus.len() && cpus[i + 1] == cpus[i] + 1 {
            i += 1;
        }
        let comma = if out.bytes().last().is_some_and(u8::is_ascii_digit) {
            ","
        } else {
            ""
        };
        let _ = match cpus[i] {
            last if last == first => write!(out, "{comma}{first}"),
            last => write!(out, "{comma}{first}-{last}"),
        };
        i += 1;
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

/// `io`: nothing is counted here.
pub fn io(_: &Subject, out: &mut Text) -> Result<(), Errno> {
    out.add(
        b"rchar: 0\nwchar: 0\nsyscr: 0\nsyscw: 0\nread_bytes: 0\nwrite_bytes: 0\ncancelled_write_bytes: 0\n",
    );
    Ok(())
}

/// `oom_score`: what share of memory it holds, in thousandths, adjusted, on the scale of 0 to 2000 where 666 is nothing.
pub fn oom_score(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    let pages = subject
        .task
        .as_ref()
        .and_then(|t| t.mm())
        .map_or(0, |m| m.badness());
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
    let _ = writeln!(out, "{:08x}", subject.task()?.personality.load(Relaxed));
    Ok(())
}

/// `schedstat`: time on a CPU, time waiting for one (not measured), slices.
pub fn schedstat(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    let task = subject.task()?;
    let (voluntary, involuntary) = task.sched.switches();
    let _ = writeln!(
        out,
        "{} 0 {}",
        crate::sched::stats::run_time_ns(task),
        voluntary + involuntary
    );
    Ok(())
}

/// `timerslack_ns`.
pub fn timer_slack(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    let _ = writeln!(out, "{}", subject.task()?.timer_slack_ns.load(Relaxed));
    Ok(())
}
