//! `/proc/<pid>` and `/proc/<pid>/task/<tid>`: which files there are and which tasks may read them.

use super::{descriptors, idmap, memory, mounts, status, timens};
use crate::fs::inode::{Dev, FileType, Link};
use crate::fs::mount;
use crate::fs::nsfs;
use crate::fs::path::Path;
use crate::fs::pseudo::{Directory, Node, Text, parse, parse_any_base, text_file};
use crate::mm::AddressSpace;
use crate::mm::dump::DumpFilter;
use crate::mm::reserve::room_exact;
use crate::task::access::{self, By};
use crate::task::audit;
use crate::task::creds::{Creds, cap};
use crate::task::ns::pid::PidRef;
use crate::task::ns::user::{from_kuid, root_of, uid_meant};
use crate::task::ns::{self, Kind, NsRef};
use crate::task::pid::find_task_in;
use crate::task::process::while_numbered;
use crate::task::{ExitState, Process, Task, current, find_task, root_creds};
use alloc::format;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::Ordering;
use limen_linux_abi::Errno;

/// The thread that a directory of `/proc` is about: a process's leader, or another thread. It is looked up at
/// each use, as it may have ended, or another thread may have become the leader.
#[derive(Clone)]
pub struct Subject {
    /// Its process.
    pub process: Arc<Process>,
    /// The PID namespace of the instance.
    pub ns: PidRef,
    /// The thread's number in the initial PID namespace.
    number: i32,
    /// The number that is the directory's name: the one in `ns`.
    pub shown: i32,
    /// The thread, if it is not the leader.
    member: Option<Weak<Task>>,
    /// The directory is `task/<tid>`: values that belong to a process are given for the thread alone.
    pub thread: bool,
}

impl Subject {
    /// The thread. `None`: it has ended.
    pub fn task(&self) -> Option<Arc<Task>> {
        let task = find_task(self.number)?;
        let same = match &self.member {
            Some(member) => core::ptr::eq(member.as_ptr(), Arc::as_ptr(&task)),
            None => Arc::ptr_eq(&task.process, &self.process),
        };
        same.then_some(task)
    }

    /// The thread. `ESRCH`: it has ended.
    pub fn living(&self) -> Result<Arc<Task>, Errno> {
        self.task().ok_or(Errno::ESRCH)
    }

    /// Whether there is still something to report: about a leader until a parent has waited for the process.
    pub fn exists(&self) -> bool {
        match self.member {
            Some(_) => self.task().is_some(),
            None => self.process.exit_state() != ExitState::Dead,
        }
    }

    /// `ESRCH` unless [`Subject::exists`].
    fn must_exist(&self) -> Result<(), Errno> {
        if self.exists() { Ok(()) } else { Err(Errno::ESRCH) }
    }

    /// The thread's credentials, or those that it had at its end.
    pub fn creds(&self) -> Arc<Creds> {
        if let Some(task) = self.task() {
            return task.creds();
        }
        let remains = self.process.remains.lock();
        remains
            .as_ref()
            .map_or_else(root_creds, |(_, creds)| creds.clone())
    }

    /// The thread's name, or the one that it had at its end.
    pub fn comm(&self) -> [u8; 16] {
        if let Some(task) = self.task() {
            return task.comm();
        }
        let remains = self.process.remains.lock();
        remains.as_ref().map_or([0; 16], |(comm, _)| *comm)
    }

    /// Whether it is about a thread that is not the leader.
    pub fn is_member(&self) -> bool {
        self.member.is_some()
    }

    /// By what names in its directory are known as its own: the address of the process, or of the thread if
    /// that is not the leader.
    pub fn address(&self) -> usize {
        match &self.member {
            Some(member) => member.as_ptr().addr(),
            None => Arc::as_ptr(&self.process).addr(),
        }
    }

    /// Something is to be mounted in its directory: whoever sees it go will unmount that. `ENOENT`: it is
    /// gone. The caller has locked all mounts.
    pub fn cover(&self) -> Result<(), Errno> {
        while_numbered(|| {
            if !self.exists() {
                return Err(Errno::ENOENT);
            }
            self.set_covered(true);
            Ok(())
        })
    }

