//! Kernels without lock validation: all functions are empty.

use limen_entry::token::InKernel;

/// The kind of the lock that has a [`Dep`].
#[derive(Clone, Copy)]
pub enum Kind {
    Spin,
    IrqSpin,
    Raw,
    Mutex,
    RwLock,
}

/// How a lock is taken.
#[derive(Clone, Copy)]
pub enum Mode {
    Exclusive,
    Shared,
}

/// A thread's state for the validator.
#[derive(Debug)]
pub struct ThreadState;

impl ThreadState {
    pub const fn new() -> Self {
        Self
    }
}

/// A lock's state for the validator.
pub struct Dep;

impl Dep {
    #[inline(always)]
    pub const fn new() -> Self {
        Self
    }
    #[inline(always)]
    pub const fn of_allocator() -> Self {
        Self
    }
    #[inline(always)]
    pub fn acquire<T: ?Sized>(&self, _kind: Kind, _mode: Mode) {}
    #[inline(always)]
    pub fn acquire_nested<T: ?Sized>(&self, _kind: Kind, _mode: Mode, _subclass: usize) {}
    #[inline(always)]
    pub fn acquired_by_trying<T: ?Sized>(&self, _kind: Kind, _mode: Mode) {}
    #[inline(always)]
    pub fn release(&self) {}
}

#[inline(always)]
pub fn init(_: fn(&[u8])) {}
#[inline(always)]
pub fn booted() {}
#[inline(always)]
pub fn irqs_off() {}
#[inline(always)]
pub fn irqs_on() {}
#[inline(always)]
pub fn irqs_on_quiet() {}
#[inline(always)]
pub fn enter_interrupt() {}
#[inline(always)]
pub fn leave_interrupt() {}
#[inline(always)]
pub fn enter_nmi() -> u32 {
    0
}
#[inline(always)]
pub fn leave_nmi(_: u32) {}
#[inline(always)]
pub fn to_user(_: &InKernel) {}
#[inline(always)]
pub fn waits_for_cpus() {}
#[inline(always)]
pub fn thread_ends() {}
#[inline(always)]
pub fn uses_heap() {}
#[inline(always)]
pub fn allocates_much(_size: usize) {}
#[inline(always)]
pub fn fallible<R>(f: impl FnOnce() -> R) -> R {
    f()
}
#[inline(always)]
pub fn at_once<R>(f: impl FnOnce() -> R) -> R {
    f()
}
#[inline(always)]
pub fn is_at_once() -> bool {
    true
}
#[inline(always)]
pub fn scheduling(_: u32) {}
