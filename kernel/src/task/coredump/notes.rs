//! What is told of the program and its threads.

use super::threads::wait_off_cpu;
use crate::arch::frame::Frame;
use crate::arch::regset::{SETS, VARYING};
use crate::arch::switch::Context;
use crate::mm::AddressSpace;
use crate::mm::copy::zeroed;
use crate::sched::{TaskState, inspect};
use crate::signal::{SIGKILL, SigInfo};
use crate::task::ns::user;
use crate::task::{CurrentTask, Task, TaskFlags, Usage};
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_core_file::{About, Machine, Mapping, Notes, Person, Registers, Thread};

/// How many bytes of arguments are told.
const ARGUMENTS: usize = 80;
/// `PF_RANDOMIZE`, `PF_DUMPCORE`, `PF_FORKNOEXEC`, `PF_SUPERPRIV`, `PF_SIGNALED`.
const RANDOMIZE: u64 = 0x40_0000;
const DUMPCORE: u64 = 0x200;
const FLAGS: [(TaskFlags, u64); 3] = [
    (TaskFlags::FORKNOEXEC, 0x40),
    (TaskFlags::SUPERPRIV, 0x100),
    (TaskFlags::SIGNALED, 0x400),
];

/// All register sets, empty and of the right sizes; those whose size is the thread's have room for the most.
/// `None`: there is no memory.
fn empty_sets() -> Option<Vec<Registers>> {
    let mut sets = Vec::new();
    for set in SETS.iter().filter(|set| set.note != 0 && (set.size)() != 0) {
        sets.try_reserve(1).ok()?;
        let bytes = zeroed((set.size)()).ok()?;
        sets.push(Registers {
            note: set.note,
            bytes,
        });
    }
    for set in VARYING.iter().filter(|set| (set.most)() != 0) {
        sets.try_reserve(1).ok()?;
        let bytes = zeroed((set.most)()).ok()?;
        sets.push(Registers {
            note: set.note,
            bytes,
        });
    }
    Some(sets)
}

fn fill(sets: &mut [Registers], frame: &mut Frame, context: &mut Context) {
    for to in sets {
        if let Some(set) = SETS.iter().find(|set| set.note == to.note) {
            (set.get)(frame, context, &mut to.bytes);
        } else if let Some(set) = VARYING.iter().find(|set| set.note == to.note) {
            // There is room for all that it can have.
            to.bytes.resize((set.len)(context).min(to.bytes.capacity()), 0);
            (set.get)(context, &mut to.bytes);
        }
    }
}

fn thread(task: &Arc<Task>, info: &SigInfo) -> Thread {
    let process = &task.process;
    let ns = &process.pid_ns;
    let used = match task.tid() == process.tgid {
        true => process.usage(),
        false => Usage::of_task(task),
    };
    let children = *process.dead_children.lock();
    let signals = {
        let own = task.signals.lock();
        // The end of the process is no signal that somebody sent.
        let ends = if task.flags().contains(TaskFlags::DUMPED) {
            1 << (SIGKILL - 1)
        } else {
            0
        };
        [own.pending.set().0 & !ends, own.blocked.0]
    };
    let times = [used.user_ns, used.system_ns, children.user_ns, children.system_ns];
    Thread {
        signal: info.signal(),
        signals,
        ids: [
            task.own_tid(),
            process.ppid_in(ns),
            process.pgrp_in(ns),
            process.sid_in(ns),
        ],
        times: times.map(|ns| ns / 1000),
    }
}

/// The notes of the running thread `task`, which was killed by `info`, and of its process's other threads.
/// `files`: mapped files. `None`: there is no memory, or the dump was killed. Sleeps.
pub(super) fn all(
    machine: Machine,
    task: &CurrentTask,
    mm: &AddressSpace,
    info: &SigInfo,
    files: &[Mapping],
) -> Option<Vec<u8>> {
    let process = &task.process;
    let mut notes = Notes::new(machine);
    let mut sets = empty_sets()?;
    inspect::with_own_registers(|frame, context| fill(&mut sets, frame, context))?;
    let auxv = mm.auxv.lock().clone();
    let mut words = Vec::new();
    for word in auxv.iter().flat_map(|words| words.iter()) {
        words.try_reserve(size_of::<usize>()).ok()?;
        words.extend_from_slice(&word.to_ne_bytes());
    }
    let layout = mm.layout();
    let mut arguments = [0; ARGUMENTS];
    let len = layout.arg_end.saturating_sub(layout.arg_start).min(ARGUMENTS);
    let len = mm.access_remote(layout.arg_start, &mut arguments[..len], false, true);
    let leader = process.leader();
    let leader = leader.as_ref().unwrap_or(task);
    let dumps = Arc::ptr_eq(leader, task);
    let creds = leader.creds();
    let known = leader.flags();
    let set = FLAGS.iter().filter(|(flag, _)| known.contains(*flag));
    let about = About {
        person: Person {
            state: if dumps { b'R' } else { b'D' },
            nice: leader.sched.nice() as i8,
            flags: set.fold(RANDOMIZE | if dumps { DUMPCORE } else { 0 }, |all, (_, bit)| {
                all | bit
            }),
            uid: user::from_kuid_munged(&creds.user, creds.uid),
            gid: user::from_kgid_munged(&creds.user, creds.gid),
            ids: [
                process.own_tgid,
                process.ppid_in(&process.pid_ns),
                process.pgrp_in(&process.pid_ns),
                process.sid_in(&process.pid_ns),
            ],
            comm: leader.comm(),
            arguments: &arguments[..len],
            short_ids: !machine.wide,
        },
        siginfo: &info.bytes(),
        auxv: &words,
        files,
    };
    notes.thread(&thread(task, info), &sets, Some(&about)).ok()?;
    for other in process.threads() {
        if !other.flags().contains(TaskFlags::DUMPED) {
            continue;
        }
        if !wait_off_cpu(task, &other) {
            return None;
        }
        inspect::with_registers(&other, TaskState::UNINTERRUPTIBLE, |frame, context| {
            fill(&mut sets, frame, context);
        })?;
        notes.thread(&thread(&other, info), &sets, None).ok()?;
    }
    Some(notes.bytes)
}
