//! Time-slice extensions with interrupts at every step. A thread of a fair class asks for extensions, on a
//! CPU on which a fair and a real-time thread wake up, signals come, the timer expires and memory is
//! unmapped, wherever interrupts are on, in every order. No wake-up is ever lost, and an extension never
//! outlives its timer.

use limen_rseq::Fault;
use limen_rseq::slice::{Control, Decision, Machine, State, call, over, preempting};
use std::cell::{Cell, RefCell};

/// Makes choices, in a different way each time, until all ways have been tried.
#[derive(Default)]
struct Chooser {
    made: Vec<(usize, usize)>,
    next: usize,
}

impl Chooser {
    fn choose(&mut self, of: usize) -> usize {
        if self.next == self.made.len() {
            self.made.push((0, of));
        }
        self.next += 1;
        self.made[self.next - 1].0
    }
    /// Prepares the next run. `false`: all ways have been tried.
    fn advance(&mut self) -> bool {
        self.next = 0;
        while let Some((choice, of)) = self.made.pop() {
            if choice + 1 < of {
                self.made.push((choice + 1, of));
                return true;
            }
        }
        false
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interrupt {
    FairWakes,
    RealTimeWakes,
    Signal,
    Timer,
    /// Nothing by itself; but user mode is left, and the scheduler can be asked for again.
    Tick,
    /// Another thread forks: the area's page can be read, but must be copied to be written.
    Fork,
    /// The page is reclaimed, and comes back when it is needed.
    Reclaimed,
    /// Another thread unmaps it.
    Unmapped,
}

/// The area's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Page {
    Gone,
    Away,
    Shared,
    There,
}

const INTERRUPTS: [Interrupt; 8] = [
    Interrupt::FairWakes,
    Interrupt::RealTimeWakes,
    Interrupt::Signal,
    Interrupt::Timer,
    Interrupt::Tick,
    Interrupt::Fork,
    Interrupt::Reclaimed,
    Interrupt::Unmapped,
];

struct System<'a> {
    choices: &'a RefCell<Chooser>,
    /// How many interrupts may still come.
    left: Cell<u32>,
    irqs: Cell<bool>,
    state: Cell<State>,
    lazy: Cell<bool>,
    need: Cell<bool>,
    signal: Cell<bool>,
    to_be_told: Cell<bool>,
    watched: Cell<bool>,
    armed: Cell<bool>,
    /// What user memory says.
    control: Cell<Control>,
    page: Cell<Page>,
    /// Which threads wait for the CPU.
    fair: Cell<bool>,
    real_time: Cell<bool>,
    /// The thread has an extension and has overwritten that.
    hidden: Cell<bool>,
    grants: Cell<u32>,
    killed: Cell<bool>,
    log: RefCell<Vec<String>>,
}

fn control(request: u8, granted: u8) -> Control {
    Control(u32::from_ne_bytes([request, granted, 0, 0]))
}

impl<'a> System<'a> {
    fn new(choices: &'a RefCell<Chooser>, interrupts: u32) -> Self {
        Self {
            choices,
            left: Cell::new(interrupts),
            irqs: Cell::new(true),
            state: Cell::new(State {
                enabled: true,
                ..State::default()
            }),
            lazy: Cell::new(false),
            need: Cell::new(false),
            signal: Cell::new(false),
            to_be_told: Cell::new(false),
            watched: Cell::new(false),
            armed: Cell::new(false),
            control: Cell::new(Control(0)),
            page: Cell::new(Page::There),
            fair: Cell::new(false),
            real_time: Cell::new(false),
            hidden: Cell::new(false),
            grants: Cell::new(0),
            killed: Cell::new(false),
            log: RefCell::default(),
        }
    }

    fn choose(&self, of: usize) -> usize {
        self.choices.borrow_mut().choose(of)
    }

    fn say(&self, what: impl Into<String>) {
        self.log.borrow_mut().push(what.into());
    }

