//! `/proc/<pid>` and `/proc/<pid>/task/<tid>`: which files there are and who may read them.

use super::{descriptors, memory, status};
use crate::fs::inode::{FileType, Link};
use crate::fs::path::Path;
use crate::fs::pseudo::{Directory, Node, Text, parse, with_string};
use crate::mm::AddressSpace;
use crate::task::access::{self, By};
use crate::task::creds::{Creds, cap};
use crate::task::{Process, Task, current, root_creds};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::Ordering;
use limen_linux_abi::Errno;

/// A process, and the thread that stands for it (none when it is a zombie).
#[derive(Clone)]
pub struct Subject {
    /// The process.
    pub process: Arc<Process>,
    /// The thread whose directory it is, or the leader.
    pub task: Option<Arc<Task>>,
    /// Whether it is about one thread only.
    pub thread: bool,
}

impl Subject {
    /// The thread; `ESRCH` once there is none.
    pub fn task(&self) -> Result<&Arc<Task>, Errno> {
        self.task.as_ref().ok_or(Errno::ESRCH)
    }

    /// Its credentials, or those it ended with.
    pub fn creds(&self) -> Arc<Creds> {
        if let Some(task) = &self.task {
            return task.creds();
        }
        let remains = self.process.remains.lock();
        remains
            .as_ref()
            .map_or_else(root_creds, |(_, creds)| creds.clone())
    }

    /// The name, or the one it ended with.
    pub fn comm(&self) -> [u8; 16] {
        if let Some(task) = &self.task {
            return task.comm();
        }
        let remains = self.process.remains.lock();
        remains.as_ref().map_or([0; 16], |(comm, _)| *comm)
    }

    /// What `take` finds inside, given the memory (none of a zombie): `EACCES` if the running thread may not look there
    /// (`PTRACE_MODE_READ_FSCREDS`).
    pub fn look<T>(&self, mut take: impl FnMut(Option<&Arc<AddressSpace>>) -> T) -> Result<T, Errno> {
        let looked = match &self.task {
            Some(task) => access::look(task, By::Files, take),
            None => access::may_look(&self.process, &self.creds(), None, By::Files).map(|()| take(None)),
        };
        looked.map_err(|_| Errno::EACCES)
    }
}

/// The directory.
pub struct ProcessDir(Subject);

impl ProcessDir {
    /// Of `process`, or with `thread` of the thread `task`.
    pub fn new(process: Arc<Process>, task: Option<Arc<Task>>, thread: bool) -> Self {
        Self(Subject {
            process,
            task,
            thread,
        })
    }
}

type Make = fn(&Subject) -> Node;

fn text(subject: &Subject, show: fn(&Subject, &mut Text) -> Result<(), Errno>) -> Node {
    let subject = subject.clone();
    Node::text(move |out| show(&subject, out))
}

fn private(subject: &Subject, show: fn(&Subject, &mut Text) -> Result<(), Errno>) -> Node {
    let subject = subject.clone();
    let show = move |out: &mut Text| {
        subject.look(|_| {
            out.clear();
            show(&subject, out)
        })?
    };
    Node::File(0o400, Arc::new(show), None)
}

fn place(subject: &Subject, get: fn(&Subject) -> Option<Path>) -> Node {
    let subject = subject.clone();
    Node::Link(Arc::new(move || {
        let path = subject.look(|_| get(&subject))?;
        path.map(Link::Jump).ok_or(Errno::ENOENT)
    }))
}

