//! Loadable modules of the kernel (`docs/modules.md`). `crates/module` reads, lays out and links an object;
//! this room gives it memory, decides who may use whose symbols, and calls it.
//!
//! `load` and `unload` do what the system calls ask, `together` makes one load of several of a file, `list`
//! knows the modules and counts who uses them, `image` is the memory of one, `files` shows them in procfs and
//! sysfs, `params` their parameters, `traced` makes
//! their functions known to tracers, and `interface` is what they can call.

mod events;
mod files;
mod image;
mod interface;
mod list;
mod load;
mod params;
mod together;
mod traced;
mod unload;

pub use load::{IGNORE_MODVERSIONS, IGNORE_VERMAGIC, load};
pub use together::together;
pub use unload::unload;

use crate::fs::procfs::sysctl::kernel::MODULES_DISABLED;
use crate::task::{creds::cap, current};
use core::sync::atomic::Ordering::Relaxed;
use limen_linux_abi::Errno;

/// The version of the interface that modules are built for: `limen_abi` in `.modinfo`. It changes with
/// whatever a module that was built before could not live with.
pub const ABI: &str = "1";

/// Whether the running task may load and unload modules; else `EPERM`.
pub fn may_change() -> Result<(), Errno> {
    if MODULES_DISABLED.load(Relaxed) == 0 && current().creds().capable(cap::SYS_MODULE) {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// Registers files, and the symbols of modules for backtraces. Boot.
pub fn init() {
    files::init();
    crate::mm::symbols::set_modules(&list::Symbols);
}
