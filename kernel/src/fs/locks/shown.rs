//! What `/proc` says of locks and leases: `/proc/locks`, and the lines in `/proc/<pid>/fdinfo`.

use super::leases::Lease;
use super::{ALL, END, FileLocks, Lists, Lock, Owner, Record, id};
use crate::fs::fdtable::FdTable;
use crate::fs::file::File;
use crate::fs::pseudo::Text;
use crate::mm::reserve::room;
use crate::task::ns::pid::PidRef;
use crate::task::pid::seen_from;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use limen_linux_abi::Errno;
use limen_range_tree::Range;

impl FileLocks {
    /// Adds what `/proc` says of a lock, or of one that is waited for, behind its number.
    fn line(&self, lock: &Lock, ns: &PidRef, out: &mut Text) {
        let (kind, write, pid, first, last) = match lock {
            Lock::Lease(lease) => {
                let (state, kind, pid) = (lease.state(), lease.kind(), seen_from(ns, lease.pid));
                let _ = write!(out, "LEASE  {state} {kind} {pid} ");
                let _ = match lease.file {
                    Some(_) => self.place(out),
                    None => write!(out, "<none>:0"),
                };
                let _ = writeln!(out, " 0 EOF");
                return;
            }
            Lock::Whole(_, whole) => ("FLOCK ", whole.exclusive, whole.pid, 0, END),
            Lock::Range(r) => {
                let kind = match r.owner {
                    Owner::Table(_) => "POSIX ",
                    Owner::File(_) => "OFDLCK",
                };
                (kind, r.how.write, r.how.pid, r.first, r.last)
            }
        };
        let pid = seen_from(ns, pid);
        let _ = write!(
            out,
            "{kind} ADVISORY  {} {pid} ",
            if write { "WRITE" } else { "READ" }
        );
        let _ = self.place(out);
        let _ = match last {
            END => writeln!(out, " {first} EOF"),
            _ => writeln!(out, " {first} {last}"),
        };
    }
    fn place(&self, out: &mut Text) -> core::fmt::Result {
        write!(
            out,
            "{:02x}:{:02x}:{}",
            self.dev.major(),
            self.dev.minor(),
            self.ino
        )
    }
    /// Calls `f` with each of the locks, none of which is held meanwhile.
    fn for_each(&self, mut f: impl FnMut(Lock) -> Result<(), Errno>) -> Result<(), Errno> {
        let first = |lists: &Lists| lists.whole.first().map(|r| (r.place(), r.value));
        let mut next = first(&self.lists.lock());
        while let Some((place, whole)) = next {
            f(Lock::Whole(place.1, whole))?;
            let lists = self.lists.lock();
            next = lists.whole.behind(place).map(|r| (r.place(), r.value));
        }
        let mut after = None;
        loop {
            let lists = self.lists.lock();
            let found = lists.ranges.find((0, END), after, |_| true);
            let Some(record) = found.map(Record::of) else {
                break;
            };
            drop(lists);
            f(Lock::Range(record))?;
            after = Some((record.first, record.owner));
        }
        let shown = |r: &Range<usize, Lease>| (r.place(), r.value.shown(r.key));
        let mut next = self.lists.lock().leases.first().map(shown);
        while let Some((place, lease)) = next {
            f(Lock::Lease(lease))?;
            next = self.lists.lock().leases.behind(place).map(shown);
        }
        Ok(())
    }
    /// The locks that are waited for because of `lock`, each with its depth: 1 if only `lock` is in its way;
    /// if an earlier sleeper is as well, it comes behind that one and is one deeper. `ENOMEM`.
    fn blocked_by(&self, lock: &Lock) -> Result<Vec<(Lock, usize)>, Errno> {
        let mut tree: Vec<(Lock, usize)> = Vec::new();
        let mut after = 0;
        loop {
            let lists = self.lists.lock();
            let Some(sleeper) = lists.sleepers.behind((after, ())) else {
                return Ok(tree);
            };
            after = sleeper.first;
            let want = sleeper.value;
            if !lock.conflicts(&want) || lists.blocker(&want) != Some(*lock) {
                continue;
            }
            drop(lists);
            let (mut at, mut depth) = (0, 1);
            while let Some((other, there)) = tree.get(at).filter(|(_, there)| *there >= depth) {
                at += 1;
                if *there == depth && other.conflicts(&want) {
                    depth += 1;
                }
            }
            room(&mut tree, 1)?;
            tree.insert(at, (want, depth));
        }
    }
}

