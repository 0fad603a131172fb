//! Tracers of functions, functions that are called directly, and live patches.

use crate::sys;
use core::ffi::CStr;

/// What a tracer may ask of the call that it traces.
pub struct Registers(*mut sys::Opaque);

impl Registers {
    /// Argument `n` of the function, from 0; `None` if it is not in a register.
    pub fn argument(&self, n: u32) -> Option<usize> {
        let mut value = 0;
        // SAFETY: the kernel gave the handle for this call.
        (unsafe { sys::limen_regs_argument(self.0, n, &raw mut value) } == 0).then_some(value)
    }
    /// The register that has this number in DWARF; `None` if it was not saved.
    pub fn get(&self, n: u32) -> Option<usize> {
        let mut value = 0;
        // SAFETY: as above.
        (unsafe { sys::limen_regs_get(self.0, n, &raw mut value) } == 0).then_some(value)
    }
    /// Another function runs instead. `EINVAL`: the tracer has not said [`Tracer::IPMODIFY`].
    ///
    /// # Safety
    /// It takes and returns what the traced one does.
    pub unsafe fn set_ip(&mut self, function: *const u8) -> Result<(), i32> {
        // SAFETY: as above; the caller's promise.
        result(unsafe { sys::limen_regs_set_ip(self.0, function) })
    }
}

fn result(status: i32) -> Result<(), i32> {
    if status == 0 { Ok(()) } else { Err(-status) }
}

/// A tracer of functions. Dropping it waits until it does not run.
pub struct Tracer(*mut sys::Opaque);

// SAFETY: the kernel's functions may be called in any thread.
unsafe impl Send for Tracer {}

impl Tracer {
    /// It wants all registers.
    pub const SAVE_REGS: u32 = 1;
    /// It may have another function run instead.
    pub const IPMODIFY: u32 = 2;

    /// `trace` is called with the address of a function, the address that it returns to, and the registers,
    /// whenever one is called that `functions` names as `set_ftrace_filter` does; anywhere, and it must not
    /// sleep. An error of `limen_tracer_register`.
    pub fn register(
        functions: &CStr,
        flags: u32,
        trace: fn(usize, usize, &mut Registers),
    ) -> Result<Self, i32> {
        extern "C" fn call(ip: usize, parent: usize, data: *mut u8, regs: *mut sys::Opaque) {
            // SAFETY: `register` gave a function of this type.
            let trace = unsafe { core::mem::transmute::<*mut u8, fn(usize, usize, &mut Registers)>(data) };
            trace(ip, parent, &mut Registers(regs));
        }
        let mut tracer = core::ptr::null_mut();
        let (name, data) = (functions.as_ptr().cast(), trace as *mut u8);
        // SAFETY: the name ends with a zero; the function stays as long as the module.
        result(unsafe { sys::limen_tracer_register(name, flags, call, data, &raw mut tracer) })?;
        Ok(Self(tracer))
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // SAFETY: it is this handle's.
        unsafe { sys::limen_tracer_unregister(self.0) };
    }
}

/// A function that is called directly whenever another one is. Dropping it waits until it does not run.
pub struct Direct(Tracer);

impl Direct {
    /// `direct` is called before the function that `function` names, and may sleep where that may. An error
    /// of `limen_direct_register`.
    ///
    /// # Safety
    /// It is of C's calling convention, takes those arguments of the function that are in registers, and
    /// stays as long as the module.
    pub unsafe fn register(function: &CStr, direct: *const u8) -> Result<Self, i32> {
        let mut tracer = core::ptr::null_mut();
        // SAFETY: the name ends with a zero; the caller's promise.
        result(unsafe { sys::limen_direct_register(function.as_ptr().cast(), direct, &raw mut tracer) })?;
        Ok(Self(Tracer(tracer)))
    }
    /// Another function is called from now on. `ENOMEM`: it is the former.
    ///
    /// # Safety
    /// As for [`Direct::register`].
    pub unsafe fn modify(&mut self, direct: *const u8) -> Result<(), i32> {
        // SAFETY: it is this handle's; the caller's promise.
        result(unsafe { sys::limen_direct_modify(self.0.0, direct) })
    }
}

/// A function that is to be replaced.
#[repr(transparent)]
pub struct Patched<'a>(sys::PatchFunction, core::marker::PhantomData<&'a CStr>);

impl<'a> Patched<'a> {
    /// The kernel's only function of this name.
    pub fn kernel(name: &'a CStr, replacement: *const u8) -> Self {
        Self::new(core::ptr::null(), name, replacement)
    }
    /// The only function of this name that a module has, which is loaded.
    pub fn module(module: &'a CStr, name: &'a CStr, replacement: *const u8) -> Self {
        Self::new(module.as_ptr().cast(), name, replacement)
    }
    fn new(object: *const u8, name: &CStr, replacement: *const u8) -> Self {
        let function = sys::PatchFunction {
            object,
            name: name.as_ptr().cast(),
            replacement,
            position: 0,
        };
        Self(function, core::marker::PhantomData)
    }
}

/// The last thing that `init` does: enables a patch of this module's name, which is not unloaded before the
/// patch has been disabled; and `replaces` all other patches. An error of `limen_patch_enable`.
///
/// # Safety
/// Each replacement takes and returns what its function does.
pub unsafe fn patch(functions: &[Patched<'_>], replaces: bool) -> Result<(), i32> {
    // SAFETY: the list is of this length, and of what the kernel knows; the caller's promise.
    result(unsafe { sys::limen_patch_enable(functions.as_ptr().cast(), functions.len(), replaces.into()) })
}
