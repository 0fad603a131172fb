//! procfs: processes and the kernel as text. `system` has the files about the machine, `sysctl` the settings
//! under `/proc/sys`, `process` the directory of a process, and `status`, `memory` and `descriptors` the
//! files in it.

mod descriptors;
mod idmap;
mod memory;
mod mounts;
mod pagemap;
mod process;
mod status;
pub mod sysctl;
mod sysrq;
pub mod system;
mod timens;

use crate::fs::dentry::Dentry;
use crate::fs::inode::{FileType, Link};
use crate::fs::mount;
use crate::fs::pseudo::{self, Directory, Node, Tree};
use crate::fs::superblock::{FsType, StatFs, SuperBlock, SuperOps};
use crate::rcu::Shared;
use crate::task::ns::UserRef;
use crate::task::ns::pid::{self, PidRef};
use crate::task::pid::{find_process_in, find_task_in, next_process_in};
use crate::task::{ExitState, Process, Task, current};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use limen_linux_abi::Errno;
use process::ProcessDir;
pub use process::Subject;

/// `PROC_SUPER_MAGIC`.
const MAGIC: u64 = 0x9fa0;
/// The cookies of processes begin here. Lower ones belong to fixed names.
const PIDS: u64 = 0x1_0000;

/// The file system type.
pub static PROC: FsType = FsType {
    name: NAME,
    for_users: Some(owner),
    revealing: true,
    needs_device: false,
    mount: |_, _| root(),
};

/// The type's name.
const NAME: &str = "proc";

/// The fixed names at the top.
pub static TREE: Tree = Tree::new();

/// The user namespace that owns a new instance: that of the PID namespace which it shows.
fn owner() -> UserRef {
    pid::owner(&pid::of_children(current().namespaces())).clone()
}

/// Each mount has an instance of its own, which shows the PID namespace of the children of who mounts it.
fn root() -> Result<Shared<Dentry>, Errno> {
    let ns = pid::of_children(current().namespaces());
    let sb = SuperBlock::new(NAME, Box::new(Super), owner())?;
    Ok(pseudo::root(&sb, 0o555, Arc::new(Root(ns))))
}

/// A process has perhaps been waited for. If so, unmounts what is mounted below its directory
/// ([`Process::is_covered`]). May sleep. Not inlined: live patches can replace it.
#[inline(never)]
pub fn process_gone(process: &Arc<Process>) {
    if process.is_covered() && process.exit_state() == ExitState::Dead {
        mount::forget(Arc::as_ptr(process).addr());
    }
}

/// A thread that was not the leader of its process has given up its number. Something is mounted below its
/// directory ([`Task::is_covered`]): unmounts that. May sleep.
#[cold]
pub fn thread_gone(task: &Arc<Task>) {
    mount::forget(Arc::as_ptr(task).addr());
}

/// An instance.
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

/// `/proc` of a PID namespace.
struct Root(PidRef);

impl Root {
    /// What is not the same as in the initial PID namespace.
    fn own(&self, name: &[u8]) -> Option<Node> {
        self.0.as_ref()?;
        let ns = self.0.clone();
        Some(match name {
            b"self" => text(move || seen(current().process.number_in(&ns))),
            b"thread-self" => text(move || {
                let leader = seen(current().process.number_in(&ns))?;
                Ok(format!("{leader}/task/{}", seen(current().number_in(&ns))?))
            }),
            b"locks" => Node::text(move |out| crate::fs::locks::show_all(&ns, out)),
            _ => return None,
        })
    }
}

/// A number as text. `ENOENT`: the reader is not seen there.
fn seen(number: i32) -> Result<String, Errno> {
    match number {
        0 => Err(Errno::ENOENT),
        _ => Ok(format!("{number}")),
    }
}

/// A link to what `f` says.
fn text(f: impl Fn() -> Result<String, Errno> + Send + Sync + 'static) -> Node {
    Node::Link(Arc::new(move || Ok(Link::Text(f()?.into_bytes()))))
}

/// The number that is the name of a process's directory. It has no leading zeros.
fn number(name: &[u8]) -> Option<i32> {
    let text = core::str::from_utf8(name).ok()?;
    let pid: i32 = text.parse().ok()?;
    (pid > 0 && !text.starts_with(['+', '0'])).then_some(pid)
}

impl Directory for Root {
    fn get(&self, name: &[u8]) -> Option<Node> {
        if let Some(node) = self.own(name).or_else(|| TREE.find(name)) {
            return Some(node);
        }
        let pid = number(name)?;
        // A thread that is not a leader has a directory as well, which is not listed.
        let task = find_task_in(&self.0, pid);
        let process = find_process_in(&self.0, pid).or_else(|| task.as_ref().map(|t| t.process.clone()))?;
        let dir = ProcessDir::new(&self.0, pid, process, task.as_ref(), false)?;
        Some(Node::Directory(0o555, Arc::new(dir)))
    }
    fn which(&self, name: &[u8]) -> u64 {
        let process = number(name).and_then(|number| find_process_in(&self.0, number));
        process.map_or(0, |process| process.start_ns)
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        if pos < PIDS && !TREE.walk(pos, add) {
            return;
        }
        let mut from = pos.max(PIDS) - PIDS;
        while let Some((number, _)) = next_process_in(&self.0, from as i32) {
            from = number as u64 + 1;
            if !add(format!("{number}").as_bytes(), FileType::Directory, PIDS + from) {
                return;
            }
        }
    }
}

/// Registers the type and the fixed names.
pub fn init() {
    crate::fs::superblock::register_fs_type(&PROC);
    TREE.add("self", text(|| Ok(format!("{}", current().tgid()))));
    TREE.add(
        "thread-self",
        text(|| Ok(format!("{}/task/{}", current().tgid(), current().tid()))),
    );
    TREE.add("mounts", Node::link("self/mounts"));
    TREE.add("net", Node::link("self/net"));
    system::init();
    sysctl::init();
    sysrq::init();
}
