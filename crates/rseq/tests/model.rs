//! A model of the way out to user mode: a thread that is in its critical section or not, an area of either
//! kind, and all that can happen to it between entry and exit, in every order, with a fault at each access to
//! user memory. What user mode finds must be right in each case.

use limen_rseq::{Area, Done, Event, Fatal, Fault, Ids, Memory, Mode, Said, Section, Seen, Stop, update};

const END: usize = 1 << 40;
const SIG: u32 = 0x1234_5678;
const AREA: usize = 0x4000;
const SECTION: usize = 0x5000;
const START: usize = 0x1000;
const LENGTH: usize = 0x20;
const ABORT: usize = 0x2000;

const LOW: u64 = u32::MAX as u64;

/// User memory: the area, a section, a signature. The access with number `fault_at` (from 0) faults.
#[derive(Clone, Debug, PartialEq, Eq)]
struct User {
    ids: [u64; 2],
    pointer: u64,
    section: Section,
    signature: u32,
    fault_at: Option<u32>,
    accesses: u32,
    windows: u32,
    stores: u32,
}

impl User {
    fn new(ids: Ids, pointer: usize) -> Self {
        Self {
            ids: ids.words(),
            pointer: pointer as u64,
            section: Section {
                version: 0,
                flags: 0,
                start: START as u64,
                length: LENGTH as u64,
                abort: ABORT as u64,
            },
            signature: SIG,
            fault_at: None,
            accesses: 0,
            windows: 0,
            stores: 0,
        }
    }
    fn access(&mut self) -> Result<(), Fault> {
        let n = self.accesses;
        self.accesses += 1;
        if self.fault_at == Some(n) {
            Err(Fault)
        } else {
            Ok(())
        }
    }
}

impl Memory for User {
    fn exchange(&mut self, at: usize, ids: [u64; 2]) -> Result<Seen, Fault> {
        assert_eq!(at, AREA);
        self.windows += 1;
        self.access()?;
        let seen = Seen {
            ids: self.ids,
            section: self.pointer,
        };
        if self.ids != ids {
            // If only half-words are stored at a time, one may fault when others have been stored.
            for (n, half) in [(0, LOW), (0, !LOW), (1, LOW), (1, !LOW)] {
                self.access()?;
                self.ids[n] = self.ids[n] & !half | ids[n] & half;
            }
            self.stores += 1;
        }
        Ok(seen)
    }
    fn section_pointer(&mut self, at: usize) -> Result<u64, Fault> {
        assert_eq!(at, AREA);
        self.windows += 1;
        self.access()?;
        Ok(self.pointer)
    }
    fn clear_section_pointer(&mut self, at: usize) -> Result<(), Fault> {
        assert_eq!(at, AREA);
        assert_ne!(self.pointer, 0, "an already clear field is never cleared");
        self.access()?;
        self.pointer = 0;
        Ok(())
    }
    fn section(&mut self, at: usize) -> Result<Section, Fault> {
        self.access()?;
        if at == SECTION {
            Ok(self.section)
        } else {
            Err(Fault)
        }
    }
    fn word(&mut self, at: usize) -> Result<u32, Fault> {
        self.access()?;
        assert_eq!(at, ABORT - 4);
        Ok(self.signature)
    }
    fn strict(&self) -> bool {
        true
    }
}

/// What can happen to a thread in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happening {
    /// Another thread ran, and this one continues on the same CPU.
    Preempted,
    /// Another thread ran, and this one continues on the other CPU.
    Migrated,
    /// `membarrier`'s interrupt.
    Barrier,
    /// A handler is entered: what it finds is checked, and it returns.
    Signal,
    /// A reschedule from another CPU that changes nothing.
    Reschedule,
}

const HAPPENINGS: [Happening; 5] = [
    Happening::Preempted,
    Happening::Migrated,
    Happening::Barrier,
    Happening::Signal,
    Happening::Reschedule,
];

/// The kernel's part as the room `rseq` does it, without all that is not a decision.
#[derive(Clone)]
struct Thread {
    area: Area,
    event: Event,
    raised: bool,
    told: Ids,
    tried: Ids,
    cpu: u32,
    user: User,
    ip: usize,
    user_irq: bool,
    checks: u32,
}

fn ids(cpu: u32) -> Ids {
    Ids {
        cpu,
        node: 0,
        cid: cpu,
    }
}

impl Thread {
    fn new(mode: Mode, in_section: bool, user_irq: bool) -> Self {
        let len = if mode == Mode::Legacy { 32 } else { 33 };
        Self {
            area: Area {
                at: AREA,
                len,
                signature: SIG,
            },
            event: Event::empty(),
            raised: false,
            told: ids(0),
            tried: ids(0),
            cpu: 0,
            user: User::new(ids(0), SECTION),
            ip: if in_section { START + 8 } else { START + LENGTH },
            user_irq,
            checks: 0,
        }
    }

