//! Structures that the kernel fills in or reads without knowing the ABI's layout, and what each layout tells
//! about itself.

/// Kept to this crate's own structures: see [`Layout`].
pub trait Sealed {}

/// A structure of an ABI. Only `layouts!` makes them: of integers of fixed width, with all padding as fields.
/// The kernel copies such a structure byte for byte.
pub trait Layout: Sealed + Copy + Default + 'static {
    /// How C calls it (`struct stat`).
    const C_NAME: &str;
    /// Name, offset and size in bytes of each field. Names of padding begin with an underscore.
    const FIELDS: &[(&str, usize, usize)];
}

/// The result of `stat`, in the widest types.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "the members of struct stat")]
pub struct FileStatus {
    /// Device numbers as `new_encode_dev` packs them.
    pub dev: u32,
    pub ino: u64,
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    pub size: u64,
    pub block_size: u32,
    /// In units of 512 bytes.
    pub blocks: u64,
    /// Seconds and nanoseconds.
    pub atime: (i64, u32),
    pub mtime: (i64, u32),
    pub ctime: (i64, u32),
}

/// The result of `statfs`, in the widest types.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "the members of struct statfs")]
pub struct FsStatus {
    pub kind: u64,
    pub block_size: u64,
    pub blocks: u64,
    pub free: u64,
    pub available: u64,
    pub files: u64,
    pub files_free: u64,
    pub id: [u32; 2],
    pub name_max: u32,
    pub fragment_size: u64,
    pub flags: u64,
}

/// `struct flock` without its layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the members of struct flock")]
pub struct LockRequest {
    pub kind: i16,
    pub whence: i16,
    pub start: i64,
    pub len: i64,
    pub pid: i32,
}

/// The result of `sysinfo`. Sizes are in bytes.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "the members of struct sysinfo")]
pub struct SystemInfo {
    pub uptime: u64,
    pub loads: [u64; 3],
    pub total: u64,
    pub free: u64,
    pub shared: u64,
    pub buffers: u64,
    pub total_swap: u64,
    pub free_swap: u64,
    pub processes: u16,
}

/// `struct epoll_event` of an ABI.
pub trait EpollLayout: Layout {
    /// Events, and what the program wants to hear with them.
    fn new(events: u32, data: u64) -> Self;
}

impl EpollLayout for super::arm::EpollEvent {
    #[inline(always)]
    fn new(events: u32, data: u64) -> Self {
        Self {
            events,
            data: [data as u32, (data >> 32) as u32],
            ..Self::default()
        }
    }
}

impl EpollLayout for super::x86_64::EpollEvent {
    #[inline(always)]
    fn new(events: u32, data: u64) -> Self {
        Self {
            events,
            data: [data as u32, (data >> 32) as u32],
        }
    }
}
