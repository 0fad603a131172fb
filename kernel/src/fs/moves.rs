//! Whether names or mounts moved while a thread read several of them one after the other: a path that is
//! written out from its end, a walk that must not leave a tree. A mover says so before and after its change.
//! A reader takes note before it reads, and asks afterwards (a sequence count).

use core::sync::atomic::{AtomicUsize, Ordering, fence};

/// A count in a line of its own, as every walk reads it.
#[repr(align(64))]
struct Count(AtomicUsize);

/// How many moves have begun. No reader lasts so long that the counts come around.
static BEGUN: Count = Count(AtomicUsize::new(0));
/// How many moves have ended.
static ENDED: Count = Count(AtomicUsize::new(0));

/// While no walk is to be plain the count of ended moves is so far from the other one.
const APART: usize = 1 << (usize::BITS - 1);

/// From now on no walk is plain: each counts what it finds, and may be noted. The next call ends that, and so
/// on. One caller at a time.
pub fn toggle_plain_walks() {
    ENDED.0.fetch_add(APART, Ordering::SeqCst);
}

/// How long to wait for the end of a move, which takes a few stores.
const PATIENCE: u32 = 1000;
/// How often to read again at most.
const LOOKS: u32 = 1000;

/// A move that is going on: of a name, with both directories locked, or of a mount, with the lock of all
/// changes of mounts held.
pub struct Moving(());

impl Moving {
    /// Called before the first change that readers can see.
    #[inline]
    pub fn begin() -> Self {
        BEGUN.0.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        ENDED.0.fetch_add(1, Ordering::Release);
    }
}

/// The number of moves at some moment.
#[derive(Clone, Copy)]
pub struct Seen(usize);

impl Seen {
    /// For readers that never ask.
    pub const NEVER: Self = Self(0);

    /// The number of moves up to now.
    pub fn now() -> Self {
        for _ in 0..PATIENCE {
            let ended = ENDED.0.load(Ordering::Acquire);
            let begun = BEGUN.0.load(Ordering::Relaxed);
            if begun == ended {
                return Self(ended);
            }
            if begun == ended.wrapping_add(APART) {
                return Self(begun);
            }
            crate::arch::irq::spin_hint();
        }
        Self(ENDED.0.load(Ordering::Acquire))
    }

    /// The number of moves that have ended. If one goes on, or walks are not to be plain, [`Self::still`]
    /// will say that something moved.
    #[inline(always)]
    pub fn at_once() -> Self {
        Self(ENDED.0.load(Ordering::Acquire))
    }

    /// Whether nothing has moved since. Every place that the reader looked at is locked when it is written
    /// and when it is read, or is a pointer of [`crate::rcu::Slot`], which is loaded with acquire and stored
    /// with release. So a reader that saw a change of a mover also sees that the move has begun.
    #[inline(always)]
    pub fn still(self) -> bool {
        fence(Ordering::Acquire);
        BEGUN.0.load(Ordering::Relaxed) == self.0
    }

    /// [`Self::still`] of a reader that has just counted a reference. A mover that looks at the count after
    /// it has begun sees that reference, or the reader sees the mover.
    #[inline(always)]
    pub fn is_still_counted(self) -> bool {
        fence(Ordering::SeqCst);
        BEGUN.0.load(Ordering::SeqCst) == self.0
    }
}

/// The result of `look` while nothing moves, and whether nothing did: after some attempts the last result is
/// returned, so that endless moves do not keep the reader.
pub fn steadily<T>(mut look: impl FnMut() -> T) -> (T, bool) {
    let mut left = LOOKS;
    loop {
        let seen = Seen::now();
        let found = look();
        let still = seen.still();
        left -= 1;
        if still || left == 0 {
            return (found, still);
        }
    }
}
