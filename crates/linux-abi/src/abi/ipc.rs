//! Structures of System V IPC (`linux/ipc.h`, `linux/shm.h`, `linux/sem.h`, `linux/msg.h`, and each
//! architecture's `ipcbuf.h`, `shmbuf.h`, `sembuf.h`, `msgbuf.h`). What has words of 64 bits is the same on
//! three ABIs, but for the few structures that have names of their own here.

use super::layouts;

/// `struct ipc64_perm` in the widest types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the members of struct ipc64_perm")]
pub struct Permissions {
    pub key: i32,
    pub uid: u32,
    pub gid: u32,
    pub cuid: u32,
    pub cgid: u32,
    pub mode: u32,
    pub seq: u32,
}

/// `struct shmid64_ds` in the widest types. Times are in seconds of `CLOCK_REALTIME`, the size in bytes.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "the members of struct shmid64_ds")]
pub struct SharedMemory {
    pub perm: Permissions,
    pub size: u64,
    pub atime: i64,
    pub dtime: i64,
    pub ctime: i64,
    pub cpid: i32,
    pub lpid: i32,
    pub attached: u64,
}

/// `struct semid64_ds` in the widest types. Times are in seconds of `CLOCK_REALTIME`.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "the members of struct semid64_ds")]
pub struct Semaphores {
    pub perm: Permissions,
    pub otime: i64,
    pub ctime: i64,
    pub count: u64,
}

/// `struct msqid64_ds` in the widest types. Times are in seconds of `CLOCK_REALTIME`.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "the members of struct msqid64_ds")]
pub struct Messages {
    pub perm: Permissions,
    pub stime: i64,
    pub rtime: i64,
    pub ctime: i64,
    pub bytes: u64,
    pub count: u64,
    pub max_bytes: u64,
    pub lspid: i32,
    pub lrpid: i32,
}