    fn run(&mut self, work: limen_rseq::Work, last: [Ids; 2], done: &mut Done) -> Result<(), Stop> {
        let last = (self.area.mode() == Mode::Optimised).then_some(last);
        update::run(
            &mut self.user,
            &self.area,
            work,
            (ids(self.cpu), last),
            (self.ip, END),
            done,
        )?;
        self.checks += u32::from(done.checked);
        if let Some(to) = done.abort {
            self.ip = to;
        }
        Ok(())
    }

    fn happens(&mut self, what: Happening) {
        let mode = self.area.mode();
        match what {
            Happening::Preempted | Happening::Migrated => {
                if what == Happening::Migrated {
                    self.cpu ^= 1;
                }
                let moved = self.cpu != self.told.cpu;
                if let Some(event) = Event::resumed(mode, moved, self.user_irq) {
                    self.event |= event;
                    self.raised = true;
                }
            }
            Happening::Barrier => {
                self.event |= Event::barrier(mode);
                self.raised = true;
            }
            Happening::Signal => {
                let work = Event::at_signal(mode, self.user_irq);
                if work.any() {
                    self.user.fault_at = None;
                    self.run(work, [self.told; 2], &mut Done::default())
                        .expect("no fault");
                    if work.ids {
                        self.told = ids(self.cpu);
                        assert_eq!(
                            self.user.ids,
                            ids(self.cpu).words(),
                            "legacy handlers see fresh ids"
                        );
                    }
                }
                if self.user_irq {
                    assert!(!self.inside(), "a handler never interrupts a section");
                }
            }
            Happening::Reschedule => {}
        }
    }

    fn inside(&self) -> bool {
        self.user.pointer != 0 && (START..START + LENGTH).contains(&self.ip)
    }

    /// Once, last, with interrupts off. Returns whether it was completed.
    fn exit(&mut self) -> bool {
        if !self.raised {
            assert!(self.event.is_empty());
            return true;
        }
        self.raised = false;
        let work = self.event.at_exit(self.area.mode(), self.user_irq);
        if work.any() {
            let mut done = Done::default();
            let result = self.run(work, [self.told; 2], &mut done);
            match done.said {
                Said::New => self.told = ids(self.cpu),
                Said::Either => self.tried = ids(self.cpu),
                Said::Before => {}
            }
            if let Err(why) = result {
                self.event = self.event.failed(self.user_irq, why, &done);
                return false;
            }
        }
        self.event = Event::empty();
        true
    }

    /// The same, where sleeping is allowed.
    fn slowly(&mut self) -> Result<(), Stop> {
        self.user.fault_at = None;
        let event = std::mem::take(&mut self.event);
        if event.contains(Event::BROKEN) {
            return Err(Stop::Fatal(Fatal::ReadOnly));
        }
        let work = event.at_exit(self.area.mode(), false);
        let before = self.told;
        if work.ids {
            self.told = ids(self.cpu);
        }
        let tried = if event.contains(Event::TRIED) {
            self.tried
        } else {
            before
        };
        self.run(work, [before, tried], &mut Done::default())
    }
}

/// All sequences of up to four happenings.
fn sequences() -> Vec<Vec<Happening>> {
    let mut all = vec![vec![]];
    let mut last = all.clone();
    for _ in 0..4 {
        last = last
            .iter()
            .flat_map(|s| HAPPENINGS.iter().map(move |h| [s.as_slice(), &[*h]].concat()))
            .collect();
        all.extend(last.iter().cloned());
    }
    all
}