    /// Nothing is mounted in its directory any more. The caller has locked all mounts.
    pub fn uncover(&self) {
        self.set_covered(false);
    }

    fn set_covered(&self, covered: bool) {
        match &self.member {
            None => self.process.set_covered(covered),
            Some(member) => {
                if let Some(task) = member.upgrade() {
                    task.set_covered(covered);
                }
            }
        }
    }

    /// Whether it is about the leader of its process.
    pub fn is_leader(&self) -> bool {
        self.number == self.process.tgid
    }

    /// How many threads the process has. The leader counts until the process ends.
    pub fn threads(&self) -> usize {
        self.process.with_threads(|threads| {
            let led = threads
                .first()
                .is_some_and(|first| first.tid() == self.process.tgid);
            threads.len() + usize::from(!led)
        })
    }

    /// What `take` reads inside the process, given its address space (`None` for a zombie). `EACCES`: the
    /// running thread may not inspect it (`PTRACE_MODE_READ_FSCREDS`).
    pub fn look<T>(&self, mut take: impl FnMut(Option<&Arc<AddressSpace>>) -> T) -> Result<T, Errno> {
        self.must_exist()?;
        let looked = match &self.task() {
            Some(task) => access::look(task, By::Files, take),
            None => access::may_look(&self.process, &self.creds(), None, By::Files).map(|()| take(None)),
        };
        looked.map_err(|_| Errno::EACCES)
    }
}

/// The directory of a process or thread.
pub struct ProcessDir(Subject);

impl ProcessDir {
    /// About the leader of `process` or, if given, its thread `task`, which is named `shown` in `ns`.
    /// `thread`: about that thread alone. `None`: the thread has just become the leader, and gives up that
    /// number.
    pub fn new(
        ns: &PidRef,
        shown: i32,
        process: Arc<Process>,
        task: Option<&Arc<Task>>,
        thread: bool,
    ) -> Option<Self> {
        // Looked at once: it may change.
        let number = task.map_or(process.tgid, |task| task.tid());
        let member = task.filter(|_| number != process.tgid).map(Arc::downgrade);
        if member.is_none() && process.number_in(ns) != shown {
            return None;
        }
        Some(Self(Subject {
            ns: ns.clone(),
            shown,
            number,
            member,
            process,
            thread,
        }))
    }

    fn entries(&self) -> impl Iterator<Item = &'static (&'static str, FileType, Make)> {
        let thread = self.0.thread;
        ENTRIES
            .iter()
            .filter(move |entry| !(thread && ONLY_PROCESS.contains(&entry.0)))
    }
}

type Make = fn(&Subject) -> Node;

