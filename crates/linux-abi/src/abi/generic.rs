//! The numbers that x86, arm and arm64 have in common (`asm-generic`), and the layouts that all ABIs with
//! 64-bit words share.

use super::{FileStatus, FsStatus, LockRequest, SystemInfo, constants, layouts};

/// How `ioctl` numbers are made: direction in the top two bits, then 14 bits of size.
pub mod ioc {
    /// `_IO`.
    pub const fn none(group: u8, number: u8) -> u32 {
        (group as u32) << 8 | number as u32
    }
    /// `_IOR`: the kernel writes `size` bytes.
    pub const fn read(group: u8, number: u8, size: usize) -> u32 {
        2 << 30 | (size as u32) << 16 | none(group, number)
    }
    /// `_IOW`: the kernel reads `size` bytes.
    pub const fn write(group: u8, number: u8, size: usize) -> u32 {
        1 << 30 | (size as u32) << 16 | none(group, number)
    }
}

/// Commands of `ioctl` that differ between architectures. Numbers made with `_IOR` and similar macros come
/// from [`ioc`].
pub mod ioctl {
    #![allow(missing_docs, reason = "ioctl_tty(2) and others say what they do")]
    super::constants! {
        TCGETS: u32 = 0x5401;
        TCSETS: u32 = 0x5402;
        TCSETSW: u32 = 0x5403;
        TCSETSF: u32 = 0x5404;
        TCGETA: u32 = 0x5405;
        TCSETA: u32 = 0x5406;
        TCSETAW: u32 = 0x5407;
        TCSETAF: u32 = 0x5408;
        TCSBRK: u32 = 0x5409;
        TCXONC: u32 = 0x540a;
        TCFLSH: u32 = 0x540b;
        TIOCGPGRP: u32 = 0x540f;
        TIOCSPGRP: u32 = 0x5410;
        TIOCOUTQ: u32 = 0x5411;
        TIOCGWINSZ: u32 = 0x5413;
        TIOCSWINSZ: u32 = 0x5414;
        FIONREAD: u32 = 0x541b;
        FIONBIO: u32 = 0x5421;
        FIONCLEX: u32 = 0x5450;
        FIOCLEX: u32 = 0x5451;
        FIOASYNC: u32 = 0x5452;
    }
}

/// The commands of `struct termios2`, which powerpc does not have: its `struct termios` has the speeds.
pub mod termios2 {
    #![allow(missing_docs, reason = "ioctl_tty(2) says what they do")]
    super::constants! {
        TCGETS2: u32 = super::ioc::read(b'T', 0x2a, 44);
        TCSETS2: u32 = super::ioc::write(b'T', 0x2b, 44);
        TCSETSW2: u32 = super::ioc::write(b'T', 0x2c, 44);
        TCSETSF2: u32 = super::ioc::write(b'T', 0x2d, 44);
    }
}

