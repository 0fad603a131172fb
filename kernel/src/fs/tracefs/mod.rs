//! tracefs: what `tracing` keeps, as files; Linux's names, modes and formats. Mounted at
//! `/sys/kernel/tracing`, and on its own under debugfs. `instance` is the directory of an instance; a room
//! that traces adds its files there with [`register`]. `docs/tracing.md` lists them.

mod errors;
mod event_dirs;
mod event_files;
mod event_sets;
mod events;
mod functions;
mod instance;
mod marker;
mod options;
mod per_cpu;
mod pipe;
mod profile;
mod raw;
mod settings;
mod snapshot;
mod stack;
mod top;
mod trace;

pub use instance::register;

use crate::fs::dentry::Dentry;
use crate::fs::pseudo::{self, Changes, Node};
use crate::fs::superblock::{FsType, StatFs, SuperBlock, SuperOps};
use crate::rcu::Shared;
use crate::sync::Once;
use crate::task::ns::user;
use crate::tracing;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use limen_linux_abi::Errno;

/// `TRACEFS_MAGIC`.
const MAGIC: u64 = 0x7472_6163;
/// The mode of the root, and of other directories.
const ROOT_MODE: u32 = 0o700;
const DIRECTORY: u32 = 0o750;
/// The modes of files that are read, written, or both.
const READ: u32 = 0o440;
const WRITE: u32 = 0o220;
const BOTH: u32 = 0o640;

/// The file system type.
pub static TRACEFS: FsType = FsType {
    name: "tracefs",
    for_users: None,
    revealing: false,
    needs_device: false,
    mount,
};

static UID: AtomicU32 = AtomicU32::new(0);
static GID: AtomicU32 = AtomicU32::new(0);
static CHANGES: Changes = Changes::new();
static ROOT: Once<Shared<Dentry>> = Once::new();

/// The owner of everything whose owner no program has changed.
fn owner() -> (u32, u32) {
    (UID.load(Relaxed), GID.load(Relaxed))
}

struct Super;

impl SuperOps for Super {
    fn statfs(&self) -> StatFs {
        StatFs::made_up(MAGIC)
    }
    fn stands_for_many(&self) -> bool {
        true
    }
    fn show_options(&self, out: &mut String) {
        let (uid, gid) = owner();
        if uid != 0 {
            out.push_str(&format!(",uid={uid}"));
        }
        if gid != 0 {
            out.push_str(&format!(",gid={gid}"));
        }
        if let Some(mode) = ROOT
            .get()
            .map(|root| root.inode.mode())
            .filter(|mode| *mode != ROOT_MODE)
        {
            out.push_str(&format!(",mode={mode:o}"));
        }
    }
    fn check_options(&self, data: &str) -> Result<(), Errno> {
        Options::parse(data).map(drop)
    }
    fn remount(&self, data: &str) -> Result<(), Errno> {
        Options::parse(data)?.apply();
        Ok(())
    }
}

/// The options of a mount.
#[derive(Default)]
struct Options {
    uid: Option<u32>,
    gid: Option<u32>,
    mode: Option<u32>,
}

impl Options {
    fn parse(data: &str) -> Result<Self, Errno> {
        let mut options = Self::default();
        for word in data.split(',').filter(|word| !word.is_empty()) {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let number = |radix| u32::from_str_radix(value, radix).map_err(|_| Errno::EINVAL);
            match key {
                "uid" => options.uid = Some(user::uid_meant(number(10)?)?),
                "gid" => options.gid = Some(user::gid_meant(number(10)?)?),
                "mode" => options.mode = Some(number(8)? & 0o7777),
                // Linux has always taken what it does not know.
                _ => {}
            }
        }
        Ok(options)
    }

    /// What programs have changed before counts no more where an option says something else.
    fn apply(&self) {
        let (set_uid, set_gid) = (self.uid.is_some(), self.gid.is_some());
        if let Some(uid) = self.uid {
            UID.store(uid, Relaxed);
        }
        if let Some(gid) = self.gid {
            GID.store(gid, Relaxed);
        }
        let (uid, gid) = owner();
        CHANGES.retain(|change| {
            if set_uid {
                change.1 = uid;
            }
            if set_gid {
                change.2 = gid;
            }
            true
        });
        if let Some(root) = ROOT.get() {
            let of = if set_uid { uid } else { root.inode.uid() };
            let group = if set_gid { gid } else { root.inode.gid() };
            root.inode.set_owner(of, group);
            if let Some(mode) = self.mode {
                root.inode.set_mode(mode);
            }
        }
    }
}

fn root() -> Result<&'static Shared<Dentry>, Errno> {
    let top = tracing::top()?;
    Ok(ROOT.get_or_init(|| {
        let sb = SuperBlock::new("tracefs", Box::new(Super));
        pseudo::root(&sb, ROOT_MODE, Arc::new(instance::Files::new(top.clone())))
    }))
}

fn mount(_: &[u8], data: &str) -> Result<Shared<Dentry>, Errno> {
    let options = Options::parse(data)?;
    let root = root()?;
    options.apply();
    Ok(root.clone())
}

/// Registers the type.
pub fn init() {
    crate::fs::superblock::register_fs_type(&TRACEFS);
    // Linux mounts it there when somebody comes by; here the same directory is part of both.
    let same = || root().map(|root| (*root.inode).clone());
    crate::fs::debugfs::TREE.add("tracing", Node::Same(Arc::new(same)));
    for rows in [
        settings::ROWS,
        top::ROWS,
        options::ROWS,
        trace::ROWS,
        pipe::ROWS,
        marker::ROWS,
        snapshot::ROWS,
        per_cpu::ROWS,
        events::ROWS,
        functions::ROWS,
        profile::ROWS,
        stack::ROWS,
        event_sets::ROWS,
        errors::ROWS,
        instance::INSTANCES,
    ] {
        register(rows);
    }
}
