//! The `siginfo_t` of 32-bit programs, for processors with wider words: pointers and `long`s take one word,
//! so that the union behind the first integers begins a word earlier and what follows a pointer moves.

use super::{NUMBER, POINTER, SIZE, SigInfo, UNION, WORDS, code};
use crate::mm::user::UserPtr;
use crate::signal::{SIGBUS, SIGCHLD, SIGFPE, SIGILL, SIGIO, SIGSEGV, SIGSYS, SIGTRAP};
use limen_linux_abi::Errno;

/// Where the union begins in a narrow one.
const NARROW: usize = 3;

/// What the union holds: for each of its words in the narrow layout, where that begins in the wide one.
/// Pointers and `long`s are cut, or get an upper half of zeros.
type Shape = &'static [usize];

const ONLY_WORDS: Shape = &[0, 1];
const WITH_VALUE: Shape = &[0, 1, 2];
const FAULT: Shape = &[0, POINTER];
const CALL: Shape = &[0, POINTER, POINTER + 1];
const CHILD: Shape = &[
    0,
    1,
    2,
    3usize.next_multiple_of(POINTER),
    3usize.next_multiple_of(POINTER) + POINTER,
];

/// The shape for a signal and its code (Linux: `siginfo_layout`).
fn shape(sig: u32, code: i32) -> Shape {
    /// How many codes `SIGIO` has.
    const OF_IO: i32 = 6;
    let of_signal = code > 0 && code < code::KERNEL;
    match sig {
        SIGILL | SIGFPE | SIGSEGV | SIGBUS | SIGTRAP if of_signal => FAULT,
        SIGCHLD if of_signal => CHILD,
        SIGSYS if of_signal => CALL,
        _ if of_signal && (sig == SIGIO || code <= OF_IO) || code == code::SIGIO => FAULT,
        _ if code < 0 => WITH_VALUE,
        _ => ONLY_WORDS,
    }
}

impl SigInfo {
    /// The whole narrow `siginfo_t`.
    pub fn narrow_bytes(&self) -> [u8; SIZE] {
        let mut words = [0; SIZE / 4];
        words[..NARROW].copy_from_slice(&self.words[..NARROW]);
        words[0] &= NUMBER;
        for (to, from) in words[NARROW..].iter_mut().zip(shape(self.signal(), self.code())) {
            *to = self.words.get(UNION + from).copied().unwrap_or(0);
        }
        let mut bytes = [0; SIZE];
        for (to, from) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *to = u32::to_ne_bytes(from);
        }
        bytes
    }
    /// [`SigInfo::read_from`] of a narrow one. What its code says nothing about is dropped. `EFAULT`.
    pub fn read_narrow_from(at: usize, sig: u32) -> Result<Self, Errno> {
        let narrow: [u32; SIZE / 4] = UserPtr::new(at).read()?;
        let mut info = Self { words: [0; WORDS] };
        info.words[..NARROW].copy_from_slice(&narrow[..NARROW]);
        info.words[0] = sig;
        for (from, to) in narrow[NARROW..].iter().zip(shape(sig, info.code())) {
            if let Some(word) = info.words.get_mut(UNION + to) {
                *word = *from;
            }
        }
        Ok(info)
    }
}
