//! One mapping of an address space: what is mapped, how it may be accessed, and how it behaves.

use super::cache::PageCache;
use super::page::Page;
use super::{PAGE_SHIFT, Prot};
use crate::arch::mmu::READABLE;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bitflags::bitflags;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use limen_linux_abi::Errno;

bitflags! {
    /// A mapping's properties.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct VmFlags: u32 {
        /// May be read, written, executed now (`READ`, `WRITE`, `EXEC`).
        const READ = 1;
        /// See `READ`.
        const WRITE = 2;
        /// See `READ`.
        const EXEC = 4;
        /// Writes are seen by all processes that map the same file.
        const SHARED = 8;
        /// `mprotect` may allow it to be read, written, executed (`MAYREAD`, `MAYWRITE`, `MAYEXEC`).
        const MAYREAD = 0x10;
        /// See `MAYREAD`.
        const MAYWRITE = 0x20;
        /// See `MAYREAD`.
        const MAYEXEC = 0x40;
        /// Grows downwards when a fault hits the addresses below it (stacks).
        const GROWSDOWN = 0x100;
        /// `mlock`ed.
        const LOCKED = 0x200;
        /// Not inherited by fork.
        const DONTFORK = 0x400;
        /// Zeros in a forked child.
        const WIPEONFORK = 0x800;
        /// Not part of core dumps.
        const DONTDUMP = 0x1000;
        /// `MAP_NORESERVE`.
        const NORESERVE = 0x2000;
        /// Counts in `Committed_AS`.
        const ACCOUNT = 0x4000;
        /// `MADV_HUGEPAGE`.
        const HUGEPAGE = 0x8000;
        /// `MADV_NOHUGEPAGE`.
        const NOHUGEPAGE = 0x1_0000;
        /// `MADV_MERGEABLE`.
        const MERGEABLE = 0x2_0000;
        /// `MADV_SEQUENTIAL` and `MADV_RANDOM`.
        const SEQ_READ = 0x4_0000;
        /// See `SEQ_READ`.
        const RAND_READ = 0x8_0000;
        /// The main stack, shown as `[stack]`.
        const STACK = 0x10_0000;
        /// Pages that the kernel owns (vDSO): the mapping is never split, and never grows or shrinks.
        const SPECIAL = 0x20_0000;
        /// They are data that the kernel goes on changing (`VM_IO`, `VM_PFNMAP`): a program cannot have
        /// copies of its own, and nobody but itself reads them.
        const KERNEL_DATA = 0x80_0000;
        /// `MLOCK_ONFAULT`.
        const LOCKONFAULT = 0x40_0000;
        /// The bits for read, write and execute.
        const ACCESS = 7;
        /// The bits for what `mprotect` may allow.
        const MAYACCESS = 0x70;
    }
}

impl VmFlags {
    /// The access bits as page permissions. Whatever may be written can be read: else a page of a write-only
    /// mapping would lose its last permission when it is write-protected. On most processors whatever may be
    /// executed can be read as well.
    #[inline(always)]
    pub fn prot(self) -> Prot {
        let prot = Prot::from_bits_truncate(self.bits() as u8 & 7);
        if prot.intersects(READABLE) {
            prot.union(Prot::READ)
        } else {
            prot
        }
    }
    /// Access bits from page permissions.
    #[inline(always)]
    pub fn from_prot(prot: Prot) -> Self {
        Self::from_bits_truncate(prot.bits() as u32)
    }
    /// Whether it is private memory that may become writable, and so is copied on write.
    #[inline(always)]
    pub fn is_cow(self) -> bool {
        self.intersection(Self::SHARED.union(Self::MAYWRITE)) == Self::MAYWRITE
    }
}

/// What `mm` needs to know of a mapped file. `fs` implements it for open files.
pub trait MappedFile: Send + Sync {
    /// The path as shown in `/proc/pid/maps`. `ENOMEM`.
    fn path(&self) -> Result<Vec<u8>, Errno>;
    /// Device (encoded as in `stat`) and inode number.
    fn id(&self) -> (u64, u64);
    /// Makes the bytes `[start, end)` read as zeros and frees their pages. `EPERM`: a seal forbids it.
    fn punch_hole(&self, start: u64, end: u64) -> Result<(), Errno>;
    /// Whether the running task may learn which pages of the file are in memory: it owns the file or may
    /// write to it.
    fn tells_residency(&self) -> bool;
    /// Whether it has no name any more.
    fn is_unlinked(&self) -> bool;
}

