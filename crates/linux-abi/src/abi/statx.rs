//! `struct statx`, which is the same everywhere (`linux/stat.h`).

use super::layouts;

layouts! {
    /// One of its times.
    StatxTimestamp = "struct statx_timestamp" {
        tv_sec: i64,
        tv_nsec: u32,
        _reserved: i32,
    }
    /// The members of Linux 5.8; those that came later are the zeros at its end.
    Statx = "struct statx" {
        stx_mask: u32,
        stx_blksize: u32,
        stx_attributes: u64,
        stx_nlink: u32,
        stx_uid: u32,
        stx_gid: u32,
        stx_mode: u16,
        _spare0: u16,
        stx_ino: u64,
        stx_size: u64,
        stx_blocks: u64,
        stx_attributes_mask: u64,
        stx_atime: StatxTimestamp,
        stx_btime: StatxTimestamp,
        stx_ctime: StatxTimestamp,
        stx_mtime: StatxTimestamp,
        stx_rdev_major: u32,
        stx_rdev_minor: u32,
        stx_dev_major: u32,
        stx_dev_minor: u32,
        stx_mnt_id: u64,
        _spare: [u64; 13],
    }
}

impl From<(i64, u32)> for StatxTimestamp {
    /// From seconds and nanoseconds.
    fn from((tv_sec, tv_nsec): (i64, u32)) -> Self {
        Self {
            tv_sec,
            tv_nsec,
            _reserved: 0,
        }
    }
}
