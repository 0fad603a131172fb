//! A module's functions can be traced as the kernel's: from before its `init` runs until it is unloaded.

use super::list::Module;
use crate::arch::sites;
use crate::ftrace::modules;
use crate::ftrace::site;
use crate::ftrace::texts::Function;
use crate::mm::reserve::room;
use alloc::string::String;
use alloc::vec::Vec;
use limen_linux_abi::Errno;
use limen_module::{Symbols, Traceable, Tracing};

/// What sites of modules call.
pub(super) fn tracing() -> Tracing {
    Tracing {
        trampolines: sites::for_modules().map(|to| to as u64),
        nothing: site::nothing() as u64,
    }
}

/// What a function is called; one without a name, by its address.
fn name(symbols: &Symbols, address: usize) -> Result<String, Errno> {
    use core::fmt::Write;
    let mut name = String::new();
    let found = symbols
        .find(address as u64)
        .map_or(&b""[..], |symbol| symbol.name);
    let len = found.escape_ascii().count().max(2 + 2 * size_of::<usize>());
    name.try_reserve_exact(len).map_err(|_| Errno::ENOMEM)?;
    // Writing to a string does not fail.
    let _ = match found {
        b"" => write!(name, "{address:#x}"),
        found => write!(name, "{}", found.escape_ascii()),
    };
    Ok(name)
}

/// The functions of a module that is linked: those that stay, and those that only `init` needs. `ENOMEM`.
pub(super) fn functions(symbols: &Symbols, sites: &[Traceable]) -> Result<[Vec<Function>; 2], Errno> {
    let mut all = [Vec::new(), Vec::new()];
    for one in sites {
        let list = &mut all[usize::from(one.init)];
        room(list, 1)?;
        let (site, to) = (one.site as usize, one.to as usize);
        list.push(Function {
            site,
            to,
            name: name(symbols, sites::ip(site))?,
        });
    }
    Ok(all)
}

/// They can be traced from now on: their code can be executed. `ENOMEM`: they cannot.
pub(super) fn begin(module: &Module, functions: [Vec<Function>; 2]) -> Result<(), Errno> {
    let Some(body) = module.body() else { return Ok(()) };
    *body.traced.lock() = modules::load(&module.name, functions)?.map(Some);
    Ok(())
}

/// What only `init` needed is about to be freed, or all. Nobody executes it. May sleep.
pub(super) fn end(module: &Module, all: bool) {
    let Some(body) = module.body() else { return };
    let [stay, init] = &mut *body.traced.lock();
    drop(init.take());
    if all {
        drop(stay.take());
    }
}
