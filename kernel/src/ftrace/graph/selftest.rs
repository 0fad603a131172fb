//! Self-tests of `function_graph` (see `boot::selftest`).

use super::super::function::Functions;
use super::super::names;
use super::super::ops;
use super::super::target::{Data, Target};
use crate::arch::sites::Entry;
use crate::arch::stack;
use crate::check;
use crate::mm::frame::{self, For, Pfn};
use crate::mm::linear::{Reason, set_read_only, set_writable};
use crate::mm::reserve::handling;
use crate::sched::{online, spawn_kthread, yield_now};
use crate::selftest::{Test, probe, probe_caller, probe_deep};
use crate::task::returns::DEPTH;
use crate::trace::{backtrace, symbols};
use crate::tracing::{self, Instance, read, tracers};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use limen_trace_sites::Error;
use limen_trace_sites::command::{self, Command, File};
use limen_trace_sites::filter::{Effective, Which};
use limen_trace_sites::hash::Hash;
use limen_trace_text::entry::{GraphEntry, GraphReturn};

mod tail;

/// The tests.
pub const TESTS: &[Test] = &[
    ("calls and returns are recorded, with their depth", nested),
    ("what a function returned is what its caller gets", results),
    ("calls that are too deep are counted", deep),
    ("two instances trace the same function", twice),
    ("only what is called by the chosen functions is traced", chosen),
    ("a backtrace shows where functions really return to", traced_back),
    ("functions that are jumped to have a caller", tail::jumped_to),
    ("threads end in functions that are traced", ends),
    ("a function returns after its tracer has ended", stopped_inside),
    ("all functions are traced while all CPUs work", all),
];

/// An instance with the tracer, which is removed at the end.
struct Traced(Arc<Instance>);

/// Functions of these names.
fn hash(words: &[&str], file: File) -> Result<Hash, &'static str> {
    let mut hash = Hash::new();
    let names = names::known().map_err(|_| "no memory")?;
    for word in words {
        let Ok(Command::Select(select)) = command::parse(word.as_bytes(), file) else {
            return Err("no command");
        };
        // What the compiler has inlined has no name.
        match hash.apply(&names, &select) {
            Ok(()) | Err(Error::Invalid) => {}
            Err(_) => return Err("no memory"),
        }
    }
    check!(words.is_empty() || !hash.is_empty());
    Ok(hash)
}

impl Traced {
    fn new(name: &[u8], functions: &[&str]) -> Result<Self, &'static str> {
        Self::with("function_graph", name, functions)
    }

    fn with(tracer: &str, name: &[u8], functions: &[&str]) -> Result<Self, &'static str> {
        let made = Self(tracing::make(name).map_err(|_| "no instance")?);
        made.0.resize(1 << 18, None).map_err(|_| "no buffers")?;
        let filters = Functions::of(&made.0).map_err(|_| "no filters")?;
        let set = hash(functions, File::Filter)?;
        filters
            .set_hash(&made.0, Which::Filter, set)
            .map_err(|_| "no filter")?;
        made.begin_as(tracer)?;
        Ok(made)
    }

    fn begin(&self) -> Result<(), &'static str> {
        self.begin_as("function_graph")
    }

    fn begin_as(&self, tracer: &str) -> Result<(), &'static str> {
        let tracer = tracers::named(tracer).ok_or("no tracer")?;
        self.0.set_tracer(tracer).map_err(|_| "it does not start")
    }

    fn end(&self) -> Result<(), &'static str> {
        self.0.set_tracer(tracers::NOP).map_err(|_| "it does not end")
    }

    /// Ends it and takes what it recorded.
    fn take(&self) -> Result<Vec<Record>, &'static str> {
        self.0.turn(false);
        let mut all = Vec::new();
        while read::consume(&self.0.main, None, |entry, lost| {
            let call = entry.graph_entry().map(|entry| Record::Call(entry, lost));
            let record = call.or_else(|| entry.graph_return().map(Record::Return));
            // As many as there are, and only a test.
            handling(|| all.extend(record));
            true
        })
        .is_some()
        {}
        self.0.turn(true);
        Ok(all)
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = tracing::remove(&self.0.name);
    }
}

