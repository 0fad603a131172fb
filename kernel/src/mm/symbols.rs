//! Where symbols are found: memory in the kernel's image for its own, into which the build writes the
//! compressed table after linking (`tools/symbols`), and what knows those of modules. `trace::symbols` reads
//! both.

use crate::sync::Once;

/// Its size in bytes. Unoptimised kernels have many more functions.
const ROOM: usize = if cfg!(debug_assertions) {
    512 << 10
} else {
    160 << 10
};

// SAFETY: no other symbol has this name, and the section is one of constants, as this is.
#[used]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".rodata.kallsyms")]
#[allow(non_upper_case_globals, reason = "the build looks for this name")]
static __kallsyms_start: [u8; ROOM] = [0xff; ROOM];

/// What the build wrote there.
pub fn symbol_room() -> &'static [u8] {
    // Keeps the compiler from using the value in the source, which the build changes after linking.
    core::hint::black_box(&__kallsyms_start)
}

/// A symbol of a module.
#[derive(Clone, Copy)]
pub struct Outside<'s> {
    /// Its name.
    pub name: &'s [u8],
    /// Its address.
    pub address: usize,
    /// The letter of its kind, as `nm` has it.
    pub letter: char,
    /// The module's name.
    pub module: &'s str,
}

/// What knows the symbols of modules.
pub trait Modules: Sync {
    /// Calls `f` with the symbol in which `address` is. Returns whether there is one. In any context, also in
    /// a panic.
    fn find(&self, address: usize, f: &mut dyn FnMut(Outside<'_>)) -> bool;
    /// Calls `f` with each. May sleep.
    fn each(&self, f: &mut dyn FnMut(Outside<'_>));
}

static MODULES: Once<&'static dyn Modules> = Once::new();

/// From now on addresses in modules have names. Boot.
pub fn set_modules(modules: &'static dyn Modules) {
    let _ = MODULES.set(modules);
}

/// What was set.
pub fn modules() -> Option<&'static dyn Modules> {
    MODULES.get().copied()
}
