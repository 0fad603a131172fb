//! What the system is called: `uname`, `/proc/version`, `/proc/sys/kernel`. Each UTS namespace has names of
//! its own.

use super::creds::cap;
use super::current;
use super::ns::{Head, Kind, Next, Ns, Room};
use crate::sync::SpinLock;
use alloc::sync::Arc;
use limen_linux_abi::Errno;

/// The release that `uname` reports: the Linux whose interface programs may expect.
pub const RELEASE: &str = "6.12.0-limen";
/// The version that `uname` reports.
pub const VERSION: &str = concat!("#1 SMP PREEMPT Limen ", env!("CARGO_PKG_VERSION"));
/// How many bytes a name may have (`__NEW_UTS_LEN`).
pub const NAME_MAX: usize = 64;

/// A name that can be set: bytes and length.
#[derive(Clone, Copy)]
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

/// The names of a namespace.
struct Names {
    host: SpinLock<Name>,
    domain: SpinLock<Name>,
}

static INITIAL: Names = Names {
    host: SpinLock::new(Name::new("(none)")),
    domain: SpinLock::new(Name::new("(none)")),
};

/// A UTS namespace that was made.
struct UtsNs {
    head: Head,
    names: Names,
}

impl Ns for UtsNs {
    fn kind(&self) -> Kind {
        Kind::Uts
    }
    fn head(&self) -> &Head {
        &self.head
    }
    fn join(self: Arc<Self>, next: &mut Next) -> Result<(), Errno> {
        next.join(Kind::Uts, Some(self))
    }
}

/// How they are made.
struct Maker;

impl Room for Maker {
    fn make(&self, next: &mut Next) -> Result<(), Errno> {
        let copy = |names: &Names| Names {
            host: SpinLock::new(*names.host.lock()),
            domain: SpinLock::new(*names.domain.lock()),
        };
        let names = match next.set.get::<UtsNs>(Kind::Uts) {
            Some(old) => copy(&old.names),
            None => copy(&INITIAL),
        };
        let head = Head::new(Kind::Uts, next.user())?;
        next.set.put(Kind::Uts, Some(Arc::new(UtsNs { head, names })));
        Ok(())
    }
    fn join_initial(&self, next: &mut Next) -> Result<(), Errno> {
        next.join(Kind::Uts, None)
    }
}

/// UTS namespaces can be made. Boot.
pub(super) fn init() {
    super::ns::provide(Kind::Uts, &Maker);
}

/// Looks at the names that the running thread sees.
#[inline]
fn with<R>(look: impl FnOnce(&Names) -> R) -> R {
    let task = current();
    match task.namespaces().and_then(|set| set.get::<UtsNs>(Kind::Uts)) {
        Some(ns) => look(&ns.names),
        None => look(&INITIAL),
    }
}

/// `EPERM` unless the running thread may set the names that it sees (`sethostname`).
pub fn may_set() -> Result<(), Errno> {
    let task = current();
    let made = task.namespaces().and_then(|set| set.made(Kind::Uts));
    let owner = made.and_then(|ns| ns.head().owner.clone());
    match task.creds().capable_in(&owner, cap::SYS_ADMIN) {
        true => Ok(()),
        false => Err(Errno::EPERM),
    }
}

/// The host name that the running thread sees.
pub fn hostname() -> alloc::vec::Vec<u8> {
    with(|names| {
        let name = names.host.lock();
        name.0[..name.1].to_vec()
    })
}

/// The domain name that it sees.
pub fn domainname() -> alloc::vec::Vec<u8> {
    with(|names| {
        let name = names.domain.lock();
        name.0[..name.1].to_vec()
    })
}

/// Sets the host name that it sees (the boot command line's `hostname=`, `/proc/sys`).
pub fn set_hostname(name: &[u8]) {
    with(|names| *names.host.lock() = Name::cut(name));
}

/// Sets the domain name that it sees (`/proc/sys`).
pub fn set_domainname(name: &[u8]) {
    with(|names| *names.domain.lock() = Name::cut(name));
}
