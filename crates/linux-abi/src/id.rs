//! User and group ids as system calls pass them: of 32 bits, and of 16 bits in the first calls of older ABIs.

use core::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// The id that is shown for a user id that does not fit into 16 bits (`kernel.overflowuid`).
pub static OVERFLOW_UID: AtomicI32 = AtomicI32::new(65534);
/// The same for group ids (`kernel.overflowgid`).
pub static OVERFLOW_GID: AtomicI32 = AtomicI32::new(65534);

fn id16(id: u32, overflow: &AtomicI32) -> u16 {
    u16::try_from(id).unwrap_or_else(|_| overflow.load(Relaxed) as u16)
}

/// A user id in 16 bits.
pub fn uid16(uid: u32) -> u16 {
    id16(uid, &OVERFLOW_UID)
}

/// A group id in 16 bits.
pub fn gid16(gid: u32) -> u16 {
    id16(gid, &OVERFLOW_GID)
}

/// A width of ids. As an argument it becomes the 32-bit id that it stands for.
pub trait IdWord: Copy + 'static {
    /// A user id, or the overflow id if it does not fit.
    fn show_user(id: u32) -> Self;
    /// A group id, or the overflow id if it does not fit.
    fn show_group(id: u32) -> Self;
    /// The value, for a call that returns it.
    fn shown(self) -> usize;
    /// The id that the program means.
    fn id(self) -> u32;
}

/// An id of 32 bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Id32(u32);

/// An id of 16 bits. All ones means "do not change", as in 32 bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Id16(u16);

impl Id16 {
    /// As user space passes it.
    #[inline(always)]
    pub const fn new(id: u16) -> Self {
        Self(id)
    }
}

impl IdWord for Id32 {
    #[inline(always)]
    fn show_user(id: u32) -> Self {
        Self(id)
    }
    #[inline(always)]
    fn show_group(id: u32) -> Self {
        Self(id)
    }
    #[inline(always)]
    fn shown(self) -> usize {
        self.0 as usize
    }
    #[inline(always)]
    fn id(self) -> u32 {
        self.0
    }
}

impl IdWord for Id16 {
    fn show_user(id: u32) -> Self {
        Self(uid16(id))
    }
    fn show_group(id: u32) -> Self {
        Self(gid16(id))
    }
    fn shown(self) -> usize {
        self.0.into()
    }
    fn id(self) -> u32 {
        if self.0 == u16::MAX {
            u32::MAX
        } else {
            self.0.into()
        }
    }
}
