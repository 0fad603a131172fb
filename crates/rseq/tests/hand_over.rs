//! Two processors, two threads with concurrency ids, and a third one without, for which ids are handed over.
//! In every order of switches, interrupts and answers, no two threads are in user mode with the same id, nor
//! in critical sections that they began with the same id.

use limen_rseq::cid::{Cids, Own};
use limen_rseq::event::Mode;
use limen_rseq::{CPU_ID_UNINITIALISED, Event, Ids};
use std::collections::HashSet;

const CPUS: usize = 2;
const THREADS: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Place {
    Waiting,
    Kernel(usize),
    User(usize),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Thread {
    own: Own,
    told: Ids,
    /// The id with which it began the critical section in which it is.
    section: Option<u32>,
    place: Place,
    /// What the kernel sets for its way out: the short way, the long way.
    again: bool,
    raised: bool,
    event: Event,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct System {
    cids: Cids,
    of_cpus: bool,
    threads: [Thread; THREADS],
    /// Which threads the hand-over has looked at, and which processors have answered.
    looked_at: u8,
    answered: u8,
    over: bool,
}

impl System {
    fn new(mode: Mode) -> Self {
        let thread = Thread {
            own: Own::NONE,
            told: Ids {
                cpu: CPU_ID_UNINITIALISED,
                ..Ids::default()
            },
            section: None,
            place: Place::Waiting,
            again: false,
            raised: true,
            event: Event::ALL,
        };
        let mut system = Self {
            cids: Cids::new(),
            of_cpus: false,
            threads: core::array::from_fn(|_| thread.clone()),
            looked_at: 0,
            answered: 0,
            over: false,
        };
        for n in 0..CPUS {
            assert!(system.way_out(n, n, mode, false));
            assert_eq!(system.threads[n].told.cid, n as u32);
        }
        assert!(!system.way_out(CPUS, 0, mode, false) && system.cids.begin_hand_over());
        system.of_cpus = true;
        system
    }

    fn on(&self, cpu: usize) -> Option<usize> {
        self.threads
            .iter()
            .position(|t| matches!(t.place, Place::Kernel(on) | Place::User(on) if on == cpu))
    }

    fn switched_to(&mut self, n: usize, cpu: usize, mode: Mode) {
        let t = &mut self.threads[n];
        let migrated = t.told.cpu != cpu as u32;
        if mode == Mode::Legacy && !migrated {
            t.again = true;
        } else if let Some(event) = Event::resumed(mode, migrated, true) {
            t.event |= event;
            t.raised = true;
        }
        t.place = Place::Kernel(cpu);
    }

    /// The way out. `false`: it ended early, because no id is free or (`fault`) the area cannot be accessed.
    fn way_out(&mut self, n: usize, cpu: usize, mode: Mode, fault: bool) -> bool {
        let Self {
            cids,
            of_cpus,
            threads,
            ..
        } = self;
        let t = &mut threads[n];
        if t.raised || (t.again && t.section.is_some()) {
            if t.again {
                t.event |= Event::ALL;
            }
            t.event |= t.own.at_exit(|| *of_cpus);
            let work = t.event.at_exit(mode, true);
            if work.ids {
                let cid = t.own.known(t.told, cpu as u32, || *of_cpus).or_else(|| {
                    let chosen = cids.choose(cpu, CPUS, CPUS, t.own);
                    t.own = chosen.0;
                    chosen.1
                });
                let Some(cid) = cid.filter(|_| !fault) else {
                    t.raised = true;
                    return false;
                };
                t.told = Ids {
                    cpu: cpu as u32,
                    node: 0,
                    cid,
                };
                t.own = t.own.told();
            }
            if work.section {
                t.section = None;
            }
            t.event = Event::empty();
        }
        (t.again, t.raised) = (false, false);
        t.place = Place::User(cpu);
        true
    }

    /// All that can happen next.
    fn next(&self, mode: Mode) -> Vec<Self> {
        let mut all = Vec::new();
        let mut then = |change: &dyn Fn(&mut Self) -> bool| {
            let mut next = self.clone();
            if change(&mut next) {
                all.push(next);
            }
        };
        for (n, t) in self.threads.iter().enumerate() {
            match t.place {
                Place::Waiting => {
                    for cpu in (0..CPUS).filter(|cpu| self.on(*cpu).is_none()) {
                        then(&|s| {
                            s.switched_to(n, cpu, mode);
                            true
                        });
                    }
                }
                Place::Kernel(cpu) => {
                    then(&|s| s.way_out(n, cpu, mode, false));
                    then(&|s| !s.way_out(n, cpu, mode, true));
                    then(&|s| {
                        s.threads[n].place = Place::Waiting;
                        true
                    });
                }
                Place::User(cpu) => {
                    then(&|s| {
                        s.threads[n].place = Place::Kernel(cpu);
                        true
                    });
                    then(&|s| {
                        let t = &mut s.threads[n];
                        t.section = if t.section.is_none() {
                            Some(t.told.cid)
                        } else {
                            None
                        };
                        true
                    });
                }
            }
            // The hand-over looks at one thread after the other; then all processors answer.
            if self.looked_at & 1 << n == 0 {
                then(&|s| {
                    s.looked_at |= 1 << n;
                    s.threads[n].raised |= s.threads[n].own.is_own();
                    true
                });
            }
        }
        let all_of = |n: usize| (1 << n) - 1;
        if self.looked_at == all_of(THREADS) && !self.over {
            for cpu in (0..CPUS).filter(|cpu| self.answered & 1 << cpu == 0) {
                then(&|s| {
                    s.answered |= 1 << cpu;
                    if let Some(n) = s.on(cpu) {
                        let t = &mut s.threads[n];
                        t.place = Place::Kernel(cpu);
                        if let Some((own, event)) = s.cids.hand_over(cpu, t.own) {
                            t.own = own;
                            t.event |= event;
                            t.raised = true;
                        }
                    }
                    true
                });
            }
            if self.answered == all_of(CPUS) {
                then(&|s| {
                    s.cids.end_hand_over();
                    s.over = true;
                    true
                });
            }
        }
        all
    }

    fn check(&self) {
        let mut running = self.threads.iter().filter(|t| matches!(t.place, Place::User(_)));
        if let (Some(a), Some(b)) = (running.next(), running.next()) {
            assert_ne!(a.told.cid, b.told.cid, "{self:?}");
            let ids = |t: &Thread| t.section.unwrap_or(t.told.cid);
            assert_ne!(ids(a), ids(b), "critical sections: {self:?}");
        }
        for t in &self.threads {
            if let Place::User(cpu) = t.place {
                assert!(
                    t.told.cpu == cpu as u32 && (t.told.cid as usize) < CPUS,
                    "{self:?}"
                );
            }
        }
    }
}

#[test]
fn no_two_threads_run_with_one_id() {
    for mode in [Mode::Legacy, Mode::Optimised] {
        let mut seen = HashSet::new();
        let mut todo = vec![System::new(mode)];
        let mut over = 0;
        while let Some(system) = todo.pop() {
            if seen.contains(&system) {
                continue;
            }
            system.check();
            over += u32::from(system.over);
            todo.extend(system.next(mode));
            seen.insert(system);
        }
        println!(
            "{mode:?}: {} states, {over} of them behind the hand-over",
            seen.len()
        );
        assert!(over > 1000);
    }
}
