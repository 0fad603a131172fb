//! Files in /proc.

use crate::{ENOMEM, sys};
use core::ffi::CStr;
use core::fmt::{self, Write};

/// The text of a file that is read.
pub struct Text(*mut sys::Opaque);

impl Text {
    /// The text with this handle.
    ///
    /// # Safety
    /// It is one of a file that is read, and of nobody else's, until the call returns that gave it.
    pub unsafe fn from_handle(handle: *mut sys::Opaque) -> Self {
        Self(handle)
    }
}

impl Write for Text {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        // SAFETY: the kernel gave the handle for this call of `show`.
        unsafe { sys::limen_text_add(self.0, s.as_ptr(), s.len()) };
        Ok(())
    }
}

/// A file at the top of /proc. Dropping it removes it, and waits for those who read.
pub struct Proc(*mut sys::Opaque);

// SAFETY: the kernel's functions may be called in any thread.
unsafe impl Send for Proc {}

impl Proc {
    /// With a mode of which the bits for reading count; `show` writes its text. `ENOMEM`: there is no memory,
    /// or the name is taken.
    pub fn create(name: &CStr, mode: u32, show: fn(&mut Text)) -> Result<Self, i32> {
        extern "C" fn call(out: *mut sys::Opaque, data: *mut u8) -> i32 {
            // SAFETY: `create` gave a function of this type.
            let show = unsafe { core::mem::transmute::<*mut u8, fn(&mut Text)>(data) };
            show(&mut Text(out));
            0
        }
        // SAFETY: the name ends with a zero; the function stays as long as the module.
        let file = unsafe { sys::limen_proc_create(name.as_ptr().cast(), mode, call, show as *mut u8) };
        if file.is_null() {
            Err(ENOMEM)
        } else {
            Ok(Self(file))
        }
    }
}

impl Drop for Proc {
    fn drop(&mut self) {
        // SAFETY: it is this handle's.
        unsafe { sys::limen_proc_remove(self.0) };
    }
}
