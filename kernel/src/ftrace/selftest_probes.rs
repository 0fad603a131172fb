//! Self-tests of actions, lists of threads, the profile and the stack tracer (see `boot::selftest`).

use super::function::Functions;
use super::selftest::beside_calls;
use super::threads::{List, Threads};
use super::{ops, profile, site, stack_tracer};
use crate::arch::smp;
use crate::check;
use crate::mm::STACK_SHIFT;
use crate::selftest::{Test, probe};
use crate::tracing;
use alloc::string::String;
use limen_linux_abi::Errno;
use limen_trace_sites::Site;
use limen_trace_sites::command::{self, Action, Probe};
use limen_trace_sites::profile::Total;

/// The tests.
pub const TESTS: &[Test] = &[
    ("an action is done as often as was asked for", actions),
    (
        "an action is done as often as was asked for, on all CPUs",
        actions_of_all,
    ),
    ("threads that are made are in the lists of who made them", forks),
    ("calls are counted as long as that is on", counted),
    ("sites call nothing as long as that is off", disabled),
    ("the stack tracer keeps the deepest calls", deepest),
];

fn call() -> bool {
    probe(1, 2, 3, 4) == 7 + 2 * 11 + 3 * 13 + 4 * 17
}

fn actions() -> Result<(), &'static str> {
    let instance = tracing::make(b"actions").map_err(|_| "no instance")?;
    let result = (|| {
        let functions = Functions::of(&instance).map_err(|_| "no functions")?;
        let named = || command::Functions::new(b"probe");
        let off = |counted, count| Probe {
            action: Action::Traceoff,
            counted,
            count,
        };
        check!(functions.probes.remove(named(), &off(true, 0)) == Err(Errno::EINVAL));
        check!(functions.probes.add(&instance, named(), &off(true, 2)).is_ok());
        let mut ended = 0;
        for _ in 0..4 {
            instance.turn(true);
            check!(call());
            ended += u32::from(!instance.is_on());
        }
        check!(ended == 2);
        let mut text = String::new();
        let names = super::names::known().map_err(|_| "no names")?;
        check!(functions.probes.list(&names, &mut text).is_ok());
        check!(text.contains("probe:traceoff:count=0\n"));
        // With and without a count are two.
        check!(functions.probes.remove(named(), &off(false, 0)) == Err(Errno::EINVAL));
        check!(functions.probes.remove(named(), &off(true, 0)) == Ok(()));
        let none = command::Functions::new(b"no_such_function");
        check!(functions.probes.add(&instance, none, &off(false, 0)) == Err(Errno::EINVAL));
        // An instance that is removed takes its actions along.
        check!(
            functions
                .probes
                .add(&instance, named(), &off(false, command::UNLIMITED))
                .is_ok()
        );
        Ok(())
    })();
    check!(tracing::remove(b"actions").is_ok());
    result?;
    check!(call() && instance.is_on());
    Ok(())
}

/// All CPUs call the function while it is to switch off what the test switches on. A CPU that finds it on,
/// and is too late to switch it off, must not use up one of the times.
fn actions_of_all() -> Result<(), &'static str> {
    const TIMES: usize = 300;
    let instance = tracing::make(b"actions").map_err(|_| "no instance")?;
    let mut ended = 0;
    let left = || {
        let mut text = String::new();
        let functions = Functions::of(&instance).map_err(|_| "no functions")?;
        let names = super::names::known().map_err(|_| "no names")?;
        check!(functions.probes.list(&names, &mut text).is_ok());
        // There may be other functions of this name: nobody calls those.
        let counts = text
            .lines()
            .filter_map(|line| line.strip_prefix("probe:traceoff:count=")?.parse::<usize>().ok());
        counts.min().ok_or("no count")
    };
    let result = beside_calls(|| {
        let functions = Functions::of(&instance).map_err(|_| "no functions")?;
        let off = Probe {
            action: Action::Traceoff,
            counted: true,
            count: TIMES,
        };
        let named = command::Functions::new(b"probe");
        // It is on from the start; the times are counted from the first that the test switches on.
        instance.turn(false);
        check!(functions.probes.add(&instance, named, &off).is_ok());
        loop {
            instance.turn(true);
            while instance.is_on() {
                if left()? == 0 {
                    return Ok(());
                }
                crate::sched::yield_now();
            }
            ended += 1;
        }
    });
    // A thread that had taken the last time, and was preempted, has ended.
    ended += usize::from(!instance.is_on());
    let left = left();
    check!(tracing::remove(b"actions").is_ok());
    result?;
    check!(ended + left? == TIMES);
    Ok(())
}

