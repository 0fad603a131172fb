//! Where a thread that was switched away from goes on.

/// A place in the kernel's text, to which the switch jumps.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Resume(unsafe extern "C" fn());

unsafe extern "C" {
    // Every architecture's `switch` has these: not functions, only places.
    fn switch_calls();
    fn switch_goes_on();
}

impl Resume {
    /// Behind the switch: for a thread that is running already (idle).
    pub const BEHIND: Self = Self(switch_goes_on);

    /// At `stub`: for the first switch to a new thread.
    pub fn at(stub: unsafe extern "C" fn()) -> Self {
        Self(stub)
    }

    /// The running thread's, from now on: behind the switch or, if `call`, where it calls `resumed` first. Every thread says so after its first switch.
    pub fn set(&mut self, call: bool) {
        *self = if call { Self(switch_calls) } else { Self::BEHIND };
    }
}
