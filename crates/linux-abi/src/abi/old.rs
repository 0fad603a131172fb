//! The ABI of 32-bit Arm before the EABI (`arm`): 64-bit integers are aligned to four bytes, so that
//! structures which have them have no padding. All others are the EABI's.

use super::arm::halves;
use super::{FileStatus, LockRequest, layouts};

pub use super::x86_64::EpollEvent;

layouts! {
    /// `struct stat64`.
    Stat64 = "struct stat64" {
        st_dev: [u32; 2],
        _pad1: u32,
        __st_ino: u32,
        st_mode: u32,
        st_nlink: u32,
        st_uid: u32,
        st_gid: u32,
        st_rdev: [u32; 2],
        _pad2: u32,
        st_size: [u32; 2],
        st_blksize: u32,
        st_blocks: [u32; 2],
        st_atime: u32,
        st_atime_nsec: u32,
        st_mtime: u32,
        st_mtime_nsec: u32,
        st_ctime: u32,
        st_ctime_nsec: u32,
        st_ino: [u32; 2],
    }
    /// `struct flock64`.
    Flock64 = "struct flock64" {
        l_type: i16,
        l_whence: i16,
        l_start: [u32; 2],
        l_len: [u32; 2],
        l_pid: i32,
    }
}

const fn whole([low, high]: [u32; 2]) -> i64 {
    ((high as u64) << 32 | low as u64) as i64
}

impl Stat64 {
    /// Fills it in. Everything fits, except times after 2038, which are cut as on Linux.
    pub fn new(s: &FileStatus) -> Option<Self> {
        Some(Self {
            st_dev: halves(s.dev.into()),
            __st_ino: s.ino as u32,
            st_mode: s.mode,
            st_nlink: s.nlink,
            st_uid: s.uid,
            st_gid: s.gid,
            st_rdev: halves(s.rdev.into()),
            st_size: halves(s.size),
            st_blksize: s.block_size,
            st_blocks: halves(s.blocks),
            st_atime: s.atime.0 as u32,
            st_atime_nsec: s.atime.1,
            st_mtime: s.mtime.0 as u32,
            st_mtime_nsec: s.mtime.1,
            st_ctime: s.ctime.0 as u32,
            st_ctime_nsec: s.ctime.1,
            st_ino: halves(s.ino),
            ..Self::default()
        })
    }
}

impl Flock64 {
    /// The request, without the layout.
    pub fn request(&self) -> LockRequest {
        LockRequest {
            kind: self.l_type,
            whence: self.l_whence,
            start: whole(self.l_start),
            len: whole(self.l_len),
            pid: self.l_pid,
        }
    }
    /// Writes the answer to `F_GETLK64`. Everything fits.
    pub fn answer(&mut self, r: &LockRequest) -> Option<()> {
        (self.l_start, self.l_len) = (halves(r.start as u64), halves(r.len as u64));
        (self.l_type, self.l_whence, self.l_pid) = (r.kind, r.whence, r.pid);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_padded() {
        assert_eq!((size_of::<Stat64>(), align_of::<Stat64>()), (96, 4));
        assert_eq!((size_of::<Flock64>(), align_of::<Flock64>()), (24, 4));
        assert_eq!((size_of::<EpollEvent>(), align_of::<EpollEvent>()), (12, 4));
        let size = core::mem::offset_of!(Stat64, st_size);
        assert_eq!((size, core::mem::offset_of!(Stat64, st_ino)), (44, 88));
    }

    #[test]
    fn locks_go_there_and_back() {
        let request = LockRequest {
            kind: 1,
            whence: 2,
            start: -5,
            len: 7 << 40,
            pid: 9,
        };
        let mut lock = Flock64::default();
        assert!(lock.answer(&request).is_some());
        let again = lock.request();
        assert_eq!((again.start, again.len, again.pid), (-5, 7 << 40, 9));
        assert_eq!((again.kind, again.whence), (1, 2));
    }
}
