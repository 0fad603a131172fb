//! `seccomp`, and what `prctl` does of it.

use crate::fs::{self, FdTable, File};
use crate::mm::copy;
use crate::mm::reserve::handling;
use crate::mm::user::{UserPtr, Word, read_bytes};
use crate::task::creds::cap;
use crate::task::seccomp::{self, Listener, NewFilter, Refused};
use crate::task::{TaskFlags, current};
use alloc::sync::Arc;
use limen_bpf::{Action, Insn, MAX_INSNS, Program};
use limen_linux_abi::{Errno, SysResult};

/// The operations.
const SET_MODE_STRICT: u32 = 0;
const SET_MODE_FILTER: u32 = 1;
const GET_ACTION_AVAIL: u32 = 2;
const GET_NOTIF_SIZES: u32 = 3;

/// `SECCOMP_FILTER_FLAG_*`.
const TSYNC: u32 = 1;
const LOG: u32 = 2;
/// Speculation is not restricted in the first place.
const SPEC_ALLOW: u32 = 4;
const NEW_LISTENER: u32 = 8;
const TSYNC_ESRCH: u32 = 16;
const WAIT_KILLABLE_RECV: u32 = 32;
const ALL: u32 = TSYNC | LOG | SPEC_ALLOW | NEW_LISTENER | TSYNC_ESRCH | WAIT_KILLABLE_RECV;

/// `PR_SET_SECCOMP`, with structures of words `W`.
pub fn set_mode<W: Word>(mode: usize, filter: usize) -> SysResult {
    match mode {
        1 => strict(),
        2 => set_filter::<W>(0, filter),
        _ => Err(Errno::EINVAL),
    }
}

fn strict() -> SysResult {
    seccomp::enter_strict(&current())?;
    Ok(0)
}

/// Reads and checks the program that a `struct sock_fprog` of words `W` describes.
fn read_program<W: Word>(at: usize) -> Result<Program, Errno> {
    let [len, insns] = UserPtr::<[W; 2]>::new(at).read()?.map(W::get);
    let [low, high, ..] = len.to_ne_bytes();
    let len = usize::from(u16::from_ne_bytes([low, high]));
    if len == 0 || len > MAX_INSNS {
        return Err(Errno::EINVAL);
    }
    let task = current();
    // Else it could deceive a program that has more rights than it.
    if !task.flags().contains(TaskFlags::NO_NEW_PRIVS) && !task.creds().capable_own(cap::SYS_ADMIN) {
        return Err(Errno::EACCES);
    }
    let mut bytes = copy::zeroed(len * Insn::SIZE)?;
    read_bytes(&mut bytes, insns)?;
    handling(|| Program::from_bytes(&bytes)).map_err(|error| match error {
        limen_bpf::Error::NoMemory => Errno::ENOMEM,
        _ => Errno::EINVAL,
    })
}

/// A descriptor for a listener's file, until the filter is attached.
struct Reserved {
    files: Arc<FdTable>,
    fd: i32,
    file: Option<Arc<File>>,
}

impl Reserved {
    /// `EMFILE`, `ENFILE`, `ENOMEM`.
    fn new(listener: &Arc<Listener>) -> Result<Self, Errno> {
        let files = current().files();
        let mut reserved = Self {
            fd: files.reserve(true)?,
            files,
            file: None,
        };
        reserved.file = Some(fs::seccomp::file(listener.clone())?);
        Ok(reserved)
    }

    /// The descriptor becomes usable.
    fn open(mut self) -> usize {
        if let Some(file) = self.file.take() {
            self.files.fill(self.fd, file);
        }
        let fd = self.fd;
        self.fd = -1;
        fd as usize
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.fd >= 0 {
            self.files.give_back(self.fd);
        }
    }
}

fn set_filter<W: Word>(flags: u32, at: usize) -> SysResult {
    let has = |flag| flags & flag != 0;
    if flags & !ALL != 0
        // A result could be a descriptor or a thread.
        || has(TSYNC) && has(NEW_LISTENER) && !has(TSYNC_ESRCH)
        || has(WAIT_KILLABLE_RECV) && !has(NEW_LISTENER)
    {
        return Err(Errno::EINVAL);
    }
    let program = read_program::<W>(at)?;
    let listener = has(NEW_LISTENER).then(|| Listener::new(has(WAIT_KILLABLE_RECV)));
    let reserved = listener.as_ref().map(Reserved::new).transpose()?;
    let new = NewFilter {
        program: Arc::new(program),
        log: has(LOG),
        listener,
    };
    match seccomp::attach(&current(), &new, has(TSYNC)) {
        Ok(()) => Ok(reserved.map_or(0, Reserved::open)),
        Err(Refused::Thread(_)) if has(TSYNC_ESRCH) => Err(Errno::ESRCH),
        Err(Refused::Thread(tid)) => Ok(tid as usize),
        Err(Refused::Error(errno)) => Err(errno),
    }
}

/// `seccomp`, with structures of words `W`.
pub(super) fn do_seccomp<W: Word>(operation: u32, flags: u32, at: usize) -> SysResult {
    match operation {
        SET_MODE_STRICT if flags != 0 || at != 0 => Err(Errno::EINVAL),
        SET_MODE_STRICT => strict(),
        SET_MODE_FILTER => set_filter::<W>(flags, at),
        GET_ACTION_AVAIL | GET_NOTIF_SIZES if flags != 0 => Err(Errno::EINVAL),
        GET_ACTION_AVAIL => {
            let action = UserPtr::<u32>::new(at).read()?;
            Action::from_raw(action).map(|_| 0).ok_or(Errno::EOPNOTSUPP)
        }
        GET_NOTIF_SIZES => {
            UserPtr::new(at).write(fs::seccomp::SIZES)?;
            Ok(0)
        }
        _ => Err(Errno::EINVAL),
    }
}

crate::syscalls! {
    fn seccomp(operation: u32, flags: u32, at: usize) {
        do_seccomp::<usize>(operation, flags, at)
    }
}
