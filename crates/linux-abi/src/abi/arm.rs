//! The 32-bit Arm EABI: words of 32 bits, 64-bit integers aligned to eight bytes, and for most structures
//! with sizes or times a second one in 64 bits.

use super::{FileStatus, FsStatus, LockRequest, SystemInfo, layouts};
use crate::id::{gid16, uid16};

pub use super::generic::{Flock as Flock64, ioc, ioctl, mman, socket, termios, termios2};

pub use super::ipc::{
    ArmMsqid64Ds as Msqid64Ds, ArmSemid64Ds as Semid64Ds, ArmShmInfo as ShmInfo, ArmShmid64Ds as Shmid64Ds,
    ArmShminfo64 as Shminfo64,
};

/// Whether the commands of System V IPC say that the structures are the new ones (`IPC_64`).
pub const IPC_PARSE_VERSION: bool = true;
/// To how many pages addresses are aligned that programs choose for shared memory (`SHMLBA`).
pub const SHMLBA_PAGES: usize = 4;

/// `MAP_32BIT`: only x86_64 has it.
pub const MAP_32BIT: u32 = 0;

/// `FIOQSIZE`, which this ABI numbers otherwise.
pub const FIOQSIZE: u32 = 0x545e;

layouts! {
    /// `struct epoll_event` where it is not packed.
    EpollEvent = "struct epoll_event" {
        events: u32,
        _pad: u32,
        data: [u32; 2],
    }
    /// `struct stat` of the calls that came before `stat64`.
    Stat = "struct stat" {
        st_dev: u32,
        st_ino: u32,
        st_mode: u16,
        st_nlink: u16,
        st_uid: u16,
        st_gid: u16,
        st_rdev: u32,
        st_size: u32,
        st_blksize: u32,
        st_blocks: u32,
        st_atime: u32,
        st_atime_nsec: u32,
        st_mtime: u32,
        st_mtime_nsec: u32,
        st_ctime: u32,
        st_ctime_nsec: u32,
        _unused: [u32; 2],
    }
    /// `struct stat64`.
    Stat64 = "struct stat64" {
        st_dev: u64,
        _pad0: u32,
        __st_ino: u32,
        st_mode: u32,
        st_nlink: u32,
        st_uid: u32,
        st_gid: u32,
        st_rdev: u64,
        _pad3: [u32; 2],
        st_size: i64,
        st_blksize: u32,
        _pad4: u32,
        st_blocks: u64,
        st_atime: u32,
        st_atime_nsec: u32,
        st_mtime: u32,
        st_mtime_nsec: u32,
        st_ctime: u32,
        st_ctime_nsec: u32,
        st_ino: u64,
    }
    /// `struct statfs`.
    Statfs = "struct statfs" {
        f_type: u32,
        f_bsize: u32,
        f_blocks: u32,
        f_bfree: u32,
        f_bavail: u32,
        f_files: u32,
        f_ffree: u32,
        f_fsid: [u32; 2],
        f_namelen: u32,
        f_frsize: u32,
        f_flags: u32,
        f_spare: [u32; 4],
    }
    /// `struct statfs64`: packed, so its 64-bit figures are pairs of words here.
    Statfs64 = "struct statfs64" {
        f_type: u32,
        f_bsize: u32,
        f_blocks: [u32; 2],
        f_bfree: [u32; 2],
        f_bavail: [u32; 2],
        f_files: [u32; 2],
        f_ffree: [u32; 2],
        f_fsid: [u32; 2],
        f_namelen: u32,
        f_frsize: u32,
        f_flags: u32,
        f_spare: [u32; 4],
    }
    /// `struct flock`.
    Flock = "struct flock" {
        l_type: i16,
        l_whence: i16,
        l_start: i32,
        l_len: i32,
        l_pid: i32,
    }
    /// `struct sysinfo`.
    Sysinfo = "struct sysinfo" {
        uptime: u32,
        loads: [u32; 3],
        totalram: u32,
        freeram: u32,
        sharedram: u32,
        bufferram: u32,
        totalswap: u32,
        freeswap: u32,
        procs: u16,
        pad: u16,
        totalhigh: u32,
        freehigh: u32,
        mem_unit: u32,
        _f: [u8; 8],
    }
}

/// A 64-bit figure as two words, the lower first.
pub(super) const fn halves(n: u64) -> [u32; 2] {
    [n as u32, (n >> 32) as u32]
}

