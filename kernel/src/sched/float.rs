//! Floating-point and vector registers across switches: when a thread's are saved, loaded, inherited by fork
//! and dropped by exec. An architecture gives the primitives ([`Registers`], [`Reset`]) and calls this from
//! its `switch`.
//!
//! The kernel has no use of its own for these registers, so each CPU's hold the state of the user thread that
//! had them last ([`CpuLocal::float_owner`]). A thread's are saved whenever it is switched away from, which
//! makes what is in memory enough for any CPU to go on with. They are loaded only if the CPU no longer has
//! them: a thread that sleeps and wakes with only kernel threads (idle) in between gets them for nothing.
//!
//! There are two policies. Eager: they are loaded when the thread is switched to ([`Float::leave`],
//! [`Float::arrive`], [`Float::inherit`], [`Float::begin`]). Lazy, for processors whose user mode can be
//! denied the registers cheaply: they are loaded at the first use, which traps ([`Float::leave_if`],
//! [`Float::still_here`], [`Float::bring`], [`Float::inherit_lazily`], [`Float::replace`]).

use super::cpu::CpuLocal;
use crate::arch::{irq, smp};
use core::mem::offset_of;
use core::ptr::null;

/// The registers in memory, or where in memory they are.
pub trait Registers {
    /// Writes the processor's registers there. They stay as they are: a thread that only yields goes on with
    /// them at once.
    ///
    /// # Safety
    /// Nobody else uses that memory. If interrupts are on, the registers are the running thread's.
    unsafe fn save(&mut self);
    /// Reads the processor's registers from there.
    ///
    /// # Safety
    /// Interrupts are off; what the processor's registers hold is saved, or nobody's.
    unsafe fn load(&self);
}

/// What the eager policy needs besides.
#[allow(dead_code, reason = "an architecture has one of the policies")]
pub trait Reset: Registers {
    /// Gives the processor's registers the values a program starts with.
    ///
    /// # Safety
    /// As for [`Registers::load`].
    unsafe fn reset();
}

/// What a CPU knows a thread by: the address of its context, which the switch has at hand.
pub type Whose = *const ();

/// No CPU.
const NOWHERE: usize = usize::MAX;

/// A thread's registers while it does not run. Only the thread itself and the switch touch it.
#[derive(Debug)]
#[repr(C)]
pub struct Float<R> {
    /// Eager: it is a user thread. Lazy: it had the registers when it was switched away from.
    used: bool,
    /// The CPU that loaded them last.
    cpu: usize,
    registers: R,
}

impl<R> Float<R> {
    /// Where the byte is that says whether this is a user thread's (eager).
    #[allow(dead_code, reason = "for assembly, and what may not follow pointers")]
    pub const USED: usize = offset_of!(Self, used);

    /// Of a thread that has never been in user mode.
    pub const fn new(registers: R) -> Self {
        Self {
            used: false,
            cpu: NOWHERE,
            registers,
        }
    }

    /// What a thread that sleeps has.
    pub fn kept(&self) -> &R {
        &self.registers
    }

    /// The same, to be changed by who keeps it off its CPU; or by the thread itself, what lies beside the
    /// processor's registers.
    #[allow(dead_code, reason = "not every architecture has something there")]
    pub fn besides(&mut self) -> &mut R {
        &mut self.registers
    }

    /// Whether the CPU of this block still has them.
    ///
    /// # Safety
    /// It is this CPU's block, and interrupts are off.
    #[inline(always)]
    unsafe fn is_here(&self, local: *const CpuLocal, whose: Whose) -> bool {
        // SAFETY: as the caller promises.
        unsafe { (*local).float_owner == whose && self.cpu == (*local).id }
    }

    /// The processor's registers hold this thread's from now on.
    ///
    /// # Safety
    /// They do; it is this CPU's block, and interrupts are off.
    #[inline(always)]
    pub unsafe fn claim(&mut self, local: *mut CpuLocal, whose: Whose) {
        // SAFETY: as the caller promises.
        unsafe {
            self.cpu = (*local).id;
            (*local).float_owner = whose;
        }
    }
}

/// The processor's registers hold nobody's state from now on.
///
/// # Safety
/// What they held is in memory; it is this CPU's block, and interrupts are off.
#[inline(always)]
pub unsafe fn disown(local: *mut CpuLocal) {
    // SAFETY: as the caller promises.
    unsafe { (*local).float_owner = null() }
}

