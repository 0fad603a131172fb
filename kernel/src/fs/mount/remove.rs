//! Unmounting, with what that means in peers and slaves, and of names and namespaces that are gone.

use super::tree::{
    Peers, address, any_on, change, child, children, clear, cover, is_mounted, name_of, one_on, relist,
    uncovered, unlist, unlist_at,
};
use super::{LOCKED, Mount, may_mount, table};
use crate::fs::dentry::Dentry;
use crate::fs::moves::Moving;
use crate::fs::path::Path;
use crate::mm::reserve::room;
use crate::rcu::Shared;
use crate::task::{TaskFlags, current};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use limen_linux_abi::Errno;

/// `MNT_FORCE`.
const MNT_FORCE: u32 = 1;
/// `MNT_DETACH`.
const MNT_DETACH: u32 = 2;
/// `MNT_EXPIRE`.
const MNT_EXPIRE: u32 = 4;

/// `EINVAL` if `umount2` does not know one of the flags.
pub fn check_unmount_flags(flags: u32) -> Result<(), Errno> {
    if flags & !(MNT_FORCE | MNT_DETACH | MNT_EXPIRE | super::UMOUNT_NOFOLLOW) != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// What `walk` finds for `umount2` with `flags`: to let a mount expire is not to use it.
pub fn to_umount<T>(flags: u32, walk: impl FnOnce() -> T) -> T {
    if flags & MNT_EXPIRE == 0 {
        return walk();
    }
    let me = current();
    me.set_flags(TaskFlags::EXPIRES_MOUNT);
    let found = walk();
    me.clear_flags(TaskFlags::EXPIRES_MOUNT);
    found
}

/// `umount2(2)`.
pub fn umount(path: Path, flags: u32) -> Result<(), Errno> {
    may_mount()?;
    if !is_mounted(&path) {
        return Err(Errno::EINVAL);
    }
    let Path { mnt, dentry } = path;
    drop(dentry);
    let mut peers = change();
    mnt.check_mine()?;
    if mnt.mountpoint().is_none() || mnt.is(LOCKED) {
        return Err(Errno::EINVAL);
    }
    if flags & MNT_FORCE != 0 && !table::is_admin(&None) {
        return Err(Errno::EPERM);
    }
    let expire = flags & MNT_EXPIRE != 0;
    if expire && flags & (MNT_FORCE | MNT_DETACH) != 0 {
        return Err(Errno::EINVAL);
    }
    let lazy = flags & MNT_DETACH != 0;
    let others = Others::of(&peers, &mnt, !lazy)?;
    // A walk that counts a reference looks afterwards whether this has begun ([`Seen::is_still_counted`]).
    let moving = Moving::begin();
    if !lazy {
        // `mnt` is one more.
        if child(&mnt, 0).is_some() || is_used(&mnt, 1) || others.any_used(&mnt) {
            return Err(Errno::EBUSY);
        }
        // The first time it is only marked.
        if expire && !mnt.expiring.swap(true, Ordering::Relaxed) {
            return Err(Errno::EAGAIN);
        }
    }
    take(&mut peers, &mnt, !lazy);
    let gone = others.take(&mut peers, !lazy);
    // Freeing mounts that nobody has is none of it.
    drop(moving);
    drop(peers);
    drop(gone);
    Ok(())
}

/// Whether there are references to a mount but those of the place where it hangs, of the lists it is in, and
/// `more`.
fn is_used(mnt: &Shared<Mount>, more: usize) -> bool {
    let peer = usize::from(mnt.member().is_some());
    Shared::references(mnt) > 4 + peer + more
}

/// What is mounted on the root of a mount.
fn topper(mnt: &Shared<Mount>) -> Option<Shared<Mount>> {
    mnt.root.mounted.find(mnt)
}

/// A note at a mount: it is to be unmounted.
const GOES: u32 = 1;
/// It goes if nothing is in it. The bits behind are the number of mounts in it that stay ([`KEEPS_ONE`]), or
/// a lower one that is more than can go.
const ASKED: u32 = 2;
/// It is such a one, and nothing is in it that stays.
const EMPTY: u32 = 3;
/// The bits of one of these.
const KIND: u32 = 3;
/// In a note [`ASKED`]: one mount in it that stays.
const KEEPS_ONE: u32 = 4;

/// What is unmounted because it is mounted where peers or slaves of what is unmounted are.
struct Others {
    /// How many mounts go by themselves.
    own: usize,
    /// All that were looked at.
    asked: Vec<Shared<Mount>>,
    /// How many of them, the first ones, are where what is unmounted itself is: for them no lock counts.
    unlocked: usize,
    /// What goes.
    gone: Vec<Shared<Mount>>,
    /// What stays, but lies on something that goes, and where it comes to lie.
    moved: Vec<(Shared<Mount>, Path)>,
}

impl Others {
    /// What goes with `mnt` and all in it. `only`: there is nothing in it. `ENOMEM`. The caller has locked
    /// all mounts.
    fn of(peers: &Peers, mnt: &Shared<Mount>, only: bool) -> Result<Self, Errno> {
        let mut others = Self {
            own: 0,
            asked: Vec::new(),
            unlocked: 0,
            gone: Vec::new(),
            moved: Vec::new(),
        };
        let result = others.collect(peers, mnt, only);
        for mnt in others.asked.iter().chain(&others.gone) {
            mnt.note(0);
        }
        for_each_below(mnt, |mnt| mnt.note(0));
        result.map(|()| others)
    }

    fn collect(&mut self, peers: &Peers, mnt: &Shared<Mount>, only: bool) -> Result<(), Errno> {
        for_each_below(mnt, |mnt| {
            mnt.note(GOES);
            self.own += 1;
        });
        self.ask(peers, mnt)?;
        self.unlocked = self.asked.len();
        if !only {
            let mut result = Ok(());
            for_each_below(mnt, |below| {
                if result.is_ok() && !Shared::ptr_eq(mnt, below) {
                    result = self.ask(peers, below);
                }
            });
            result?;
        }
        for i in 0..self.asked.len() {
            let mnt = self.asked[i].clone();
            if mnt.noted() == EMPTY && (i < self.unlocked || !mnt.is(LOCKED)) {
                self.goes(mnt)?;
            }
        }
        // What is locked to something that goes, goes with it; what covers that does not.
        let mut i = 0;
        while let Some(mnt) = self.gone.get(i).cloned() {
            i += 1;
            let on_top = topper(&mnt);
            for below in children(&mnt) {
                if below.noted() == GOES {
                    continue;
                }
                if !on_top.as_ref().is_some_and(|top| Shared::ptr_eq(top, &below)) {
                    self.goes(below)?;
                    continue;
                }
                room(&mut self.moved, 1)?;
                self.moved.push((
                    below,
                    Path {
                        dentry: mnt.root.clone(),
                        mnt: mnt.clone(),
                    },
                ));
            }
        }
        // Only now it is known what goes.
        let mut kept = 0;
        for i in 0..self.moved.len() {
            if self.moved[i].0.noted() == GOES {
                continue;
            }
            let mut place = self.moved[i].1.clone();
            while place.mnt.noted() == GOES
                && let Some(above) = place.mnt.mountpoint()
            {
                place = above;
            }
            self.moved[i].1 = place;
            self.moved.swap(kept, i);
            kept += 1;
        }
        self.moved.truncate(kept);
        Ok(())
    }

    fn goes(&mut self, mnt: Shared<Mount>) -> Result<(), Errno> {
        if mnt.noted() == GOES {
            return Ok(());
        }
        room(&mut self.gone, 1)?;
        mnt.note(GOES);
        self.gone.push(mnt);
        Ok(())
    }

    /// Looks at what is mounted where `mnt` is, in the peers and slaves of what that is mounted in.
    fn ask(&mut self, peers: &Peers, mnt: &Shared<Mount>) -> Result<(), Errno> {
        let Some(at) = mnt.mountpoint() else { return Ok(()) };
        let Some(origin) = at.mnt.member() else {
            return Ok(());
        };
        let mut last = None;
        while let Some(member) = peers.reached(origin, last) {
            last = Some(member);
            let Some(found) = at.dentry.mounted.find(peers.value(member)) else {
                continue;
            };
            if found.noted() != 0 {
                continue;
            }
            room(&mut self.asked, 1)?;
            // Each of those that go asks about one mount at most in it, so that of more than those it keeps
            // one. Others may have mounted there whatever they want.
            found.note(ASKED + KEEPS_ONE * kept_in(&found, self.own + 1));
            self.asked.push(found.clone());
            // What is in it may have been the last that kept those above it.
            let mut now = found;
            while now.noted() == ASKED {
                now.note(EMPTY);
                let Some(at) = now.mountpoint() else { break };
                let above = at.mnt.noted();
                if above & KIND != ASKED || is_mounted(&at) {
                    break;
                }
                at.mnt.note(above - KEEPS_ONE);
                now = at.mnt;
            }
        }
        Ok(())
    }

    /// Whether one of what goes with `mnt`, in which nothing is, is in use.
    fn any_used(&self, mnt: &Shared<Mount>) -> bool {
        // Notes tell how often each is listed. Where something is moved from or to counts, too.
        let moved = self.moved.iter().flat_map(|(mnt, to)| [mnt, &to.mnt]);
        let listed = self.gone.iter().chain(moved);
        listed.clone().for_each(|one| one.note(one.noted() + 1));
        let used = self.asked.iter().any(|other| {
            let on_top = topper(other);
            let only_that =
                children(other).all(|child| on_top.as_ref().is_some_and(|top| Shared::ptr_eq(top, &child)));
            !Shared::ptr_eq(other, mnt)
                && only_that
                && is_used(other, 1 + other.noted() as usize + usize::from(on_top.is_some()))
        });
        listed.for_each(|one| one.note(0));
        used
    }

    /// Unmounts what goes, and gives it to the caller.
    fn take(self, peers: &mut Peers, at_once: bool) -> Vec<Shared<Mount>> {
        for mnt in &self.asked[..self.unlocked] {
            mnt.set_state(0, LOCKED);
        }
        drop(self.asked);
        for mnt in &self.gone {
            mnt.note(GOES);
        }
        for (mnt, to) in &self.moved {
            put_lower(mnt, to.clone());
        }
        drop(self.moved);
        for mnt in &self.gone {
            if mnt.mountpoint().is_some_and(|at| at.mnt.noted() != GOES) {
                shut(mnt);
            }
        }
        for mnt in self.gone.iter().rev() {
            let above = mnt.mountpoint().is_some_and(|at| at.mnt.noted() == GOES);
            detach(peers, mnt, above && !at_once && mnt.is(LOCKED));
        }
        for mnt in &self.gone {
            mnt.note(0);
        }
        self.gone
    }
}

/// `mnt`, which lies on something that goes, comes to lie at `to` instead of what goes there, or on top of
/// what has come to lie there before.
fn put_lower(mnt: &Shared<Mount>, mut to: Path) {
    let mut under = to.dentry.mounted.find(&to.mnt);
    while let Some(there) = under.take_if(|there| there.noted() != GOES) {
        to = Path {
            dentry: there.root.clone(),
            mnt: there,
        };
        under = to.dentry.mounted.find(&to.mnt);
    }
    // That may be the root of what has come to lie there. Of a process that is gone nothing goes any more.
    let _ = cover(&to.dentry);
    // Set first: a walk that enters it must find the way up.
    let old = mnt.at.lock().replace(to.clone());
    relist(mnt, old.as_ref(), &to);
    match under {
        // What goes from there is no longer found there.
        Some(under) => {
            let place = under.at.lock().take();
            drop(place.map(|place| unlist_at(&under, &place)));
            to.dentry.mounted.replace(&to.mnt, mnt.clone());
        }
        None => to.dentry.mounted.add(&to.mnt, mnt.clone()),
    }
    // Only now: who comes to what goes must find it covered.
    if let Some(old) = old {
        old.dentry.mounted.remove(&old.mnt);
        uncovered(&old.dentry);
    }
}

/// How many mounts are in one that stay if it is unmounted, counted up to `most`. What covers its root only
/// comes to lie lower.
fn kept_in(mnt: &Shared<Mount>, most: usize) -> u32 {
    let stays = |child: &Shared<Mount>| {
        !matches!(child.noted(), GOES | EMPTY) && !child.mountpoint().is_some_and(|at| is_mounted(&at))
    };
    children(mnt).filter(stays).take(most).count() as u32
}

/// Calls `f` with a mount and all in it: those above first.
fn for_each_below(mnt: &Shared<Mount>, mut f: impl FnMut(&Shared<Mount>)) {
    let mut at = mnt.clone();
    let mut last = 0;
    f(&at);
    // The way back up needs no memory.
    loop {
        if let Some((_, below)) = child(&at, last) {
            f(&below);
            (at, last) = (below, 0);
            continue;
        }
        if Shared::ptr_eq(&at, mnt) {
            return;
        }
        let Some(above) = at.mountpoint() else { return };
        last = address(&at) as usize;
        at = above.mnt;
    }
}

/// Unmounts `mnt` and removes it from the lists. `stuck`: what it is mounted in goes, too, and it is locked
/// to that. The caller has locked all mounts.
fn detach(peers: &mut Peers, mnt: &Shared<Mount>, stuck: bool) {
    let at = mnt.at.lock().take();
    let unlisted = unlist(mnt, at.as_ref());
    match at {
        Some(at) if stuck => {
            uncovered(&at.dentry);
            at.mnt.keep_stuck(mnt, at.dentry);
        }
        at => clear(at),
    }
    if let Some(member) = mnt.member() {
        peers.remove(member, &mut |gone: Shared<Mount>| gone.set_member(None));
    }
    if let Some(table) = &unlisted.table {
        table.changes.announce();
    }
}

/// No walk comes to a mount from outside any more, so that none sees what is in it while that goes.
fn shut(mnt: &Shared<Mount>) {
    if let Some(at) = mnt.mountpoint() {
        at.dentry.mounted.remove(&at.mnt);
    }
}

/// Unmounts a mount and all mounts in it. Needs no memory. The caller has locked all mounts, and something
/// moves.
fn take(peers: &mut Peers, mnt: &Shared<Mount>, at_once: bool) {
    shut(mnt);
    let mut at = mnt.clone();
    // What hangs lowest goes first.
    loop {
        while let Some((_, below)) = child(&at, 0) {
            at = below;
        }
        let above = at.mountpoint().map(|at| at.mnt);
        let top = Shared::ptr_eq(&at, mnt);
        detach(peers, &at, !top && !at_once && at.is(LOCKED));
        if top {
            return;
        }
        let Some(above) = above else { return };
        at = above;
    }
}

/// [`take`], which is the whole change. Nothing happens elsewhere.
pub(super) fn take_all(peers: &mut Peers, mnt: Shared<Mount>, at_once: bool) {
    let moving = Moving::begin();
    take(peers, &mnt, at_once);
    // Freeing the mount, if nobody has it, is none of it.
    drop(moving);
    drop(mnt);
}

/// Unmounts what is mounted below the directory of a process or thread that is gone, by its address
/// ([`crate::fs::procfs::Subject::address`]). May sleep.
pub fn forget(subject: usize) {
    let mut peers = change();
    while let Some(name) = name_of(subject) {
        uncover_all(&mut peers, &name);
    }
}

/// Unmounts what is mounted on a name, everywhere.
fn uncover_all(peers: &mut Peers, name: &Dentry) {
    // What is stuck goes with what it is stuck in.
    while let Some(mnt) = one_on(name) {
        take_all(peers, mnt, false);
    }
}

/// A name has been removed on which something is mounted, in namespaces other than that of who removed it:
/// unmounts that. May sleep, with no directory locked.
#[cold]
pub fn uncover(name: &Dentry) {
    uncover_all(&mut change(), name);
}

/// Whether something is mounted on a name in the namespace of the running task, so that the name stays. Its
/// directory is locked.
#[cold]
pub fn is_local(name: &Dentry) -> bool {
    table::with_current(|mine| {
        let is_mine = |mnt: &Mount| {
            // What is just being mounted is in no namespace yet, but what it is mounted in is.
            mnt.at.lock().as_ref().is_some_and(|at| {
                let table = at.mnt.table.lock();
                table.as_ref().is_some_and(|table| Arc::ptr_eq(table, mine))
            })
        };
        any_on(name, is_mine)
    })
}