impl Stat {
    /// Fills it in; `None` (`EOVERFLOW`) if the size, the number or the count of links does not fit.
    pub fn new(s: &FileStatus) -> Option<Self> {
        Some(Self {
            st_dev: s.dev,
            st_ino: s.ino.try_into().ok()?,
            st_mode: s.mode as u16,
            st_nlink: s.nlink.try_into().ok()?,
            st_uid: uid16(s.uid),
            st_gid: gid16(s.gid),
            st_rdev: s.rdev,
            st_size: i32::try_from(s.size).ok()? as u32,
            st_blksize: s.block_size,
            st_blocks: s.blocks as u32,
            st_atime: s.atime.0 as u32,
            st_atime_nsec: s.atime.1,
            st_mtime: s.mtime.0 as u32,
            st_mtime_nsec: s.mtime.1,
            st_ctime: s.ctime.0 as u32,
            st_ctime_nsec: s.ctime.1,
            _unused: [0; 2],
        })
    }
}

impl Stat64 {
    /// Fills it in. Everything fits, except times after 2038, which are cut as on Linux.
    pub fn new(s: &FileStatus) -> Option<Self> {
        Some(Self {
            st_dev: s.dev.into(),
            __st_ino: s.ino as u32,
            st_mode: s.mode,
            st_nlink: s.nlink,
            st_uid: s.uid,
            st_gid: s.gid,
            st_rdev: s.rdev.into(),
            st_size: s.size as i64,
            st_blksize: s.block_size,
            st_blocks: s.blocks,
            st_atime: s.atime.0 as u32,
            st_atime_nsec: s.atime.1,
            st_mtime: s.mtime.0 as u32,
            st_mtime_nsec: s.mtime.1,
            st_ctime: s.ctime.0 as u32,
            st_ctime_nsec: s.ctime.1,
            st_ino: s.ino,
            ..Self::default()
        })
    }
}

impl Statfs {
    /// Fills it in; `None` (`EOVERFLOW`) if a figure does not fit.
    pub fn new(s: &FsStatus) -> Option<Self> {
        let word = |n: u64| u32::try_from(n).ok();
        // "Unlimited" is kept.
        let files = |n: u64| if n == u64::MAX { Some(u32::MAX) } else { word(n) };
        Some(Self {
            f_type: s.kind as u32,
            f_bsize: word(s.block_size)?,
            f_blocks: word(s.blocks)?,
            f_bfree: word(s.free)?,
            f_bavail: word(s.available)?,
            f_files: files(s.files)?,
            f_ffree: files(s.files_free)?,
            f_fsid: s.id,
            f_namelen: s.name_max,
            f_frsize: word(s.fragment_size)?,
            f_flags: s.flags as u32,
            f_spare: [0; 4],
        })
    }
}

impl Statfs64 {
    /// Fills it in. Everything fits.
    pub fn new(s: &FsStatus) -> Option<Self> {
        Some(Self {
            f_type: s.kind as u32,
            f_bsize: s.block_size as u32,
            f_blocks: halves(s.blocks),
            f_bfree: halves(s.free),
            f_bavail: halves(s.available),
            f_files: halves(s.files),
            f_ffree: halves(s.files_free),
            f_fsid: s.id,
            f_namelen: s.name_max,
            f_frsize: s.fragment_size as u32,
            f_flags: s.flags as u32,
            f_spare: [0; 4],
        })
    }
}

impl Flock {
    /// The request, without the layout.
    pub fn request(&self) -> LockRequest {
        LockRequest {
            kind: self.l_type,
            whence: self.l_whence,
            start: self.l_start.into(),
            len: self.l_len.into(),
            pid: self.l_pid,
        }
    }
    /// Writes the answer to `F_GETLK`. `None` (`EOVERFLOW`): the range does not fit.
    pub fn answer(&mut self, r: &LockRequest) -> Option<()> {
        (self.l_start, self.l_len) = (r.start.try_into().ok()?, r.len.try_into().ok()?);
        (self.l_type, self.l_whence, self.l_pid) = (r.kind, r.whence, r.pid);
        Some(())
    }
}

impl Sysinfo {
    /// Fills it in; memory is counted in units large enough for 32 bits.
    pub fn new(s: &SystemInfo) -> Self {
        let most = s.total.max(s.total_swap);
        let unit = (most >> 32).checked_ilog2().map_or(1, |n| 2u64 << n);
        let units = |bytes: u64| (bytes / unit) as u32;
        Self {
            uptime: s.uptime as u32,
            loads: s.loads.map(|n| n as u32),
            totalram: units(s.total),
            freeram: units(s.free),
            sharedram: units(s.shared),
            bufferram: units(s.buffers),
            totalswap: units(s.total_swap),
            freeswap: units(s.free_swap),
            procs: s.processes,
            mem_unit: unit as u32,
            ..Self::default()
        }
    }
}