/// `termios(3)`: offsets, and the names of flags.
pub mod termios {
    #![allow(missing_docs, reason = "termios(3) says what they do")]
    super::constants! {
        VINTR: usize = 0;
        VQUIT: usize = 1;
        VERASE: usize = 2;
        VKILL: usize = 3;
        VEOF: usize = 4;
        VTIME: usize = 5;
        VMIN: usize = 6;
        VSWTC: usize = 7;
        VSTART: usize = 8;
        VSTOP: usize = 9;
        VSUSP: usize = 10;
        VEOL: usize = 11;
        VREPRINT: usize = 12;
        VDISCARD: usize = 13;
        VWERASE: usize = 14;
        VLNEXT: usize = 15;
        VEOL2: usize = 16;
        IUCLC: u32 = 0x200;
        IXON: u32 = 0x400;
        IXOFF: u32 = 0x1000;
        IMAXBEL: u32 = 0x2000;
        IUTF8: u32 = 0x4000;
        OLCUC: u32 = 2;
        ONLCR: u32 = 4;
        XTABS: u32 = 0x1800;
        CBAUD: u32 = 0x100f;
        CBAUDEX: u32 = 0x1000;
        BOTHER: u32 = 0x1000;
        CSIZE: u32 = 0x30;
        CS8: u32 = 0x30;
        CSTOPB: u32 = 0x40;
        CREAD: u32 = 0x80;
        PARENB: u32 = 0x100;
        PARODD: u32 = 0x200;
        HUPCL: u32 = 0x400;
        CLOCAL: u32 = 0x800;
        ISIG: u32 = 1;
        ICANON: u32 = 2;
        XCASE: u32 = 4;
        ECHO: u32 = 8;
        ECHOE: u32 = 0x10;
        ECHOK: u32 = 0x20;
        ECHONL: u32 = 0x40;
        NOFLSH: u32 = 0x80;
        TOSTOP: u32 = 0x100;
        ECHOCTL: u32 = 0x200;
        ECHOPRT: u32 = 0x400;
        ECHOKE: u32 = 0x800;
        FLUSHO: u32 = 0x1000;
        PENDIN: u32 = 0x4000;
        IEXTEN: u32 = 0x8000;
        EXTPROC: u32 = 0x10000;
    }
    /// The offset of the line discipline's number in `struct termios`.
    pub const LINE_AT: usize = 16;
    /// The offset of the control characters.
    pub const CHARS_AT: usize = 17;
    /// The size in bytes of the `struct termios` that `TCGETS` passes: without speeds.
    pub const SIZE: usize = 36;
    /// How many control characters the old `struct termio` has.
    pub const OLD_CHARS: usize = 8;
    /// The size of `struct termio` in bytes.
    pub const OLD_SIZE: usize = 18;
}

/// `mmap` and its like.
pub mod mman {
    #![allow(missing_docs, reason = "mmap(2) and mlock(2) say what they do")]
    super::constants! {
        MAP_GROWSDOWN: u32 = 0x100;
        MAP_DENYWRITE: u32 = 0x800;
        MAP_EXECUTABLE: u32 = 0x1000;
        MAP_LOCKED: u32 = 0x2000;
        MAP_NORESERVE: u32 = 0x4000;
        MAP_POPULATE: u32 = 0x8000;
        MAP_NONBLOCK: u32 = 0x1_0000;
        MAP_STACK: u32 = 0x2_0000;
        MAP_HUGETLB: u32 = 0x4_0000;
        MCL_CURRENT: u32 = 1;
        MCL_FUTURE: u32 = 2;
        MCL_ONFAULT: u32 = 4;
    }
}

/// Socket options of `SOL_SOCKET`, and a flag that only kernels with a compat ABI know.
pub mod socket {
    #![allow(missing_docs, reason = "socket(7) says what they do")]
    pub const MSG_CMSG_COMPAT: Option<u32> = if size_of::<usize>() == 8 {
        Some(1 << 31)
    } else {
        None
    };
    super::constants! {
        SO_PASSCRED: u32 = 16;
        SO_PEERCRED: u32 = 17;
        SO_RCVLOWAT: u32 = 18;
        SO_SNDLOWAT: u32 = 19;
        SO_RCVTIMEO_OLD: u32 = 20;
        SO_SNDTIMEO_OLD: u32 = 21;
    }
}

