//! User and group ids as system calls pass them: of 32 bits, and of 16 in the first calls of ABIs that are older than wide ids.

use super::FromArgs;
use crate::arch::frame::Frame;
use crate::mm::user::Plain;

/// One width of ids. As an argument it becomes the 32-bit id it means.
pub trait IdWord: Plain {
    /// The id, as far as it can be shown.
    fn show(id: u32) -> Self;
    /// What is shown, for a call that returns it.
    fn shown(id: u32) -> usize;
    /// The id that user space means.
    fn id(self) -> u32;
}

/// An id of 32 bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Id32(u32);

/// An id of 16 bits. All ones stands for "leave as it is", as it does in 32 bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Id16(u16);

impl IdWord for Id32 {
    #[inline(always)]
    fn show(id: u32) -> Self {
        Self(id)
    }
    #[inline(always)]
    fn shown(id: u32) -> usize {
        id as usize
    }
    #[inline(always)]
    fn id(self) -> u32 {
        self.0
    }
}

impl IdWord for Id16 {
    fn show(id: u32) -> Self {
        Self(limen_linux_abi::abi::arm::id16(id))
    }
    fn shown(id: u32) -> usize {
        Self::show(id).0.into()
    }
    fn id(self) -> u32 {
        if self.0 == u16::MAX {
            u32::MAX
        } else {
            self.0.into()
        }
    }
}

impl FromArgs for Id32 {
    type Value = u32;
    #[inline(always)]
    fn take(frame: &Frame, next: &mut usize) -> u32 {
        u32::take(frame, next)
    }
}

impl FromArgs for Id16 {
    type Value = u32;
    #[inline(always)]
    fn take(frame: &Frame, next: &mut usize) -> u32 {
        Self(u16::take(frame, next)).id()
    }
}
