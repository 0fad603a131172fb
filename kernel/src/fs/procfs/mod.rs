//! procfs: processes and the kernel as text. `system` has the files about the machine, `sysctl` the settings
//! under `/proc/sys`, `process` the directory of a process, and `status`, `memory` and `descriptors` the
//! files in it.

mod descriptors;
mod memory;
mod mounts;
mod pagemap;
mod process;
mod status;
pub mod sysctl;
mod sysrq;
pub mod system;

use crate::fs::dentry::{self, Dentry};
use crate::fs::inode::{FileType, Link};
use crate::fs::mount;
use crate::fs::pseudo::{self, Directory, Node, Tree};
use crate::fs::superblock::{FsType, StatFs, SuperBlock, SuperOps};
use crate::rcu::Shared;
use crate::task::{self, current};
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use limen_linux_abi::Errno;

/// `PROC_SUPER_MAGIC`.
const MAGIC: u64 = 0x9fa0;
/// The cookies of processes begin here. Lower ones belong to fixed names.
const PIDS: u64 = 0x1_0000;

/// The file system type.
pub static PROC: FsType = FsType {
    name: NAME,
    for_users: true,
    revealing: true,
    needs_device: false,
    mount: |_, _| Ok(root()),
};

/// The type's name.
const NAME: &str = "proc";

/// The fixed names at the top.
pub static TREE: Tree = Tree::new();

/// Each mount has an instance of its own.
fn root() -> Shared<Dentry> {
    let sb = SuperBlock::new(NAME, Box::new(Super), false);
    pseudo::root(&sb, 0o555, Arc::new(Root))
}

/// A process has been waited for and its directory is gone: unmounts what is mounted there. May sleep.
pub fn process_gone(pid: i32) {
    if dentry::any_pinned() && task::pid::find_process(pid).is_none() {
        let name = format!("{pid}");
        mount::forget(|at| {
            at.inode.sb.fs_type == NAME && at.name_at_top().is_some_and(|top| *top == *name.as_bytes())
        });
    }
}

struct Super;

impl SuperOps for Super {
    fn statfs(&self) -> StatFs {
        StatFs::made_up(MAGIC)
    }
    fn fixed_modes(&self) -> bool {
        true
    }
    fn no_entries(&self, _: FileType) -> Errno {
        Errno::ENOENT
    }
}

/// `/proc`.
struct Root;

/// The number that is the name of a process's directory. It has no leading zeros.
fn number(name: &[u8]) -> Option<i32> {
    let text = core::str::from_utf8(name).ok()?;
    let pid: i32 = text.parse().ok()?;
    (pid > 0 && !text.starts_with(['+', '0'])).then_some(pid)
}

impl Directory for Root {
    fn get(&self, name: &[u8]) -> Option<Node> {
        if let Some(node) = TREE.find(name) {
            return Some(node);
        }
        let pid = number(name)?;
        // A thread that is not a leader has a directory as well, which is not listed.
        let task = task::pid::find_task(pid);
        let process = task::pid::find_process(pid).or_else(|| task.as_ref().map(|t| t.process.clone()))?;
        Some(Node::Directory(
            0o555,
            Arc::new(process::ProcessDir::new(process, task.as_ref(), false)),
        ))
    }
    fn which(&self, name: &[u8]) -> u64 {
        let process = number(name).and_then(task::pid::find_process);
        process.map_or(0, |process| process.start_ns)
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        if pos < PIDS && !TREE.walk(pos, add) {
            return;
        }
        let mut from = pos.max(PIDS) - PIDS;
        while let Some(process) = task::pid::next_process(from as i32) {
            from = process.tgid as u64 + 1;
            if !add(
                format!("{}", process.tgid).as_bytes(),
                FileType::Directory,
                PIDS + from,
            ) {
                return;
            }
        }
    }
}

/// Registers the type and the fixed names.
pub fn init() {
    crate::fs::superblock::register_fs_type(&PROC);
    let text = |f: fn() -> alloc::string::String| -> Node {
        Node::Link(Arc::new(move || Ok(Link::Text(f().into_bytes()))))
    };
    TREE.add("self", text(|| format!("{}", current().tgid())));
    TREE.add(
        "thread-self",
        text(|| format!("{}/task/{}", current().tgid(), current().tid())),
    );
    TREE.add("mounts", Node::link("self/mounts"));
    TREE.add("net", Node::link("self/net"));
    system::init();
    sysctl::init();
    sysrq::init();
}
