//! Self-tests of the sites (see `boot::selftest`): targets come and go while CPUs run the functions.

use super::site::{self, Change};
use super::target::{Data, Target};
use super::texts::{self, Function, Text};
use crate::arch::sites::Entry;
use crate::arch::{smp, stack};
use crate::check;
use crate::mm::reserve::handling;
use crate::sched::{online, spawn_kthread};
use crate::selftest::{Test, probe, probe_caller};
use crate::trace::{backtrace, symbols};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use limen_trace_sites::sets::Kind;

/// The tests.
pub const TESTS: &[Test] = &[
    ("sites are as the build made them", intact),
    ("a target is called as often as its function", counts),
    ("several targets are called in their order", several),
    ("a target may send its function elsewhere", elsewhere),
    ("targets that ask for all registers get them", registers),
    (
        "a backtrace from a target has the function and its caller",
        traced_back,
    ),
    ("targets change while all CPUs run their functions", while_running),
    ("all functions are traced at once", all),
    ("sites of modules come and go", of_modules),
];

/// How many bytes of a function are surely its own.
const OWN: usize = 16;

fn intact() -> Result<(), &'static str> {
    check!(site::count() > 1000);
    check!(site::are_intact());
    check!(site::address(site::count()).is_none());
    Ok(())
}

/// The site of [`probe`].
fn probe_site() -> Result<usize, &'static str> {
    let at = probe as *const () as usize;
    site::find(at, at + OWN).ok_or("the probe has no site")
}

fn set(target: Option<Arc<Target>>) -> Result<(), &'static str> {
    let change: Change = (probe_site()?, target);
    site::change(&[change]).map_err(|_| "not changed")
}

extern "C" fn count(_ip: usize, _parent: usize, target: &Target, _entry: &Entry) {
    if let Data::Count(n) = &target.data {
        n.fetch_add(1, Relaxed);
    }
}

fn counter() -> Arc<Target> {
    Arc::new(Target::new(count, Data::Count(AtomicU64::new(0))))
}

fn counted(target: &Target) -> u64 {
    match &target.data {
        Data::Count(n) => n.load(Relaxed),
        _ => 0,
    }
}

/// Calls the probe `n` times. Whether each had its arguments.
fn calls(n: usize) -> bool {
    (0..n).all(|n| probe(n, 2, 3, 4) == n.wrapping_mul(7) + 2 * 11 + 3 * 13 + 4 * 17)
}

fn counts() -> Result<(), &'static str> {
    let target = counter();
    check!(calls(10));
    set(Some(target.clone()))?;
    check!(counted(&target) == 0);
    check!(calls(1000));
    check!(counted(&target) == 1000);
    set(None)?;
    check!(calls(10));
    check!(counted(&target) == 1000);
    check!(Arc::strong_count(&target) == 1);
    check!(site::are_intact());
    Ok(())
}

/// What the targets of a test noted, in a number of one digit each.
static NOTED: AtomicUsize = AtomicUsize::new(0);

fn note(digit: usize) {
    NOTED.store(NOTED.load(Relaxed) * 10 + digit, Relaxed);
}

extern "C" fn first(_ip: usize, _parent: usize, _target: &Target, _entry: &Entry) {
    note(1);
}

extern "C" fn second(ip: usize, parent: usize, _target: &Target, entry: &Entry) {
    let near = |at: usize, function: usize| at.wrapping_sub(function) < 256;
    let is_probe = near(ip, probe as *const () as usize);
    let by_caller = near(parent, probe_caller as *const () as usize);
    let args = [0, 1, 2, 3].map(|n| entry.arg(n));
    let own = args == [5, 6, 7, 8].map(Some);
    note(2 + usize::from(is_probe && by_caller && own));
}

fn several() -> Result<(), &'static str> {
    let all = [second, second, first, second].map(|call| Arc::new(Target::new(call, Data::None)));
    NOTED.store(0, Relaxed);
    set(Some(Arc::new(Target::many(all.into()).map_err(|_| "no memory")?)))?;
    let result = probe_caller(5, 6, 7, 8);
    set(None)?;
    check!(result == 5 * 7 + 6 * 11 + 7 * 13 + 8 * 17 + 1);
    check!(NOTED.load(Relaxed) == 3313);
    Ok(())
}

