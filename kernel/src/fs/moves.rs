//! Whether names or mounts moved while a thread read several of them one after the other: a path that is
//! written out from its end, a walk that must not leave a tree. A mover says so before and after its change.
//! A reader takes note before it reads, and asks afterwards (a sequence count).

use core::hint::spin_loop;
use core::sync::atomic::{AtomicU64, Ordering, fence};

/// How many moves have begun.
static BEGUN: AtomicU64 = AtomicU64::new(0);
/// How many moves have ended.
static ENDED: AtomicU64 = AtomicU64::new(0);

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
        BEGUN.fetch_add(1, Ordering::AcqRel);
        Self(())
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        ENDED.fetch_add(1, Ordering::Release);
    }
}

/// The number of moves at some moment.
#[derive(Clone, Copy)]
pub struct Seen(u64);

impl Seen {
    /// For readers that never ask.
    pub const NEVER: Self = Self(0);

    /// The number of moves up to now.
    pub fn now() -> Self {
        for _ in 0..PATIENCE {
            let ended = ENDED.load(Ordering::Acquire);
            if BEGUN.load(Ordering::Relaxed) == ended {
                return Self(ended);
            }
            spin_loop();
        }
        Self(ENDED.load(Ordering::Acquire))
    }

    /// Whether nothing has moved since. Every place that the reader looked at is locked when it is written
    /// and when it is read. So a reader that saw a change of a mover also sees that the move has begun.
    pub fn still(self) -> bool {
        fence(Ordering::Acquire);
        BEGUN.load(Ordering::Relaxed) == self.0
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
