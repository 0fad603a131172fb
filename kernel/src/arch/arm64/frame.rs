//! The saved register file.

use limen_linux_abi::{Errno, Restart};

/// All general registers of the interrupted context, in the order the entry stub saves them.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Frame {
    regs: [usize; 40],
}

impl Frame {
    /// The register file of a fresh program: everything zero except entry point and stack pointer.
    pub fn new_user(entry: usize, sp: usize) -> Self {
        let _ = (entry, sp);
        Self { regs: [0; 40] }
    }
    /// Instruction pointer.
    pub fn ip(&self) -> usize {
        self.regs[0]
    }
    /// Sets the instruction pointer.
    pub fn set_ip(&mut self, ip: usize) {
        self.regs[0] = ip;
    }
    /// Stack pointer.
    pub fn sp(&self) -> usize {
        self.regs[1]
    }
    /// Sets the stack pointer.
    pub fn set_sp(&mut self, sp: usize) {
        self.regs[1] = sp;
    }
    /// System call argument `n` (0 to 5), as passed.
    pub fn arg(&self, n: usize) -> usize {
        self.regs[n]
    }
    /// Sets the system call's result.
    pub fn set_result(&mut self, result: Result<usize, Errno>) {
        let _ = result;
    }
    /// The raw result register.
    pub fn result(&self) -> usize {
        self.regs[2]
    }
    /// Changes the system call number (tracers); negative cancels.
    pub fn set_syscall_number(&mut self, number: isize) {
        let _ = number;
    }
    /// Makes the frame no longer a system call's (after signal return, exec).
    pub fn forget_syscall(&mut self) {}
    /// A handler will run: rewinds the instruction pointer so that the call is made again when the handler returns.
    pub fn rewind_syscall(&mut self) {}
}

impl limen_entry::Frame for Frame {
    fn from_user(&self) -> bool {
        false
    }
    fn interrupts_enabled(&self) -> bool {
        false
    }
    fn syscall_number(&self) -> isize {
        -1
    }
    fn preset_result(&mut self) {}
    fn restart(&self) -> Option<Restart> {
        None
    }
    fn rearm(&mut self, restart: Restart) {
        let _ = restart;
    }
}
