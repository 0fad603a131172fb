//! Leases (`F_SETLEASE`): the holder of one is told by a signal before another opens or truncates the file
//! in a way that conflicts with it, and has some time to give it up. A read lease conflicts with writers, a
//! write lease with everybody.
//!
//! A file's leases are beside its locks. A bit of the inode's mode says that there are some, so that opening
//! a file without any costs a test. An opener is counted before it looks at the bit; a thread that wants a
//! lease sets the bit before it looks at the count, and calls all CPUs in between: one of the two sees the
//! other.

use super::{FileLocks, Lock, id, of};
use crate::fs::fasync::{Band, Kind, OwnerCell, Target};
use crate::fs::file::{File, FileMode};
use crate::fs::inode::{FileType, Inode};
use crate::sched::{on_each_cpu, online};
use crate::task::creds::cap;
use crate::task::current;
use crate::time::now_ns;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicI32, Ordering, fence};
use limen_linux_abi::{Errno, raw::general as abi};
use limen_range_tree::{Node, NodeBox, Range};

/// Whether there are new ones (`fs.leases-enable`).
pub static ENABLED: AtomicI32 = AtomicI32::new(1);
/// How many seconds a holder has to give its lease up (`fs.lease-break-time`); without end if not positive.
pub static BREAK_TIME: AtomicI32 = AtomicI32::new(45);

const READ: isize = 0;
const WRITE: isize = 1;
const NONE: isize = 2;

/// A lease, by the address of the open file that has it.
pub(super) struct Lease {
    write: bool,
    /// The process that took it.
    pid: i32,
    /// Until when it has to become a read lease, and until when it has to be given up, if it has.
    downgrade: Option<u64>,
    unlock: Option<u64>,
    /// Who is told, and of which descriptor.
    owner: Arc<OwnerCell>,
    fd: i32,
}

impl Lease {
    /// What it is, or has to become.
    fn target(&self) -> isize {
        match (self.write, self.downgrade, self.unlock) {
            (.., Some(_)) => NONE,
            (true, None, _) => WRITE,
            _ => READ,
        }
    }
    /// For `/proc`.
    pub(super) fn shown(&self, file: usize) -> Shown {
        Shown {
            file: Some(file),
            write: self.write,
            kind: self.target(),
            breaking: self.downgrade.is_some() || self.unlock.is_some(),
            pid: self.pid,
        }
    }
}

/// What `/proc` says of a lease, or of who waits for one to be given up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Shown {
    /// The open file that has it, if anybody does.
    pub(super) file: Option<usize>,
    pub(super) write: bool,
    kind: isize,
    breaking: bool,
    pub(super) pid: i32,
}

impl Shown {
    pub(super) fn state(&self) -> &'static str {
        match (self.breaking, self.file) {
            (true, _) => "BREAKING ",
            (_, Some(_)) => "ACTIVE   ",
            _ => "BREAKER  ",
        }
    }
    pub(super) fn kind(&self) -> &'static str {
        match self.kind {
            READ => "READ",
            WRITE => "WRITE",
            _ => "UNLCK",
        }
    }
}

/// `F_GETLEASE`.
pub fn get(file: &File) -> usize {
    let Some(locks) = file.inode().locks.get() else {
        return NONE as usize;
    };
    expire(file.inode(), locks);
    let lists = locks.lists.lock();
    let mine = lists.leases.get((0, id(file)));
    mine.map_or(NONE, |mine| mine.value.target()) as usize
}

/// `F_SETLEASE`, by descriptor `fd`.
pub fn set(file: &Arc<File>, fd: i32, kind: isize) -> Result<(), Errno> {
    if !(READ..=NONE).contains(&kind) {
        return Err(Errno::EINVAL);
    }
    let inode = file.inode();
    let creds = current().creds();
    if creds.fsuid != inode.uid() && !creds.capable(cap::LEASE) {
        return Err(Errno::EACCES);
    }
    if inode.kind != FileType::Regular {
        return Err(Errno::EINVAL);
    }
    if kind != NONE {
        return add(file, fd, kind == WRITE);
    }
    match inode.locks.get() {
        Some(locks) if give_up(inode, locks, id(file)) => Ok(()),
        _ => Err(Errno::EAGAIN),
    }
}

/// `EAGAIN` if the file is open in a way that such a lease is against.
fn check_opens(file: &File, write: bool) -> Result<(), Errno> {
    let inode = file.inode();
    let own = match file.mode() {
        mode if mode.contains(FileMode::WRITE) => (1, 0),
        mode if mode.contains(FileMode::READ) => (0, 1),
        _ => (0, 0),
    };
    let conflict = if write {
        inode.opens() != own
    } else {
        inode.has_writers()
    };
    if conflict { Err(Errno::EAGAIN) } else { Ok(()) }
}

fn add(file: &Arc<File>, fd: i32, write: bool) -> Result<(), Errno> {
    let inode = file.inode();
    let locks = of(inode)?;
    let owner = file.owner_cell();
    let place = (0, id(file));
    let new = Range {
        first: 0,
        last: 0,
        key: place.1,
        value: Lease {
            write,
            pid: current().tgid(),
            downgrade: None,
            unlock: None,
            owner: owner.clone(),
            fd,
        },
    };
    let node = Node::new(new).ok_or(Errno::ENOMEM)?;
    expire(inode, &locks);
    if put(file, &locks, node)? {
        locks.changed();
    } else {
        on_each_cpu(online(), &|| fence(Ordering::SeqCst));
        if let Err(e) = check_opens(file, write) {
            drop(take_off(inode, &locks, place.1));
            locks.changed();
            return Err(e);
        }
    }
    owner.change(|owner| {
        if owner.is_nobody() {
            owner.set(Kind::Process, Target::Process(Arc::downgrade(&current().process)));
        }
    });
    Ok(())
}

