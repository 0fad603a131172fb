//! The 32-bit x86 ABI. Its 64-bit integers are aligned to four bytes, as in Arm's ABI before the EABI, and
//! other words have 32 bits as in both.

use super::{FileStatus, LockRequest, layouts};
use crate::id::{gid16, uid16};

pub use super::arm::{Flock, Stat, Statfs, Statfs64, Sysinfo};
pub use super::arm::{Msqid64Ds, Semid64Ds, ShmInfo, Shmid64Ds, Shminfo64};
pub use super::old::{Flock64, Stat64};

layouts! {
    /// `struct __old_kernel_stat`, of the first calls.
    OldStat = "struct __old_kernel_stat" {
        st_dev: u16,
        st_ino: u16,
        st_mode: u16,
        st_nlink: u16,
        st_uid: u16,
        st_gid: u16,
        st_rdev: u16,
        _pad: u16,
        st_size: u32,
        st_atime: u32,
        st_mtime: u32,
        st_ctime: u32,
    }
}

/// Writes the answer to `F_GETLK`. A length that does not fit is cut. `None` (`EOVERFLOW`): the start does
/// not fit.
pub fn answer_lock(lock: &mut Flock, r: &LockRequest) -> Option<()> {
    lock.answer(&LockRequest {
        len: r.len.min(i32::MAX.into()),
        ..*r
    })
}

/// A device's numbers in one byte each, from what `new_encode_dev` made; those that do not fit are cut.
const fn old_device(device: u32) -> u16 {
    let major = device >> 8 & 0xfff;
    let minor = device & 0xff | device >> 12 & 0xf_ff00;
    (major << 8 | minor) as u16
}

impl OldStat {
    /// Fills it in; `None` (`EOVERFLOW`) if the number or the count of links does not fit. The size is cut.
    pub fn new(s: &FileStatus) -> Option<Self> {
        Some(Self {
            st_dev: old_device(s.dev),
            st_ino: s.ino.try_into().ok()?,
            st_mode: s.mode as u16,
            st_nlink: s.nlink.try_into().ok()?,
            st_uid: uid16(s.uid),
            st_gid: gid16(s.gid),
            st_rdev: old_device(s.rdev),
            _pad: 0,
            st_size: s.size as u32,
            st_atime: s.atime.0 as u32,
            st_mtime: s.mtime.0 as u32,
            st_ctime: s.ctime.0 as u32,
        })
    }
}

fn low(number: impl Into<u64>) -> u32 {
    number.into() as u32
}

fn largest(size: impl Into<u64>) -> u32 {
    size.into().min(i32::MAX as u64) as u32
}

impl Shminfo64 {
    /// The native one, with a largest size of at most 2 GiB.
    pub fn cut(native: &super::native::Shminfo64) -> Self {
        Self {
            shmmax: largest(native.shmmax),
            shmmin: low(native.shmmin),
            shmmni: low(native.shmmni),
            shmseg: low(native.shmseg),
            shmall: low(native.shmall),
            ..Self::default()
        }
    }
}

impl ShmInfo {
    /// The native one, with words that are cut.
    pub fn cut(native: &super::native::ShmInfo) -> Self {
        Self {
            used_ids: native.used_ids,
            shm_tot: low(native.shm_tot),
            shm_rss: low(native.shm_rss),
            shm_swp: low(native.shm_swp),
            swap_attempts: low(native.swap_attempts),
            swap_successes: low(native.swap_successes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::offset_of;

    #[test]
    fn sizes_are_those_of_its_headers() {
        assert_eq!((size_of::<Stat>(), size_of::<Stat64>()), (64, 96));
        assert_eq!((offset_of!(Stat, st_size), offset_of!(Stat, st_atime)), (20, 32));
        assert_eq!(
            (offset_of!(Stat64, st_size), offset_of!(Stat64, st_ino)),
            (44, 88)
        );
        assert_eq!((size_of::<Statfs>(), size_of::<Statfs64>()), (64, 84));
        assert_eq!((size_of::<Flock>(), size_of::<Flock64>()), (16, 24));
        assert_eq!(size_of::<Sysinfo>(), 64);
        assert_eq!((size_of::<OldStat>(), offset_of!(OldStat, st_size)), (32, 16));
        assert_eq!(
            (
                size_of::<Shmid64Ds>(),
                size_of::<Semid64Ds>(),
                size_of::<Msqid64Ds>()
            ),
            (84, 64, 88)
        );
    }
    #[test]
    fn old_devices_have_a_byte_each() {
        assert_eq!(old_device(0x0812), 0x0812);
        assert_eq!(old_device(0x0010_0801), 0x0901);
    }
}