#[inline(never)]
fn other(_a: usize, b: usize, _c: usize, _d: usize) -> usize {
    core::hint::black_box(b) + 1_000_000
}

extern "C" fn send(_ip: usize, _parent: usize, _target: &Target, entry: &Entry) {
    entry.set_ip(other as *const () as usize);
}

fn elsewhere() -> Result<(), &'static str> {
    set(Some(Arc::new(Target::new(send, Data::None))))?;
    let result = probe_caller(1, 2, 3, 4);
    set(None)?;
    check!(result == 1_000_003);
    check!(calls(3));
    Ok(())
}

extern "C" fn look(_ip: usize, _parent: usize, _target: &Target, _entry: &Entry) {
    look_back();
    // A frame of its own, in which the backtrace begins.
    core::hint::black_box(());
}

#[inline(never)]
fn look_back() {
    backtrace::walk(stack::here(), |ip| {
        let found = symbols::table().and_then(|table| {
            let (index, _) = table.lookup(ip as u64 - 1)?;
            table.address(index)
        });
        let is = |function: *const ()| found == Some(function as usize as u64);
        if is(probe as *const ()) {
            note(4);
        } else if is(probe_caller as *const ()) {
            note(5);
        } else if is(traced_back as *const ()) {
            note(6);
        }
    });
}

fn traced_back() -> Result<(), &'static str> {
    NOTED.store(0, Relaxed);
    set(Some(Arc::new(Target::new(look, Data::None))))?;
    probe_caller(1, 2, 3, 4);
    set(None)?;
    check!(NOTED.load(Relaxed) == 456);
    Ok(())
}

/// Whether all registers are there: arguments, the stack pointer, and more than are saved for others.
extern "C" fn look_at_registers(_ip: usize, _parent: usize, target: &Target, entry: &Entry) {
    let all = |n: &usize| site::register(target, entry, *n);
    let found = |value: usize| (0..=65).any(|n| all(&n) == Some(value));
    let more = (0..=65).filter_map(|n| all(&n)).count() > (0..=65).filter_map(|n| entry.register(n)).count();
    let are_args = [5, 6, 7, 8].iter().all(|arg| found(*arg));
    note(1 + usize::from(more) + usize::from(are_args && found(entry.sp())));
}

fn registers() -> Result<(), &'static str> {
    let kind = Kind {
        regs: true,
        ip_modify: false,
        direct: None,
    };
    let target = Arc::new(Target::of(kind, look_at_registers, Data::None));
    // It is called by what saves them, and by nothing else.
    check!(set(Some(target.clone())) == Err("not changed"));
    let with = |others: &[Arc<Target>]| {
        let mut list = Vec::from(others);
        list.push(target.clone());
        let all = Arc::new(Target::many(list).map_err(|_| "no memory")?);
        NOTED.store(0, Relaxed);
        set(Some(all))?;
        let result = probe_caller(5, 6, 7, 8);
        let noted = NOTED.load(Relaxed);
        NOTED.store(0, Relaxed);
        let are_right = calls(3);
        set(None)?;
        check!(are_right && result == 5 * 7 + 6 * 11 + 7 * 13 + 8 * 17 + 1);
        Ok(noted)
    };
    check!(with(&[])? == 3);
    let elsewhere = Target::of(
        Kind {
            ip_modify: true,
            ..kind
        },
        send,
        Data::None,
    );
    let all = Target::many(Vec::from([Arc::new(elsewhere)])).map_err(|_| "no memory")?;
    set(Some(Arc::new(all)))?;
    let result = probe_caller(1, 2, 3, 4);
    set(None)?;
    check!(result == 1_000_003);
    check!(with(&[Arc::new(Target::new(first, Data::None))])? == 13);
    Ok(())
}

static STOP: AtomicBool = AtomicBool::new(false);
static RUNNING: AtomicUsize = AtomicUsize::new(0);
static WRONG: AtomicUsize = AtomicUsize::new(0);

fn run() {
    while !STOP.load(Relaxed) {
        if !calls(100) {
            WRONG.fetch_add(1, Relaxed);
        }
        crate::sched::yield_now();
    }
    RUNNING.fetch_sub(1, Relaxed);
}

