//! Recording in the usual case only: an outermost writer, whose event fits on the page, a little later than
//! the event in front of it. So an event takes as few instructions as can be; whatever is different is left
//! to [`crate::writer`], before anything was done.

use crate::atomic::{AtomicU32, Ordering};
use crate::format::{DATA_MAX, DELTA_BITS, header};
use crate::ring::{Ring, State};
use crate::writer::{Cpu, ordered};

/// What has become of an event.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {
    /// It is recorded.
    Done,
    /// It is recorded, and the caller is to call [`Ring::finish`].
    Unfinished,
    /// It is not the usual case: nothing was recorded, and the caller is to call [`Ring::finish`], then
    /// [`Ring::reserve`].
    Disturbed,
    /// It is not the usual case: nothing was done, and the caller is to call [`Ring::reserve`].
    Unusual,
}

impl Ring {
    /// Records an event of `N` words, of which there are not more than 28, if that is the usual case: `fill`
    /// stores them. They hold what was there before. Contexts as those of [`Self::reserve`].
    #[inline(always)]
    pub fn write_plain<const N: usize>(&self, cpu: impl Cpu, fill: impl FnOnce(&[AtomicU32; N])) -> Plain {
        const { assert!(N > 0 && N <= DATA_MAX as usize) };
        // Acquire and order: as in `reserve`.
        if self.disabled.load(Ordering::Acquire) | self.nest.load(Ordering::Relaxed) != 0 {
            return Plain::Unusual;
        }
        cpu.interrupt();
        self.nest.store(1, Ordering::Relaxed);
        ordered();
        cpu.interrupt();
        // Only outermost writers change it. As long as this page is open it is the tail; nothing fits on one
        // that is closed.
        let number = self.commit_page.load(Ordering::Relaxed);
        let Some(page) = self.pages.get(number as usize) else {
            return Plain::Disturbed;
        };
        cpu.interrupt();
        let old = State(page.state.load(Ordering::Relaxed));
        ordered();
        cpu.interrupt();
        let stamp = page.stamp.load(Ordering::Relaxed);
        let now = cpu.now();
        ordered();
        let delta = now.wrapping_sub(stamp).wrapping_sub(old.time());
        if delta >= 1 << DELTA_BITS {
            return Plain::Disturbed;
        }
        let at = old.words() as usize;
        let Some(event) = page.body.get(at..at + 1 + N) else {
            return Plain::Disturbed;
        };
        // Too late for the page: it does not fit into the word. If the sum is `LATE`, it is true as long as
        // events have this time, and the next later one is too late.
        let more = (1 + N as u64) * State::WORD + State::EVENT + (delta << State::TIME_SHIFT);
        let Some(new) = old.0.checked_add(more) else {
            return Plain::Disturbed;
        };
        cpu.interrupt();
        let swap = page
            .state
            .compare_exchange(old.0, new, Ordering::Relaxed, Ordering::Relaxed);
        if swap.is_err() {
            return Plain::Disturbed;
        }
        ordered();
        cpu.interrupt();
        if let [first, data @ ..] = event {
            first.store(header(N as u32, delta as u32), Ordering::Relaxed);
            if let Some(data) = data.first_chunk() {
                fill(data);
            }
        }
        ordered();
        cpu.interrupt();
        // As in `end`: the events up to here are written, and there is no writer.
        page.commit
            .store((at + 1 + N) as u32 * size_of::<u32>() as u32, Ordering::Release);
        ordered();
        cpu.interrupt();
        self.nest.store(0, Ordering::Release);
        ordered();
        cpu.interrupt();
        // Those that came before the store above have left the publishing to this one.
        if new == page.state.load(Ordering::Relaxed) {
            Plain::Done
        } else {
            Plain::Unfinished
        }
    }

    /// Publishes what writers have left to one that was not the usual case after all.
    #[cold]
    #[inline(never)]
    pub fn finish(&self, cpu: impl Cpu) {
        cpu.interrupt();
        self.nest.store(1, Ordering::Relaxed);
        ordered();
        self.end_unusual(cpu);
    }
}