fn forks() -> Result<(), &'static str> {
    let threads = Threads::new();
    let told = |expected| move |any: bool| assert_eq!(any, expected);
    check!(threads.traces(12));
    check!(threads.add(List::Only, b"10 20\n", told(true)).is_ok());
    check!(threads.add(List::Not, b"20", told(true)).is_ok());
    threads.forked(10, 11);
    threads.forked(20, 21);
    threads.forked(30, 31);
    check!(
        [10, 11, 12, 20, 21, 31].map(|tid| threads.traces(tid)) == [true, true, false, false, false, false]
    );
    threads.exited(10);
    threads.exited(11);
    check!(!threads.traces(10) && !threads.traces(11));
    check!(threads.clear(List::Only, told(true)).is_ok());
    check!([10, 20, 21, 31].map(|tid| threads.traces(tid)) == [true, false, false, true]);
    check!(threads.add(List::Not, b"x", told(true)) == Err(Errno::EINVAL));
    check!(threads.clear(List::Not, told(false)).is_ok() && threads.traces(20));
    Ok(())
}

fn disabled() -> Result<(), &'static str> {
    check!(ops::are_enabled() && profile::turn(true).is_ok());
    let off = ops::enable(false);
    let unseen = call() && hits()? == 0;
    // Who comes meanwhile sees nothing, and those that stay see all afterwards.
    let came = stack_tracer::turn(true);
    let on = ops::enable(true);
    let seen = call() && hits()? == 1;
    check!(stack_tracer::turn(false).is_ok() && profile::turn(false).is_ok());
    check!(off.is_ok() && came.is_ok() && on.is_ok() && ops::are_enabled());
    check!(unseen && seen && site::are_intact());
    Ok(())
}

/// How often the probe was counted.
fn hits() -> Result<u64, &'static str> {
    sum(|total| total.hits)
}

/// How long its calls took, in nanoseconds.
fn took() -> Result<u64, &'static str> {
    sum(|total| total.time)
}

fn sum(of: impl Fn(Total) -> u64) -> Result<u64, &'static str> {
    let at = probe as *const () as usize;
    let own = site::find(at, at + 16).ok_or("the probe has no site")?;
    let mut sum = 0;
    for cpu in 0..smp::count() {
        let all = profile::sorted(cpu).map_err(|_| "no memory")?;
        let found = all.iter().find(|(site, _)| *site == Site(own as u32));
        sum += found.map_or(0, |(_, total)| of(*total));
    }
    Ok(sum)
}

fn counted() -> Result<(), &'static str> {
    for _ in 0..2 {
        check!(profile::turn(true).is_ok() && profile::is_on());
        let all = (0..100).all(|_| call());
        check!(profile::turn(false).is_ok() && !profile::is_on());
        check!(all && call());
        check!(hits()? == 100 && took()? > 0);
    }
    Ok(())
}

fn deepest() -> Result<(), &'static str> {
    stack_tracer::set_max_size(0);
    check!(stack_tracer::turn(true).is_ok());
    let right = call();
    check!(stack_tracer::turn(false).is_ok() && !stack_tracer::is_on());
    check!(right);
    let calls = stack_tracer::calls().map_err(|_| "no memory")?;
    let most = stack_tracer::max_size();
    check!(calls.len() > 1 && most != 0 && most < 1 << STACK_SHIFT);
    check!(calls.first().is_some_and(|call| call.1 == most));
    check!(calls.is_sorted_by(|one, next| one.1 >= next.1));
    Ok(())
}
