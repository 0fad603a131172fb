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
