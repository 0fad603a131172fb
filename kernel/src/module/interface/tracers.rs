//! Functions of modules as tracers of functions, and called directly (`ftrace::outside`).

use super::Status;
use crate::ftrace::direct::Direct;
use crate::ftrace::outside::{Handler, Registers, Tracer};
use crate::mm::reserve;
use crate::module::list::{self, Module};
use crate::sync::Mutex;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char};
use limen_linux_abi::Errno;

/// A tracer of a module.
struct Entry {
    tracer: Tracer,
    /// The module of its function.
    owner: Option<Arc<Module>>,
    /// What the module knows it by.
    handle: usize,
}

/// All of them, and the last handle that was given.
static ENTRIES: Mutex<(Vec<Entry>, usize)> = Mutex::new((Vec::new(), 0));

/// `LIMEN_TRACER_SAVE_REGS`, `LIMEN_TRACER_IPMODIFY`.
const SAVE_REGS: u32 = 1 << 0;
const IPMODIFY: u32 = 1 << 1;

fn status(result: Result<(), Errno>) -> Status {
    result.map_or_else(|errno| -i32::from(errno.get()), |()| 0)
}

/// Keeps a tracer for the module in which its function is, and writes its handle.
///
/// # Safety
/// `out` can be written.
unsafe fn keep(
    make: impl FnOnce() -> Result<Tracer, Errno>,
    function: usize,
    out: *mut usize,
) -> Result<(), Errno> {
    let mut entries = ENTRIES.lock();
    let (list, last) = &mut *entries;
    reserve::room(list, 1)?;
    let tracer = make()?;
    *last += 1;
    list.push(Entry {
        tracer,
        owner: list::at(function),
        handle: *last,
    });
    // SAFETY: the caller's promise.
    unsafe { out.write(*last) };
    Ok(())
}

/// `int limen_tracer_register(const char *functions, unsigned int flags, handler, void *data,
/// struct limen_tracer **out)`. May sleep.
pub unsafe extern "C" fn create(
    functions: *const c_char,
    flags: u32,
    handler: Handler,
    data: usize,
    out: *mut usize,
) -> Status {
    if flags & !(SAVE_REGS | IPMODIFY) != 0 {
        return status(Err(Errno::EINVAL));
    }
    // SAFETY: the module's promise.
    let word = unsafe { CStr::from_ptr(functions) }.to_bytes();
    let (regs, ip_modify) = (flags & SAVE_REGS != 0, flags & IPMODIFY != 0);
    let make = || Tracer::new(word, handler, data, regs, ip_modify);
    // SAFETY: the module's promise.
    status(unsafe { keep(make, handler as *const () as usize, out) })
}

/// `int limen_direct_register(const char *function, const void *direct, struct limen_tracer **out)`. May
/// sleep.
pub unsafe extern "C" fn direct(function: *const c_char, direct: Direct, out: *mut usize) -> Status {
    // SAFETY: the module's promise.
    let word = unsafe { CStr::from_ptr(function) }.to_bytes();
    // SAFETY: the module's promise.
    status(unsafe { keep(|| Tracer::direct(word, direct), direct as *const () as usize, out) })
}

/// `int limen_direct_modify(struct limen_tracer *tracer, const void *direct)`. May sleep.
pub extern "C" fn modify(handle: usize, direct: Direct) -> Status {
    let mut entries = ENTRIES.lock();
    let found = entries.0.iter_mut().find(|entry| entry.handle == handle);
    let former = found.map_or(Err(Errno::EINVAL), |entry| entry.tracer.modify(direct));
    // The former may sleep for what others do here.
    drop(entries);
    status(former.map(|former| former.settle()))
}

/// `void limen_tracer_unregister(struct limen_tracer *tracer)`: ends it, or does nothing if that is null.
/// When it returns nobody is in its function. Not in that function. May sleep.
pub extern "C" fn unregister(handle: usize) {
    if let Some(entry) = take(|entry| entry.handle == handle) {
        entry.tracer.end();
    }
}

/// Takes out the first of this kind.
fn take(is: impl Fn(&Entry) -> bool) -> Option<Entry> {
    let mut entries = ENTRIES.lock();
    let at = entries.0.iter().position(is)?;
    Some(entries.0.swap_remove(at))
}

/// `int limen_regs_argument(struct limen_regs *regs, unsigned int n, unsigned long *value)`.
pub unsafe extern "C" fn argument(regs: &Registers<'_>, n: u32, value: *mut usize) -> Status {
    // SAFETY: the module's promise.
    status(unsafe { give(regs.argument(n as usize), value) })
}

/// `int limen_regs_get(struct limen_regs *regs, unsigned int n, unsigned long *value)`.
pub unsafe extern "C" fn register(regs: &Registers<'_>, n: u32, value: *mut usize) -> Status {
    // SAFETY: the module's promise.
    status(unsafe { give(regs.register(n as usize), value) })
}

/// # Safety
/// `out` can be written.
unsafe fn give(value: Option<usize>, out: *mut usize) -> Result<(), Errno> {
    let value = value.ok_or(Errno::EINVAL)?;
    // SAFETY: the caller's promise.
    unsafe { out.write(value) };
    Ok(())
}

/// `int limen_regs_set_ip(struct limen_regs *regs, const void *function)`.
pub extern "C" fn set_ip(regs: &mut Registers<'_>, ip: usize) -> Status {
    if !regs.set_ip(ip) {
        return status(Err(Errno::EINVAL));
    }
    // A thread may be there for long: when the module goes, it is looked for.
    list::look(|list| {
        if let Some(module) = list.iter().find(|module| module.has(ip)) {
            module.is_sent_to();
        }
    });
    status(Ok(()))
}

/// Ends what a module has left.
pub fn clean(module: &Arc<Module>) {
    let is_of = |entry: &Entry| {
        entry
            .owner
            .as_ref()
            .is_some_and(|owner| Arc::ptr_eq(owner, module))
    };
    while let Some(entry) = take(is_of) {
        warning!("{}: a tracer was not unregistered", module.name);
        entry.tracer.end();
    }
}
