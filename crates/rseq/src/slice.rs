//! Time-slice extensions: a thread that is about to be preempted in user mode and has asked for it may go on for a few microseconds, once.
//!
//! User space sets `request` before a short critical section; the kernel, about to preempt it, clears `request`, sets `granted` and lets it go on.
//! The thread then gives up the CPU by itself (`rseq_slice_yield`); any other system call, or the end of the extension, takes it back.

/// Shortest and longest extension, and that of a kernel nobody told anything, nanoseconds.
pub const LENGTH_NS: (u32, u32, u32) = (5_000, 50_000, 5_000);

/// `slice_ctrl` as one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control(pub u32);

impl Control {
    fn byte(self, n: usize) -> bool {
        self.0.to_ne_bytes()[n] != 0
    }
    /// The thread asks for an extension.
    pub fn request(self) -> bool {
        self.byte(0)
    }
    /// The kernel has granted one.
    pub fn granted(self) -> bool {
        self.byte(1)
    }
    /// Nothing asked for, one granted.
    pub fn grant() -> Self {
        Self(u32::from_ne_bytes([0, 1, 0, 0]))
    }
}

/// A thread's state, as the kernel has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The thread may ask.
    pub enabled: bool,
    /// It has an extension.
    pub granted: bool,
    /// It gave it up by `rseq_slice_yield`, whose result says so.
    pub yielded: bool,
}

/// What happens when the thread is about to be preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It goes on: write [`Control::grant`], arm the timer, look at its next system call.
    Grant,
    /// It is preempted, and had an extension: write 0.
    Revoke,
    /// It is preempted.
    Preempt,
}

impl State {
    /// Decides, knowing what user space says. The caller has made sure that it was interrupted in user mode and that there is nothing else to do.
    pub fn preempting(&mut self, control: Control) -> Decision {
        if self.granted {
            self.granted = false;
            return Decision::Revoke;
        }
        if self.enabled && control.request() && !control.granted() {
            self.granted = true;
            return Decision::Grant;
        }
        Decision::Preempt
    }

    /// The thread makes a system call; `is_yield`: `rseq_slice_yield`. Whether an extension ends by that: `granted` in user memory becomes 0 and the
    /// thread gives up the CPU before the call runs.
    pub fn syscall(&mut self, is_yield: bool) -> bool {
        if !self.granted {
            return false;
        }
        self.granted = false;
        self.yielded = is_yield;
        true
    }

    /// What `rseq_slice_yield` returns: whether there was something to give up.
    pub fn take_yielded(&mut self) -> bool {
        core::mem::take(&mut self.yielded)
    }

    /// The thread was switched away from, whatever the reason: no extension outlives that. Whether there was one.
    pub fn switched(&mut self) -> bool {
        core::mem::take(&mut self.granted)
    }
}