const ENTRIES: &[(&str, FileType, Make)] = &[
    ("auxv", FileType::Regular, |s| memory::of(s, 0o400, memory::auxv)),
    ("cgroup", FileType::Regular, |s| {
        text(s, |_, out| line(out, "0::/"))
    }),
    ("cmdline", FileType::Regular, |s| text(s, memory::cmdline)),
    ("comm", FileType::Regular, comm),
    ("coredump_filter", FileType::Regular, |s| {
        text(s, |_, out| line(out, "00000033"))
    }),
    ("cwd", FileType::Symlink, |s| {
        place(s, |s| Some(s.task.as_ref()?.try_fs()?.cwd()))
    }),
    ("environ", FileType::Regular, |s| {
        memory::of(s, 0o400, memory::environ)
    }),
    ("exe", FileType::Symlink, |s| {
        place(s, |s| Some(s.process.exe()?.path.clone()))
    }),
    ("fd", FileType::Directory, |s| {
        Node::Directory(0o500, Arc::new(descriptors::Fds(s.clone(), false)))
    }),
    ("fdinfo", FileType::Directory, |s| {
        Node::Directory(0o555, Arc::new(descriptors::Fds(s.clone(), true)))
    }),
    ("gid_map", FileType::Regular, |s| {
        text(s, |_, out| line(out, "         0          0 4294967295"))
    }),
    ("io", FileType::Regular, |s| private(s, status::io)),
    ("limits", FileType::Regular, |s| text(s, status::limits)),
    ("maps", FileType::Regular, |s| memory::mappings(s, memory::maps)),
    ("mem", FileType::Regular, memory::mem),
    ("mountinfo", FileType::Regular, |s| text(s, mountinfo)),
    ("mounts", FileType::Regular, |s| text(s, mounts)),
    ("net", FileType::Directory, |_| {
        Node::Directory(0o555, Arc::new(super::system::Net))
    }),
    ("ns", FileType::Directory, |s| {
        Node::Directory(0o511, Arc::new(Namespaces(s.clone())))
    }),
    ("oom_adj", FileType::Regular, |s| text(s, |_, out| line(out, "0"))),
    ("oom_score", FileType::Regular, |s| text(s, status::oom_score)),
    ("oom_score_adj", FileType::Regular, oom_score_adj),
    ("personality", FileType::Regular, |s| {
        private(s, status::personality)
    }),
    ("root", FileType::Symlink, |s| {
        place(s, |s| Some(s.task.as_ref()?.try_fs()?.root()))
    }),
    ("schedstat", FileType::Regular, |s| text(s, status::schedstat)),
    ("setgroups", FileType::Regular, |s| {
        text(s, |_, out| line(out, "allow"))
    }),
    ("smaps", FileType::Regular, |s| memory::mappings(s, memory::smaps)),
    ("smaps_rollup", FileType::Regular, |s| {
        memory::of(s, 0o444, memory::smaps_rollup)
    }),
    ("rseq", FileType::Regular, |s| {
        private(s, |s, out| {
            crate::rseq::show(&s.process, s.task.as_ref(), s.thread, out)
        })
    }),
    ("stack", FileType::Regular, |s| private(s, |_, _| Ok(()))),
    ("stat", FileType::Regular, |s| text(s, status::stat)),
    ("statm", FileType::Regular, |s| text(s, status::statm)),
    ("status", FileType::Regular, |s| text(s, status::status)),
    ("syscall", FileType::Regular, |s| {
        private(s, |_, out| line(out, "running"))
    }),
    ("timerslack_ns", FileType::Regular, |s| {
        text(s, status::timer_slack)
    }),
    ("uid_map", FileType::Regular, |s| {
        text(s, |_, out| line(out, "         0          0 4294967295"))
    }),
    ("wchan", FileType::Regular, |s| {
        text(s, |_, out| write!(out, "0").map_err(|_| Errno::ENOMEM))
    }),
];

fn line(out: &mut Text, text: &str) -> Result<(), Errno> {
    out.add(text);
    out.add(b"\n");
    Ok(())
}

fn comm(subject: &Subject) -> Node {
    let (reader, writer) = (subject.clone(), subject.clone());
    Node::setting(
        move |out| {
            status::name(&reader, out);
            out.add(b"\n");
            Ok(())
        },
        move |text| {
            if current().process.tgid != writer.process.tgid {
                return Err(Errno::EINVAL);
            }
            writer.task()?.set_comm(text.strip_suffix(b"\n").unwrap_or(text));
            Ok(())
        },
    )
}

fn oom_score_adj(subject: &Subject) -> Node {
    let (reader, writer) = (subject.clone(), subject.clone());
    Node::setting(
        move |out| {
            let _ = writeln!(out, "{}", reader.process.oom_score_adj.load(Ordering::Relaxed));
            Ok(())
        },
        move |text| {
            let new: i32 = parse(text)?;
            if !(-1000..=1000).contains(&new) {
                return Err(Errno::EINVAL);
            }
            let adj = &writer.process.oom_score_adj;
            if new < adj.load(Ordering::Relaxed) && !current().creds().capable(cap::SYS_RESOURCE) {
                return Err(Errno::EACCES);
            }
            adj.store(new, Ordering::Relaxed);
            Ok(())
        },
    )
}

fn mounts(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    let root = subject.task()?.try_fs().ok_or(Errno::EINVAL)?.root();
    with_string(out, |s| crate::fs::mount::show_mounts(&root, s))
}

fn mountinfo(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    let root = subject.task()?.try_fs().ok_or(Errno::EINVAL)?.root();
    with_string(out, |s| crate::fs::mount::show_mountinfo(&root, s))
}