/// Puts a lease in, or changes the one that the file has already: whether it does.
fn put(file: &File, locks: &FileLocks, node: NodeBox<usize, Lease>) -> Result<bool, Errno> {
    let (write, fd) = (node.range().value.write, node.range().value.fd);
    let place = (0, id(file));
    let mut lists = locks.lists.lock();
    check_opens(file, write)?;
    let mut next = lists.leases.first();
    while let Some(other) = next {
        // One that somebody waits to write for is as good as that writer.
        if other.key != place.1 && (write || other.value.unlock.is_some()) {
            return Err(Errno::EAGAIN);
        }
        next = lists.leases.behind(other.place());
    }
    if let Some(mine) = lists.leases.value_mut(place) {
        (mine.write, mine.fd) = (write, fd);
        if !write {
            mine.downgrade = None;
        }
        return Ok(true);
    }
    if ENABLED.load(Ordering::Relaxed) == 0 {
        return Err(Errno::EINVAL);
    }
    lists.leases.insert(node);
    file.inode().change_mode(|mode| mode | Inode::HAS_LEASE);
    Ok(false)
}

/// Takes out the lease of the open file at an address.
fn take_off(inode: &Inode, locks: &FileLocks, file: usize) -> Option<NodeBox<usize, Lease>> {
    let mut lists = locks.lists.lock();
    let gone = lists.leases.remove((0, file))?;
    if lists.leases.is_empty() {
        inode.change_mode(|mode| mode & !Inode::HAS_LEASE);
    }
    Some(gone)
}

/// Gives up the lease of the open file at an address, which nobody owns from then on: whether there was one.
pub(super) fn give_up(inode: &Inode, locks: &FileLocks, file: usize) -> bool {
    let Some(gone) = take_off(inode, locks, file) else {
        return false;
    };
    gone.range()
        .value
        .owner
        .change(|owner| *owner = Default::default());
    locks.changed();
    true
}

/// Does to leases what their holders have not done in time.
fn expire(inode: &Inode, locks: &FileLocks) {
    let now = now_ns();
    let past = |time: Option<u64>| time.is_some_and(|time| time <= now);
    loop {
        let mut lists = locks.lists.lock();
        let mut next = lists.leases.first();
        while let Some(lease) = next
            && !past(lease.value.unlock)
            && !past(lease.value.downgrade)
        {
            next = lists.leases.behind(lease.place());
        }
        let Some((place, goes)) = next.map(|lease| (lease.place(), past(lease.value.unlock))) else {
            return;
        };
        if goes {
            drop(lists);
            give_up(inode, locks, place.1);
            continue;
        }
        if let Some(lease) = lists.leases.value_mut(place) {
            (lease.write, lease.downgrade) = (false, None);
        }
        drop(lists);
        locks.changed();
    }
}

/// Somebody opens the file, with these flags, and has been counted: waits until there is no lease against
/// that. `EAGAIN` with `O_NONBLOCK`; `ENOMEM`.
#[inline(always)]
pub fn opening(inode: &Inode, flags: u32) -> Result<(), Errno> {
    if inode.mode_word() & Inode::HAS_LEASE == 0 {
        return Ok(());
    }
    let write = flags & abi::O_ACCMODE != abi::O_RDONLY;
    break_all(inode, write, flags & abi::O_NONBLOCK != 0)
}

#[cold]
#[inline(never)]
fn break_all(inode: &Inode, write: bool, nonblock: bool) -> Result<(), Errno> {
    let Some(locks) = inode.locks.get() else {
        return Ok(());
    };
    let want = Lock::Lease(Shown {
        file: None,
        write,
        kind: if write { WRITE } else { READ },
        breaking: false,
        pid: current().tgid(),
    });
    let until = match BREAK_TIME.load(Ordering::Relaxed) {
        seconds @ 1.. => now_ns() + seconds as u64 * 1_000_000_000,
        _ => u64::MAX,
    };
    loop {
        expire(inode, locks);
        let seen = locks.released.load(Ordering::Acquire);
        let Some(deadline) = tell(locks, write, until) else {
            return Ok(());
        };
        if nonblock {
            return Err(Errno::EAGAIN);
        }
        locks.sleep(seen, want, deadline, Errno::ENOMEM)?;
    }
}

/// Tells the holders of leases that somebody wants to write, or to read, and that they have time `until`
/// then. Returns when the first of them runs out of it; `None` if no lease is in the way.
fn tell(locks: &FileLocks, write: bool, until: u64) -> Option<u64> {
    let mut first_end = None;
    let mut after = None;
    loop {
        let mut lists = locks.lists.lock();
        let next = match after {
            None => lists.leases.first(),
            Some(place) => lists.leases.behind(place),
        };
        let Some(place) = next.map(Range::place) else {
            return first_end;
        };
        after = Some(place);
        let Some(lease) = lists.leases.value_mut(place) else {
            continue;
        };
        if !write && !lease.write {
            continue;
        }
        let known = lease.unlock.is_some() || !write && lease.downgrade.is_some();
        let end = if write {
            &mut lease.unlock
        } else {
            &mut lease.downgrade
        };
        if !known {
            *end = Some(until);
        }
        let ends = [lease.unlock, lease.downgrade, first_end];
        first_end = ends.into_iter().flatten().min();
        if !known {
            let (owner, fd) = (lease.owner.clone(), lease.fd);
            drop(lists);
            owner.send(fd, Band::Msg);
        }
    }
}
