//! A buffer of another number of pages with the same events.

use crate::atomic::{AtomicU64, Ordering};
use crate::cursor::Cursor;
use crate::reader::Reader;
use crate::ring::{DONE, Error, Position, Ring, State};
use core::ops::Deref;

impl<P: Deref<Target = Ring>> Reader<P> {
    /// A buffer of `pages` pages with the newest events of this one that can be read; those that do not fit
    /// count as overwritten. Recording must be off and writers have ended, see [`crate::Ring::disable`]; it
    /// is off as often in the new one. `share`: as in [`Self::new`]. The caller gives writers the new buffer
    /// ([`Self::ring`]) and drops this one.
    ///
    /// # Errors
    ///
    /// As [`Self::new`]. [`Error::Busy`]: as [`Self::reset`].
    pub fn resized(&self, pages: usize, share: impl FnOnce(Ring) -> Option<P>) -> Result<Self, Error> {
        let old = &*self.ring;
        if old.is_enabled() || !old.is_idle() {
            return Err(Error::Busy);
        }
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let overwrite = old.overwrite.load(Ordering::Relaxed) != 0;
        let mut reader = Self::new(pages, old.layout(), overwrite, share)?;
        let new = &*reader.ring;
        let disabled = old.disabled.load(Ordering::Relaxed);
        new.disabled.store(disabled, Ordering::Relaxed);
        // How many pages there are, then the last of them.
        let mut cursor = Cursor::new(self)?;
        let mut full = 0;
        while cursor.page(self).is_some() {
            full += 1;
        }
        cursor.rewind(self);
        // What the reader has noticed as lost is in both.
        let mut first = self.passed - self.lost;
        let (mut lost, mut lost_bytes) = (0, 0);
        for _ in pages..full {
            if let Some(page) = cursor.page(self) {
                first += page.lost + page.events;
                lost += page.events;
                lost_bytes += page.bytes.len() as u64;
            }
        }
        reader.passed = self.passed - self.lost;
        reader.read = self.read;
        reader.read_bytes = self.read_bytes + self.view.at as u64;
        let mut bytes_before = get(&old.lost_bytes) + reader.read_bytes + lost_bytes;
        let (mut slot, mut left) = (0, full.min(pages));
        while left != 0 {
            let Some(copy) = cursor.page(self) else { break };
            left -= 1;
            first += copy.lost;
            let page = &new.pages[slot];
            for (word, bytes) in page.body.iter().zip(copy.bytes.as_chunks::<4>().0) {
                word.store(u32::from_ne_bytes(*bytes), Ordering::Relaxed);
            }
            let words = copy.bytes.len() as u64 / 4;
            let position = Position::new(1, slot);
            page.state
                .store(State::closed(words, copy.events, 1).0, Ordering::Relaxed);
            page.stamp.store(copy.stamp, Ordering::Relaxed);
            page.position.store(position.0, Ordering::Relaxed);
            page.first.store(first, Ordering::Relaxed);
            let more = if left != 0 { DONE } else { 0 };
            page.commit.store((words as u32 * 4) | more, Ordering::Relaxed);
            if left != 0 {
                first += copy.events;
                bytes_before += words * 4;
            }
            new.tail.store(slot as u32, Ordering::Relaxed);
            new.commit_page.store(slot as u32, Ordering::Relaxed);
            new.commit.store(position.0, Ordering::Release);
            let spare = &new.pages[new.pages()];
            spare.commit.store(DONE, Ordering::Release);
            slot += 1;
        }
        new.done_events.store(first, Ordering::Relaxed);
        new.done_bytes.store(bytes_before, Ordering::Relaxed);
        new.overrun.store(get(&old.overrun) + lost, Ordering::Relaxed);
        let all_lost = get(&old.lost_bytes) + lost_bytes;
        new.lost_bytes.store(all_lost, Ordering::Relaxed);
        let counts = [
            (&new.commit_overrun, &old.commit_overrun),
            (&new.dropped, &old.dropped),
        ];
        for (to, from) in counts {
            to.store(get(from), Ordering::Relaxed);
        }
        // All loss is yet to be noticed, by the first page.
        if slot == 0 {
            (reader.passed, reader.lost) = (self.passed, self.lost);
            new.done_events.store(self.passed, Ordering::Relaxed);
        }
        Ok(reader)
    }
}
