//! Whole pages.

use crate::{EINVAL, ENOMEM, sys};
use core::ops::{Deref, DerefMut};

/// Bytes of a page, as `limen.h` counts them.
pub const PAGE_SIZE: usize = 4096;

/// Pages with consecutive addresses.
pub struct Pages {
    at: *mut u8,
    pages: usize,
}

// SAFETY: memory that only this refers to.
unsafe impl Send for Pages {}

impl Pages {
    /// So many pages, of zeros or whatever was there. `ENOMEM`, `EINVAL`: too many.
    pub fn new(pages: usize) -> Result<Self, i32> {
        let size = pages
            .checked_mul(PAGE_SIZE)
            .filter(|_| i32::try_from(pages).is_ok());
        // SAFETY: asks for memory.
        let at = unsafe { sys::limen_vmalloc(size.ok_or(EINVAL)?) };
        if at.is_null() {
            return Err(ENOMEM);
        }
        let mut new = Self { at, pages };
        new.fill(0);
        Ok(new)
    }
    /// What runs in `f` finds them read-only; a write is a fault of the kernel's.
    pub fn while_read_only<R>(&mut self, f: impl FnOnce(&[u8]) -> R) -> Result<R, i32> {
        let pages = self.pages as i32;
        // SAFETY: the pages are this one's, which nobody can write meanwhile.
        match unsafe { sys::limen_set_memory_ro(self.at, pages) } {
            0 => {}
            error => return Err(-error),
        }
        let result = f(self);
        // SAFETY: as above.
        match unsafe { sys::limen_set_memory_rw(self.at, pages) } {
            0 => Ok(result),
            error => Err(-error),
        }
    }
}

impl Deref for Pages {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the kernel gave so many bytes.
        unsafe { core::slice::from_raw_parts(self.at, self.pages * PAGE_SIZE) }
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { core::slice::from_raw_parts_mut(self.at, self.pages * PAGE_SIZE) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: nobody refers to them any more.
        unsafe { sys::limen_vfree(self.at) };
    }
}
