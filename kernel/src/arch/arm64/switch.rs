//! Switching between threads: callee-saved registers, floating point, thread-local storage.

use super::frame::Frame;

/// What is saved of a thread that is not running. Lives in its `Task`; only the CPU that switches the thread touches it.
#[derive(Debug)]
#[repr(C)]
pub struct Context {
    sp: usize,
}

impl Context {
    /// For a thread that is already running (idle threads).
    pub const fn running() -> Self {
        Self { sp: 0 }
    }

    /// For a new thread: `frame` is placed at the top of its kernel stack; its first switch ends in the architecture's
    /// `ret_from_fork` stub, which calls `threshold::return_from_fork(frame)` and restores the frame.
    pub fn new(stack_top: usize, frame: &Frame) -> Self {
        let _ = (stack_top, frame);
        Self { sp: 0 }
    }

    /// The register file of a new thread made from a system call: a copy of the parent's with result 0, and, if given, another
    /// stack pointer and thread-local-storage value.
    pub fn fork_from(&mut self, parent: &Context, sp: Option<usize>, tls: Option<usize>) {
        let _ = (parent, sp, tls);
    }

    /// A fresh program: floating point and thread-local storage as at the start of `exec`. The context is the running thread's.
    pub fn reset_for_exec(&mut self) {}
}

/// Switches from `prev` (running) to `next`; returns when `prev` runs again. Also switches floating-point state and the TLS register.
///
/// # Safety
/// Interrupts are off; both contexts stay valid; `next` is not running anywhere.
pub unsafe fn switch(prev: *mut Context, next: *const Context) {
    let _ = (prev, next);
}

/// The user register frame of the running thread, at the top of its kernel stack.
pub fn user_frame(stack_top: usize) -> *mut Frame {
    (stack_top - size_of::<Frame>()) as *mut Frame
}

/// Runs `f(data)` on another stack (the interrupt stack) and comes back.
///
/// # Safety
/// `stack_top` is the 16-byte aligned top of a mapped stack nobody else uses.
pub unsafe fn call_on_stack(stack_top: usize, f: extern "C" fn(*mut u8), data: *mut u8) {
    let _ = stack_top;
    f(data)
}
