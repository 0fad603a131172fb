//! What a call of a traced function costs, for `limen bench --trace`: with `limen.trace_costs` beside
//! `limen.selftest`. A function with some tracers is called in a loop, while others trace another function.

use super::function;
use super::graph;
use super::ops::{self, Registered};
use super::site;
use super::target::{Data, Target};
use crate::arch::sites::Entry;
use crate::arch::time::now_ns;
use crate::selftest::{Test, probe, probe_caller};
use crate::{check, cmdline};
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_trace_sites::filter::Effective;
use limen_trace_sites::{Site, SiteSet};

/// The tests.
pub const TESTS: &[Test] = &[("what tracers cost", costs)];

/// How often the function is called, as in Linux's `samples/ftrace/ftrace-ops.c`.
const CALLS: usize = 100_000;
/// How many tracers the function has, and how many others there are.
const ROWS: [(usize, usize); 14] = [
    (0, 0),
    (0, 1),
    (0, 2),
    (0, 10),
    (0, 100),
    (1, 0),
    (1, 1),
    (1, 2),
    (1, 10),
    (1, 100),
    (2, 0),
    (2, 100),
    (10, 0),
    (100, 0),
];
/// How many bytes of a function are surely its own.
const OWN: usize = 16;

/// Only returns: what is measured is what comes before it.
extern "C" fn nothing(_ip: usize, _parent: usize, _target: &Target, _entry: &Entry) {}

/// The set of one function.
fn only(function: usize) -> Result<Effective, &'static str> {
    let site = site::find(function, function + OWN).ok_or("no site")?;
    let mut set = SiteSet::new();
    set.insert(Site(site as u32)).map_err(|_| "no memory")?;
    Ok(Effective::Only(set))
}

/// Tracers, removed at the end.
struct Tracers(Vec<Registered>);

impl Tracers {
    fn add(&mut self, count: usize, function: usize) -> Result<(), &'static str> {
        for _ in 0..count {
            let target = Arc::new(Target::new(nothing, Data::None));
            self.0
                .push(ops::add(target, only(function)?).map_err(|_| "not added")?);
        }
        Ok(())
    }
}

impl Drop for Tracers {
    fn drop(&mut self) {
        for tracer in self.0.drain(..) {
            // A test: what stays would be seen in the next count.
            let _ = ops::remove(tracer);
        }
    }
}

/// Nanoseconds of all calls, which are instructions under QEMU's `-icount shift=0`.
fn time() -> u64 {
    let start = now_ns();
    for n in 0..CALLS {
        probe(n, 1, 2, 3);
    }
    now_ns() - start
}

fn costs() -> Result<(), &'static str> {
    if !cmdline::flag("limen.trace_costs") {
        return Ok(());
    }
    let (traced, other) = (probe as *const () as usize, probe_caller as *const () as usize);
    for (relevant, irrelevant) in ROWS {
        let mut tracers = Tracers(Vec::new());
        tracers.add(relevant, traced)?;
        tracers.add(irrelevant, other)?;
        let took = time();
        crate::info!("trace cost: {relevant} relevant, {irrelevant} irrelevant: {took} ns, {CALLS} calls");
    }
    let took = function::while_recorded(only(traced)?, time).map_err(|_| "not recorded")?;
    crate::info!("trace cost: recorded: {took} ns, {CALLS} calls");
    let took = graph::while_recorded(only(traced)?, time).map_err(|_| "not traced")?;
    crate::info!("trace cost: graph: {took} ns, {CALLS} calls");
    check!(site::are_intact());
    Ok(())
}
