//! Time-slice extensions: a thread that is about to be preempted in user mode may go on once for some
//! microseconds if it has asked for that.
//!
//! The program sets `request` before a short critical section. If the kernel is about to preempt the thread,
//! it clears `request`, sets `granted` and lets the thread go on. The thread then gives up the CPU by itself
//! (`rseq_slice_yield`); any other system call, or the end of the time, ends the extension.
//!
//! Only a preemption that can wait is put off: one with the lazy flag, which fair threads cause. What cannot
//! wait (a real-time thread, a move to another CPU) sets the other flag, which is never cleared here. So no
//! request is lost, whenever it comes; in the worst case a fair thread waits until the timer expires. The
//! timer is armed before interrupts are turned on, and the timer itself ends the extension: if the record has
//! an extension, its timer is still to expire.

use crate::Fault;

/// The shortest and the longest extension, and the default, in nanoseconds.
pub const LENGTH_NS: (u32, u32, u32) = (5_000, 50_000, 5_000);

/// `slice_ctrl` as a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control(pub u32);

impl Control {
    fn byte(self, n: usize) -> bool {
        self.0.to_ne_bytes()[n] != 0
    }
    /// Whether the thread asks for an extension.
    pub fn request(self) -> bool {
        self.byte(0)
    }
    /// Whether the kernel has granted one.
    pub fn granted(self) -> bool {
        self.byte(1)
    }
    /// Whether it asks for one and has none.
    pub fn asks(self) -> bool {
        self.request() && !self.granted()
    }
    /// The value for a granted extension: no request.
    pub fn grant() -> Self {
        Self(u32::from_ne_bytes([0, 1, 0, 0]))
    }
}

/// A thread's state in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The thread may ask for extensions.
    pub enabled: bool,
    /// It has an extension.
    pub granted: bool,
    /// It gave up the extension with `rseq_slice_yield`, whose result tells that.
    pub yielded: bool,
}

impl State {
    /// The result of `rseq_slice_yield`: whether there was an extension to give up.
    pub fn take_yielded(&mut self) -> bool {
        core::mem::take(&mut self.yielded)
    }
}

/// What to do with a thread that is about to be preempted, or that made a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It goes on.
    GoOn,
    /// It gives up the CPU.
    Schedule,
    /// It is killed: its area cannot be accessed.
    Kill,
}

/// The kernel: the running thread and its CPU.
pub trait Machine {
    /// The thread's state.
    fn state(&self) -> State;
    /// Changes the state. Interrupts are off.
    fn set_state(&self, state: State);
    /// Reads `slice_ctrl`. With interrupts off, an access to a page that is not present fails; else only one
    /// to an address where nothing is mapped.
    fn control(&self) -> Result<Control, Fault>;
    /// Writes `slice_ctrl`. Fails as [`Machine::control`] does.
    fn set_control(&self, control: Control) -> Result<(), Fault>;
    /// Makes the way out write to user memory that there is no extension. Interrupts are off.
    fn tell_over(&self);
    /// Whether [`Machine::tell_over`] was called and user memory has not been written since.
    fn is_to_be_told(&self) -> bool;
    /// Whether a preemption that can wait is the only work of the way out. Interrupts are off.
    fn may_wait(&self) -> bool;
    /// Clears the request for a preemption that can wait. One that cannot wait stays requested. Interrupts
    /// are off.
    fn puts_off(&self);
    /// Arms this CPU's timer. `false`: it has none. Interrupts are off.
    fn arm(&self) -> bool;
    /// Whether [`call`] is to be called at the next system call.
    fn watch_calls(&self, on: bool);
    /// Turns interrupts on.
    fn irqs_on(&self);
    /// Turns interrupts off.
    fn irqs_off(&self);
}

/// The thread was interrupted in user mode and is about to be preempted, which can wait
/// ([`Machine::may_wait`]). Interrupts are off before and afterwards.
pub fn preempting(m: &impl Machine) -> Decision {
    // Only one extension at a time, even if it asks for another meanwhile.
    if over(m) || !m.state().enabled || m.is_to_be_told() {
        return Decision::Schedule;
    }
    let mut granted = grant(m);
    if granted.is_err() {
        // Reads it, which faults the page in. Meanwhile the thread may have been preempted.
        m.irqs_on();
        let there = m
            .control()
            .and_then(|said| if said.asks() { m.set_control(said) } else { Ok(()) });
        m.irqs_off();
        if there.is_err() {
            return Decision::Kill;
        }
        if m.may_wait() {
            granted = grant(m);
        }
    }
    match granted {
        Ok(true) => Decision::GoOn,
        // Also if the page is not present again.
        Ok(false) | Err(Fault) => Decision::Schedule,
    }
}

/// Grants the thread an extension if it asks for one. Interrupts are off, so the area's page must be present.
fn grant(m: &impl Machine) -> Result<bool, Fault> {
    if !m.control()?.asks() {
        return Ok(false);
    }
    m.set_control(Control::grant())?;
    if !m.arm() {
        m.tell_over();
        return Ok(false);
    }
    m.set_state(State {
        granted: true,
        ..m.state()
    });
    m.watch_calls(true);
    m.puts_off();
    Ok(true)
}

/// Ends the thread's extension if it has one: its time is over, or the thread was switched away from or asked
/// again to give way. Returns whether it had one. Interrupts are off.
pub fn over(m: &impl Machine) -> bool {
    let state = m.state();
    if state.granted {
        m.set_state(State {
            granted: false,
            ..state
        });
        m.watch_calls(false);
        m.tell_over();
    }
    state.granted
}

/// The thread makes a system call that [`Machine::watch_calls`] asked for. `is_yield`: it is
/// `rseq_slice_yield`. `None`: the extension had ended before. Interrupts are on.
pub fn call(m: &impl Machine, is_yield: bool) -> Option<Decision> {
    m.irqs_off();
    let state = m.state();
    if state.granted {
        m.set_state(State {
            granted: false,
            yielded: is_yield,
            ..state
        });
        m.watch_calls(false);
    }
    m.irqs_on();
    // The system call may read it, or copy it to a child.
    state.granted.then(|| match m.set_control(Control(0)) {
        Ok(()) => Decision::Schedule,
        Err(Fault) => Decision::Kill,
    })
}