layouts! {
    /// `struct statfs` of 64-bit words.
    Statfs = "struct statfs" {
        f_type: u64,
        f_bsize: u64,
        f_blocks: u64,
        f_bfree: u64,
        f_bavail: u64,
        f_files: u64,
        f_ffree: u64,
        f_fsid: [u32; 2],
        f_namelen: u64,
        f_frsize: u64,
        f_flags: u64,
        f_spare: [u64; 4],
    }
    /// `struct flock` of 64-bit words; `struct flock64` where words have 32.
    Flock = "struct flock" {
        l_type: i16,
        l_whence: i16,
        _pad: u32,
        l_start: i64,
        l_len: i64,
        l_pid: i32,
        _pad2: u32,
    }
    /// `struct sysinfo` of 64-bit words.
    Sysinfo = "struct sysinfo" {
        uptime: u64,
        loads: [u64; 3],
        totalram: u64,
        freeram: u64,
        sharedram: u64,
        bufferram: u64,
        totalswap: u64,
        freeswap: u64,
        procs: u16,
        pad: u16,
        _pad: u32,
        totalhigh: u64,
        freehigh: u64,
        mem_unit: u32,
        _pad2: u32,
    }
    /// `struct stat` of x86_64 and powerpc64: the link count before the mode.
    StatNlinkFirst = "struct stat" {
        st_dev: u64,
        st_ino: u64,
        st_nlink: u64,
        st_mode: u32,
        st_uid: u32,
        st_gid: u32,
        _pad: u32,
        st_rdev: u64,
        st_size: i64,
        st_blksize: u64,
        st_blocks: u64,
        st_atime: i64,
        st_atime_nsec: u64,
        st_mtime: i64,
        st_mtime_nsec: u64,
        st_ctime: i64,
        st_ctime_nsec: u64,
        _unused: [u64; 3],
    }
    /// `struct stat` of the generic ABI with 64-bit words (arm64).
    StatGeneric = "struct stat" {
        st_dev: u64,
        st_ino: u64,
        st_mode: u32,
        st_nlink: u32,
        st_uid: u32,
        st_gid: u32,
        st_rdev: u64,
        _pad1: u64,
        st_size: i64,
        st_blksize: i32,
        _pad2: i32,
        st_blocks: i64,
        st_atime: i64,
        st_atime_nsec: u64,
        st_mtime: i64,
        st_mtime_nsec: u64,
        st_ctime: i64,
        st_ctime_nsec: u64,
        _unused: [u32; 2],
    }
}

impl Statfs {
    /// Fills it in. Everything fits.
    pub fn new(s: &FsStatus) -> Option<Self> {
        Some(Self {
            f_type: s.kind,
            f_bsize: s.block_size,
            f_blocks: s.blocks,
            f_bfree: s.free,
            f_bavail: s.available,
            f_files: s.files,
            f_ffree: s.files_free,
            f_fsid: s.id,
            f_namelen: s.name_max.into(),
            f_frsize: s.fragment_size,
            f_flags: s.flags,
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
            start: self.l_start,
            len: self.l_len,
            pid: self.l_pid,
        }
    }
    /// Writes the answer to `F_GETLK`. Everything fits. Padding is left as the program had it.
    pub fn answer(&mut self, r: &LockRequest) -> Option<()> {
        (self.l_type, self.l_whence, self.l_start, self.l_len, self.l_pid) =
            (r.kind, r.whence, r.start, r.len, r.pid);
        Some(())
    }
}

impl Sysinfo {
    /// Fills it in.
    pub fn new(s: &SystemInfo) -> Self {
        Self {
            uptime: s.uptime,
            loads: s.loads,
            totalram: s.total,
            freeram: s.free,
            sharedram: s.shared,
            bufferram: s.buffers,
            totalswap: s.total_swap,
            freeswap: s.free_swap,
            procs: s.processes,
            mem_unit: 1,
            ..Self::default()
        }
    }
}

macro_rules! stat_of_64_bit_words {
    ($($name:ident)*) => { $(impl $name {
        /// Fills it in. Everything fits.
        #[inline]
        pub fn new(s: &FileStatus) -> Option<Self> {
            Some(Self {
                st_dev: s.dev.into(),
                st_ino: s.ino,
                st_mode: s.mode,
                st_nlink: s.nlink.into(),
                st_uid: s.uid,
                st_gid: s.gid,
                st_rdev: s.rdev.into(),
                st_size: s.size as i64,
                st_blksize: s.block_size as _,
                st_blocks: s.blocks as _,
                st_atime: s.atime.0,
                st_atime_nsec: s.atime.1.into(),
                st_mtime: s.mtime.0,
                st_mtime_nsec: s.mtime.1.into(),
                st_ctime: s.ctime.0,
                st_ctime_nsec: s.ctime.1.into(),
                ..Self::default()
            })
        }
    })* };
}
stat_of_64_bit_words!(StatNlinkFirst StatGeneric);