impl Lock {
    /// Who has it, in the initial PID namespace. Negative: an open file.
    fn pid(&self) -> i32 {
        match self {
            Self::Lease(lease) => lease.pid,
            Self::Whole(_, whole) => whole.pid,
            Self::Range(record) => record.how.pid,
        }
    }
}

impl Lists {
    /// The first lock that is in the way of `want`.
    fn blocker(&self, want: &Lock) -> Option<Lock> {
        match want {
            Lock::Range(record) => self.conflict(record).map(Lock::Range),
            Lock::Lease(want) => {
                let mut next = self.leases.first();
                while let Some(r) = next
                    && !want.write
                    && !r.value.shown(r.key).write
                {
                    next = self.leases.behind(r.place());
                }
                next.map(|r| Lock::Lease(r.value.shown(r.key)))
            }
            Lock::Whole(..) => {
                let mut next = self.whole.first();
                while let Some(r) = next {
                    let lock = Lock::Whole(r.key, r.value);
                    if lock.conflicts(want) {
                        return Some(lock);
                    }
                    next = self.whole.behind(r.place());
                }
                None
            }
        }
    }
}

/// For `/proc/<pid>/fdinfo`: the locks that the process with descriptor table `table` has through `file`.
/// Processes are named as in `ns`.
pub fn show(file: &Arc<File>, table: &Arc<FdTable>, ns: &PidRef, out: &mut Text) {
    let Some(locks) = file.inode().locks.get() else {
        return;
    };
    let process = Owner::Table(Arc::as_ptr(table).addr());
    let file = id(file);
    let mut n = 0;
    // It fails only for a thread that will not see the rest: there may be many locks of others.
    let _ = locks.for_each(|lock| {
        if crate::task::current().fatal_signal_pending() {
            return Err(Errno::EINTR);
        }
        let mine = match &lock {
            Lock::Whole(by, _) => *by == file,
            Lock::Lease(lease) => lease.file == Some(file),
            Lock::Range(r) => r.how.file == file && [process, Owner::File(file)].contains(&r.owner),
        };
        if mine {
            n += 1;
            let _ = write!(out, "lock:\t{n}: ");
            locks.line(&lock, ns, out);
        }
        Ok(())
    });
}

/// `/proc/locks` of a PID namespace: all locks of processes that are seen there, and behind each those that
/// are waited for because of it.
pub fn show_all(ns: &PidRef, out: &mut Text) -> Result<(), Errno> {
    let mut n = 0;
    for part in &ALL {
        let mut after = 0;
        loop {
            let list = part.lock();
            let Some(found) = list.behind((after, ())) else {
                break;
            };
            after = found.first;
            let Some(locks) = found.value.upgrade() else {
                continue;
            };
            drop(list);
            locks.for_each(|lock| {
                if crate::task::current().fatal_signal_pending() {
                    return Err(Errno::EINTR);
                }
                n += 1;
                if lock.pid() != 0 && seen_from(ns, lock.pid()) == 0 {
                    return Ok(());
                }
                let _ = write!(out, "{n}: ");
                locks.line(&lock, ns, out);
                for (want, depth) in locks.blocked_by(&lock)? {
                    let _ = write!(out, "{n}: {:>1$}", "-> ", depth + 2);
                    locks.line(&want, ns, out);
                }
                Ok(())
            })?;
        }
    }
    Ok(())
}
