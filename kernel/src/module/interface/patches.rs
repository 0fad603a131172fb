//! Live patches of modules (`livepatch`).

use super::Status;
use crate::ftrace::patch;
use crate::livepatch::{self, Held, Wanted};
use crate::mm::reserve::room;
use crate::module::list::{self, Module, State};
use crate::trace::symbols;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char};
use core::ops::Range;
use limen_linux_abi::Errno;

/// `struct limen_patch_function`.
#[repr(C)]
pub struct Function {
    object: *const c_char,
    name: *const c_char,
    replacement: usize,
    position: usize,
}

/// `LIMEN_PATCH_REPLACE`.
const REPLACE: u32 = 1 << 0;

/// A module that is used as long as this is there.
struct Used(Arc<Module>);

impl Drop for Used {
    fn drop(&mut self) {
        self.0.put();
    }
}

/// Counts a use of a module for a patch. `ENOENT`: it is about to be gone; `ENOMEM`.
fn hold(module: &Arc<Module>, held: &mut Vec<Held>) -> Result<(), Errno> {
    room(held, 1)?;
    if !module.get() {
        return Err(Errno::ENOENT);
    }
    held.push(Box::new(Used(module.clone())));
    Ok(())
}

/// The addresses of a module's functions, or of the one in which `address` is.
fn code(module: &Module, address: Option<usize>) -> Option<Range<usize>> {
    let symbols = &module.body()?.symbols;
    let range = |one: &limen_module::Symbol<'_>| one.address as usize..(one.address + one.size) as usize;
    if let Some(address) = address {
        let found = symbols.find(address as u64).filter(|one| one.size > 0);
        return found.as_ref().map(range).or_else(|| code(module, None));
    }
    let functions = symbols
        .iter()
        .filter(|one| one.letter.eq_ignore_ascii_case(&'t') && !one.part.is_init());
    functions
        .map(|one| range(&one))
        .reduce(|all, one| all.start.min(one.start)..all.end.max(one.end))
}

/// The addresses of the kernel's function in which `address` is.
fn code_of_kernel(address: usize) -> Option<Range<usize>> {
    let table = symbols::table()?;
    let (index, _) = table.lookup(address as u64)?;
    Some(table.address(index)? as usize..table.address(index + 1)? as usize)
}

/// A function that is to be replaced. `ENOENT`: there is none, or no such module; `EINVAL`.
///
/// # Safety
/// The texts are there.
unsafe fn wanted(one: &Function, held: &mut Vec<Held>) -> Result<Wanted, Errno> {
    if one.name.is_null() || one.replacement == 0 {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(one.name) }.to_bytes();
    if one.object.is_null() {
        let place = patch::find(name, None, one.position)?;
        let code = code_of_kernel(place.address).ok_or(Errno::ENOENT)?;
        let to = one.replacement;
        return Ok(Wanted { place, to, code });
    }
    // SAFETY: the caller's promise.
    let object = unsafe { CStr::from_ptr(one.object) }.to_bytes();
    let module = list::named(object).filter(|module| module.state() == State::Live);
    let module = module.ok_or(Errno::ENOENT)?;
    hold(&module, held)?;
    let place = patch::find(name, Some(object), one.position)?;
    Ok(Wanted {
        place,
        to: one.replacement,
        code: code(&module, Some(place.address)).ok_or(Errno::ENOENT)?,
    })
}

/// # Safety
/// As [`enable`]'s.
unsafe fn try_enable(functions: *const Function, count: usize, flags: u32) -> Result<(), Errno> {
    if flags & !REPLACE != 0 || count == 0 {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the module's promise.
    let functions = unsafe { core::slice::from_raw_parts(functions, count) };
    let first = functions.first().ok_or(Errno::EINVAL)?;
    let owner = list::at(first.replacement).ok_or(Errno::EINVAL)?;
    let mut held = Vec::new();
    hold(&owner, &mut held)?;
    let mut all = Vec::new();
    for one in functions {
        room(&mut all, 1)?;
        // SAFETY: the module's promise.
        all.push(unsafe { wanted(one, &mut held)? });
    }
    let own = code(&owner, None).ok_or(Errno::EINVAL)?;
    let mut name = String::new();
    name.try_reserve_exact(owner.name.len())
        .map_err(|_| Errno::ENOMEM)?;
    name.push_str(&owner.name);
    livepatch::enable(name, all, flags & REPLACE != 0, own, held)
}

/// `int limen_patch_enable(const struct limen_patch_function *functions, size_t count, unsigned int flags)`.
/// May sleep.
pub unsafe extern "C" fn enable(functions: *const Function, count: usize, flags: u32) -> Status {
    // SAFETY: the module's promise.
    match unsafe { try_enable(functions, count, flags) } {
        Ok(()) => 0,
        Err(errno) => -i32::from(errno.get()),
    }
}

/// The patch of a module that was not loaded goes.
pub fn clean(module: &Module) {
    livepatch::abandon(&module.name);
}