#[test]
fn every_order_of_everything_with_a_fault_at_every_access() {
    let mut cases = 0;
    for mode in [Mode::Legacy, Mode::Optimised] {
        for in_section in [false, true] {
            for user_irq in [false, true] {
                for sequence in sequences() {
                    // Also after the failed way out and before the slow path, and between that and the last
                    // way out.
                    for first in 0..=sequence.len() {
                        for second in first..=sequence.len() {
                            for fault_at in [None].into_iter().chain((0..8).map(Some)) {
                                // Without a failed way out nothing is between that and the slow path.
                                if fault_at.is_some() || second == first {
                                    let splits = [first, second];
                                    one(mode, in_section, user_irq, &sequence, splits, fault_at);
                                    cases += 1;
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(cases > 400_000, "{cases}");
}

fn one(
    mode: Mode,
    in_section: bool,
    user_irq: bool,
    sequence: &[Happening],
    [first, second]: [usize; 2],
    fault_at: Option<u32>,
) {
    let what = format!(
        "{mode:?} in {in_section} irq {user_irq} {sequence:?} at {first}, {second} fault {fault_at:?}"
    );
    let mut t = Thread::new(mode, in_section, user_irq);
    for h in &sequence[..first] {
        t.happens(*h);
    }
    let mut second = second;
    let before = t.user.accesses;
    t.user.windows = 0;
    t.user.fault_at = fault_at.map(|n| n + before);
    let through = t.exit();
    assert!(t.user.windows <= 1, "{what}");
    if !through {
        assert!(fault_at.is_some(), "{what}");
        assert!(t.event.contains(Event::SLOW), "{what}");
        // Interrupts are on until the slow path begins.
        for h in &sequence[first..second] {
            t.happens(*h);
        }
        t.slowly().expect(&what);
    } else {
        // The way out did not fail: there is no slow path.
        second = first;
    }
    // The loop runs again: more may happen before the last check.
    for h in &sequence[second..] {
        t.happens(*h);
    }
    t.user.fault_at = None;
    while !t.exit() {
        t.slowly().expect(&what);
    }
    // In user mode.
    assert!(t.event.is_empty() && !t.raised, "{what}");
    assert_eq!(t.user.ids, ids(t.cpu).words(), "{what}");
    assert_eq!(t.told, ids(t.cpu), "{what}");
    let disturbed = sequence.iter().any(|h| *h != Happening::Reschedule);
    let looked_at = match mode {
        Mode::Legacy => disturbed,
        Mode::Optimised => disturbed && user_irq,
    };
    if looked_at {
        assert!(!t.inside(), "{what}");
        assert_eq!(t.ip == ABORT, in_section, "{what}");
        assert_eq!(t.user.pointer, 0, "{what}");
    } else {
        assert_eq!(t.inside(), in_section, "{what}");
        assert_eq!(t.checks, 0, "{what}");
    }
    if !disturbed {
        assert_eq!((t.user.accesses, t.user.stores), (0, 0), "{what}");
    }
}

#[test]
fn every_transition_of_the_record() {
    for bits in 0..=Event::all().bits() {
        let event = Event::from_bits_retain(bits);
        for user_irq in [false, true] {
            let irq = user_irq || event.contains(Event::USER_IRQ);
            let legacy = event.at_exit(Mode::Legacy, user_irq);
            let optimised = event.at_exit(Mode::Optimised, user_irq);
            assert_eq!(legacy.ids, event.contains(Event::IDS));
            assert_eq!(optimised.ids, event.contains(Event::IDS));
            assert_eq!(legacy.section, event.contains(Event::SWITCHED));
            assert_eq!(optimised.section, event.contains(Event::SWITCHED) && irq);
            let failed = event.failed(user_irq, Stop::Fault, &Done::default());
            assert!(failed.contains(event | Event::SLOW));
            for mode in [Mode::Legacy, Mode::Optimised] {
                // What has failed is done completely the next time.
                assert_eq!(failed.at_exit(mode, false), event.at_exit(mode, user_irq));
            }
        }
    }
    for migrated in [false, true] {
        for user_irq in [false, true] {
            assert!(Event::resumed(Mode::Legacy, migrated, user_irq).is_some());
            let optimised = Event::resumed(Mode::Optimised, migrated, user_irq);
            assert_eq!(optimised.is_some(), migrated || user_irq);
            assert_eq!(optimised.is_some_and(|e| e.contains(Event::IDS)), migrated);
        }
    }
}

#[test]
fn an_optimised_area_is_read_only() {
    for slow in [false, true] {
        let mut t = Thread::new(Mode::Optimised, false, false);
        t.user.ids[0] = u64::MAX;
        t.happens(Happening::Migrated);
        // With a fault behind the store as well: then the wrong value is gone already.
        if slow {
            t.user.fault_at = Some(3);
        }
        assert!(!t.exit());
        if !slow {
            assert_eq!(t.slowly(), Err(Stop::Fatal(Fatal::ReadOnly)));
        }
    }
    let mut t = Thread::new(Mode::Legacy, false, false);
    t.user.ids[0] = u64::MAX;
    t.happens(Happening::Preempted);
    assert!(t.exit());
    assert_eq!(t.user.ids, ids(0).words());
}

#[test]
fn a_wrong_signature_or_pointer_kills() {
    let cases: [(fn(&mut User), Fatal); 4] = [
        (|u| u.signature = 1, Fatal::Signature(1)),
        (|u| u.pointer = u64::MAX, Fatal::Pointer),
        (|u| u.pointer = END as u64 - 31, Fatal::Pointer),
        (|u| u.section.version = 2, Fatal::Version),
    ];
    for (spoil, why) in cases {
        for mode in [Mode::Legacy, Mode::Optimised] {
            let mut t = Thread::new(mode, true, true);
            spoil(&mut t.user);
            t.happens(Happening::Preempted);
            assert!(!t.exit());
            assert_eq!(t.slowly(), Err(Stop::Fatal(why)));
        }
    }
}