layouts! {
    /// `struct sembuf`.
    Sembuf = "struct sembuf" {
        sem_num: u16,
        sem_op: i16,
        sem_flg: u16,
    }
    /// `struct sembuf` of the ABI before Arm's EABI.
    OldSembuf = "struct oabi_sembuf" {
        sem_num: u16,
        sem_op: i16,
        sem_flg: u16,
        _pad: u16,
    }
    /// `struct ipc64_perm`.
    Ipc64Perm = "struct ipc64_perm" {
        key: i32,
        uid: u32,
        gid: u32,
        cuid: u32,
        cgid: u32,
        mode: u32,
        seq: u16,
        _pad: [u16; 3],
        _unused: [u64; 2],
    }
    /// `struct shmid64_ds`.
    Shmid64Ds = "struct shmid64_ds" {
        shm_perm: Ipc64Perm,
        shm_segsz: u64,
        shm_atime: i64,
        shm_dtime: i64,
        shm_ctime: i64,
        shm_cpid: i32,
        shm_lpid: i32,
        shm_nattch: u64,
        _unused: [u64; 2],
    }
    /// `struct shmid64_ds` of 64-bit Power.
    PowerShmid64Ds = "struct shmid64_ds" {
        shm_perm: Ipc64Perm,
        shm_atime: i64,
        shm_dtime: i64,
        shm_ctime: i64,
        shm_segsz: u64,
        shm_cpid: i32,
        shm_lpid: i32,
        shm_nattch: u64,
        _unused: [u64; 2],
    }
    /// `struct semid64_ds`.
    Semid64Ds = "struct semid64_ds" {
        sem_perm: Ipc64Perm,
        sem_otime: i64,
        sem_ctime: i64,
        sem_nsems: u64,
        _unused: [u64; 2],
    }
    /// `struct semid64_ds` of x86_64.
    X86Semid64Ds = "struct semid64_ds" {
        sem_perm: Ipc64Perm,
        sem_otime: i64,
        _unused1: u64,
        sem_ctime: i64,
        _unused2: u64,
        sem_nsems: u64,
        _unused: [u64; 2],
    }
    /// `struct msqid64_ds`.
    Msqid64Ds = "struct msqid64_ds" {
        msg_perm: Ipc64Perm,
        msg_stime: i64,
        msg_rtime: i64,
        msg_ctime: i64,
        msg_cbytes: u64,
        msg_qnum: u64,
        msg_qbytes: u64,
        msg_lspid: i32,
        msg_lrpid: i32,
        _unused: [u64; 2],
    }
    /// `struct shminfo64`.
    Shminfo64 = "struct shminfo64" {
        shmmax: u64,
        shmmin: u64,
        shmmni: u64,
        shmseg: u64,
        shmall: u64,
        _unused: [u64; 4],
    }
    /// `struct shm_info`.
    ShmInfo = "struct shm_info" {
        used_ids: i32,
        _pad: u32,
        shm_tot: u64,
        shm_rss: u64,
        shm_swp: u64,
        swap_attempts: u64,
        swap_successes: u64,
    }
    /// `struct seminfo`.
    Seminfo = "struct seminfo" {
        semmap: i32,
        semmni: i32,
        semmns: i32,
        semmnu: i32,
        semmsl: i32,
        semopm: i32,
        semume: i32,
        semusz: i32,
        semvmx: i32,
        semaem: i32,
    }
    /// `struct msginfo`.
    Msginfo = "struct msginfo" {
        msgpool: i32,
        msgmap: i32,
        msgmax: i32,
        msgmnb: i32,
        msgmni: i32,
        msgssz: i32,
        msgtql: i32,
        msgseg: u16,
        _pad: u16,
    }
    /// `struct ipc64_perm` of 32-bit Arm.
    ArmIpc64Perm = "struct ipc64_perm" {
        key: i32,
        uid: u32,
        gid: u32,
        cuid: u32,
        cgid: u32,
        mode: u16,
        _pad1: u16,
        seq: u16,
        _pad2: u16,
        _unused: [u32; 2],
    }
    /// `struct shmid64_ds` of 32-bit Arm.
    ArmShmid64Ds = "struct shmid64_ds" {
        shm_perm: ArmIpc64Perm,
        shm_segsz: u32,
        shm_atime: u32,
        shm_atime_high: u32,
        shm_dtime: u32,
        shm_dtime_high: u32,
        shm_ctime: u32,
        shm_ctime_high: u32,
        shm_cpid: i32,
        shm_lpid: i32,
        shm_nattch: u32,
        _unused: [u32; 2],
    }
    /// `struct semid64_ds` of 32-bit Arm.
    ArmSemid64Ds = "struct semid64_ds" {
        sem_perm: ArmIpc64Perm,
        sem_otime: u32,
        sem_otime_high: u32,
        sem_ctime: u32,
        sem_ctime_high: u32,
        sem_nsems: u32,
        _unused: [u32; 2],
    }
    /// `struct msqid64_ds` of 32-bit Arm.
    ArmMsqid64Ds = "struct msqid64_ds" {
        msg_perm: ArmIpc64Perm,
        msg_stime: u32,
        msg_stime_high: u32,
        msg_rtime: u32,
        msg_rtime_high: u32,
        msg_ctime: u32,
        msg_ctime_high: u32,
        msg_cbytes: u32,
        msg_qnum: u32,
        msg_qbytes: u32,
        msg_lspid: i32,
        msg_lrpid: i32,
        _unused: [u32; 2],
    }
    /// `struct shminfo64` of 32-bit Arm.
    ArmShminfo64 = "struct shminfo64" {
        shmmax: u32,
        shmmin: u32,
        shmmni: u32,
        shmseg: u32,
        shmall: u32,
        _unused: [u32; 4],
    }
    /// `struct shm_info` of 32-bit Arm.
    ArmShmInfo = "struct shm_info" {
        used_ids: i32,
        shm_tot: u32,
        shm_rss: u32,
        shm_swp: u32,
        swap_attempts: u32,
        swap_successes: u32,
    }
}

macro_rules! permissions {
    ($($name:ident: $mode:ty),*) => {$(
        impl $name {
            /// From the widest types.
            pub fn new(p: &Permissions) -> Self {
                Self {
                    key: p.key,
                    uid: p.uid,
                    gid: p.gid,
                    cuid: p.cuid,
                    cgid: p.cgid,
                    mode: p.mode as $mode,
                    seq: p.seq as u16,
                    ..Self::default()
                }
            }
            /// The widest types.
            pub fn wide(&self) -> Permissions {
                Permissions {
                    key: self.key,
                    uid: self.uid,
                    gid: self.gid,
                    cuid: self.cuid,
                    cgid: self.cgid,
                    mode: self.mode.into(),
                    seq: self.seq.into(),
                }
            }
        }
    )*};
}
permissions!(Ipc64Perm: u32, ArmIpc64Perm: u16);

