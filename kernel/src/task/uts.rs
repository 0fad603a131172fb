//! What the system is called: `uname`, `/proc/version`, `/proc/sys/kernel`.

use crate::sync::SpinLock;

/// The release that `uname` reports: the Linux whose interface programs may expect.
pub const RELEASE: &str = "6.12.0-limen";
/// The version that `uname` reports.
pub const VERSION: &str = concat!("#1 SMP PREEMPT Limen ", env!("CARGO_PKG_VERSION"));
/// How many bytes a name may have (`__NEW_UTS_LEN`).
pub const NAME_MAX: usize = 64;

/// A name that can be set: bytes and length.
struct Name([u8; NAME_MAX], usize);

impl Name {
    const fn new(name: &str) -> Self {
        let mut bytes = [0; NAME_MAX];
        let mut n = 0;
        while n < name.len() {
            bytes[n] = name.as_bytes()[n];
            n += 1;
        }
        Self(bytes, n)
    }
    /// The first bytes of `name`, as many as there is room for.
    fn cut(name: &[u8]) -> Self {
        let mut new = Self([0; NAME_MAX], name.len().min(NAME_MAX));
        new.0[..new.1].copy_from_slice(&name[..new.1]);
        new
    }
}

static HOST: SpinLock<Name> = SpinLock::new(Name::new("(none)"));
static DOMAIN: SpinLock<Name> = SpinLock::new(Name::new("(none)"));

/// The host name, for `/proc/sys/kernel/hostname`.
pub fn hostname() -> alloc::vec::Vec<u8> {
    let name = HOST.lock();
    name.0[..name.1].to_vec()
}

/// The domain name, for `/proc/sys/kernel/domainname`.
pub fn domainname() -> alloc::vec::Vec<u8> {
    let name = DOMAIN.lock();
    name.0[..name.1].to_vec()
}

/// Sets the host name (the boot command line's `hostname=`, `/proc/sys`).
pub fn set_hostname(name: &[u8]) {
    *HOST.lock() = Name::cut(name);
}

/// Sets the domain name (`/proc/sys`).
pub fn set_domainname(name: &[u8]) {
    *DOMAIN.lock() = Name::cut(name);
}
