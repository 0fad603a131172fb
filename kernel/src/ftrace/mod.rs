//! Function tracing: at the beginning of each function is a site that can call a tracer (`arch::sites`),
//! which costs nothing for functions without one, and for others only what their own tracers cost.
//!
//! * [`target`]: what a site calls, a tracer or several;
//! * [`site`]: setting that, while all CPUs run;
//! * [`ops`]: all tracers, and the sites of each;
//! * [`texts`], [`modules`]: the sites of modules, and what becomes of tracers when modules come and go;
//! * [`names`]: what functions are called;
//! * [`boot`]: what is traced from boot;
//! * [`function`]: the tracer of that name, which records calls ([`guard`]: but not its own);
//! * [`threads`]: whose calls are recorded;
//! * [`outside`]: functions of modules as tracers, and called directly ([`direct`], [`inside`]: but not by
//!   itself);
//! * [`patch`]: functions that run instead of others;
//! * [`probes`]: what else is done when functions are called;
//! * [`profile`]: how often functions are called;
//! * [`stack_tracer`]: how much of the stack they use;
//! * [`graph`]: the tracer `function_graph`, which records returns as well.
//!
//! Nothing in this room is traced itself.

#![deny(unsafe_code)]

pub mod boot;
pub mod direct;
pub mod function;
pub mod graph;
mod guard;
#[allow(unsafe_code, reason = "a list on a thread's stack")]
mod inside;
pub mod modules;
pub mod names;
pub mod ops;
pub mod outside;
pub mod patch;
pub mod probes;
pub mod profile;
pub mod selftest;
pub mod selftest_cost;
#[allow(unsafe_code, reason = "one runs on a stack of its own")]
pub mod selftest_patch;
pub mod selftest_probes;
#[allow(unsafe_code, reason = "sites refer to targets by address")]
pub mod site;
pub mod stack_tracer;
pub mod target;
pub mod texts;
pub mod threads;
