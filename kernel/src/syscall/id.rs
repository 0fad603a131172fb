//! User and group ids as system calls pass them: of 32 bits, and of 16 bits in the first calls of older ABIs.

use super::FromArgs;
use crate::arch::frame::Frame;
use limen_linux_abi::id::{Id16, Id32, IdWord};

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
        Id16::new(u16::take(frame, next)).id()
    }
}