/// Runs `f` while as many threads as there are CPUs call the probe.
pub(super) fn beside_calls(f: impl FnOnce() -> Result<(), &'static str>) -> Result<(), &'static str> {
    STOP.store(false, Relaxed);
    WRONG.store(0, Relaxed);
    for _ in 0..online().count() {
        RUNNING.fetch_add(1, Relaxed);
        spawn_kthread("calls", run);
    }
    let result = f();
    STOP.store(true, Relaxed);
    while RUNNING.load(Relaxed) != 0 {
        crate::sched::yield_now();
    }
    check!(WRONG.load(Relaxed) == 0);
    result
}

fn while_running() -> Result<(), &'static str> {
    let rounds = crate::cmdline::value("limen.trace_rounds").and_then(|n| n.parse().ok());
    beside_calls(|| {
        for n in 0..rounds.unwrap_or(50) {
            let targets: Vec<_> = (0..n % 4).map(|_| counter()).collect();
            set(match &*targets {
                [] => None,
                [one] => Some(one.clone()),
                more => Some(Arc::new(Target::many(more.into()).map_err(|_| "no memory")?)),
            })?;
            let before: Vec<u64> = targets.iter().map(|target| counted(target)).collect();
            check!(calls(20));
            for (target, before) in targets.iter().zip(before) {
                check!(counted(target) >= before + 20);
            }
        }
        set(None)
    })?;
    check!(site::are_intact());
    Ok(())
}

/// Each CPU's, so that counting does not slow all of them.
static CALLS: [AtomicU64; crate::sync::MAX_CPUS] = [const { AtomicU64::new(0) }; crate::sync::MAX_CPUS];

extern "C" fn count_here(_ip: usize, _parent: usize, _target: &Target, _entry: &Entry) {
    CALLS[smp::cpu_id()].fetch_add(1, Relaxed);
}

fn all() -> Result<(), &'static str> {
    let target = Arc::new(Target::new(count_here, Data::None));
    let every = |target: Option<&Arc<Target>>| -> Vec<Change> {
        // As large as there are functions, and only a test.
        handling(|| (0..site::count()).map(|n| (n, target.cloned())).collect())
    };
    beside_calls(|| {
        for _ in 0..3 {
            site::change(&every(Some(&target))).map_err(|_| "no memory")?;
            check!(calls(100));
            let _ = crate::time::sleep_until(crate::time::now_ns() + 50_000_000);
            site::change(&every(None)).map_err(|_| "no memory")?;
        }
        Ok(())
    })?;
    let sum: u64 = CALLS.iter().map(|n| n.load(Relaxed)).sum();
    check!(sum > 300);
    check!(Arc::strong_count(&target) == 1);
    check!(site::are_intact());
    Ok(())
}

/// Functions of a module that are never executed nor traced: `count` of them from `at` on, 64 bytes each. At
/// boot there are no modules, and nobody else changes the list.
fn pretend(at: usize, count: usize, least: usize) -> Result<Arc<Text>, &'static str> {
    let functions = (0..count).map(|n| Function {
        site: at + 64 * n,
        to: 0,
        name: String::from("f"),
    });
    texts::add(String::from("m"), functions.collect(), least).map_err(|_| "no memory")
}

fn of_modules() -> Result<(), &'static str> {
    let [a, b, c] = [3, 2, 1].map(|n| 0usize.wrapping_sub(n << 12));
    let end = site::bound();
    let (one, two) = (pretend(b, 3, 0)?, pretend(a, 2, 0)?);
    check!(one.range() == (end..end + 3) && two.range() == (end + 3..end + 5));
    check!(site::find(b + 1, b + 65) == Some(end + 1) && site::find(b + 1, b + 64).is_none());
    check!(site::address(end + 4) == Some(a + 64) && site::address(end + 5).is_none());
    texts::remove(&one);
    check!(site::find(b, b + 64).is_none() && site::address(end).is_none());
    check!(site::find(a, a + 1) == Some(end + 3));
    // Numbers are used again, if they may and there are enough.
    let (three, four) = (pretend(c, 4, 0)?, pretend(b, 2, end + 1)?);
    check!(three.range() == (end + 5..end + 9) && four.range() == (end + 1..end + 3));
    check!(site::address(end + 1) == Some(b) && site::find(c, c + 1) == Some(end + 5));
    for text in [two, three, four] {
        texts::remove(&text);
    }
    check!(site::bound() == end);
    Ok(())
}
