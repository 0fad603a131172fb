//! Tracers: what can be written to `current_tracer`. Each registers itself at boot.

use super::Instance;
use crate::sync::SpinLock;
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// How a tracer's records are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// A line for each.
    Lines,
    /// As `function_graph`: calls and their durations, nested.
    Graph,
}

/// A tracer. All its functions may sleep; [`Self::start`], [`Self::stop`] and [`Self::set_option`] are called
/// with the instance locked, so one at a time for each.
pub trait Tracer: Sync {
    /// Its name.
    fn name(&self) -> &'static str;
    /// How its records are shown.
    fn look(&self) -> Look {
        Look::Lines
    }
    /// Whether instances other than the top one can have it.
    fn in_instances(&self) -> bool {
        true
    }
    /// Begins to record into `instance`.
    fn start(&self, instance: &Arc<Instance>) -> Result<(), Errno>;
    /// Ends that. When it returns nothing is recorded any more.
    fn stop(&self, instance: &Arc<Instance>);
    /// The names of its own options.
    fn options(&self) -> &'static [&'static str] {
        &[]
    }
    /// Whether its option with this number is on in an instance.
    fn option(&self, instance: &Instance, number: usize) -> bool {
        let _ = (instance, number);
        false
    }
    /// Turns an option on or off.
    fn set_option(&self, instance: &Arc<Instance>, number: usize, on: bool) -> Result<(), Errno> {
        let _ = (instance, number, on);
        Err(Errno::EINVAL)
    }
}

/// The tracer that traces nothing.
struct Nop;

impl Tracer for Nop {
    fn name(&self) -> &'static str {
        "nop"
    }
    fn start(&self, _: &Arc<Instance>) -> Result<(), Errno> {
        Ok(())
    }
    fn stop(&self, _: &Arc<Instance>) {}
}

/// The tracer that an instance has at first.
pub static NOP: &dyn Tracer = &Nop;

static ALL: SpinLock<Vec<&'static dyn Tracer>> = SpinLock::new(Vec::new());

/// Adds a tracer. Boot.
pub fn register(tracer: &'static dyn Tracer) {
    ALL.lock().push(tracer);
}

/// All tracers, the last registered first and `nop` last.
pub fn registered() -> Vec<&'static dyn Tracer> {
    let mut all = ALL.lock().clone();
    all.reverse();
    all.push(NOP);
    all
}

/// The tracer with this name.
pub fn named(name: &str) -> Option<&'static dyn Tracer> {
    registered().into_iter().find(|tracer| tracer.name() == name)
}
