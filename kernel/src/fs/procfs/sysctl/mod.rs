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
pub mod net;
mod number;
mod text;
mod user;
mod vm;

use super::TREE;
use crate::fs::file::{File, FileOps};
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::pseudo::{Node, read_from, root_digit};
use crate::task::current;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;
use limen_linux_abi::SysResult;

pub use number::Value;

/// A whole number and its range.
pub struct Number {
    value: &'static dyn Value,
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
    kind: Kind,
}

impl Setting {
    const fn new(path: &'static str, mode: u32, kind: Kind) -> Self {
        Self {
            path,
            mode,
            privilege: None,
            kind,
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
        Self { value, min, max }
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

struct SettingFile(&'static Setting);

impl FileOps for SettingFile {
    fn read(&self, file: &File, dst: &mut IoDst<'_>, pos: Option<u64>) -> SysResult {
        let Setting { mode, kind, .. } = self.0;
        read_from(file, pos, |pos| {
            if !root_digit(*mode, 4) {
                return Err(Errno::EPERM);
            }
            let room = dst.remaining();
            if room >= LONGEST {
                return Err(Errno::ENOMEM);
            }
            let bytes = match kind {
                Kind::Text(size, get, _) => text::read(&get(), *size, pos, room),
                _ => number::read(kind, pos, room),
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
            mode,
            kind,
            privilege,
            ..
        } = self.0;
        if !root_digit(*mode, 2) {
            return Err(Errno::EPERM);
        }
        let len = src.remaining();
        if len >= LONGEST {
            return Err(Errno::ENOMEM);
        }
        let mut bytes = crate::mm::copy::zeroed(len)?;
        let mut n = 0;
        while n < len {
            n += src.take(&mut bytes[n..])?;
        }
        if privilege.is_some_and(|capability| !current().creds().capable(capability)) {
            return Err(Errno::EPERM);
        }
        let (taken, moved) = match kind {
            Kind::Text(size, get, set) => text::write(&bytes, *size, at, get, *set)?,
            _ => number::write(kind, &bytes, at)?,
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

fn register(settings: &'static [Setting]) {
    for setting in settings {
        let open = Arc::new(move |_| {
            let ops: Arc<dyn FileOps> = Arc::new(SettingFile(setting));
            Ok(ops)
        });
        let node = Node::Strict(setting.mode, open);
        TREE.add(&format!("sys/{}", setting.path), node);
    }
}

/// Registers the settings.
pub fn init() {
    let tables = [
        kernel::SETTINGS,
        vm::SETTINGS,
        files::SETTINGS,
        net::SETTINGS,
        ipc::SETTINGS,
    ];
    for table in tables {
        register(table);
    }
    abi::init();
    user::init();
}
