//! The 64-bit x86 ABI.

use super::layouts;

pub use super::generic::{
    Flock, Flock as Flock64, StatNlinkFirst as Stat, StatNlinkFirst as Stat64, Statfs, Statfs as Statfs64,
    Sysinfo, ioc, ioctl, mman, socket, termios, termios2,
};

pub use super::ipc::{Msqid64Ds, ShmInfo, Shmid64Ds, Shminfo64, X86Semid64Ds as Semid64Ds};

/// Whether the commands of System V IPC say that the structures are the new ones (`IPC_64`).
pub const IPC_PARSE_VERSION: bool = false;
/// To how many pages addresses are aligned that programs choose for shared memory (`SHMLBA`).
pub const SHMLBA_PAGES: usize = 1;

/// `MAP_32BIT`: a mapping below 2 GiB.
pub const MAP_32BIT: u32 = 0x40;

/// `FIOQSIZE`, which arm numbers otherwise.
pub const FIOQSIZE: u32 = 0x5460;

layouts! {
    /// `struct epoll_event`: packed on this ABI alone, so that 32-bit programs share it.
    EpollEvent = "struct epoll_event" {
        events: u32,
        data: [u32; 2],
    }
}