macro_rules! shared_memory {
    ($($name:ident, $perm:ident, $word:ty, $time:ty $(, $atime:ident, $dtime:ident, $ctime:ident)?;)*) => {$(
        impl $name {
            /// From the widest types.
            pub fn new(s: &SharedMemory) -> Self {
                Self {
                    shm_perm: $perm::new(&s.perm),
                    shm_segsz: s.size as $word,
                    shm_atime: s.atime as $time,
                    shm_dtime: s.dtime as $time,
                    shm_ctime: s.ctime as $time,
                    $($atime: (s.atime >> 32) as u32,
                    $dtime: (s.dtime >> 32) as u32,
                    $ctime: (s.ctime >> 32) as u32,)?
                    shm_cpid: s.cpid,
                    shm_lpid: s.lpid,
                    shm_nattch: s.attached as $word,
                    ..Self::default()
                }
            }
            /// Its permissions.
            pub fn perm(&self) -> Permissions {
                self.shm_perm.wide()
            }
        }
    )*};
}
shared_memory! {
    Shmid64Ds, Ipc64Perm, u64, i64;
    PowerShmid64Ds, Ipc64Perm, u64, i64;
    ArmShmid64Ds, ArmIpc64Perm, u32, u32, shm_atime_high, shm_dtime_high, shm_ctime_high;
}

macro_rules! semaphores {
    ($($name:ident, $perm:ident, $word:ty, $time:ty $(, $otime:ident, $ctime:ident)?;)*) => {$(
        impl $name {
            /// From the widest types.
            pub fn new(s: &Semaphores) -> Self {
                Self {
                    sem_perm: $perm::new(&s.perm),
                    sem_otime: s.otime as $time,
                    sem_ctime: s.ctime as $time,
                    $($otime: (s.otime >> 32) as u32,
                    $ctime: (s.ctime >> 32) as u32,)?
                    sem_nsems: s.count as $word,
                    ..Self::default()
                }
            }
            /// Its permissions.
            pub fn perm(&self) -> Permissions {
                self.sem_perm.wide()
            }
        }
    )*};
}
semaphores! {
    Semid64Ds, Ipc64Perm, u64, i64;
    X86Semid64Ds, Ipc64Perm, u64, i64;
    ArmSemid64Ds, ArmIpc64Perm, u32, u32, sem_otime_high, sem_ctime_high;
}

macro_rules! messages {
    ($($name:ident, $perm:ident, $word:ty, $time:ty $(, $stime:ident, $rtime:ident, $ctime:ident)?;)*) => {$(
        impl $name {
            /// From the widest types.
            pub fn new(m: &Messages) -> Self {
                Self {
                    msg_perm: $perm::new(&m.perm),
                    msg_stime: m.stime as $time,
                    msg_rtime: m.rtime as $time,
                    msg_ctime: m.ctime as $time,
                    $($stime: (m.stime >> 32) as u32,
                    $rtime: (m.rtime >> 32) as u32,
                    $ctime: (m.ctime >> 32) as u32,)?
                    msg_cbytes: m.bytes as $word,
                    msg_qnum: m.count as $word,
                    msg_qbytes: m.max_bytes as $word,
                    msg_lspid: m.lspid,
                    msg_lrpid: m.lrpid,
                    ..Self::default()
                }
            }
            /// Its permissions.
            pub fn perm(&self) -> Permissions {
                self.msg_perm.wide()
            }
            /// How many bytes its messages may have.
            pub fn max_bytes(&self) -> u64 {
                self.msg_qbytes.into()
            }
        }
    )*};
}
messages! {
    Msqid64Ds, Ipc64Perm, u64, i64;
    ArmMsqid64Ds, ArmIpc64Perm, u32, u32, msg_stime_high, msg_rtime_high, msg_ctime_high;
}

macro_rules! limits {
    ($($info:ident, $used:ident, $word:ty;)*) => {$(
        impl $info {
            /// The largest size of a segment in bytes, how many segments, how many pages of all.
            pub fn new(max: u64, count: u64, pages: u64) -> Self {
                Self {
                    shmmax: max as $word,
                    shmmin: 1,
                    shmmni: count as $word,
                    shmseg: count as $word,
                    shmall: pages as $word,
                    ..Self::default()
                }
            }
        }
        impl $used {
            /// How many segments there are, and how many pages they have and use.
            pub fn new(count: i32, pages: u64, used: u64) -> Self {
                Self {
                    used_ids: count,
                    shm_tot: pages as $word,
                    shm_rss: used as $word,
                    ..Self::default()
                }
            }
        }
    )*};
}
limits! {
    Shminfo64, ShmInfo, u64;
    ArmShminfo64, ArmShmInfo, u32;
}