impl Directory for ProcessDir {
    fn process(&self) -> Option<Arc<Process>> {
        (!self.0.thread).then(|| self.0.process.clone())
    }
    fn get(&self, name: &[u8]) -> Option<Node> {
        let subject = &self.0;
        if name == b"task" && !subject.thread {
            return Some(Node::Directory(0o555, Arc::new(Tasks(subject.clone()))));
        }
        if name == b"children" && subject.thread {
            return Some(text(subject, children));
        }
        let entry = ENTRIES.iter().find(|e| e.0.as_bytes() == name)?;
        Some((entry.2)(subject))
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        let more = if self.0.thread {
            ("children", FileType::Regular)
        } else {
            ("task", FileType::Directory)
        };
        let all = ENTRIES.iter().map(|e| (e.0, e.1)).chain([more]);
        for (i, (name, kind)) in all.enumerate().skip(pos.saturating_sub(2) as usize) {
            if !add(name.as_bytes(), kind, i as u64 + 3) {
                return;
            }
        }
    }
    fn owner(&self) -> (u32, u32) {
        owner(&self.0)
    }
    fn own(&self, mode: u32) -> (u32, u32) {
        own(&self.0, mode)
    }
}

/// Who owns the files of a process: its effective user, unless it must not be looked into.
pub fn owner(subject: &Subject) -> (u32, u32) {
    // Asked before the credentials, as `access::look` does.
    let mm = subject.task.as_ref().and_then(|task| task.mm());
    let creds = subject.creds();
    match mm {
        Some(mm) if mm.dumpable() => (creds.euid, creds.egid),
        _ => (0, 0),
    }
}

/// Who owns a directory of a process: where everybody may list it, its effective user whatever may be looked into.
pub fn own(subject: &Subject, mode: u32) -> (u32, u32) {
    if mode != 0o555 {
        return owner(subject);
    }
    let creds = subject.creds();
    (creds.euid, creds.egid)
}

fn children(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    let pids: Vec<i32> = subject.process.family().children.iter().map(|c| c.tgid).collect();
    for pid in pids {
        let _ = write!(out, "{pid} ");
    }
    Ok(())
}

/// `/proc/<pid>/task`.
struct Tasks(Subject);

impl Directory for Tasks {
    fn get(&self, name: &[u8]) -> Option<Node> {
        let tid = super::number(name)?;
        let task = crate::task::pid::find_task(tid).filter(|t| t.process.tgid == self.0.process.tgid);
        if task.is_none() && tid != self.0.process.tgid {
            return None;
        }
        Some(Node::Directory(
            0o555,
            Arc::new(ProcessDir::new(self.0.process.clone(), task, true)),
        ))
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        let mut tids: Vec<i32> = self.0.process.threads().iter().map(|t| t.tid()).collect();
        if tids.is_empty() {
            tids.push(self.0.process.tgid);
        }
        tids.sort_unstable();
        for tid in tids.into_iter().filter(|t| *t as u64 + 2 >= pos) {
            if !add(format!("{tid}").as_bytes(), FileType::Directory, tid as u64 + 3) {
                return;
            }
        }
    }
    fn owner(&self) -> (u32, u32) {
        owner(&self.0)
    }
    fn own(&self, mode: u32) -> (u32, u32) {
        own(&self.0, mode)
    }
}

/// `/proc/<pid>/ns`: everybody is in the first namespace of each kind.
struct Namespaces(Subject);

const NAMESPACES: &[(&str, u32)] = &[
    ("cgroup", 0xefff_fffb),
    ("ipc", 0xefff_ffff),
    ("mnt", 0xf000_0000),
    ("net", 0xf000_0001),
    ("pid", 0xefff_fffc),
    ("time", 0xefff_fffa),
    ("user", 0xefff_fffd),
    ("uts", 0xefff_fffe),
];

impl Directory for Namespaces {
    fn owner(&self) -> (u32, u32) {
        owner(&self.0)
    }
    fn get(&self, name: &[u8]) -> Option<Node> {
        let (name, ino) = NAMESPACES.iter().find(|n| n.0.as_bytes() == name)?;
        Some(Node::link(&format!("{name}:[{ino}]")))
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        for (i, (name, _)) in NAMESPACES.iter().enumerate().skip(pos.saturating_sub(2) as usize) {
            if !add(name.as_bytes(), FileType::Symlink, i as u64 + 3) {
                return;
            }
        }
    }
}