/// A file to be mapped.
#[derive(Clone)]
pub struct FileMap {
    /// Its pages. `None`: it has none, and each mapping has zeros of its own (`/dev/zero`).
    pub cache: Option<Arc<PageCache>>,
    /// The open file, which the mapping keeps open. `None`: shared anonymous memory, a file of the kernel's.
    pub file: Option<Arc<dyn MappedFile>>,
    /// The offset in bytes, a multiple of the page size.
    pub offset: u64,
    /// What mappings of it may ever allow: `WRITE` only if the file is open for writing, `EXEC` only if it is
    /// not mounted `noexec`.
    pub may: Prot,
}

/// Pages of the kernel that are mapped into programs (vDSO, time data).
pub struct SpecialPages {
    /// The name in `/proc/pid/maps`, brackets included.
    pub name: &'static str,
    /// The pages.
    pub pages: Vec<Page>,
}

/// What is behind a mapping.
#[derive(Clone)]
pub enum Backing {
    /// Memory that is zero at first.
    Anonymous,
    /// A file's pages.
    File {
        /// The pages.
        cache: Arc<PageCache>,
        /// The open file.
        file: Option<Arc<dyn MappedFile>>,
    },
    /// The kernel's pages.
    Special(Arc<SpecialPages>),
}

/// A mapping. Its bounds are those of its region.
#[derive(Clone)]
pub struct Vma {
    /// Properties.
    pub flags: VmFlags,
    /// What it maps.
    pub backing: Backing,
    /// The index of its first page in the file. For anonymous memory: the page number of the address at which
    /// it was made.
    pub index: u64,
    /// Whether the process may have pages of its own in it.
    pub private: PrivatePages,
}

/// Set as soon as a private mapping of a file has a page that is not the file's. Until then fork need not
/// copy the entries: faults of the child find the same pages. Set with the regions locked for reading, read
/// with them locked for writing.
#[derive(Default)]
pub struct PrivatePages(AtomicBool);

impl PrivatePages {
    /// Notes that the mapping has such a page.
    #[inline(always)]
    pub fn note(&self) {
        if !self.0.load(Relaxed) {
            self.0.store(true, Relaxed);
        }
    }
    /// Whether the mapping may have such a page.
    pub fn any(&self) -> bool {
        self.0.load(Relaxed)
    }
    /// The mapping is joined with one that had `other`.
    pub fn join(&self, other: &Self) {
        if other.any() {
            self.note();
        }
    }
}

impl Clone for PrivatePages {
    fn clone(&self) -> Self {
        Self(AtomicBool::new(self.any()))
    }
}

impl Vma {
    /// Whether it maps what only its programs can reach (`memfd_secret`).
    pub fn is_secret(&self) -> bool {
        matches!(&self.backing, Backing::File { cache, .. } if cache.is_secret())
    }

    /// The part of it that begins `offset` bytes later.
    pub fn tail(&self, offset: usize) -> Self {
        Self {
            index: self.index + (offset >> PAGE_SHIFT) as u64,
            ..self.clone()
        }
    }

    /// Whether `next`, which begins `len` bytes behind the start of this one, continues it.
    pub fn continues(&self, len: usize, next: &Vma) -> bool {
        if self.flags != next.flags || self.flags.intersects(VmFlags::SPECIAL) {
            return false;
        }
        match (&self.backing, &next.backing) {
            (Backing::Anonymous, Backing::Anonymous) => true,
            (Backing::File { cache: a, file: f }, Backing::File { cache: b, file: g }) => {
                let same_file = match (f, g) {
                    (None, None) => true,
                    (Some(f), Some(g)) => core::ptr::addr_eq(Arc::as_ptr(f), Arc::as_ptr(g)),
                    _ => false,
                };
                Arc::ptr_eq(a, b)
                    && !a.is_attached()
                    && same_file
                    && self.index + (len >> PAGE_SHIFT) as u64 == next.index
            }
            _ => false,
        }
    }

    /// The file's page cache, if it maps a file.
    #[inline(always)]
    pub fn cache(&self) -> Option<&Arc<PageCache>> {
        match &self.backing {
            Backing::File { cache, .. } => Some(cache),
            _ => None,
        }
    }

    /// The index in the file at `offset` bytes from the mapping's start.
    #[inline(always)]
    pub fn index_at(&self, offset: usize) -> u64 {
        self.index + (offset >> PAGE_SHIFT) as u64
    }
}