enum Record {
    /// With how many were lost in front.
    Call(GraphEntry, u64),
    Return(GraphReturn),
}

/// Whether a function is the one at `address`.
fn is(func: u64, address: usize) -> bool {
    (func as usize).wrapping_sub(address) < 64
}

const CALLS: usize = 200;

/// Whether `records` are as many calls of `probe_caller` as [`CALLS`], one after the other.
fn are_calls(records: &[Record]) -> bool {
    let caller = probe_caller as *const () as usize;
    let called = probe as *const () as usize;
    records.len() == 4 * CALLS
        && records.chunks(4).all(|records| {
            let [
                Record::Call(first, 0),
                Record::Call(second, 0),
                Record::Return(third),
                Record::Return(fourth),
            ] = records
            else {
                return false;
            };
            is(first.func, caller)
                && is(second.func, called)
                && (third.func, fourth.func) == (second.func, first.func)
                && [first.depth, second.depth, third.depth, fourth.depth] == [0, 1, 1, 0]
                && fourth.call_time <= third.call_time
                && third.call_time <= third.return_time
                && third.return_time <= fourth.return_time
                && fourth.retval == third.retval + 1
        })
}

fn call() -> bool {
    (0..CALLS).all(|n| probe_caller(n, 2, 3, 4) == n * 7 + 22 + 39 + 68 + 1)
}

fn nested() -> Result<(), &'static str> {
    let traced = Traced::new(b"nested", &["probe", "probe_caller"])?;
    check!(call());
    check!(are_calls(&traced.take()?));
    traced.end()?;
    check!(call());
    check!(traced.take()?.is_empty());
    Ok(())
}

fn results() -> Result<(), &'static str> {
    let traced = Traced::new(b"results", &["probe"])?;
    check!(probe(usize::MAX, 0, 0, 0) == usize::MAX.wrapping_mul(7));
    let records = traced.take()?;
    check!(records.len() == 2);
    check!(matches!(records[1], Record::Return(exit) if exit.retval as usize == usize::MAX.wrapping_mul(7)));
    Ok(())
}

fn deep() -> Result<(), &'static str> {
    const MORE: usize = 10;
    let traced = Traced::new(b"deep", &["probe_deep"])?;
    let before = crate::sched::preempt::current_info()
        .returns
        .get()
        .map_or(0, |returns| returns.overrun());
    check!(probe_deep(DEPTH + MORE - 1) == DEPTH + MORE - 1);
    let records = traced.take()?;
    check!(records.len() == 2 * DEPTH);
    for (n, record) in records.iter().enumerate() {
        let (depth, overrun) = match record {
            Record::Call(entry, 0) if n < DEPTH => (entry.depth, None),
            Record::Return(exit) if n >= DEPTH => (exit.depth, Some(exit.overrun)),
            _ => return Err("calls and returns are mixed"),
        };
        check!(depth as usize == n.min(2 * DEPTH - 1 - n));
        check!(overrun.is_none_or(|overrun| overrun - before == MORE as u32));
    }
    Ok(())
}

fn twice() -> Result<(), &'static str> {
    let first = Traced::new(b"first", &["probe", "probe_caller"])?;
    let second = Traced::new(b"second", &["probe"])?;
    check!(call());
    check!(are_calls(&first.take()?));
    let records = second.take()?;
    check!(records.len() == 2 * CALLS);
    check!(records.iter().all(|record| match record {
        Record::Call(entry, lost) => entry.depth == 0 && *lost == 0,
        Record::Return(exit) => exit.depth == 0,
    }));
    first.end()?;
    check!(call());
    check!(first.take()?.is_empty());
    check!(second.take()?.len() == 2 * CALLS);
    Ok(())
}

/// Takes the lists of functions away at the end.
struct Chosen;

impl Drop for Chosen {
    fn drop(&mut self) {
        let _ = super::set_hash(Which::Filter, Hash::new());
        let _ = super::set_hash(Which::Notrace, Hash::new());
        let _ = super::set_max_depth(0);
    }
}

