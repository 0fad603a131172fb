//! The arm64 ABI: Linux's generic one.

pub use super::arm::EpollEvent;
pub use super::generic::{
    Flock, Flock as Flock64, StatGeneric as Stat, StatGeneric as Stat64, Statfs, Statfs as Statfs64, Sysinfo,
    ioc, ioctl, mman, socket, termios, termios2,
};

pub use super::ipc::{Msqid64Ds, Semid64Ds, ShmInfo, Shmid64Ds, Shminfo64};

/// Whether the commands of System V IPC say that the structures are the new ones (`IPC_64`).
pub const IPC_PARSE_VERSION: bool = false;
/// To how many pages addresses are aligned that programs choose for shared memory (`SHMLBA`).
pub const SHMLBA_PAGES: usize = 1;

/// `MAP_32BIT`: only x86_64 has it.
pub const MAP_32BIT: u32 = 0;

/// `FIOQSIZE`, which arm numbers otherwise.
pub const FIOQSIZE: u32 = 0x5460;
