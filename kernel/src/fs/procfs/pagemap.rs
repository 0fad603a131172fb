//! `/proc/<pid>/pagemap`: for each page of a memory, 64 bits that say what is there.

use super::process::Subject;
use crate::arch::mmu::USER_END;
use crate::fs::file::{File, FileOps};
use crate::fs::inode::{Dev, FileType};
use crate::fs::io::IoDst;
use crate::fs::pseudo::{Node, read_from};
use crate::mm::{AddressSpace, PAGE_SHIFT, PAGE_SIZE};
use crate::task::creds::cap;
use crate::task::current;
use alloc::sync::Arc;
use limen_linux_abi::Errno;
use limen_linux_abi::SysResult;

/// Bytes for a page.
const ENTRY: usize = 8;
/// Mapped nowhere else.
const EXCLUSIVE: u64 = 1 << 56;
/// A file's, or shared.
const FILE: u64 = 1 << 61;
/// In memory.
const PRESENT: u64 = 1 << 63;
/// How many pages are looked at at once.
const AT_ONCE: usize = 64;

/// The file.
pub fn node(subject: &Subject) -> Node {
    let subject = subject.clone();
    Node::Special(
        0o400,
        FileType::Regular,
        Dev::default(),
        Arc::new(move |_| {
            Ok(Arc::new(PageMap {
                mm: subject.look(|mm| mm.cloned())?,
                frames: current().creds().capable(cap::SYS_ADMIN),
            }))
        }),
    )
}

struct PageMap {
    mm: Option<Arc<AddressSpace>>,
    /// Whether it tells which page frames there are: to whom it was opened for.
    frames: bool,
}

impl PageMap {
    /// What is said of the pages from `first` on.
    fn look(&self, mm: &AddressSpace, first: usize, entries: &mut [u64]) {
        let start = first << PAGE_SHIFT;
        entries.fill(0);
        mm.for_each_page(start, start + entries.len() * PAGE_SIZE, |addr, page| {
            let Some(entry) = entries.get_mut((addr >> PAGE_SHIFT) - first) else {
                return;
            };
            *entry = PRESENT;
            if self.frames {
                *entry |= page.frame;
            }
            if page.file {
                *entry |= FILE;
            }
            if page.mappings == 1 {
                *entry |= EXCLUSIVE;
            }
        });
    }

    fn read_at(&self, dst: &mut IoDst<'_>, pos: u64) -> SysResult {
        let Some(mm) = self.mm.as_ref().filter(|mm| mm.is_used()) else {
            return Ok(0);
        };
        if pos > i64::MAX as u64
            || !pos.is_multiple_of(ENTRY as u64)
            || !dst.remaining().is_multiple_of(ENTRY)
        {
            return Err(Errno::EINVAL);
        }
        let end = USER_END >> PAGE_SHIFT;
        let mut page = usize::try_from(pos / ENTRY as u64).unwrap_or(end);
        let mut total = 0;
        while dst.remaining() > 0 && page < end {
            let mut entries = [0; AT_ONCE];
            let count = (dst.remaining() / ENTRY).min(end - page).min(AT_ONCE);
            let entries = &mut entries[..count];
            self.look(mm, page, entries);
            for entry in entries {
                total += dst.put(&entry.to_ne_bytes())?;
            }
            page += count;
            if current().fatal_signal_pending() {
                break;
            }
        }
        Ok(total)
    }
}

impl FileOps for PageMap {
    fn read(&self, file: &File, dst: &mut IoDst<'_>, pos: Option<u64>) -> SysResult {
        read_from(file, pos, |pos| self.read_at(dst, pos))
    }
    fn seek(&self, file: &File, offset: i64, whence: u32) -> Result<u64, Errno> {
        let mut pos = file.pos.lock();
        // Any: it is reading there that fails.
        *pos = match whence {
            0 => offset as u64,
            1 => pos.wrapping_add(offset as u64),
            _ => return Err(Errno::EINVAL),
        };
        Ok(*pos)
    }
}
