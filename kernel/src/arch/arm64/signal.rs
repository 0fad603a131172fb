//! Signal frames: the layout user space knows (`rt_sigframe`, `ucontext`).

use super::frame::Frame;
use limen_linux_abi::Errno;

/// What the portable signal code wants done.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Signal number, 1 to 64.
    pub signal: u32,
    /// `siginfo_t`, to be copied as it is.
    pub info: [u8; 128],
    /// The handler's address.
    pub handler: usize,
    /// `sa_restorer`, if `SA_RESTORER` is set.
    pub restorer: Option<usize>,
    /// Address of the vDSO's `rt_sigreturn` trampoline, for ABIs that use it.
    pub vdso_sigreturn: usize,
    /// `SA_SIGINFO` was given.
    pub siginfo: bool,
    /// The signal mask to restore when the handler returns.
    pub mask: u64,
    /// Where the frame goes below: the alternate stack's top, or the interrupted stack pointer.
    pub stack_top: usize,
    /// The alternate stack as `uc_stack`: sp, flags, size.
    pub altstack: (usize, u32, usize),
}

/// Builds the signal frame on the user stack and makes `frame` enter the handler. `EFAULT` if the stack is not there.
pub fn setup(frame: &mut Frame, delivery: &Delivery) -> Result<(), Errno> {
    let _ = (frame, delivery);
    Err(Errno::EFAULT)
}

/// What `rt_sigreturn` found in the signal frame.
#[derive(Clone, Copy, Debug)]
pub struct Restored {
    /// The signal mask.
    pub mask: u64,
    /// The alternate stack: sp, flags, size.
    pub altstack: (usize, u32, usize),
}

/// Restores all registers (floating point included) from the signal frame at the user stack pointer; user-controlled bits that could
/// harm the kernel are refused or masked. The frame is no longer a system call's.
pub fn restore(frame: &mut Frame) -> Result<Restored, Errno> {
    let _ = frame;
    Err(Errno::EFAULT)
}
