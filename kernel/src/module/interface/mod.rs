//! What modules can call, and how they are called. All of it has the C calling convention and is declared in
//! `programs/modules/include/limen.h`; a change that a module built before could not live with needs another
//! [`super::ABI`].
//!
//! A module's code is trusted as the kernel's is. What it hands over is checked where that costs nothing:
//! handles are looked up, and what a module has not given back is taken from it when it is unloaded.

mod files;
mod memory;
mod patches;
mod timers;
mod trace;
mod tracers;

use super::list::Module;
use super::params;
use crate::arch::module::{HELPERS, Helper};
use crate::log::Level;
use crate::time;
use alloc::sync::Arc;

/// What C calls `-errno`.
type Status = i32;

/// Rows of the table: names, and the functions they stand for.
macro_rules! exports {
    ($($name:ident = $function:path),* $(,)?) => {
        &[$((stringify!($name), Helper($function as *const ()))),*]
    };
}

unsafe extern "C" {
    fn memcmp();
    fn memcpy();
    fn memmove();
    fn memset();
}

static EXPORTS: &[(&str, Helper)] = exports!(
    limen_direct_modify = tracers::modify,
    limen_direct_register = tracers::direct,
    limen_free_pages = memory::free_pages,
    limen_kfree = memory::kfree,
    limen_kmalloc = memory::kmalloc,
    limen_kzalloc = memory::kzalloc,
    limen_log_text = log_text,
    limen_now_ns = now_ns,
    limen_param_lock = params::lock,
    limen_param_unlock = params::unlock,
    limen_patch_enable = patches::enable,
    limen_probe_write = memory::probe_write,
    limen_proc_create = files::create,
    limen_proc_remove = files::remove,
    limen_regs_argument = tracers::argument,
    limen_regs_get = tracers::register,
    limen_regs_set_ip = tracers::set_ip,
    limen_set_memory_nx = memory::set_nx,
    limen_set_memory_ro = memory::set_ro,
    limen_set_memory_rw = memory::set_rw,
    limen_set_memory_x = memory::set_x,
    limen_sleep_ms = sleep_ms,
    limen_text_add = files::text_add,
    limen_timer_cancel = timers::cancel,
    limen_timer_create = timers::create,
    limen_timer_delete = timers::delete,
    limen_timer_start = timers::start,
    limen_total_pages = memory::total_pages,
    limen_trace_binary = trace::binary,
    limen_trace_string = trace::string,
    limen_trace_text = trace::text,
    limen_tracer_register = tracers::create,
    limen_tracer_unregister = tracers::unregister,
    limen_vfree = memory::vfree,
    limen_vmalloc = memory::vmalloc,
    limen_warn_text = warn_text,
    memcmp = memcmp,
    memcpy = memcpy,
    memmove = memmove,
    memset = memset,
);

/// The address of what the kernel exports as `name`.
pub fn find(name: &[u8]) -> Option<usize> {
    let mut all = EXPORTS.iter().chain(HELPERS);
    let (_, function) = all.find(|(known, _)| known.as_bytes() == name)?;
    Some(function.0 as usize)
}

/// Takes from a module that nobody uses any more what it has not given back. The list still has it, so that
/// what its functions make until the last of them has returned is its own. May sleep.
pub fn clean(module: &Arc<Module>) {
    patches::clean(module);
    tracers::clean(module);
    files::clean(module);
    // What those who read its files have made meanwhile.
    patches::clean(module);
    tracers::clean(module);
    timers::clean(module);
}

/// Calls a module's `init_module`.
pub fn call_init(address: u64) -> Status {
    // SAFETY: the address of a function of a module that was linked, is mapped and can be executed; whoever
    // loads a module vouches for what it does.
    let init: extern "C" fn() -> Status = unsafe { core::mem::transmute(address as usize as *const ()) };
    init()
}

/// Calls a module's `cleanup_module`.
pub fn call_exit(address: u64) {
    // SAFETY: as for `call_init`.
    let exit: extern "C" fn() = unsafe { core::mem::transmute(address as usize as *const ()) };
    exit();
}

/// `void limen_log_text(int level, const char *text, size_t length)`: a line of the log. In any context.
unsafe extern "C" fn log_text(level: u32, text: *const u8, length: usize) {
    // SAFETY: the module's promise.
    let text = unsafe { core::slice::from_raw_parts(text, length) };
    crate::log::write_bytes(Level::from_priority(level), 0, text);
}

/// `void limen_warn_text(const char *text, size_t length)`: something is wrong in the module; a line of the
/// log with a backtrace, and a mark on the kernel. In any context.
unsafe extern "C" fn warn_text(text: *const u8, length: usize) {
    /// `TAINT_WARN`.
    const WARNED: u32 = 1 << 9;
    crate::log::warned();
    // SAFETY: the module's promise.
    let text = unsafe { core::slice::from_raw_parts(text, length) };
    warning!("WARNING: {}", text.trim_ascii_end().escape_ascii());
    crate::trace::backtrace::print(crate::arch::stack::here());
    crate::panic::taint(WARNED);
}

/// `unsigned long long limen_now_ns(void)`: `CLOCK_MONOTONIC`. In any context.
extern "C" fn now_ns() -> u64 {
    time::now_ns()
}

/// `int limen_sleep_ms(unsigned int ms)`: sleeps. `-EINTR`: a signal came before.
extern "C" fn sleep_ms(ms: u32) -> Status {
    let until = time::now_ns().saturating_add(u64::from(ms) * 1_000_000);
    match time::sleep_until(until) {
        Ok(()) => 0,
        Err(_) => -i32::from(limen_linux_abi::Errno::EINTR.get()),
    }
}
