//! Core dumps (core(5), `docs/core-dumps.md`): a thread was killed by a signal that means an error of its
//! program. It ends the other threads, waits until all of them have stopped for good, writes the memory and
//! everybody's registers to a file or to a program's standard input, and lets them go.

mod helper;
mod memory;
mod notes;
mod sink;
mod threads;

pub use threads::{Dump, park};

use super::rlimit::which;
use super::{Creds, CurrentTask, TaskFlags, uts};
use crate::fs::core_file;
use crate::mm::{AddressSpace, PAGE_SIZE};
use crate::signal::SigInfo;
use crate::sync::SpinLock;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering::Relaxed};
use limen_core_file::{Name, Program, name};
use limen_linux_abi::Errno;
use sink::Sink;

/// `kernel.core_pattern`: where core files go. `None`: it is as at boot, `core`. Empty: nowhere, unless
/// `core_uses_pid` gives the file a name.
static PATTERN: SpinLock<Option<Vec<u8>>> = SpinLock::new(None);
/// `kernel.core_uses_pid`: the process is added to the name of a file that has none.
pub static USES_PID: AtomicI32 = AtomicI32::new(0);
/// `kernel.core_pipe_limit`: how many programs may be dumped to others' standard input at a time; each is
/// there until the other has ended. 0: any number, and nobody waits.
pub static PIPE_LIMIT: AtomicI32 = AtomicI32::new(0);

/// How many are dumped to others' standard input now.
static PIPES: AtomicUsize = AtomicUsize::new(0);

/// The limit that a program has which gets a core dump: its own end is not dumped.
const NO_MORE: u64 = 1;

/// `kernel.core_pattern`.
pub fn pattern() -> Vec<u8> {
    let pattern = PATTERN.lock().clone();
    pattern.unwrap_or_else(|| b"core".to_vec())
}

/// Sets that.
pub fn set_pattern(new: &[u8]) {
    let new = Some(new.to_vec());
    let old = core::mem::replace(&mut *PATTERN.lock(), new);
    drop(old);
}

/// The running thread is being killed by the signal `info`: writes its process's core file if there is to be
/// one. Returns whether it was written, which the wait status tells. The process ends afterwards. Sleeps.
#[cold]
#[inline(never)]
pub fn dump(task: &CurrentTask, info: &SigInfo) -> bool {
    super::audit::crashes(info.signal());
    let Some(mm) = task.mm() else { return false };
    let mode = mm.dump_mode();
    let limit = task.process.limits.soft(which::CORE);
    let pattern = pattern();
    let piped = pattern.first() == Some(&b'|');
    if mode == 0 || !piped && limit < PAGE_SIZE as u64 || piped && limit == NO_MORE {
        return false;
    }
    let Some(dump) = Dump::begin(task, info.signal()) else {
        return false;
    };
    let request = Request {
        task,
        mm: &mm,
        info,
        mode,
        limit,
    };
    task.set_flags(TaskFlags::SIGNALED);
    let written = dump.others_have_stopped() && request.write(&pattern);
    dump.end(task, written);
    written
}

/// What is to be dumped.
struct Request<'a> {
    task: &'a CurrentTask,
    mm: &'a Arc<AddressSpace>,
    info: &'a SigInfo,
    mode: u8,
    limit: u64,
}

impl Request<'_> {
    fn name(&self, pattern: &[u8]) -> Option<Name> {
        let task = self.task;
        let creds = task.creds();
        let host = uts::hostname();
        let comm = task.comm();
        let path = task.process.exe().and_then(|exe| exe.path.display().ok());
        let program = Program {
            process: task.process.tgid,
            own_process: task.process.own_tgid,
            thread: task.tid(),
            own_thread: task.own_tid(),
            uid: creds.uid,
            gid: creds.gid,
            dumpable: self.mode,
            signal: self.info.signal(),
            seconds: crate::time::realtime_ns() / 1_000_000_000,
            limit: self.limit,
            cpu: task.info.cpu.load(Relaxed),
            host: &host,
            comm: comm.split(|byte| *byte == 0).next().unwrap_or_default(),
            path: path.as_deref().unwrap_or_default(),
        };
        name(pattern, USES_PID.load(Relaxed) != 0, &program).ok()
    }

    fn write(&self, pattern: &[u8]) -> bool {
        match self.name(pattern) {
            Some(Name::File(path)) if path.is_empty() => false,
            Some(Name::File(path)) => self.write_file(&path),
            Some(Name::Pipe(words)) => self.write_pipe(&words),
            None => false,
        }
    }

    fn write_file(&self, path: &[u8]) -> bool {
        // The memory of a program that had more rights than its user is root's.
        let guarded = self.mode == 2;
        if guarded && path.first() != Some(&b'/') {
            warning!(
                "Core dump of {} refused: a program with privileges needs an absolute core_pattern",
                self.task.process.tgid
            );
            return false;
        }
        let file = match guarded {
            true => as_root(self.task, || core_file::create(path, true)),
            false => core_file::create(path, false),
        };
        let Ok(file) = file else { return false };
        let mut sink = Sink::file(file, self.limit);
        self.write_to(&mut sink)
    }

    fn write_pipe(&self, words: &[Vec<u8>]) -> bool {
        let pipes = PIPES.fetch_add(1, Relaxed) + 1;
        let limit = PIPE_LIMIT.load(Relaxed);
        // Not signed, as in Linux.
        let may = limit == 0 || pipes <= limit as u32 as usize;
        if !may {
            warning!(
                "Core dump of {} skipped: over core_pipe_limit",
                self.task.process.tgid
            );
        }
        let written = may && self.write_to_helper(words, limit != 0);
        PIPES.fetch_sub(1, Relaxed);
        written
    }

    fn write_to_helper(&self, words: &[Vec<u8>], waits: bool) -> bool {
        let helper = match helper::start(words, NO_MORE) {
            Ok(helper) => helper,
            Err(errno) => {
                let path = words.first().map(|path| String::from_utf8_lossy(path));
                warning!(
                    "Core dump to |{} failed: error -{}",
                    path.unwrap_or_default(),
                    errno.get()
                );
                return false;
            }
        };
        let written = self.write_to(&mut Sink::pipe(helper.input));
        if waits {
            helper::wait(&helper.process);
        }
        written
    }

    fn write_to(&self, sink: &mut Sink) -> bool {
        memory::write(self.task, self.mm, self.info, sink).is_some()
    }
}

/// Runs `f` with root's rights to files, in the first process's tree: a program must not choose where root
/// writes. `ENOENT`: there is no such process.
fn as_root<R>(task: &CurrentTask, f: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
    let place = helper::place().ok_or(Errno::ENOENT)?;
    let own_place = task.replace_fs(Some(place));
    let own = task.creds();
    let root = Creds {
        fsuid: 0,
        ..(*own).clone()
    };
    task.set_creds(Arc::new(root));
    let result = f();
    task.set_creds(own);
    drop(task.replace_fs(own_place));
    result
}
