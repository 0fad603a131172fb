//! All instances: the top one, which is made when tracing is first used, and those that programs make in
//! `instances/`.

use super::clock::Clock;
use super::instance::Instance;
use super::names;
use crate::cmdline;
use crate::sync::{Mutex, Once};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use limen_linux_abi::Errno;
use limen_trace_text::{Options, options};

static TOP: Once<Arc<Instance>> = Once::new();
/// By their numbers.
static OTHERS: Mutex<Vec<Arc<Instance>>> = Mutex::new(Vec::new());

/// The top instance, if something was to be traced since boot.
#[inline(always)]
pub fn made() -> Option<&'static Arc<Instance>> {
    TOP.get()
}

/// The top instance, which is made at first use. May sleep.
pub fn top() -> Result<&'static Arc<Instance>, Errno> {
    if let Some(top) = TOP.get() {
        return Ok(top);
    }
    let new = Instance::new(b"")?;
    boot_options(&new);
    names::begin();
    let _ = TOP.set(Arc::new(new));
    TOP.get().ok_or(Errno::ENOMEM)
}

/// What the command line says of the top instance.
fn boot_options(top: &Instance) {
    let size = cmdline::size("trace_buf_size").and_then(|size| usize::try_from(size).ok());
    let clock = cmdline::value("trace_clock").and_then(Clock::named);
    top.begin_with(size.filter(|size| *size != 0), clock);
    for word in cmdline::value("trace_options").unwrap_or_default().split(',') {
        let (name, on) = options::parse(word);
        if let Some(option) = Options::named(name) {
            let _ = top.set_option(option, on);
        }
    }
}

/// How many instances have the option `function-fork`.
static FUNCTION_FORKS: AtomicUsize = AtomicUsize::new(0);

/// An instance begins or ceases to be one of them.
pub(super) fn function_forks(begins: bool) {
    if begins {
        FUNCTION_FORKS.fetch_add(1, Relaxed);
    } else {
        FUNCTION_FORKS.fetch_sub(1, Relaxed);
    }
}

/// Calls `f` with each instance that has the option `function-fork`. May sleep.
#[inline]
pub fn each_function_fork(mut f: impl FnMut(&Arc<Instance>)) {
    if FUNCTION_FORKS.load(Relaxed) != 0 {
        made()
            .cloned()
            .into_iter()
            .chain(all())
            .filter(|instance| instance.options().contains(Options::FUNCTION_FORK))
            .for_each(|instance| f(&instance));
    }
}

/// The other instances, in the order in which they were made. The walk holds no lock and allocates nothing:
/// it visits those that exist when their turn comes. May sleep.
pub fn all() -> impl Iterator<Item = Arc<Instance>> {
    let mut next = 0;
    core::iter::from_fn(move || {
        let others = OTHERS.lock();
        let at = others.partition_point(|one| one.number < next);
        let instance = others.get(at)?.clone();
        next = instance.number + 1;
        Some(instance)
    })
}

/// The instance with this name.
pub fn find(name: &[u8]) -> Option<Arc<Instance>> {
    OTHERS.lock().iter().find(|one| one.name == name).cloned()
}

/// [`find`] for a panic: `None` as well if somebody has the list locked.
pub(super) fn find_now(name: &[u8]) -> Option<Arc<Instance>> {
    OTHERS.try_lock()?.iter().find(|one| one.name == name).cloned()
}

/// Makes an instance. `EEXIST`, `ENOMEM`. May sleep.
pub fn make(name: &[u8]) -> Result<Arc<Instance>, Errno> {
    let new = Instance::new(name)?;
    let mut others = OTHERS.lock();
    if others.iter().any(|one| one.name == name) {
        return Err(Errno::EEXIST);
    }
    crate::mm::reserve::room(&mut *others, 1)?;
    let new = Arc::new(new);
    let at = others.partition_point(|one| one.number < new.number);
    others.insert(at, new.clone());
    Ok(new)
}

/// Removes an instance. `ENOENT`; `EBUSY`: a file of it is open, or something else uses it. May sleep.
pub fn remove(name: &[u8]) -> Result<(), Errno> {
    let mut others = OTHERS.lock();
    let index = others.iter().position(|one| one.name == name);
    let index = index.ok_or(Errno::ENOENT)?;
    others[index].condemn()?;
    let instance = others.remove(index);
    drop(others);
    instance.end();
    Ok(())
}
