//! Room that was reserved: filled, then committed or discarded.

use crate::atomic::{AtomicU32, Ordering};
use crate::format::{DELTA_BITS, PADDING, header, parts, split};
use crate::ring::{Page, Ring, State};
use crate::writer::{Cpu, ordered};

/// Room for an event, which is recorded by [`Self::commit`]. Dropped otherwise, it is discarded.
#[must_use]
pub struct Reservation<'a, C: Cpu> {
    pub(crate) ring: &'a Ring,
    pub(crate) page: &'a Page,
    pub(crate) cpu: C,
    pub(crate) nest: u32,
    /// The page's number.
    pub(crate) tail: u32,
    /// Words in front of the data, without a time event.
    pub(crate) front: u32,
    pub(crate) data: &'a [AtomicU32],
    pub(crate) old: State,
    pub(crate) new: State,
}

impl<'a, C: Cpu> Reservation<'a, C> {
    /// The words of the data, to be stored to. They hold what was there before.
    #[inline]
    pub fn words(&self) -> &'a [AtomicU32] {
        self.data
    }

    /// Stores bytes from the first on, and zeros into what remains of the last word that they reach.
    #[inline]
    pub fn put(&self, data: &[u8]) {
        let mut words = self.words().iter();
        let (whole, rest) = data.as_chunks::<4>();
        for (bytes, word) in whole.iter().zip(&mut words) {
            word.store(u32::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        if let (false, Some(word)) = (rest.is_empty(), words.next()) {
            let mut last = [0; 4];
            last[..rest.len()].copy_from_slice(rest);
            word.store(u32::from_ne_bytes(last), Ordering::Relaxed);
        }
    }

    /// The event is recorded. Readers see it when the outermost writer has ended.
    #[inline]
    pub fn commit(self) {
        self.ring.end(self.cpu, self.nest, self.tail, self.page);
        core::mem::forget(self);
    }

    /// The event has not happened.
    pub fn discard(self) {}

    #[cold]
    #[inline(never)]
    fn undo(&self) {
        let state = &self.page.state;
        ordered();
        self.cpu.interrupt();
        if state
            .compare_exchange(self.new.0, self.old.0, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
        {
            return;
        }
        // Others are behind it. Their times count from this event, so its own difference stays; but
        // a difference of 0 means something else.
        let body = &self.page.body;
        let size = self.front as usize + self.data.len();
        let first = self.new.words() as usize - size;
        let (_, mut delta) = parts(body[first].load(Ordering::Relaxed));
        if delta == 0 {
            let front = self.old.words() as usize;
            if front != first {
                let (kind, low) = parts(body[front].load(Ordering::Relaxed));
                let high = u64::from(body[front + 1].load(Ordering::Relaxed));
                // A time (no difference) may be 0, and goes back to the greatest.
                let (low, high) = split((high << DELTA_BITS | low).wrapping_sub(1));
                body[front].store(header(kind, low), Ordering::Relaxed);
                body[front + 1].store(high, Ordering::Relaxed);
            }
            // As in Linux: what is behind an event of the same time seems one unit later.
            delta = 1;
        }
        let bytes = (size - 1) * 4;
        body[first].store(header(PADDING, delta as u32), Ordering::Relaxed);
        body[first + 1].store(bytes as u32, Ordering::Relaxed);
        let mut now = state.load(Ordering::Relaxed);
        loop {
            self.cpu.interrupt();
            match state.compare_exchange(now, now - State::EVENT, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => now = other,
            }
        }
    }
}

impl<C: Cpu> Drop for Reservation<'_, C> {
    fn drop(&mut self) {
        self.undo();
        self.ring.end(self.cpu, self.nest, self.tail, self.page);
    }
}
