//! `/proc/sys`: settings. A table has for each its path, its mode, the kind of its value, and the place of
//! the value, which lies in the room that uses it. `number` and `text` read and write values; `kernel`, `vm`,
//! `files`, `net` and `ipc` have the tables, `abi` what only a processor has, `user` what each user namespace
//! has.
//!
//! A setting that would have no effect in this kernel is missing. The others have the effect that they have
//! on Linux.

mod abi;
mod files;
mod ipc;
pub mod kernel;
mod net;
mod number;
mod text;
mod user;
mod vm;

use super::TREE;
use crate::fs::file::{File, FileOps};
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::pseudo::{Lets, Node, Root, digit, read_from};
use crate::ipc::ns::{self, Own};
use crate::task::creds::cap;
use crate::task::current;
use crate::task::ns::net::{self as network, NetRef};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;
use limen_linux_abi::SysResult;

pub use number::Value;

/// Where a number is.
enum Source {
    /// At one place.
    One(&'static dyn Value),
    /// In the IPC namespace of whoever opened the setting.
    Ipc(for<'a> fn(&'a Own) -> &'a dyn Value),
    /// In its network namespace.
    Net(for<'a> fn(&'a NetRef) -> &'a dyn Value),
}

/// The namespaces of whoever opened a setting, as far as it is one of those.
pub struct Scope {
    ipc: Own,
    net: NetRef,
}

/// The same, which may end while the setting is open.
struct Noted {
    ipc: ns::Noted,
    net: network::Noted,
}

impl Noted {
    /// What was noted, if it is still there.
    fn scope(&self) -> Option<Scope> {
        Some(Scope {
            ipc: self.ipc.get()?,
            net: self.net.get()?,
        })
    }
}

impl Scope {
    fn noted(&self) -> Noted {
        Noted {
            ipc: self.ipc.noted(),
            net: self.net.noted(),
        }
    }
}

/// Whose settings those of a table are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    System,
    Ipc,
    Net,
}

impl Of {
    /// The scope of the running thread.
    fn scope(self) -> Scope {
        Scope {
            ipc: if self == Self::Ipc {
                Own::of_current()
            } else {
                Own::INITIAL
            },
            net: if self == Self::Net {
                NetRef::of_current()
            } else {
                NetRef::INITIAL
            },
        }
    }
    /// Whether the running thread may do `want` with a setting in `scope`. In a network that is asked of the
    /// administrator of its owner, as on Linux, who has the rights of root.
    fn lets(self, scope: &Scope, mode: u32, want: u32) -> bool {
        let root = match self {
            Self::System => (0, 0),
            Self::Ipc => scope.ipc.root(),
            Self::Net => {
                let creds = current().creds();
                let admin = creds.capable_in(scope.net.owner(), cap::NET_ADMIN);
                (if admin { creds.euid } else { 0 }, 0)
            }
        };
        digit(mode, want, root)
    }
}

/// A whole number and its range.
pub struct Number {
    source: Source,
    min: i64,
    max: i64,
}

/// Sets a line of text, or says why not.
pub type SetText = fn(&[u8]) -> Result<(), Errno>;

/// The kind of a setting's value.
pub enum Kind {
    /// Signed numbers of 32 bits (`proc_dointvec`).
    Ints(&'static [Number]),
    /// An unsigned number of 32 bits (`proc_douintvec`).
    Unsigned(Number),
    /// Numbers of a machine word that are not negative (`proc_doulongvec`).
    Longs(&'static [Number]),
    /// A size in bytes. `fn` rounds what is written; `None` refuses it.
    Size(&'static dyn Value, fn(u64) -> Option<u64>),
    /// A line of at most so many bytes. `None`: it cannot be written.
    Text(usize, fn() -> Vec<u8>, Option<SetText>),
    /// A number that is shown. What is written is ignored.
    Ignored(u32),
}

/// A setting.
pub struct Setting {
    path: &'static str,
    mode: u32,
    /// The capability that writing needs, in addition to the mode.
    privilege: Option<u32>,
    /// Another right that writing needs.
    right: Option<fn() -> bool>,
    kind: Kind,
}

impl Setting {
    const fn new(path: &'static str, mode: u32, kind: Kind) -> Self {
        Self {
            path,
            mode,
            privilege: None,
            right: None,
            kind,
        }
    }
    const fn with_right(self, has: fn() -> bool) -> Self {
        Self {
            right: Some(has),
            ..self
        }
    }
    const fn with_privilege(self, capability: u32) -> Self {
        Self {
            privilege: Some(capability),
            ..self
        }
    }
}

impl Number {
    const fn new(value: &'static dyn Value, min: i64, max: i64) -> Self {
        let source = Source::One(value);
        Self { source, min, max }
    }
    /// A number of an IPC namespace.
    const fn of_ipc(value: for<'a> fn(&'a Own) -> &'a dyn Value, min: i64, max: i64) -> Self {
        let source = Source::Ipc(value);
        Self { source, min, max }
    }
    /// A number of a network namespace.
    const fn of_net(value: for<'a> fn(&'a NetRef) -> &'a dyn Value, min: i64, max: i64) -> Self {
        let source = Source::Net(value);
        Self { source, min, max }
    }
    /// The place of the number; `ns`: the namespaces of whoever opened the setting.
    fn value<'a>(&self, ns: &'a Scope) -> &'a dyn Value {
        match self.source {
            Source::One(value) => value,
            Source::Ipc(value) => value(&ns.ipc),
            Source::Net(value) => value(&ns.net),
        }
    }
    /// Any number of 32 bits.
    const fn any(value: &'static dyn Value) -> Self {
        Self::new(value, i32::MIN as i64, i32::MAX as i64)
    }
    /// Any number of a machine word.
    const fn long(value: &'static dyn Value) -> Self {
        Self::new(value, i64::MIN, i64::MAX)
    }
}

