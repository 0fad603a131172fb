//! Trace events of modules.

use super::list::Module;
use crate::trace::backtrace;
use crate::tracepoint;
use limen_trace_events::Str;

/// A module's `init` is about to be called. Modules are not of this kernel's tree (`O`).
pub(super) fn loaded(name: &str) {
    const OUT_OF_TREE: u32 = 1 << 12;
    tracepoint!(module::ModuleLoad {
        taints: OUT_OF_TREE,
        name: Str(name.as_bytes()),
    });
}

/// A module's memory is about to be given back.
pub(super) fn freed(name: &str) {
    tracepoint!(module::ModuleFree {
        name: Str(name.as_bytes())
    });
}

/// Somebody begins (`more`) or ends to use a module.
pub(super) fn used(module: &Module, more: bool) {
    let name = Str(module.name.as_bytes());
    if more {
        tracepoint!(module::ModuleGet {
            ip: caller(),
            refcnt: module.users() as i32,
            name
        });
    } else {
        tracepoint!(module::ModulePut {
            ip: caller(),
            refcnt: module.users() as i32 - 1,
            name
        });
    }
}

/// Who called what called tracing.
fn caller() -> usize {
    let mut calls = 0;
    let mut found = 0;
    backtrace::walk(crate::arch::stack::here(), |ip| {
        calls += 1;
        if calls == 3 {
            found = ip;
        }
    });
    found
}