    #[track_caller]
    fn check(&self, holds: bool, what: &str) {
        assert!(holds, "{what}: {:?}", self.log.borrow());
    }

    /// A place where interrupts are on: none, one or several may come. In the kernel they preempt it.
    fn open(&self) {
        assert!(self.irqs.get());
        while self.left.get() > 0 {
            let choice = self.choose(INTERRUPTS.len() + 1);
            let Some(interrupt) = INTERRUPTS.get(choice) else {
                return;
            };
            self.left.set(self.left.get() - 1);
            self.interrupt(*interrupt);
            while self.need.get() {
                self.schedule();
            }
        }
    }

    /// The handler.
    fn interrupt(&self, what: Interrupt) {
        self.say(format!("{what:?}"));
        self.irqs.set(false);
        match what {
            Interrupt::FairWakes => {
                self.fair.set(true);
                self.lazy.set(true);
            }
            Interrupt::RealTimeWakes => {
                self.real_time.set(true);
                self.need.set(true);
            }
            Interrupt::Signal => self.signal.set(true),
            Interrupt::Timer if self.armed.get() => {
                self.armed.set(false);
                if over(self) {
                    self.need.set(true);
                }
            }
            Interrupt::Timer => {}
            Interrupt::Tick if self.fair.get() => {
                if self.lazy.get() {
                    self.need.set(true);
                }
                self.lazy.set(true);
            }
            Interrupt::Tick => {}
            Interrupt::Fork => self.page.set(self.page.get().min(Page::Shared)),
            Interrupt::Reclaimed => self.page.set(self.page.get().min(Page::Away)),
            Interrupt::Unmapped => self.page.set(Page::Gone),
        }
        self.irqs.set(true);
    }

    /// Makes the page as an access needs it. With interrupts on that may take long; with interrupts off it
    /// fails.
    fn reach(&self, page: Page) -> Result<(), Fault> {
        while self.page.get() < page {
            if !self.irqs.get() || self.page.get() == Page::Gone {
                return Err(Fault);
            }
            self.open();
            if self.page.get() != Page::Gone {
                self.page.set(page);
            }
            self.open();
        }
        Ok(())
    }

    /// A more deserving thread runs, and then this one again. A waiting fair thread may not be more
    /// deserving.
    fn schedule(&self) {
        self.say("schedule");
        self.irqs.set(false);
        self.lazy.set(false);
        self.need.set(false);
        let fair = self.fair.get() && self.choose(2) == 0;
        if fair || self.real_time.get() {
            // A timer may expire while another thread runs: it finds no extension.
            if self.armed.get() && self.choose(2) == 0 {
                self.armed.set(false);
            }
            self.fair.set(self.fair.get() && !fair);
            self.real_time.set(false);
            over(self);
        }
        self.grants.set(0);
        self.hidden.set(self.hidden.get() && self.state.get().granted);
        self.irqs.set(true);
    }

    /// The way out of an interrupt. It ends in user mode, or with the thread's end.
    fn way_out(&self) {
        loop {
            self.irqs.set(false);
            if !self.lazy.get() && !self.need.get() && !self.signal.get() {
                if self.to_be_told.get() {
                    if self.page.get() == Page::Gone {
                        self.killed.set(true);
                        return;
                    }
                    self.control.set(Control(0));
                    self.to_be_told.set(false);
                }
                break;
            }
            if self.may_wait() {
                self.say("preempting");
                match preempting(self) {
                    Decision::GoOn => {
                        self.say("granted");
                        self.grants.set(self.grants.get() + 1);
                        self.check(!self.irqs.get(), "interrupts are off");
                        continue;
                    }
                    Decision::Schedule => {}
                    Decision::Kill => {
                        self.check(self.page.get() == Page::Gone, "killed for nothing");
                        self.killed.set(true);
                        return;
                    }
                }
            }
            self.irqs.set(true);
            self.open();
            if self.lazy.get() || self.need.get() {
                self.schedule();
            }
            self.open();
            if self.signal.take() {
                self.say("handler");
            }
            self.open();
        }
        self.irqs.set(true);
        self.in_user_mode();
    }