fn chosen() -> Result<(), &'static str> {
    let traced = Traced::new(b"chosen", &["probe", "probe_caller"])?;
    let _chosen = Chosen;
    let set =
        |which, words: &[&str]| super::set_hash(which, hash(words, File::Graph)?).map_err(|_| "no memory");
    set(Which::Filter, &["probe_caller"])?;
    check!(probe(1, 2, 3, 4) != 0);
    check!(traced.take()?.is_empty());
    check!(call());
    check!(are_calls(&traced.take()?));
    set(Which::Filter, &[])?;
    set(Which::Notrace, &["probe_caller"])?;
    check!(call());
    check!(traced.take()?.is_empty());
    check!(probe(1, 2, 3, 4) != 0);
    check!(traced.take()?.len() == 2);
    set(Which::Notrace, &[])?;
    check!(super::set_max_depth(1).is_ok());
    check!(call());
    check!(traced.take()?.len() == 2 * CALLS);
    check!(super::set_max_depth(0).is_ok());
    // Longer than any call takes.
    traced.0.set_threshold(1_000_000_000);
    check!(call());
    check!(traced.take()?.is_empty());
    Ok(())
}

/// What was seen, in a number of one digit each.
static SEEN: AtomicUsize = AtomicUsize::new(0);

/// Where the function begins in which a return address is.
fn function_of(ip: usize) -> Option<usize> {
    let table = symbols::table()?;
    let (index, _) = table.lookup(ip as u64 - 1)?;
    Some(table.address(index)? as usize)
}

extern "C" fn look(_ip: usize, _parent: usize, _target: &Target, _entry: &Entry) {
    let trampoline = crate::arch::exits::return_address();
    backtrace::walk(stack::here(), |ip| {
        let is = |function: usize| function_of(ip) == Some(function);
        let digit = if is(probe as *const () as usize) {
            1
        } else if is(probe_caller as *const () as usize) {
            2
        } else if is(traced_back as *const () as usize) {
            3
        } else if ip == trampoline {
            9
        } else {
            return;
        };
        SEEN.store(SEEN.load(Relaxed) * 10 + digit, Relaxed);
    });
}

fn traced_back() -> Result<(), &'static str> {
    let set = hash(&["probe"], File::Filter)?;
    let set = Effective::Only(set.sites().try_clone().map_err(|_| "no memory")?);
    let target = Arc::new(Target::new(look, Data::None));
    // Before and behind the tracer, which changes where the functions return to.
    for before in [true, false] {
        SEEN.store(0, Relaxed);
        let set = || match &set {
            Effective::Only(set) => set.try_clone().map(Effective::Only).map_err(|_| "no memory"),
            Effective::All { .. } => Err("all"),
        };
        let add = || ops::add(target.clone(), set()?).map_err(|_| "no memory");
        let early = if before { Some(add()?) } else { None };
        let traced = Traced::new(b"back", &["probe", "probe_caller"])?;
        let registered = match early {
            Some(early) => early,
            None => add()?,
        };
        probe_caller(1, 2, 3, 4);
        ops::remove(registered).map_err(|_| "no memory")?;
        traced.end()?;
        check!(SEEN.load(Relaxed) == 123);
    }
    Ok(())
}

static ENDED: AtomicUsize = AtomicUsize::new(0);

fn end() {
    probe_caller(1, 2, 3, 4);
    ENDED.fetch_add(1, Relaxed);
}

fn ends() -> Result<(), &'static str> {
    const THREADS: usize = 50;
    let traced = Traced::new(b"ends", &["*end_thread*", "schedule", "*switch*", "probe"])?;
    ENDED.store(0, Relaxed);
    for _ in 0..THREADS {
        spawn_kthread("ends", end);
    }
    while ENDED.load(Relaxed) < THREADS {
        yield_now();
    }
    // The last are on their way.
    let _ = crate::time::sleep_until(crate::time::now_ns() + 50_000_000);
    let records = traced.take()?;
    let probe = probe as *const () as usize;
    let calls = records
        .iter()
        .filter(|record| matches!(record, Record::Call(entry, _) if is(entry.func, probe)));
    let returns = records
        .iter()
        .filter(|record| matches!(record, Record::Return(exit) if is(exit.func, probe)));
    check!(calls.count() == THREADS && returns.count() == THREADS);
    Ok(())
}

static AWAKE: AtomicUsize = AtomicUsize::new(0);

