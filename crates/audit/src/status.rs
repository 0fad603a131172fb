//! The state of audit as programs see and set it, and limits.

/// Which parts of a [`Status`] are to be set (`AUDIT_STATUS_*`).
#[allow(missing_docs, reason = "the names are Linux's")]
pub mod set {
    pub const ENABLED: u32 = 1;
    pub const FAILURE: u32 = 2;
    pub const PID: u32 = 4;
    pub const RATE_LIMIT: u32 = 8;
    pub const BACKLOG_LIMIT: u32 = 0x10;
    pub const BACKLOG_WAIT_TIME: u32 = 0x20;
    pub const LOST: u32 = 0x40;
    pub const BACKLOG_WAIT_TIME_ACTUAL: u32 = 0x80;
}

/// What a kernel can do (`AUDIT_FEATURE_BITMAP_*`).
#[allow(missing_docs, reason = "the names are Linux's")]
pub mod feature {
    pub const BACKLOG_LIMIT: u32 = 1;
    pub const BACKLOG_WAIT_TIME: u32 = 2;
    pub const EXECUTABLE_PATH: u32 = 4;
    pub const EXCLUDE_EXTEND: u32 = 8;
    pub const SESSIONID_FILTER: u32 = 0x10;
    pub const LOST_RESET: u32 = 0x20;
    pub const FILTER_FS: u32 = 0x40;
}

/// The size of `struct audit_status` in bytes.
pub const STATUS_SIZE: usize = 44;

/// Reads words from bytes that may be too few; the others are 0.
fn words<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let (given, _) = bytes.as_chunks();
    core::array::from_fn(|n| given.get(n).map_or(0, |word| u32::from_ne_bytes(*word)))
}

/// Writes words one after the other.
fn bytes<const N: usize>(words: &[u32], to: &mut [u8; N]) {
    for (to, word) in to.as_chunks_mut().0.iter_mut().zip(words) {
        *to = word.to_ne_bytes();
    }
}

/// `struct audit_status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// See [`set`].
    pub mask: u32,
    /// 0: off, 1: on, 2: on, and nothing can be changed.
    pub enabled: u32,
    /// What happens if a record is lost: 0: nothing, 1: it is logged, 2: panic.
    pub failure: u32,
    /// The daemon's process.
    pub pid: u32,
    /// How many records may be made in a second; 0: any number.
    pub rate_limit: u32,
    /// How many may wait; 0: any number.
    pub backlog_limit: u32,
    /// How many were lost.
    pub lost: u32,
    /// How many wait.
    pub backlog: u32,
    /// See [`feature`].
    pub features: u32,
    /// How long who makes a record waits if too many do, in ticks of the kernel.
    pub backlog_wait_time: u32,
    /// How long they have waited.
    pub backlog_wait_time_actual: u32,
}

impl Status {
    /// Reads one; what is missing at the end is 0.
    pub fn from_bytes(given: &[u8]) -> Self {
        let [
            mask,
            enabled,
            failure,
            pid,
            rate_limit,
            backlog_limit,
            lost,
            backlog,
            features,
            time,
            actual,
        ] = words(given);
        Self {
            mask,
            enabled,
            failure,
            pid,
            rate_limit,
            backlog_limit,
            lost,
            backlog,
            features,
            backlog_wait_time: time,
            backlog_wait_time_actual: actual,
        }
    }

    /// The opposite.
    pub fn to_bytes(self) -> [u8; STATUS_SIZE] {
        let mut to = [0; STATUS_SIZE];
        let words = [
            self.mask,
            self.enabled,
            self.failure,
            self.pid,
            self.rate_limit,
            self.backlog_limit,
            self.lost,
            self.backlog,
            self.features,
            self.backlog_wait_time,
            self.backlog_wait_time_actual,
        ];
        bytes(&words, &mut to);
        to
    }
}

/// `struct audit_features`: what can be turned on, and locked as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Which are meant.
    pub mask: u32,
    /// Which are on.
    pub on: u32,
    /// Which are locked.
    pub lock: u32,
}

impl Features {
    /// The size in bytes.
    pub const SIZE: usize = 16;
    /// A login id that is set can only be removed with `CAP_AUDIT_CONTROL`.
    pub const ONLY_UNSET_LOGINUID: u32 = 1;
    /// It cannot be changed.
    pub const LOGINUID_IMMUTABLE: u32 = 2;
    /// All.
    pub const ALL: u32 = 3;

    /// Reads what a program wants. `None`: it is too short.
    pub fn from_bytes(given: &[u8]) -> Option<Self> {
        let [_, mask, on, lock] = words(given.get(..Self::SIZE)?);
        Some(Self { mask, on, lock })
    }

    /// The opposite.
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut to = [0; Self::SIZE];
        bytes(&[1, self.mask, self.on, self.lock], &mut to);
        to
    }
}

/// `struct audit_tty_status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TtyStatus {
    /// Whether what is typed is recorded.
    pub enabled: u32,
    /// Even what is not echoed.
    pub log_passwd: u32,
}

impl TtyStatus {
    /// The size in bytes.
    pub const SIZE: usize = 8;

    /// Reads one; what is missing at the end is 0.
    pub fn from_bytes(given: &[u8]) -> Self {
        let [enabled, log_passwd] = words(given);
        Self { enabled, log_passwd }
    }

    /// The opposite.
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut to = [0; Self::SIZE];
        bytes(&[self.enabled, self.log_passwd], &mut to);
        to
    }
}

/// So many in a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate {
    begun_ns: u64,
    done: u32,
}

impl Rate {
    /// None yet.
    pub const fn new() -> Self {
        Self { begun_ns: 0, done: 0 }
    }

    /// Whether one more is within `limit` in `interval_ns`; counts it then. 0: there is no limit.
    pub fn allows(&mut self, limit: u32, interval_ns: u64, now_ns: u64) -> bool {
        if limit == 0 {
            return true;
        }
        if now_ns.saturating_sub(self.begun_ns) > interval_ns {
            *self = Self {
                begun_ns: now_ns,
                done: 0,
            };
        }
        let may = self.done < limit;
        self.done += u32::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_and_written() {
        let status = Status {
            mask: 1,
            enabled: 2,
            backlog_wait_time_actual: 9,
            ..Status::default()
        };
        assert_eq!(Status::from_bytes(&status.to_bytes()), status);
        assert_eq!(Status::from_bytes(&status.to_bytes()[..8]).enabled, 2);
        assert_eq!(Status::from_bytes(&[]), Status::default());
        let features = Features {
            mask: 3,
            on: 1,
            lock: 2,
        };
        assert_eq!(Features::from_bytes(&features.to_bytes()), Some(features));
        assert_eq!(Features::from_bytes(&[0; 15]), None);
        let tty = TtyStatus {
            enabled: 1,
            log_passwd: 0,
        };
        assert_eq!(TtyStatus::from_bytes(&tty.to_bytes()), tty);
        assert_eq!(TtyStatus::from_bytes(&tty.to_bytes()[..4]), tty);
    }

    #[test]
    fn a_rate() {
        let mut rate = Rate::new();
        let second = 1_000_000_000;
        assert!((0..3).all(|_| rate.allows(3, second, 5 * second)));
        assert!(!rate.allows(3, second, 5 * second + 1));
        assert!(rate.allows(3, second, 6 * second + 2));
        assert!((0..100).all(|_| rate.allows(0, second, 0)));
    }
}