    fn in_user_mode(&self) {
        self.say("user mode");
        let granted = self.state.get().granted;
        let hidden = self.hidden.get() && granted;
        self.hidden.set(hidden);
        self.check(
            (granted && !hidden) == self.control.get().granted(),
            "user memory says what is",
        );
        self.check(!granted || self.armed.get(), "an extension has its timer");
        self.check(granted == self.watched.get(), "its calls are looked at");
        self.check(
            !self.real_time.get() && !self.need.get(),
            "who cannot wait does not",
        );
        self.check(!self.signal.get() && !self.to_be_told.get(), "nothing is left");
        self.check(
            !self.lazy.get() && (self.grants.get() == 0 || granted),
            "who can wait is not forgotten",
        );
        self.check(self.grants.get() <= 1, "once only");
    }

    /// A system call, perhaps `rseq_slice_yield`. Returns whether that reported an extension that was given
    /// up.
    fn system_call(&self, is_yield: bool) -> bool {
        self.say(if is_yield { "yield" } else { "call" });
        let had = self.state.get().granted;
        self.open();
        if self.watched.get() {
            match call(self, is_yield) {
                Some(Decision::Schedule) => {
                    self.check(!self.control.get().granted(), "the call finds it over");
                    self.schedule();
                }
                Some(_) => {
                    self.check(self.page.get() == Page::Gone, "killed for nothing");
                    self.killed.set(true);
                    return false;
                }
                None => {}
            }
        }
        self.check(!self.state.get().granted, "no call is made with an extension");
        let mut state = self.state.get();
        let yielded = state.take_yielded();
        self.check(!yielded || had && is_yield, "only a yield of something is one");
        self.state.set(state);
        // On the way out of a system call no extension is granted.
        self.open();
        if self.lazy.get() || self.need.get() {
            self.schedule();
        }
        self.way_out_of_call();
        yielded
    }

    fn way_out_of_call(&self) {
        while self.lazy.get() || self.need.get() {
            self.schedule();
        }
        self.signal.set(false);
        if self.to_be_told.take() {
            if self.page.get() == Page::Gone {
                self.killed.set(true);
                return;
            }
            self.control.set(Control(0));
        }
        self.in_user_mode();
    }

    /// An interrupt in user mode.
    fn interrupted(&self, what: Interrupt) {
        self.left.set(self.left.get().saturating_sub(1));
        self.interrupt(what);
        self.way_out();
    }
}

impl Machine for System<'_> {
    fn state(&self) -> State {
        self.state.get()
    }
    fn set_state(&self, state: State) {
        assert!(!self.irqs.get());
        self.state.set(state);
    }
    fn control(&self) -> Result<Control, Fault> {
        self.reach(Page::Shared)?;
        Ok(self.control.get())
    }
    fn set_control(&self, control: Control) -> Result<(), Fault> {
        self.reach(Page::There)?;
        self.control.set(control);
        if self.irqs.get() {
            self.open();
        }
        Ok(())
    }
    fn tell_over(&self) {
        assert!(!self.irqs.get());
        self.to_be_told.set(true);
    }
    fn is_to_be_told(&self) -> bool {
        self.to_be_told.get()
    }
    fn may_wait(&self) -> bool {
        assert!(!self.irqs.get());
        self.lazy.get() && !self.need.get() && !self.signal.get()
    }
    fn puts_off(&self) {
        assert!(!self.irqs.get());
        self.lazy.set(false);
    }
    fn arm(&self) -> bool {
        assert!(!self.irqs.get());
        self.armed.set(true);
        true
    }
    fn watch_calls(&self, on: bool) {
        self.watched.set(on);
    }
    fn irqs_on(&self) {
        assert!(!self.irqs.get());
        self.irqs.set(true);
        self.open();
    }
    fn irqs_off(&self) {
        self.open();
        self.irqs.set(false);
    }
}

