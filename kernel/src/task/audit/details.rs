//! What records tell of a call beside its files: addresses, descriptors, whom signals are for. The places
//! that tell ask a static key first.

use super::super::{Process, Task, current, find_task};
use crate::mm::reserve::{copy_of, room};
use alloc::vec::Vec;

/// What is told only of some calls; the last one counts.
pub enum Special {
    /// `socketcall`: the arguments.
    SocketCall([usize; 6], usize),
    /// `mmap` of a file: descriptor and flags.
    Mmap(i32, usize),
    /// `openat2`: flags, mode, and how to resolve.
    OpenAt2([u64; 3]),
    /// A module of the kernel is loaded or unloaded.
    Module(Vec<u8>),
    /// A call on an object of System V IPC.
    Ipc {
        /// Whose it is.
        now: Ownership,
        /// What the call sets, and how many bytes a queue may have then.
        new: Option<(Ownership, u64)>,
    },
    /// A call on a POSIX message queue.
    Queue(QueueCall),
}

/// What is told of a call on a POSIX message queue.
pub enum QueueCall {
    /// It opens one, or makes it. The attributes are `mq_flags`, `mq_maxmsg`, `mq_msgsize`, `mq_curmsgs`.
    Open {
        /// `O_*`.
        flags: u32,
        /// Permissions.
        mode: u16,
        /// Zeros if it passes none.
        attributes: [isize; 4],
    },
    /// It sends a message, or receives one.
    Transfer {
        /// The descriptor.
        fd: i32,
        /// How long the message is, or the room for it.
        len: usize,
        /// The priority; 0 if it receives.
        priority: u32,
        /// How long it waits: seconds and nanoseconds of `CLOCK_REALTIME`, or zeros.
        until: [i64; 2],
    },
    /// It asks to be told of messages.
    Notify {
        /// The descriptor.
        fd: i32,
        /// `sigev_signo`; 0 if it asks no longer.
        signal: i32,
    },
    /// It changes a queue's attributes.
    Set {
        /// The descriptor.
        fd: i32,
        /// As for [`QueueCall::Open`].
        attributes: [isize; 4],
    },
}

/// Whose an object is, and what others may do with it.
pub struct Ownership {
    /// The owner.
    pub uid: u32,
    /// The owner's group.
    pub gid: u32,
    /// Permissions, and bits of the object's kind.
    pub mode: u32,
}

/// Whom a call is for.
pub struct Target {
    /// The process.
    pub pid: i32,
    /// Its login, its user and its session.
    pub ids: [u32; 3],
    /// Its name.
    pub comm: [u8; 16],
}

/// What is told of the running thread's call.
#[derive(Default)]
pub struct Details {
    /// See [`Special`].
    pub special: Option<Special>,
    /// Two descriptors that it made.
    pub pair: Option<[i32; 2]>,
    /// An address of a socket that it passed.
    pub address: Vec<u8>,
    /// Whom it is for, in their order.
    pub targets: Vec<Target>,
}

impl Details {
    pub(super) fn clear(&mut self) {
        self.special = None;
        self.pair = None;
        self.address.clear();
        self.targets.clear();
    }
}

/// The call is one of those.
#[cold]
#[inline(never)]
pub fn special(special: Special) {
    current()
        .audit
        .with(|context| context.details.special = Some(special));
}

/// The call loads or unloads a module of the kernel.
#[cold]
pub fn module(name: &[u8]) {
    match copy_of(name) {
        Ok(name) => special(Special::Module(name)),
        Err(_) => lost(),
    }
}

fn lost() {
    current().audit.with(|context| context.lost = true);
}

/// The call has made two descriptors.
#[cold]
#[inline(never)]
pub fn pair(fds: [i32; 2]) {
    current().audit.with(|context| context.details.pair = Some(fds));
}

/// The call passes an address of a socket.
#[cold]
#[inline(never)]
pub fn address(raw: &[u8]) {
    match copy_of(raw) {
        Ok(raw) => {
            current().audit.with(|context| context.details.address = raw);
        }
        Err(_) => lost(),
    }
}

/// The call is for a thread.
#[cold]
pub fn target(of: &Task) {
    let target = Target {
        pid: of.tgid(),
        ids: [of.audit.login(), of.creds().uid, of.audit.session()],
        comm: of.comm(),
    };
    current().audit.with(|context| {
        let targets = &mut context.details.targets;
        match room(targets, 1) {
            Ok(()) => targets.push(target),
            Err(_) => context.lost = true,
        }
    });
}

/// The call is for a process.
#[cold]
#[inline(never)]
pub(super) fn target_process(process: &Process) {
    if super::names::is_noted()
        && let Some(leader) = find_task(process.tgid)
    {
        target(&leader);
    }
}
