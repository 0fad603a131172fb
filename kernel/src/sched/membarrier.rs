//! `membarrier`: causes memory barriers on the CPUs that run certain threads, so that these threads need
//! none.
//!
//! An address space keeps what its process registered for. A fork copies it; exec starts without.
//!
//! For each CPU, the lock of its run queue is taken to see which address space it runs. A CPU that runs none
//! of the threads meant need not be interrupted: if it switches to one later, it takes that lock after the
//! caller and so sees what the caller wrote; what such a thread wrote there earlier is visible to the caller.
//! A CPU that runs one is interrupted, and its return to user mode also synchronises the instruction stream.

use super::cpu::{self, online};
use super::{CpuSet, current, on_each_cpu};
use crate::mm::AddressSpace;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering, fence};
use limen_linux_abi::{Errno, SysResult};

/// Commands, numbered as in `linux/membarrier.h`.
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
    /// All commands.
    pub const ALL: u32 = (1 << 10) - 1;
    /// The commands that register.
    pub const REGISTERING: u32 =
        REGISTER_GLOBAL_EXPEDITED | REGISTER_PRIVATE_EXPEDITED | REGISTER_SYNC_CORE | REGISTER_RSEQ;
}

/// The flag with which [`command::RSEQ`] is meant for one CPU only.
const FLAG_CPU: u32 = 1;

/// What an address space is registered for: bits of `command::REGISTERING`.
pub struct Registrations(AtomicU32);

impl Registrations {
    /// Nothing.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }
    /// The same as those of `parent`.
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
            // The command that registers for this one is the next higher bit.
            if mm.membarrier.get() & cmd << 1 == 0 {
                return Err(Errno::EPERM);
            }
            // A negative CPU number means all CPUs, as if the flag were not set.
            let only = u32::try_from(cpu).ok().filter(|_| flags & FLAG_CPU != 0);
            private(&mm, cmd, only);
        }
        c if c.is_power_of_two() && c & command::REGISTERING != 0 => {
            mm.membarrier.0.fetch_or(c, Ordering::SeqCst);
            // CPUs that run this address space from now on are found by other callers.
            fence(Ordering::SeqCst);
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// The barriers for the threads of `mm`. `only`: just on that CPU.
fn private(mm: &Arc<AddressSpace>, cmd: u32, only: Option<u32>) {
    let running = || cpus_running(|other| core::ptr::eq(other, &raw const **mm));
    let cpus = match only {
        None => running(),
        // A CPU that does not exist runs no thread.
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

/// Runs `f` on `cpus`, between two barriers on the caller's CPU.
fn barrier(cpus: CpuSet, f: &(dyn Fn() + Sync)) {
    fence(Ordering::SeqCst);
    on_each_cpu(cpus, f);
    fence(Ordering::SeqCst);
}

/// The CPUs that have loaded an address space for which `wanted` is true.
fn cpus_running(wanted: impl Fn(&AddressSpace) -> bool) -> CpuSet {
    fence(Ordering::SeqCst);
    let mut found = CpuSet::EMPTY;
    for n in online().iter() {
        if cpu::cpu(n).is_some_and(|cpu| cpu.rq.with_active_mm(|mm| mm.is_some_and(&wanted))) {
            found = found.with(n);
        }
    }
    found
}
