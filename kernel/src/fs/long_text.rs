//! Text files that may be too long for memory: their text is made in pieces, as it is read. Used by `procfs`.

use crate::fs::file::{File, FileOps};
use crate::fs::io::IoDst;
use crate::fs::pseudo::{Text, read_from, seek};
use crate::sync::Mutex;
use crate::task::current;
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;
use limen_linux_abi::SysResult;

/// An open text file. Each piece is found by the place at which the one before it ended.
struct LongFile<F> {
    make: F,
    progress: Mutex<Progress>,
}

/// How far the file has been read.
#[derive(Default)]
struct Progress {
    /// The position in the file.
    pos: u64,
    /// The piece of text at that position.
    piece: Vec<u8>,
    /// How many bytes of the piece lie before the position.
    read: usize,
    /// The place of the next piece.
    next: usize,
}

/// Opens a long text file. `make` adds the piece at a place, which is 0 first, and returns the place of the
/// next piece. `None`: there is no piece.
pub fn long_file(
    make: impl Fn(usize, &mut Text) -> Result<Option<usize>, Errno> + Send + Sync + 'static,
) -> Arc<dyn FileOps> {
    Arc::new(LongFile {
        make,
        progress: Mutex::new(Progress::default()),
    })
}

impl<F: Fn(usize, &mut Text) -> Result<Option<usize>, Errno>> LongFile<F> {
    /// Makes the next piece. Returns whether there was one.
    fn go_on(&self, at: &mut Progress) -> Result<bool, Errno> {
        if current().fatal_signal_pending() {
            return Err(Errno::EINTR);
        }
        let mut text = Text::default();
        let Some(next) = (self.make)(at.next, &mut text)? else {
            return Ok(false);
        };
        (at.piece, at.read, at.next) = (text.whole()?, 0, next);
        Ok(true)
    }

    fn read_on(&self, at: &mut Progress, dst: &mut IoDst<'_>, pos: u64) -> Result<(), Errno> {
        while dst.remaining() > 0 {
            let rest = &at.piece[at.read..];
            let n = if rest.is_empty() {
                if !self.go_on(at)? {
                    return Ok(());
                }
                0
            } else if at.pos < pos {
                (pos - at.pos).min(rest.len() as u64) as usize
            } else {
                dst.put(rest)?
            };
            at.read += n;
            at.pos += n as u64;
        }
        Ok(())
    }

    fn read_at(&self, dst: &mut IoDst<'_>, pos: u64) -> SysResult {
        let mut at = self.progress.lock();
        if at.pos != pos || pos == 0 {
            *at = Progress::default();
        }
        let result = self.read_on(&mut at, dst, pos);
        match at.pos.saturating_sub(pos) {
            0 => result.map(|()| 0),
            n => Ok(n as usize),
        }
    }
}

impl<F: Fn(usize, &mut Text) -> Result<Option<usize>, Errno> + Send + Sync + 'static> FileOps
    for LongFile<F>
{
    fn read(&self, file: &File, dst: &mut IoDst<'_>, pos: Option<u64>) -> SysResult {
        read_from(file, pos, |pos| self.read_at(dst, pos))
    }
    fn seek(&self, file: &File, offset: i64, whence: u32) -> Result<u64, Errno> {
        seek(file, offset, whence)
    }
}
