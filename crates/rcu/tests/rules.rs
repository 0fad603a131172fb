//! The rules that hold on one CPU: which grace period a cookie names, in which order callbacks are ready.

use limen_rcu::{Batch, Callbacks, GracePeriods, Machine, Native, Presence, Seen};
use proptest::prelude::*;
use std::cell::Cell;

/// Three CPUs, the last of which does not run.
#[derive(Default)]
struct Three {
    presence: [Presence<Native>; 2],
    switches: [Cell<usize>; 3],
}

impl Machine for Three {
    type Atomics = Native;
    fn presence(&self, cpu: usize) -> Option<&Presence<Native>> {
        self.presence.get(cpu)
    }
    fn switches(&self, cpu: usize) -> usize {
        self.switches[cpu].get()
    }
}

#[test]
fn every_cpu_that_runs_is_waited_for() {
    let cpus = Three::default();
    let periods = GracePeriods::default();
    let mut seen = [Seen::default(); 3];
    let mut period = periods.begin(&cpus, &mut seen);
    assert!(!period.scan(&cpus));
    assert_eq!(period.waits_for().collect::<Vec<_>>(), [0, 1]);
    cpus.presence[0].passes();
    assert!(!period.scan(&cpus));
    assert_eq!(period.waits_for().collect::<Vec<_>>(), [1]);
    cpus.switches[1].set(1);
    assert!(period.scan(&cpus));
    period.end();

    // One that is away when it begins, or has been since, is not waited for.
    cpus.presence[0].goes();
    let mut period = periods.begin(&cpus, &mut seen);
    assert_eq!(period.waits_for().collect::<Vec<_>>(), [1]);
    cpus.presence[0].comes_back();
    cpus.presence[1].goes();
    cpus.presence[1].comes_back();
    assert!(cpus.presence[0].is_here() && cpus.presence[1].is_here());
    assert!(period.scan(&cpus));
    period.end();
}

#[test]
#[should_panic(expected = "a CPU is left")]
fn ending_too_early_is_noticed() {
    let cpus = Three::default();
    let periods = GracePeriods::default();
    let mut seen = [Seen::default(); 3];
    periods.begin(&cpus, &mut seen).end();
}

/// Makes a grace period in which all CPUs pass at once.
fn make_one(periods: &GracePeriods<Native>) {
    let cpus = Three::default();
    let mut seen = [Seen::default(); 3];
    let mut period = periods.begin(&cpus, &mut seen);
    cpus.presence.iter().for_each(Presence::passes);
    assert!(period.scan(&cpus));
    period.end();
}

#[test]
fn a_cookie_names_the_next_that_begins() {
    for number in [0, usize::MAX - 1, usize::MAX, usize::MAX / 2] {
        let periods = GracePeriods::<Native>::from_number(number);
        let cookie = periods.cookie();
        assert!(!periods.is_wanted() && !periods.is_over(cookie));
        assert!(periods.want(cookie) && periods.is_wanted());
        // Somebody else wants the same one: the driver has been woken.
        assert!(!periods.want(periods.cookie()));
        let cpus = Three::default();
        let mut seen = [Seen::default(); 3];
        let mut period = periods.begin(&cpus, &mut seen);
        let later = periods.cookie();
        assert!(later != cookie && cookie.is_covered_by(later) && !later.is_covered_by(cookie));
        assert!(periods.want(later));
        cpus.presence.iter().for_each(Presence::passes);
        assert!(period.scan(&cpus));
        period.end();
        assert!(periods.is_over(cookie) && !periods.is_over(later) && periods.is_wanted());
        make_one(&periods);
        assert!(periods.is_over(later) && !periods.is_wanted());
        assert!(!periods.want(cookie));
    }
}

#[derive(Debug, Default)]
struct Numbers(Vec<usize>);

impl Batch for Numbers {
    const EMPTY: Self = Self(Vec::new());
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    fn append(&mut self, mut later: Self) {
        self.0.append(&mut later.0);
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Push,
    Advance,
    Begin,
    End,
    Take,
}

fn a_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Push),
        Just(Step::Advance),
        Just(Step::Begin),
        Just(Step::End),
        Just(Step::Take)
    ]
}

proptest! {
    /// No callback is ready before a grace period that began after it was pushed has ended; they are ready in
    /// order; and two grace periods after the last one all are.
    #[test]
    fn callbacks_wait_long_enough(first in any::<usize>(), steps in prop::collection::vec(a_step(), 0..200)) {
        let periods = GracePeriods::<Native>::from_number(first);
        let cpus = Three::default();
        cpus.presence.iter().for_each(Presence::goes);
        let mut room = vec![[Seen::default(); 3]; steps.len() + 2];
        let mut room = room.iter_mut();
        let mut running = None;
        let mut callbacks = Callbacks::<Numbers>::default();
        // For each that was pushed, how many grace periods had begun; how many have ended and were taken.
        let (mut pushed, mut begun, mut ended, mut taken) = (Vec::new(), 0, 0, 0);
        let finish = [Step::End, Step::Advance, Step::Begin, Step::End, Step::Advance, Step::Take];
        for step in steps.into_iter().chain(finish) {
            match step {
                Step::Push => {
                    callbacks.push(Numbers(vec![pushed.len()]));
                    pushed.push(begun);
                }
                Step::Advance => {
                    let wanted = callbacks.advance(|cookie| periods.is_over(cookie), || periods.cookie());
                    if let Some(wanted) = wanted {
                        prop_assert!(!periods.is_over(wanted));
                        periods.want(wanted);
                        prop_assert!(periods.is_wanted());
                    }
                }
                Step::Begin if running.is_none() => {
                    let mut period = periods.begin(&cpus, room.next().unwrap());
                    prop_assert!(period.scan(&cpus));
                    running = Some(period);
                    begun += 1;
                }
                Step::End => {
                    if let Some(period) = running.take() {
                        period.end();
                        ended += 1;
                    }
                }
                Step::Take => {
                    for number in callbacks.take_ready().0 {
                        prop_assert_eq!(number, taken);
                        prop_assert!(pushed[number] < ended, "too early");
                        taken += 1;
                    }
                }
                Step::Begin => {}
            }
        }
        prop_assert_eq!(taken, pushed.len());
        prop_assert!(callbacks.is_empty());
    }
}