/// The eager policy.
#[allow(dead_code, reason = "an architecture has one of the policies")]
impl<R: Reset> Float<R> {
    /// Whether this is a user thread's.
    #[inline(always)]
    pub fn is_user(&self) -> bool {
        self.used
    }

    /// The thread is switched away from.
    ///
    /// # Safety
    /// It is the running one, and interrupts are off.
    #[inline(always)]
    pub unsafe fn leave(&mut self) {
        if self.used {
            // SAFETY: as the caller promises.
            unsafe { self.registers.save() }
        }
    }

    /// The thread is switched to.
    ///
    /// # Safety
    /// The thread before has left; it is this CPU's block, and interrupts are off.
    #[inline(always)]
    pub unsafe fn arrive(&mut self, local: *mut CpuLocal, whose: Whose) {
        // SAFETY: as the caller promises.
        unsafe {
            if self.used && !self.is_here(local, whose) {
                self.registers.load();
                self.claim(local, whose);
            }
        }
    }

    /// Fork: a new thread starts with what its parent, the running thread, has. A kernel thread has nothing:
    /// its child starts as a program does.
    pub fn inherit(&mut self, parent: &Self) {
        self.used = true;
        let flags = irq::local_save();
        // SAFETY: interrupts are off; the new thread does not run yet. The registers are the parent's, or a
        // user thread's that is not running, so they are in memory as well.
        unsafe {
            if !parent.used {
                disown(smp::cpu_local().cast_mut());
                R::reset();
            }
            self.registers.save();
        }
        irq::local_restore(flags);
    }

    /// Exec: the running thread, whose state this is, starts as a program does.
    pub fn begin(&mut self, whose: Whose) {
        let flags = irq::local_save();
        self.used = true;
        // SAFETY: interrupts are off; if the registers are not this thread's they are in memory as well.
        unsafe {
            R::reset();
            self.claim(smp::cpu_local().cast_mut(), whose);
        }
        irq::local_restore(flags);
    }
}

/// The lazy policy. Whether the running thread has the registers is known to the architecture, which denies
/// them to it otherwise.
#[allow(dead_code, reason = "an architecture has one of the policies")]
impl<R: Registers> Float<R> {
    /// The thread is switched away from; `has`: with the registers, which it loses.
    ///
    /// # Safety
    /// It is the running one, and interrupts are off.
    #[inline(always)]
    pub unsafe fn leave_if(&mut self, has: bool) {
        self.used = has;
        if has {
            // SAFETY: as the caller promises.
            unsafe { self.registers.save() }
        }
    }

    /// The thread is switched to: whether it has the registers at once, since it had them before and they are
    /// still here.
    ///
    /// # Safety
    /// It is this CPU's block, and interrupts are off.
    #[inline(always)]
    pub unsafe fn still_here(&self, local: *const CpuLocal, whose: Whose) -> bool {
        // SAFETY: as the caller promises.
        self.used && unsafe { self.is_here(local, whose) }
    }

    /// The running thread, which does not have them, uses the registers: from now on it has them.
    ///
    /// # Safety
    /// It is this CPU's block, and interrupts are off.
    #[inline(always)]
    pub unsafe fn bring(&mut self, local: *mut CpuLocal, whose: Whose) {
        // SAFETY: as the caller promises: who had the registers has left.
        unsafe {
            if !self.is_here(local, whose) {
                self.registers.load();
                self.claim(local, whose);
            }
        }
    }

    /// Fork: a new thread starts with what its parent, the running thread, has, in the registers or in
    /// memory.
    ///
    /// # Safety
    /// `has` says whether it is in the registers; interrupts are off.
    pub unsafe fn inherit_lazily(&mut self, parent: &Self, has: bool)
    where
        R: Copy,
    {
        if has {
            // SAFETY: the new thread does not run yet; as the caller promises.
            unsafe { self.registers.save() }
        } else {
            self.registers = parent.registers;
        }
    }

    /// What the running thread has is in memory now, and brought up to date if it is in the registers
    /// (`has`).
    ///
    /// # Safety
    /// The state is the running thread's; interrupts are off.
    pub unsafe fn update(&mut self, has: bool) -> &mut R {
        if has {
            // SAFETY: as the caller promises.
            unsafe { self.registers.save() }
        }
        &mut self.registers
    }

    /// What the running thread, which does not have the registers any more, will have instead (exec,
    /// signals); or, with either policy, a thread that sleeps (tracers).
    pub fn replace(&mut self) -> &mut R {
        self.cpu = NOWHERE;
        &mut self.registers
    }
}
