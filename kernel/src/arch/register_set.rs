//! What an architecture says of its register sets, for tracers (`regset`).

use super::frame::Frame;
use super::switch::Context;
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

/// The numbers of requests that are not the same everywhere.
pub struct Requests {
    /// `PTRACE_SYSEMU` and its single step.
    pub sysemu: [i32; 2],
    /// Requests that copy a register set, both ways, with its place in the list of sets; the data is the
    /// user's buffer. -1: there is no such request.
    pub sets: &'static [(i32, i32, usize)],
    /// The data becomes the system call's number.
    pub set_syscall: Option<i32>,
    /// Words that have numbers.
    pub words: Option<Words>,
    /// `PTRACE_SINGLEBLOCK`.
    pub block_step: Option<i32>,
    /// A request for the bases of segments (`PTRACE_ARCH_PRCTL`), and what its data, a code, asks for: that
    /// the base is set, or else read. `None`: there is no such code.
    pub bases: Option<(i32, fn(i32) -> Option<(bool, Base)>)>,
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
