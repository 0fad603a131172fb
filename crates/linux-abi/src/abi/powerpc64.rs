//! The 64-bit Power ABI, as little-endian Linux uses it.

pub use super::arm::EpollEvent;
pub use super::generic::{
    Flock, Flock as Flock64, StatNlinkFirst as Stat, StatNlinkFirst as Stat64, Statfs, Statfs as Statfs64,
    Sysinfo,
};
pub use super::powerpc::{ioc, ioctl, mman, socket, termios};

pub use super::ipc::{Msqid64Ds, PowerShmid64Ds as Shmid64Ds, Semid64Ds, ShmInfo, Shminfo64};

/// Whether the commands of System V IPC say that the structures are the new ones (`IPC_64`).
pub const IPC_PARSE_VERSION: bool = false;
/// To how many pages addresses are aligned that programs choose for shared memory (`SHMLBA`).
pub const SHMLBA_PAGES: usize = 1;

/// `MAP_32BIT`: only x86_64 has it.
pub const MAP_32BIT: u32 = 0;

pub use ioctl::FIOQSIZE;

/// There is no `struct termios2` here. These values are no command's number.
pub mod termios2 {
    #![allow(missing_docs, reason = "ioctl_tty(2) says what they do")]
    pub const TCGETS2: u32 = u32::MAX;
    pub const TCSETS2: u32 = u32::MAX;
    pub const TCSETSW2: u32 = u32::MAX;
    pub const TCSETSF2: u32 = u32::MAX;
}
