//! What an architecture says of its register sets, for tracers (`regset`).

use super::frame::Frame;
use super::switch::Context;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// A register set (`NT_*`).
pub struct RegisterSet {
    /// Its number; 0 for what only a request of its own copies.
    pub note: u32,
    /// Its size in bytes.
    pub size: fn() -> usize,
    /// Copies it out; the buffer has its size.
    pub get: fn(&mut Frame, &mut Context, &mut [u8]),
    /// Makes the registers what the buffer, which has its size, says. `EINVAL`, `EIO`: it says what cannot
    /// be, and nothing has changed.
    pub set: fn(&mut Frame, &mut Context, &[u8]) -> Result<(), Errno>,
}

/// A register set whose size is the thread's.
pub struct VaryingSet {
    /// Its number.
    pub note: u32,
    /// Bytes that a tracer is told of at most; 0: the processor has no such set.
    pub most: fn() -> usize,
    /// A tracer's vector is a multiple of so many bytes.
    pub unit: usize,
    /// Bytes that the thread has of it, [`Self::most`] at most.
    pub len: fn(&Context) -> usize,
    /// Copies it out; the buffer has its size.
    pub get: fn(&Context, &mut [u8]),
    /// Memory that [`Self::set`], which cannot allocate, may need for these bytes. `ENOMEM`. Thread.
    pub room: fn(&[u8]) -> Result<Room, Errno>,
    /// Makes the registers what a tracer gave, which may be less or more than there is; takes the room, and
    /// gives back what was not needed. `EINVAL`, `EIO`: it says what cannot be.
    pub set: fn(&mut Context, &[u8], &mut Room) -> Result<(), Errno>,
}

/// Memory for registers: what may be needed; what is not needed any more, which cannot be freed there.
pub type Room = [Vec<u128>; 2];

/// The numbers of requests that are not the same everywhere.
pub struct Requests {
    /// `PTRACE_SYSEMU` and its single step.
    pub sysemu: [i32; 2],
    /// Requests that copy a register set.
    pub sets: &'static [Copies],
    /// The data becomes the system call's number.
    pub set_syscall: Option<i32>,
    /// Words that have numbers.
    pub words: Option<Words>,
    /// `PTRACE_SINGLEBLOCK`.
    pub block_step: Option<i32>,
    /// A request for the bases of segments (`PTRACE_ARCH_PRCTL`), and what its data, a code, asks for: that
    /// the base is set, or else read. `None`: there is no such code.
    pub bases: Option<(i32, fn(i32) -> Option<(bool, Base)>)>,
    /// `PTRACE_GET_THREAD_AREA` and `PTRACE_SET_THREAD_AREA`.
    pub areas: Option<Areas>,
}

/// Two requests that copy a part of a register set, which the address chooses. The data is the user's
/// buffer.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "for architectures with such requests")]
pub struct Areas {
    /// The request that reads it.
    pub get: i32,
    /// The request that sets it.
    pub set: i32,
    /// The set's place in the list of sets.
    pub of: usize,
    /// Bytes of a part.
    pub len: usize,
    /// Where the part with a number begins. `EINVAL`: there is none.
    pub at: fn(usize) -> Result<usize, Errno>,
}

/// Two requests that copy the beginning of a register set. The data is the user's buffer.
#[derive(Clone, Copy, Debug)]
pub struct Copies {
    /// The request that reads it.
    pub get: i32,
    /// The request that sets it; -1: there is none.
    pub set: i32,
    /// The set's place in the list of sets.
    pub of: usize,
    /// Bytes of the buffer; the set may be longer.
    pub len: usize,
}

/// All of the set at place `of`.
#[allow(dead_code, reason = "for architectures with such requests")]
pub const fn all_of(of: usize, get: i32, set: i32) -> Copies {
    let len = usize::MAX;
    Copies { get, set, of, len }
}

/// Which words of the first set are a segment's.
#[derive(Clone, Copy, Debug)]
pub struct Base {
    /// Its base.
    pub base: usize,
    /// Its selector, 0 when the base has been set.
    pub selector: usize,
}

/// Requests for words that have numbers; the data is a pointer to the word.
pub struct Words {
    /// The request that reads one.
    pub get: i32,
    /// The request that sets one.
    pub set: i32,
    /// A number's register set and place in it. `None`: there is no such word.
    pub set_and_place: fn(isize) -> Option<(usize, usize)>,
}

/// After what a stepped thread stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Its next instruction.
    Instruction,
    /// Its next branch.
    Block,
}

/// The word at byte `at` of a set.
pub fn word(bytes: &[u8], at: usize) -> usize {
    let mut word = [0; size_of::<usize>()];
    let len = word.len();
    if let Some(from) = bytes.get(at * len..(at + 1) * len) {
        word.copy_from_slice(from);
    }
    usize::from_ne_bytes(word)
}

/// Stores words one after the other, as many as fit; the rest is zeroed.
pub fn put_words(bytes: &mut [u8], words: impl IntoIterator<Item = usize>) {
    bytes.fill(0);
    for (to, from) in bytes.chunks_exact_mut(size_of::<usize>()).zip(words) {
        to.copy_from_slice(&from.to_ne_bytes());
    }
}