/// A run: the thread asks, is interrupted, asks again or not, is interrupted, and ends its extension in one
/// of three ways.
fn run(choices: &RefCell<Chooser>, interrupts: u32) -> bool {
    let s = System::new(choices, interrupts);
    s.control.set(control(1, 0));
    s.page.set([Page::There, Page::Shared, Page::Away][s.choose(3)]);
    s.interrupted(Interrupt::FairWakes);
    if s.killed.get() {
        return false;
    }
    let mut granted = s.state.get().granted;
    match s.choose(3) {
        // It asks again: that is for the next time, if nothing prevents it.
        0 => s.control.set(control(1, u8::from(s.control.get().granted()))),
        // It even hides that it has an extension.
        1 => {
            s.hidden.set(s.state.get().granted);
            s.control.set(control(1, 0));
        }
        _ => {}
    }
    if s.left.get() > 0 {
        let choice = s.choose(INTERRUPTS.len());
        s.interrupted(INTERRUPTS[choice]);
        if s.killed.get() {
            return granted;
        }
    }
    granted |= s.state.get().granted;
    match s.choose(3) {
        0 => {
            let had = s.state.get().granted;
            let yielded = s.system_call(true);
            s.check(!yielded || had, "yields what it has");
        }
        1 => {
            s.system_call(false);
        }
        // Its time ends.
        _ => {
            let had = s.state.get().granted;
            let waits = s.fair.get();
            s.left.set(0);
            s.say("time is up");
            if s.armed.get() {
                s.interrupted(Interrupt::Timer);
            }
            s.check(!s.state.get().granted, "no extension outlives its timer");
            s.check(
                !had || !waits || s.log.borrow().iter().any(|line| line == "schedule"),
                "who waited gets his turn",
            );
        }
    }
    granted
}

#[test]
fn interrupts_at_every_step() {
    let choices = RefCell::default();
    let (mut runs, mut granted) = (0u64, 0u64);
    loop {
        granted += u64::from(run(&choices, 4));
        runs += 1;
        if !choices.borrow_mut().advance() {
            break;
        }
    }
    println!("{runs} runs, {granted} with an extension");
    assert!(runs > 100_000 && granted > 1_000, "{runs}, {granted}");
}

#[test]
fn a_second_request_does_not_extend() {
    let choices = RefCell::default();
    let s = System::new(&choices, 0);
    s.control.set(control(1, 0));
    s.interrupted(Interrupt::FairWakes);
    assert!(s.state.get().granted && s.control.get() == Control::grant());
    s.control.set(control(1, 1));
    s.interrupted(Interrupt::FairWakes);
    assert!(!s.state.get().granted && s.control.get() == Control(0));
    assert!(s.log.borrow().iter().any(|line| line == "schedule"));
}

#[test]
fn not_for_who_cannot_wait() {
    for what in [Interrupt::RealTimeWakes, Interrupt::Signal, Interrupt::Timer] {
        let choices = RefCell::default();
        let s = System::new(&choices, 0);
        s.control.set(control(1, 0));
        s.interrupted(what);
        assert!(
            !s.state.get().granted && s.control.get() == control(1, 0),
            "{what:?}"
        );
    }
}

#[test]
fn only_who_may_ask_gets_one() {
    for bits in 0..8u8 {
        let choices = RefCell::default();
        let s = System::new(&choices, 0);
        let enabled = bits & 1 != 0;
        s.state.set(State {
            enabled,
            ..State::default()
        });
        let said = control(bits >> 1 & 1, bits >> 2 & 1);
        s.control.set(said);
        s.irqs.set(false);
        s.lazy.set(true);
        let grants = enabled && said.request() && !said.granted();
        let expected = if grants {
            Decision::GoOn
        } else {
            Decision::Schedule
        };
        assert_eq!(preempting(&s), expected, "{bits:#b}");
        assert_eq!((s.state.get().granted, s.armed.get()), (grants, grants));
        assert_eq!(s.lazy.get(), !grants);
    }
    assert!(Control::grant().granted() && !Control::grant().request());
}
