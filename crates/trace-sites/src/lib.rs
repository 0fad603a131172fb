//! Which tracer traces which function. The kernel owns the patching of code, the memory that sites' slots
//! point to, and RCU; here is decided WHAT each slot must hold, and in which order a site is changed.
//!
//! # Parts
//!
//! * [`glob`] (Linux's patterns), [`tokens`] (text that comes in several writes) and [`command`] (one word of
//!   `set_ftrace_filter`) say what a person asks for.
//! * [`hash`] is what a file of filters holds, [`filter`] the two of a tracer and what they come to.
//! * [`sets`] knows all registered tracers ("ops") and answers who traces a site. Each of its operations is a
//!   [`Plan`](sets::Plan): the list of the sites that change, with what their slots hold before and after.
//! * [`pids`], [`profile`] and [`report`]: lists of processes, the function profile, the files' lines.
//!
//! # Sites
//!
//! A [`Site`] is a dense index, given by the kernel to each patchable function. Those of a module are given
//! back when it is unloaded, and used again. Sets of sites are bitsets, so they are as large as there are
//! functions and no larger.
//!
//! # How a site changes
//!
//! A site has two words: the *slot*, which holds the ops (none: a shared do-nothing, one: its ops, several: a
//! vector of just those, in the order in which they were registered), and the *branch*, off or to one of the
//! trampolines. They cannot be written at once, and CPUs run through them meanwhile, so that each
//! [`Change`](sets::Change) tells [in which order](sets::Change::steps): what a CPU may find after a first
//! step alone must be valid. Slots are written before branches that will read them, branches are taken away
//! before slots are emptied, and a trampoline that saves all registers is there before ops that need them.
//!
//! The kernel carries out a plan in this order:
//! 1. It makes the vectors that the changes ask for. If memory runs out it drops the plan, and nothing has
//!    happened.
//! 2. It takes the first step of every change. If one of them [waits](sets::Steps::wait) it waits for a grace
//!    period, once for all. Then it takes the second steps.
//! 3. It waits for a grace period: no CPU is in a former trampoline or vector.
//! 4. It commits the plan and frees what the slots held before.
//!
//! A plan borrows the registry until it is committed or dropped, so nobody can plan on top of something that
//! has not happened.
//!
//! # Memory
//!
//! All that grows with what a program asks for is allocated with an error, before anything is changed:
//! an operation that fails leaves everything as it was. Nothing here may be called under a spinlock, except
//! what is said to neither allocate nor free.
//!
//! # Cost
//!
//! With S sites, of which s change, k tracers of a changed site, and n tracers in all:
//!
//! | operation | time | memory |
//! |---|---|---|
//! | who traces a site ([`Registry::tracers`](sets::Registry::tracers)) | O(1) | - |
//! | add or change a tracer | S/64 words, and s × O(k) | S/8 bytes, and s × (32 + 4 k) while it lasts |
//! | remove a tracer | the same | - |
//! | load a module | its sites × the tracers that trace everything | as much while it lasts |
//! | unload a module | its sites × (k + the tracers that trace everything) | - |
//! | apply a pattern to a filter | S × length of name × length of pattern, at worst | S/8 bytes |
//! | whether a process is traced | O(log of the list / 512) | - |
//!
//! The S/64 is one pass over a bitset: 38 words for a kernel of 2,400 functions. n occurs nowhere: a tracer
//! of other functions costs nothing, neither when this one is called nor when its tracers change. A site
//! takes 32 bytes, and 4 more for each tracer where there are several.
//!
//! What has to end can end: removing a tracer and unloading a module need no memory.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod command;
pub mod filter;
pub mod glob;
pub mod hash;
mod number;
pub mod pids;
pub mod profile;
pub mod report;
pub mod sets;
mod site_set;
pub mod tokens;

pub use site_set::{SiteSet, Sites};

/// A patchable function: its index among those of the kernel and of the loaded modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site(pub u32);

impl Site {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Why something was not done. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// ENOMEM.
    NoMemory,
    /// EINVAL: text that means nothing, a pattern without a match, a tracer that is not registered.
    Invalid,
    /// ERANGE: a number that is too large.
    Range,
    /// EBUSY: a site has such a tracer already, and can have only one.
    Busy,
    /// EPERM: a process number that no process can have.
    Permission,
}

impl From<alloc::collections::TryReserveError> for Error {
    fn from(_: alloc::collections::TryReserveError) -> Self {
        Self::NoMemory
    }
}

/// What a function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// The function.
    pub function: &'a str,
    /// The module it is in. `None`: the kernel.
    pub module: Option<&'a str>,
}

/// The kernel's table of sites.
pub trait Names {
    /// All sites are below this index.
    fn bound(&self) -> u32;
    /// What `site` is called. `None`: there is no such site, or nobody may trace it.
    fn name(&self, site: Site) -> Option<Name<'_>>;
    /// Whether a module of this name is loaded, with or without sites.
    fn module_exists(&self, module: &[u8]) -> bool;

    /// The sites that have names, in order.
    fn named(&self) -> impl Iterator<Item = (Site, Name<'_>)> {
        (0..self.bound()).filter_map(|index| self.name(Site(index)).map(|name| (Site(index), name)))
    }
}
