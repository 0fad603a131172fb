//! `membarrier`: makes memory barriers happen on the CPUs that run certain threads, so that these need none themselves.
//!
//! What a process registered for is kept in its address space; a fork copies it, a new program starts without.
//!
//! Which CPUs run an address space's threads is asked CPU by CPU under the lock of its run queue. A CPU found not to run one need
//! not be interrupted: whichever thread it switches to later takes that lock after us and sees what the caller wrote, and whatever a thread did
//! there before is visible to us. A CPU that runs one is interrupted; the way back to user mode also synchronises its instruction stream.

use super::run::{self, online};
use super::{CpuSet, current, on_each_cpu};
use crate::mm::AddressSpace;
use crate::syscall::SysResult;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering, fence};
use limen_linux_abi::Errno;

/// Commands, as the system call numbers them.
mod command {
    pub const QUERY: u32 = 0;
    pub const GLOBAL: u32 = 1;
    pub const GLOBAL_EXPEDITED: u32 = 1 << 1;
    pub const REGISTER_GLOBAL_EXPEDITED: u32 = 1 << 2;
    pub const PRIVATE_EXPEDITED: u32 = 1 << 3;
    pub const REGISTER_PRIVATE_EXPEDITED: u32 = 1 << 4;
    pub const SYNC_CORE: u32 = 1 << 5;
    pub const REGISTER_SYNC_CORE: u32 = 1 << 6;
    pub const RSEQ: u32 = 1 << 7;
    pub const REGISTER_RSEQ: u32 = 1 << 8;
    pub const GET_REGISTRATIONS: u32 = 1 << 9;
    /// All of the above.
    pub const ALL: u32 = (1 << 10) - 1;
    /// Those that register.
    pub const REGISTERING: u32 =
        REGISTER_GLOBAL_EXPEDITED | REGISTER_PRIVATE_EXPEDITED | REGISTER_SYNC_CORE | REGISTER_RSEQ;
}

/// The flag of [`command::RSEQ`] with which only one CPU is meant.
const FLAG_CPU: u32 = 1;

/// What an address space is registered for: bits of `command::REGISTERING`.
pub struct Registrations(AtomicU32);

impl Registrations {
    /// Nothing.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }
    /// The same as `parent`'s.
    pub fn forked(parent: &Self) -> Self {
        Self(AtomicU32::new(parent.0.load(Ordering::Relaxed)))
    }
    fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The system call. `EINVAL`: no such command or flag; `EPERM`: the process has not registered for it.
pub fn membarrier(cmd: u32, flags: u32, cpu: i32) -> SysResult {
    if flags != 0 && (cmd != command::RSEQ || flags != FLAG_CPU) {
        return Err(Errno::EINVAL);
    }
    let mm = current().mm().ok_or(Errno::EINVAL)?;
    match cmd {
        command::QUERY => return Ok(command::ALL as usize),
        command::GET_REGISTRATIONS => return Ok(mm.membarrier.get() as usize),
        command::GLOBAL => barrier(online(), &fence_here),
        command::GLOBAL_EXPEDITED => barrier(
            cpus_running(|mm| mm.membarrier.get() & command::REGISTER_GLOBAL_EXPEDITED != 0),
            &fence_here,
        ),
        command::PRIVATE_EXPEDITED | command::SYNC_CORE | command::RSEQ => {
            // The registering command is the next bit.
            if mm.membarrier.get() & cmd << 1 == 0 {
                return Err(Errno::EPERM);
            }
            // A negative number means all, as without the flag.
            let only = u32::try_from(cpu).ok().filter(|_| flags & FLAG_CPU != 0);
            private(&mm, cmd, only);
        }
        c if c.is_power_of_two() && c & command::REGISTERING != 0 => {
            mm.membarrier.0.fetch_or(c, Ordering::SeqCst);
            // Whoever runs with this memory is from now on found by others.
            fence(Ordering::SeqCst);
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// The barriers among the threads of `mm`; only on CPU `only`, if given.
fn private(mm: &Arc<AddressSpace>, cmd: u32, only: Option<u32>) {
    let running = || cpus_running(|other| core::ptr::eq(other, &raw const **mm));
    let cpus = match only {
        None => running(),
        // A CPU that is not there runs nothing.
        Some(n) => running().and(CpuSet::from_bits(1u64.checked_shl(n).unwrap_or(0))),
    };
    match cmd {
        command::RSEQ => {
            fence(Ordering::SeqCst);
            crate::rseq::abort_sections(cpus, mm);
            fence(Ordering::SeqCst);
        }
        command::SYNC_CORE => barrier(cpus, &|| {
            fence(Ordering::SeqCst);
            crate::arch::patch::synchronize();
        }),
        _ => barrier(cpus, &fence_here),
    }
}

fn fence_here() {
    fence(Ordering::SeqCst);
}

/// Runs `f` on `cpus`, between two barriers of the caller's.
fn barrier(cpus: CpuSet, f: &(dyn Fn() + Sync)) {
    fence(Ordering::SeqCst);
    on_each_cpu(cpus, f);
    fence(Ordering::SeqCst);
}

/// The CPUs that have an address space loaded for which `wanted` holds.
fn cpus_running(wanted: impl Fn(&AddressSpace) -> bool) -> CpuSet {
    fence(Ordering::SeqCst);
    let mut found = CpuSet::EMPTY;
    for n in online().iter() {
        if run::cpu(n).is_some_and(|cpu| cpu.rq.with_active_mm(|mm| mm.is_some_and(&wanted))) {
            found = found.with(n);
        }
    }
    found
}