fn text(subject: &Subject, show: fn(&Subject, &mut Text) -> Result<(), Errno>) -> Node {
    let subject = subject.clone();
    Node::text(move |out| {
        subject.must_exist()?;
        show(&subject, out)
    })
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

/// A text for tasks that might trace the process. `EPERM` for others.
fn attached(subject: &Subject, show: fn(&Subject, &mut Text) -> Result<(), Errno>) -> Node {
    let subject = subject.clone();
    Node::File(
        0o400,
        Arc::new(move |out| show_attached(&subject, show, out)),
        None,
    )
}

fn show_attached(
    subject: &Subject,
    show: fn(&Subject, &mut Text) -> Result<(), Errno>,
    out: &mut Text,
) -> Result<(), Errno> {
    let found = subject.look(|_| {
        out.clear();
        show(subject, out)
    });
    found.map_err(|e| if e == Errno::EACCES { Errno::EPERM } else { e })?
}

/// [`attached`] for what only privileged tasks may open and then read. `EACCES`: whoever opened it, which may
/// not be the reader, had no `CAP_SYS_ADMIN`. That is only told when it is read.
fn privileged(subject: &Subject, show: fn(&Subject, &mut Text) -> Result<(), Errno>) -> Node {
    let subject = subject.clone();
    let open = move |_| {
        let subject = subject.clone();
        let admin = current().creds().capable(cap::SYS_ADMIN);
        Ok(text_file(move |out| {
            subject.must_exist()?;
            if admin {
                show_attached(&subject, show, out)
            } else {
                Err(Errno::EACCES)
            }
        }))
    };
    Node::Special(0o400, FileType::Regular, Dev::default(), Arc::new(open))
}

fn place(subject: &Subject, get: fn(&Subject) -> Option<Path>) -> Node {
    let subject = subject.clone();
    Node::Link(Arc::new(move || {
        let path = subject.look(|_| get(&subject))?;
        path.map(Link::Jump).ok_or(Errno::ENOENT)
    }))
}

/// Files of a process that a thread's directory does not have.
const ONLY_PROCESS: [&str; 2] = ["coredump_filter", "timerslack_ns"];

const ENTRIES: &[(&str, FileType, Make)] = &[
    ("auxv", FileType::Regular, |s| memory::of(s, 0o400, memory::auxv)),
    ("cgroup", FileType::Regular, |s| {
        text(s, |_, out| line(out, "0::/"))
    }),
    ("cmdline", FileType::Regular, |s| text(s, memory::cmdline)),
    ("comm", FileType::Regular, comm),
    ("coredump_filter", FileType::Regular, coredump_filter),
    ("cwd", FileType::Symlink, |s| {
        place(s, |s| Some(s.task()?.try_fs()?.cwd()))
    }),
    ("environ", FileType::Regular, |s| {
        memory::of(s, 0o400, memory::environ)
    }),
    ("exe", FileType::Symlink, |s| {
        place(s, |s| {
            s.task()?.mm()?;
            Some(s.process.exe()?.path.clone())
        })
    }),
    ("fd", FileType::Directory, |s| {
        Node::Directory(0o500, Arc::new(descriptors::Fds(s.clone(), false)))
    }),
    ("fdinfo", FileType::Directory, |s| {
        Node::Directory(0o555, Arc::new(descriptors::Fds(s.clone(), true)))
    }),
    ("gid_map", FileType::Regular, idmap::groups),
    ("io", FileType::Regular, |s| private(s, status::io)),
    ("limits", FileType::Regular, |s| text(s, status::limits)),
    ("loginuid", FileType::Regular, login),
    ("maps", FileType::Regular, |s| memory::mappings(s, memory::maps)),
    ("mem", FileType::Regular, memory::mem),
    ("mountinfo", FileType::Regular, |s| {
        mounts::watched(s, mount::show_mountinfo)
    }),
    ("mounts", FileType::Regular, |s| {
        mounts::watched(s, mount::show_mounts)
    }),
    ("mountstats", FileType::Regular, mounts::stats),
    ("net", FileType::Directory, |_| {
        Node::Directory(0o555, Arc::new(super::system::Net))
    }),
    ("ns", FileType::Directory, |s| {
        Node::Directory(0o511, Arc::new(Namespaces(s.clone())))
    }),
    ("oom_adj", FileType::Regular, oom_adj),
    ("oom_score", FileType::Regular, |s| text(s, status::oom_score)),
    ("oom_score_adj", FileType::Regular, oom_score_adj),
    ("pagemap", FileType::Regular, super::pagemap::node),
    ("patch_state", FileType::Regular, |s| {
        attached(s, status::patch_state)
    }),
    ("personality", FileType::Regular, |s| {
        attached(s, status::personality)
    }),
    ("projid_map", FileType::Regular, idmap::projects),
    ("root", FileType::Symlink, |s| {
        place(s, |s| Some(s.task()?.try_fs()?.root()))
    }),
    ("sched", FileType::Regular, sched),
    ("schedstat", FileType::Regular, |s| text(s, status::schedstat)),
    ("setgroups", FileType::Regular, idmap::setgroups),
    ("sessionid", FileType::Regular, |s| {
        text(s, |s, out| {
            write!(out, "{}", s.living()?.audit.session()).map_err(|_| Errno::ENOMEM)
        })
    }),
    ("smaps", FileType::Regular, |s| memory::mappings(s, memory::smaps)),
    ("smaps_rollup", FileType::Regular, |s| {
        memory::of(s, 0o444, memory::smaps_rollup)
    }),
    ("rseq", FileType::Regular, |s| {
        private(s, |s, out| {
            crate::fs::rseq::show(&s.process, s.task().as_ref(), s.thread, out)
        })
    }),
    ("stack", FileType::Regular, |s| privileged(s, status::stack)),
    ("stat", FileType::Regular, |s| text(s, status::stat)),
    ("statm", FileType::Regular, |s| text(s, status::statm)),
    ("status", FileType::Regular, |s| text(s, status::status)),
    ("syscall", FileType::Regular, |s| attached(s, status::syscall)),
    ("timens_offsets", FileType::Regular, timens::node),
    ("timerslack_ns", FileType::Regular, timer_slack),
    ("uid_map", FileType::Regular, idmap::users),
    ("wchan", FileType::Regular, |s| {
        text(s, |s, out| {
            // Nobody is refused, but only those are told that may trace the thread; and nothing is asked of
            // it for others.
            let told = s.look(|_| ()).and_then(|()| {
                s.look(|_| {
                    out.clear();
                    status::wchan(s, out)
                })
            });
            match told {
                Err(Errno::EACCES) => write!(out, "0").map_err(|_| Errno::ENOMEM),
                told => told?,
            }
        })
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
            reader.must_exist()?;
            status::name(&reader, out);
            out.add(b"\n");
            Ok(())
        },
        move |text| {
            let task = writer.living()?;
            if !Arc::ptr_eq(&current().process, &task.process) {
                return Err(Errno::EINVAL);
            }
            task.set_comm(text);
            Ok(())
        },
    )
}

/// What is written resets statistics that are not kept here.
fn sched(subject: &Subject) -> Node {
    let (reader, writer) = (subject.clone(), subject.clone());
    Node::setting(
        move |out| {
            reader.must_exist()?;
            status::sched(&reader, out)
        },
        move |_| writer.living().map(drop),
    )
}

/// Sets `oom_score_adj`, also of processes that share the memory. `old_way`: written to `oom_adj`.
fn set_oom_score_adj(subject: &Subject, new: i32, old_way: bool) -> Result<(), Errno> {
    subject.must_exist()?;
    let process = &subject.process;
    let privileged = current().creds().capable(cap::SYS_RESOURCE);
    let least = if old_way {
        &process.oom_score_adj
    } else {
        &process.oom_score_adj_min
    };
    if new < least.load(Ordering::Relaxed) && !privileged {
        return Err(Errno::EACCES);
    }
    let set = |process: &Process| {
        process.oom_score_adj.store(new, Ordering::Relaxed);
        if privileged && !old_way {
            process.oom_score_adj_min.store(new, Ordering::Relaxed);
        }
    };
    set(process);
    if let Some(leader) = process.leader()
        && !leader.is_vforked()
        && let Some(mm) = leader.mm()
    {
        let shares = |other: &Process| other.mm().is_some_and(|theirs| Arc::ptr_eq(&theirs, &mm));
        crate::task::all_processes()
            .filter(|p| !p.is_init() && shares(p))
            .for_each(|p| set(&p));
    }
    Ok(())
}

/// `loginuid`: the user who logged in. A thread sets its own.
fn login(subject: &Subject) -> Node {
    /// Nobody has logged in.
    const NOBODY: u32 = u32::MAX;
    let (reader, writer) = (subject.clone(), subject.clone());
    Node::setting(
        move |out| {
            let login = reader.living()?.audit.login();
            // For who does not know the user, nobody has logged in.
            let shown = current().with_creds(|creds| from_kuid(&creds.user, login));
            let _ = write!(out, "{}", shown.unwrap_or(NOBODY));
            Ok(())
        },
        move |text| {
            let task = writer.living()?;
            if !core::ptr::eq(&*task, &**current()) {
                return Err(Errno::EPERM);
            }
            let login = match parse(text)? {
                NOBODY => NOBODY,
                id => uid_meant(id)?,
            };
            audit::log_in(&task, login)
        },
    )
}

fn oom_score_adj(subject: &Subject) -> Node {
    let (reader, writer) = (subject.clone(), subject.clone());
    Node::setting(
        move |out| {
            reader.must_exist()?;
            let _ = writeln!(out, "{}", reader.process.oom_score_adj.load(Ordering::Relaxed));
            Ok(())
        },
        move |text| {
            let new: i32 = parse(text)?;
            if !(-1000..=1000).contains(&new) {
                return Err(Errno::EINVAL);
            }
            set_oom_score_adj(&writer, new, false)
        },
    )
}

/// `oom_adj`: the same in the old unit, -17 to 15.
fn oom_adj(subject: &Subject) -> Node {
    /// Never kill.
    const DISABLE: i32 = -17;
    const MAX: i32 = 15;
    let (reader, writer) = (subject.clone(), subject.clone());
    Node::setting(
        move |out| {
            reader.must_exist()?;
            let adj = match reader.process.oom_score_adj.load(Ordering::Relaxed) {
                1000 => MAX,
                adj => (adj * -DISABLE / 1000).min(MAX),
            };
            let _ = writeln!(out, "{adj}");
            Ok(())
        },
        move |text| {
            let new: i32 = parse(text)?;
            if !(DISABLE..=MAX).contains(&new) {
                return Err(Errno::EINVAL);
            }
            let new = if new == MAX { 1000 } else { new * 1000 / -DISABLE };
            set_oom_score_adj(&writer, new, true)
        },
    )
}

/// Which mappings a core file has.
fn coredump_filter(subject: &Subject) -> Node {
    let mm = |subject: &Subject| subject.task().and_then(|task| task.mm());
    let (reader, writer) = (subject.clone(), subject.clone());
    let show = move |out: &mut Text| {
        if let Some(mm) = mm(&reader) {
            let _ = writeln!(out, "{:08x}", mm.dump_filter().bits());
        }
        Ok(())
    };
    let store = move |text: &[u8]| {
        let bits = u32::try_from(parse_any_base(text)?).map_err(|_| Errno::ERANGE)?;
        let mm = mm(&writer).ok_or(Errno::ESRCH)?;
        mm.set_dump_filter(DumpFilter::from_bits_truncate(bits));
        Ok(())
    };
    Node::File(0o644, Arc::new(show), Some(Arc::new(store)))
}

/// By how much sleeps may be prolonged. Another thread's value needs permission to change its scheduling.
fn timer_slack(subject: &Subject) -> Node {
    let find = |subject: &Subject| {
        let task = subject.living()?;
        let may = || current().creds().capable_in(&task.creds().user, cap::SYS_NICE);
        if !Arc::ptr_eq(&task, &current()) && !may() {
            return Err(Errno::EPERM);
        }
        Ok(task)
    };
    let (reader, writer) = (subject.clone(), subject.clone());
    let show = move |out: &mut Text| {
        let _ = writeln!(out, "{}", find(&reader)?.timer_slack());
        Ok(())
    };
    let store = move |text: &[u8]| {
        let new: u64 = parse(text)?;
        find(&writer)?.set_timer_slack(new);
        Ok(())
    };
    Node::File(0o666, Arc::new(show), Some(Arc::new(store)))
}

impl Directory for ProcessDir {
    fn splices(&self) -> bool {
        false
    }
    fn subject(&self) -> Option<&Subject> {
        Some(&self.0)
    }
    fn get(&self, name: &[u8]) -> Option<Node> {
        let subject = &self.0;
        if !subject.exists() {
            return None;
        }
        if name == b"task" && !subject.thread {
            return Some(Node::Directory(0o555, Arc::new(Tasks(subject.clone()))));
        }
        if name == b"children" && subject.thread {
            return Some(text(subject, children));
        }
        let entry = self.entries().find(|e| e.0.as_bytes() == name)?;
        Some((entry.2)(subject))
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        let more = if self.0.thread {
            ("children", FileType::Regular)
        } else {
            ("task", FileType::Directory)
        };
        let all = self.entries().map(|e| (e.0, e.1)).chain([more]);
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

/// The owner of the files about a process: its effective user, or root if it must not be inspected.
pub fn owner(subject: &Subject) -> (u32, u32) {
    // Read before the credentials, as `access::look` does.
    let mm = subject.task().and_then(|task| task.mm());
    let creds = subject.creds();
    match mm {
        Some(mm) if mm.dumpable() => (creds.euid, creds.egid),
        Some(mm) => root_of(&access::owner(&mm)),
        None => (0, 0),
    }
}

/// The owner of a directory about a process. If everyone may list it, it is the effective user in any case.
pub fn own(subject: &Subject, mode: u32) -> (u32, u32) {
    if mode != 0o555 {
        return owner(subject);
    }
    let creds = subject.creds();
    (creds.euid, creds.egid)
}

fn children(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    let first = subject.process.first_thread();
    let own = |child: &Arc<Process>| Process::is_threads_child(child, subject.number, first);
    for child in subject.process.children().filter(own) {
        let _ = write!(out, "{} ", child.number_in(&subject.ns));
    }
    Ok(())
}

/// `/proc/<pid>/task`.
struct Tasks(Subject);

impl Directory for Tasks {
    fn splices(&self) -> bool {
        false
    }
    fn get(&self, name: &[u8]) -> Option<Node> {
        let tid = super::number(name)?;
        let ns = &self.0.ns;
        let task = find_task_in(ns, tid).filter(|task| Arc::ptr_eq(&task.process, &self.0.process));
        if !self.0.exists() || task.is_none() && tid != self.0.process.number_in(ns) {
            return None;
        }
        let dir = ProcessDir::new(ns, tid, self.0.process.clone(), task.as_ref(), true)?;
        Some(Node::Directory(0o555, Arc::new(dir)))
    }
    fn which(&self, name: &[u8]) -> u64 {
        let task = super::number(name).and_then(|number| find_task_in(&self.0.ns, number));
        task.map_or(0, |task| task.start_ns)
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        let ns = &self.0.ns;
        let leader = self.0.process.number_in(ns);
        let mut tids: Vec<i32> = Vec::new();
        if room_exact(&mut tids, self.0.process.thread_count() + 1).is_err() {
            return;
        }
        let room = tids.capacity() - 1;
        tids.extend(self.0.process.threads().map(|t| t.number_in(ns)).take(room));
        // A leader that has ended is listed until a parent has waited for its process.
        if !tids.contains(&leader) {
            tids.push(leader);
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

/// `/proc/<pid>/ns`: the namespaces of a thread.
struct Namespaces(Subject);

/// Names, kinds, and whether they are those of the thread's children.
const NAMESPACES: &[(&str, Kind, bool)] = &[
    ("cgroup", Kind::Cgroup, false),
    ("ipc", Kind::Ipc, false),
    ("mnt", Kind::Mnt, false),
    ("net", Kind::Net, false),
    ("pid", Kind::Pid, false),
    ("pid_for_children", Kind::Pid, true),
    ("time", Kind::Time, false),
    ("time_for_children", Kind::Time, true),
    ("user", Kind::User, false),
    ("uts", Kind::Uts, false),
];

/// The namespace of a thread for which a name stands. `None`: it is in none any more.
fn namespace(subject: &Subject, kind: Kind, children: bool) -> Option<NsRef> {
    match subject.task() {
        Some(task) if children => ns::for_children(&task, kind),
        Some(task) => ns::of_task(&task, kind),
        None if kind == Kind::User => Some(ns::user::reference(&subject.creds().user)),
        None => None,
    }
}

impl Directory for Namespaces {
    fn owner(&self) -> (u32, u32) {
        owner(&self.0)
    }
    fn get(&self, name: &[u8]) -> Option<Node> {
        let (_, kind, children) = *NAMESPACES.iter().find(|n| n.0.as_bytes() == name)?;
        let subject = self.0.clone();
        Some(Node::Link(Arc::new(move || {
            let found = subject.look(|_| namespace(&subject, kind, children))?;
            Ok(Link::Jump(nsfs::path(&found.ok_or(Errno::ENOENT)?)))
        })))
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        for (i, (name, ..)) in NAMESPACES.iter().enumerate().skip(pos.saturating_sub(2) as usize) {
            if !add(name.as_bytes(), FileType::Symlink, i as u64 + 3) {
                return;
            }
        }
    }
}
