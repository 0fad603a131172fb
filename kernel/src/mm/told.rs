//! Where a thread's `struct rseq` lies, and what the kernel wrote to it last: side by side, so that the way
//! out to user mode compares both in a few instructions.

use super::user::UserBlock;
use crate::arch::uaccess;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// Bytes of the `struct rseq` that the kernel accesses.
const LEN: usize = 32;

/// See the file's head.
#[derive(Debug)]
#[repr(C)]
pub struct Told {
    /// The address of a [`UserBlock`], or 0.
    at: AtomicUsize,
    /// In the order of `struct rseq`: `cpu_id_start`, `cpu_id`, `node_id`, `mm_cid`.
    words: [AtomicU32; 4],
}

impl Told {
    /// Of a thread without a `struct rseq`.
    pub const fn new() -> Self {
        Self {
            at: AtomicUsize::new(0),
            words: [const { AtomicU32::new(0) }; 4],
        }
    }
    /// Where it lies; 0: nowhere.
    #[inline(always)]
    pub fn at(&self) -> usize {
        self.at.load(Relaxed)
    }
    /// [`Told::at`], as what it was set from.
    #[inline(always)]
    pub fn place(&self) -> Option<UserBlock<LEN>> {
        let at = self.at();
        // SAFETY: not 0, so it is the address of such a block.
        (at != 0).then(|| unsafe { UserBlock::checked(at) })
    }
    /// Says where it lies.
    #[inline(always)]
    pub fn set_at(&self, at: Option<UserBlock<LEN>>) {
        self.at.store(at.map_or(0, UserBlock::addr), Relaxed);
    }
    /// What was written last: one of the four words.
    #[inline(always)]
    pub fn word<const WHICH: usize>(&self) -> u32 {
        const { assert!(WHICH < 4) };
        self.words[WHICH].load(Relaxed)
    }
    /// Notes what is written.
    #[inline(always)]
    pub fn set_words(&self, words: [u32; 4]) {
        for (to, word) in self.words.iter().zip(words) {
            to.store(word, Relaxed);
        }
    }
    /// Whether the `struct rseq` in the running thread's memory, if it is a legacy one, still says these
    /// words and no critical section. `false` also if it cannot be read without a fault.
    ///
    /// This is a part of `holder`: it lies `AT` bytes behind a place that is `NEAR` bytes behind the holder's
    /// address, and the words `WORDS` bytes behind that place. So the compiler needs one address for all.
    #[inline(always)]
    pub fn is_said<T, const NEAR: usize, const AT: usize, const WORDS: usize>(&self, holder: &T) -> bool {
        const {
            assert!(NEAR + AT + size_of::<Self>() <= size_of::<T>());
            assert!(WORDS == AT + offset_of!(Self, words));
        }
        let near = (&raw const *holder).cast::<u8>().wrapping_add(NEAR);
        assert!(core::ptr::eq(near.wrapping_add(AT).cast(), self));
        // SAFETY: `self` lies there, within `holder`. Its address is that of a block of user memory, or 0,
        // where there could be one.
        unsafe { uaccess::rseq_as_told::<AT, WORDS>(near) }
    }
}
