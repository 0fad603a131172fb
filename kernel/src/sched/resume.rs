//! Where a thread goes on when the CPU is switched to it again.

/// An address in the kernel's code. The switch to a thread jumps to the thread's `Resume`.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Resume(unsafe extern "C" fn());

unsafe extern "C" {
    // Labels inside each architecture's `switch`; they cannot be called.
    fn switch_calls();
    fn switch_goes_on();
}

impl Resume {
    /// After the switch: what a thread has that runs already when the scheduler starts (idle).
    pub const BEHIND: Self = Self(switch_goes_on);

    /// At `stub`: what a new thread has until the first switch to it.
    pub fn at(stub: unsafe extern "C" fn()) -> Self {
        Self(stub)
    }

    /// Sets where the running thread goes on from now on: after the switch or, with `call`, at a place in the
    /// switch that calls `resumed` first (threads with a registered `struct rseq`). Every thread calls it
    /// after the first switch to it.
    pub fn set(&mut self, call: bool) {
        *self = if call { Self(switch_calls) } else { Self::BEHIND };
    }
}