fn sleeper() {
    AWAKE.fetch_add(1, Relaxed);
    let _ = crate::time::sleep_until(crate::time::now_ns() + 100_000_000);
    AWAKE.fetch_add(1, Relaxed);
}

fn stopped_inside() -> Result<(), &'static str> {
    for _ in 0..5 {
        let records = stop_inside()?;
        let calls = records.iter().filter(|record| matches!(record, Record::Call(..)));
        // The sleeper came to its sleep only after the first tracer had ended: its CPU stood still.
        if records.len() == 6 && calls.count() == 3 {
            continue;
        }
        check!(records.len() == 4);
        check!(records.iter().all(|record| match record {
            Record::Call(entry, _) => entry.depth == 0,
            Record::Return(exit) => exit.depth == 0,
        }));
        return Ok(());
    }
    Err("a thread is always late")
}

/// A thread sleeps in a function whose tracer ends. Returns what another tracer has recorded since: the calls
/// of this thread, of `probe` and `sleep_until`.
fn stop_inside() -> Result<Vec<Record>, &'static str> {
    let traced = Traced::new(b"inside", &["sleep_until", "*schedule*"])?;
    AWAKE.store(0, Relaxed);
    spawn_kthread("sleeper", sleeper);
    while AWAKE.load(Relaxed) == 0 {
        yield_now();
    }
    let _ = crate::time::sleep_until(crate::time::now_ns() + 20_000_000);
    traced.end()?;
    drop(traced);
    // What another tracer finds there is not its own.
    let other = Traced::new(b"other", &["probe", "sleep_until"])?;
    while AWAKE.load(Relaxed) == 1 {
        yield_now();
    }
    check!(probe(1, 2, 3, 4) != 0);
    let _ = crate::time::sleep_until(crate::time::now_ns() + 10_000_000);
    other.take()
}

static STOP: AtomicBool = AtomicBool::new(false);
static RUNNING: AtomicUsize = AtomicUsize::new(0);
static WRONG: AtomicUsize = AtomicUsize::new(0);

fn work() {
    while !STOP.load(Relaxed) {
        if !call() || probe_deep(100) != 100 {
            WRONG.fetch_add(1, Relaxed);
        }
        yield_now();
    }
    RUNNING.fetch_sub(1, Relaxed);
}

/// Pages that are changed and changed back, for which the blocks that they are in get another size: also
/// those in which tracers have their memory.
struct Changed([Option<Pfn>; 64]);

impl Changed {
    fn new() -> Self {
        Self(core::array::from_fn(|_| frame::alloc_block(0, For::Kernel)))
    }
    fn change(&self, n: usize) -> Result<(), &'static str> {
        let Some(page) = self.0[n % self.0.len()] else {
            return Err("no page");
        };
        let at = frame::virt(page) as usize;
        let changed = set_read_only(at, 1, Reason::Test).and_then(|()| set_writable(at, 1, Reason::Test));
        changed.map_err(|_| "a page cannot be changed")
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        for page in self.0.iter().flatten() {
            frame::free_block(*page, 0);
        }
    }
}

fn all() -> Result<(), &'static str> {
    let traced = Traced::new(b"all", &["*"])?;
    STOP.store(false, Relaxed);
    WRONG.store(0, Relaxed);
    for _ in 0..online().count() {
        RUNNING.fetch_add(1, Relaxed);
        spawn_kthread("work", work);
    }
    let mut result = Ok(());
    let changed = Changed::new();
    for round in 0..5 {
        let until = crate::time::now_ns() + 50_000_000;
        for n in round * 100.. {
            if crate::time::now_ns() >= until {
                break;
            }
            spawn_kthread("ends", end);
            result = result.and_then(|()| changed.change(n));
            let _ = crate::time::sleep_until(crate::time::now_ns() + 1_000_000);
        }
        result = result.and_then(|()| traced.end()).and_then(|()| traced.begin());
    }
    STOP.store(true, Relaxed);
    while RUNNING.load(Relaxed) != 0 {
        yield_now();
    }
    result?;
    check!(WRONG.load(Relaxed) == 0);
    check!(traced.take()?.len() > 100);
    Ok(())
}
