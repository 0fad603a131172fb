//! Modules come and go: their functions are traced by whoever traces everything, and by filters that waited
//! for them; when they go, filters forget them.
//!
//! A number of a site is given to another when its module is gone. Before that, nothing has it: registered
//! tracers and filters are told. What has been copied from a filter and takes its place later cannot be told:
//! as long as there is such a `Copy`, no number is used again, and when it takes the filter's place it is
//! compared with what there is (`Hash::settle`).

use super::function::Functions;
use super::names::{self, Known};
use super::texts::{Function, Text};
use super::{graph, ops, profile, site, stack_tracer};
use crate::sync::Mutex;
use crate::tracing::{self, Instance};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::SeqCst;
use limen_linux_abi::Errno;

/// Held while a module's functions come or go. In it is the number behind all that a `Copy` may contain.
static CHANGING: Mutex<usize> = Mutex::new(0);

static COPIES: AtomicUsize = AtomicUsize::new(0);

/// A copy of filters is about to be made, and may take their place as long as this is there.
pub struct Copy(());

impl Copy {
    /// Before the copy is made.
    pub fn new() -> Self {
        COPIES.fetch_add(1, SeqCst);
        Self(())
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        COPIES.fetch_sub(1, SeqCst);
    }
}

/// Functions of a module that can be traced. When it is dropped, they cannot any more, and no CPU is in one
/// of their tracers; that may sleep. They are not executed then.
pub struct Loaded(Arc<Text>);

/// Calls `f` with each instance.
fn each_instance(mut f: impl FnMut(&Arc<Instance>) -> Result<(), Errno>) -> Result<(), Errno> {
    if let Some(top) = tracing::made() {
        f(top)?;
    }
    tracing::all().try_for_each(|instance| f(&instance))
}

/// Its functions, by address, can be traced from now on, and are, if a filter says so: those that stay, and
/// those that only `init` needs. They can be executed, and their slots are valid. `ENOMEM`: they cannot; a
/// filter that waited for them may wait no more. May sleep.
pub fn load(module: &str, functions: [Vec<Function>; 2]) -> Result<[Loaded; 2], Errno> {
    let mut end = CHANGING.lock();
    let least = if COPIES.load(SeqCst) == 0 { 0 } else { *end };
    let [stay, init] = functions;
    let stay = ops::load(copy(module)?, stay, least)?;
    let init = match copy(module).and_then(|module| ops::load(module, init, least)) {
        Ok(init) => init,
        Err(errno) => {
            forget(&stay);
            return Err(errno);
        }
    };
    *end = super::texts::bound().max(least);
    // Without an instance nobody has a filter.
    let told = match tracing::made() {
        None => Ok(()),
        Some(_) => names::known().and_then(|names: Known| {
            each_instance(|instance| Functions::of(instance)?.module_loaded(instance, &names, module))?;
            graph::module_loaded(&names, module)?;
            stack_tracer::module_loaded(&names, module)?;
            profile::module_loaded()
        }),
    };
    if let Err(errno) = told {
        forget(&stay);
        forget(&init);
        return Err(errno);
    }
    Ok([Loaded(stay), Loaded(init)])
}

/// A copy of a name. `ENOMEM`.
fn copy(name: &str) -> Result<String, Errno> {
    let mut copy = String::new();
    copy.try_reserve_exact(name.len()).map_err(|_| Errno::ENOMEM)?;
    copy.push_str(name);
    Ok(copy)
}

/// The inverse.
fn forget(text: &Arc<Text>) {
    ops::unload(text);
    site::forget(text.range());
    let sites = text.numbers();
    let _ = each_instance(|instance| {
        Functions::of(instance)?.forget(sites);
        Ok(())
    });
    graph::forget(sites);
    stack_tracer::forget(sites);
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let _changing = CHANGING.lock();
        forget(&self.0);
    }
}