/// How many bytes of a write are accepted at most.
const LONGEST: usize = 4 << 20;

/// An open setting.
struct SettingFile(&'static Setting, Of, Noted);

impl SettingFile {
    /// What it is a setting of, if the running thread may do `want` with it. `EPERM`; `ENOENT`: its namespace
    /// has ended.
    fn scope(&self, want: u32) -> Result<Scope, Errno> {
        let scope = self.2.scope().ok_or(Errno::ENOENT)?;
        let lets = self.1.lets(&scope, self.0.mode, want);
        lets.then_some(scope).ok_or(Errno::EPERM)
    }
}

impl FileOps for SettingFile {
    fn read(&self, file: &File, dst: &mut IoDst<'_>, pos: Option<u64>) -> SysResult {
        let Setting { kind, .. } = self.0;
        read_from(file, pos, |pos| {
            let ns = &self.scope(4)?;
            let room = dst.remaining();
            if room >= LONGEST {
                return Err(Errno::ENOMEM);
            }
            let bytes = match kind {
                Kind::Text(size, get, _) => text::read(&get(), *size, pos, room),
                _ => number::read(kind, pos, room, ns),
            };
            if bytes.is_empty() { Ok(0) } else { dst.put(&bytes) }
        })
    }
    fn write(&self, file: &File, src: &mut IoSrc<'_>, pos: Option<u64>) -> SysResult {
        let mut own = if pos.is_none() {
            Some(file.pos.lock())
        } else {
            None
        };
        let at = pos.or(own.as_deref().copied()).unwrap_or(0);
        let Setting {
            kind,
            privilege,
            right,
            ..
        } = self.0;
        let ns = &self.scope(2)?;
        let len = src.remaining();
        if len >= LONGEST {
            return Err(Errno::ENOMEM);
        }
        let mut bytes = crate::mm::copy::zeroed(len)?;
        let mut n = 0;
        while n < len {
            n += src.take(&mut bytes[n..])?;
        }
        if privilege.is_some_and(|capability| !current().creds().capable(capability))
            || right.is_some_and(|has| !has())
        {
            return Err(Errno::EPERM);
        }
        let (taken, moved) = match kind {
            Kind::Text(size, get, set) => text::write(&bytes, *size, at, get, *set)?,
            _ => number::write(kind, &bytes, at, ns)?,
        };
        if let Some(own) = &mut own {
            **own = at.wrapping_add(moved as u64);
        }
        Ok(taken)
    }
    fn seek(&self, file: &File, offset: i64, whence: u32) -> Result<u64, Errno> {
        crate::fs::pseudo::seek(file, offset, whence)
    }
}

fn register(settings: &'static [Setting], of: Of) {
    let root: Root = match of {
        Of::System => || (0, 0),
        Of::Ipc => || Own::of_current().root(),
        Of::Net => || NetRef::of_current().root(),
    };
    let lets: Lets = match of {
        Of::System => |mode, want| Of::System.lets(&Of::System.scope(), mode, want),
        Of::Ipc => |mode, want| Of::Ipc.lets(&Of::Ipc.scope(), mode, want),
        Of::Net => |mode, want| Of::Net.lets(&Of::Net.scope(), mode, want),
    };
    for setting in settings {
        let open = Arc::new(move |_| {
            let ops: Arc<dyn FileOps> = Arc::new(SettingFile(setting, of, of.scope().noted()));
            Ok(ops)
        });
        let node = Node::Strict(setting.mode, root, lets, open);
        TREE.add(&format!("sys/{}", setting.path), node);
    }
}

/// Registers the settings.
pub fn init() {
    let tables = [kernel::SETTINGS, vm::SETTINGS, files::SETTINGS];
    for table in tables {
        register(table, Of::System);
    }
    register(ipc::SETTINGS, Of::Ipc);
    register(net::SETTINGS, Of::Net);
    abi::init();
    user::init();
}
