//! Where a core file's bytes go, in order: to a file, where what is left out is a hole, or into a pipe.

use crate::fs::File;
use crate::fs::core_file;
use crate::fs::io::IoSrc;
use crate::task::current;
use alloc::sync::Arc;

/// A file or a pipe that is being filled.
pub struct Sink {
    file: Arc<File>,
    /// A pipe has no holes.
    seeks: bool,
    at: u64,
    /// How many bytes may be written at most (`RLIMIT_CORE`). Holes are not counted.
    left: u64,
}

impl Sink {
    /// At most `limit` bytes go into a file.
    pub fn file(file: Arc<File>, limit: u64) -> Self {
        Self {
            file,
            seeks: true,
            at: 0,
            left: limit,
        }
    }
    /// All goes into a pipe.
    pub fn pipe(file: Arc<File>) -> Self {
        Self {
            file,
            seeks: false,
            at: 0,
            left: u64::MAX,
        }
    }

    /// Adds bytes. `None`: not all of them could be added. Sleeps.
    pub fn write(&mut self, bytes: &[u8]) -> Option<()> {
        self.left = self.left.checked_sub(bytes.len() as u64)?;
        let mut from = IoSrc::kernel(bytes);
        while from.remaining() != 0 {
            if current().fatal_signal_pending() {
                return None;
            }
            let place = self.seeks.then_some(self.at);
            match self.file.write_quietly(&mut from, place) {
                Ok(0) | Err(_) => return None,
                Ok(written) => self.at += written as u64,
            }
        }
        Some(())
    }

    /// Goes on at byte `place`; what is between reads as zeros. Sleeps.
    pub fn skip_to(&mut self, place: u64) -> Option<()> {
        const ZEROS: [u8; 512] = [0; 512];
        if self.seeks {
            self.at = place;
            return Some(());
        }
        while self.at < place {
            let len = (place - self.at).min(ZEROS.len() as u64) as usize;
            self.write(&ZEROS[..len])?;
        }
        Some(())
    }

    /// The last bytes may be a hole. Sleeps.
    pub fn finish(&mut self) -> Option<()> {
        match self.seeks {
            true => core_file::set_length(&self.file, self.at).ok(),
            false => Some(()),
        }
    }
}
