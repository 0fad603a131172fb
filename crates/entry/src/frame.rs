//! The saved registers of the context that an entry interrupted, as the threshold sees them.

use limen_linux_abi::Restart;

/// What brought the thread into the kernel. It decides which work is done on the way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A system call, or a new thread's first way to user mode, which ends like one.
    Syscall,
    /// An interrupt or a fault.
    Exception,
}

/// All registers of the interrupted context, as the architecture's entry stub saved them (Linux: `pt_regs`).
pub trait Frame {
    /// Whether the entry came from user mode.
    fn from_user(&self) -> bool;
    /// Whether interrupts were on in the interrupted context.
    fn interrupts_enabled(&self) -> bool;
    /// The number of the system call that the frame asks for. Negative: none, because the entry was no system
    /// call or because a tracer cancelled it.
    fn syscall_number(&self) -> isize;
    /// Writes the result that a tracer sees before the call has run, and that stays if the call is skipped:
    /// `-ENOSYS`. Where the ABI returns the result in the register of the first argument, it is written only
    /// if the number is negative, since the call still needs its argument.
    fn preset_result(&mut self);
    /// Whether and how the system call in this frame asks to be restarted. `Some` only if the frame is that
    /// of a system call whose result is a restart code (`-ERESTARTSYS`, ...).
    fn restart(&self) -> Option<Restart>;
    /// Puts the registers back as they were before the system call ran, so that it can run again without
    /// going through user mode. For [`Restart::Block`] the number becomes that of `restart_syscall`.
    fn rearm(&mut self, restart: Restart);
    /// [`crate::ThreadFlags::RETURN`] is set, and nothing comes any more before the architecture's stub
    /// returns to user mode with this frame, which may now name a stub on the way instead. Interrupts are
    /// off. The frame is the stub's alone from here on.
    fn prepare_return(&mut self) {}
}
