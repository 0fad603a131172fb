//! User namespaces: which ids programs see, in which namespaces their capabilities count, and how many
//! namespaces a user may make.
//!
//! The kernel's own ids (`kuid`, `kgid` on Linux) are those of the initial namespace. A namespace has a map
//! from its ids to these, which is written once. `None` is the initial namespace, whose ids are the same.

use super::{Head, Kind, Next, Ns, NsRef, Room};
use crate::mm::current_space;
use crate::mm::reserve::room_behind;
use crate::mm::space::SUID_DUMPABLE;
use crate::sync::{IrqSpinLock, Mutex, Once};
use crate::task::creds::{CAP_ALL, Creds, cap};
use crate::task::user::{self as accounts, Maker};
use crate::task::{CurrentTask, TaskFlags, current, fork, unshare};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use limen_id_map::{Error, Extent, INVALID, IdMap, parse};
use limen_linux_abi::Errno;
use limen_linux_abi::id::{OVERFLOW_GID, OVERFLOW_UID};

/// The user namespace of credentials, or the one that owns something. `None` is the initial one.
pub type UserRef = Option<Arc<UserNs>>;

/// A namespace below another one of this level cannot be made.
const DEEPEST: u32 = 32;
/// How many kinds of namespaces there are.
const KINDS: usize = Kind::ALL.len();

/// What a map is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ids {
    /// Users (`uid_map`).
    Users,
    /// Groups (`gid_map`).
    Groups,
    /// Projects (`projid_map`).
    Projects,
}

/// A user namespace that a program made.
pub struct UserNs {
    /// Its owner is its parent.
    head: Head,
    level: u32,
    /// Who made it.
    maker: Maker,
    /// Whether its maker had `CAP_SETFCAP`: then it may map its parent's root itself.
    maker_had_setfcap: bool,
    maps: [Once<IdMap>; 3],
    /// Whether `setgroups` works in it, once there is a map of groups.
    setgroups: AtomicBool,
    /// Held while a map is written, or `setgroups`.
    writing: Mutex<()>,
    limits: [AtomicI32; KINDS],
}

impl fmt::Debug for UserNs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user:[{}]", self.head.inode)
    }
}

impl Ns for UserNs {
    fn kind(&self) -> Kind {
        Kind::User
    }
    fn head(&self) -> &Head {
        &self.head
    }
    fn parent(&self) -> Option<NsRef> {
        Some(reference(self.parent()))
    }
    fn join(self: Arc<Self>, next: &mut Next) -> Result<(), Errno> {
        next.creds = Arc::new(join(&next.creds, &Some(self))?);
        Ok(())
    }
}

/// A user namespace as one of all kinds.
pub fn reference(user: &UserRef) -> NsRef {
    match user {
        Some(user) => NsRef::Made(user.clone()),
        None => NsRef::Initial(Kind::User),
    }
}

/// The user, as the running thread sees it, that made the user namespace `ns` (`NS_GET_OWNER_UID`).
pub fn owner_uid(ns: &NsRef) -> u32 {
    uid_shown(ns.made::<UserNs>().map_or(0, |ns| ns.maker.uid))
}

/// How user namespaces are made.
pub struct Users;

impl Room for Users {
    fn make(&self, next: &mut Next) -> Result<(), Errno> {
        next.creds = Arc::new(create(&next.creds)?);
        Ok(())
    }
    fn join_initial(&self, next: &mut Next) -> Result<(), Errno> {
        next.creds = Arc::new(join(&next.creds, &None)?);
        Ok(())
    }
}

impl UserNs {
    /// The namespace in which it was made.
    pub fn parent(&self) -> &UserRef {
        &self.head.owner
    }
    /// Who made it.
    pub fn maker(&self) -> &Maker {
        &self.maker
    }
    fn map(&self, ids: Ids) -> Option<&IdMap> {
        self.maps[ids as usize].get()
    }
}

/// Whether both are the same namespace.
#[inline]
pub fn is_same(a: &UserRef, b: &UserRef) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

fn level(of: &UserRef) -> u32 {
    of.as_ref().map_or(0, |ns| ns.level)
}

/// Whether `inner` is `outer` or somewhere below it.
pub fn is_within(inner: &UserRef, outer: &UserRef) -> bool {
    let mut at = inner;
    loop {
        if is_same(at, outer) {
            return true;
        }
        match at {
            Some(ns) if ns.level > level(outer) => at = ns.parent(),
            _ => return false,
        }
    }
}

/// [`Creds::capable_in`] for any namespace: whoever made a namespace, or one above it, has every capability
/// in it, and who has one in a namespace has it in those below.
#[cold]
#[inline(never)]
pub fn has_cap(creds: &Creds, ns: &UserRef, cap: u32) -> bool {
    let mut at = ns;
    loop {
        if is_same(at, &creds.user) {
            return creds.capable_own(cap);
        }
        let Some(made) = at else { return false };
        if made.level <= level(&creds.user) {
            return false;
        }
        if is_same(made.parent(), &creds.user) && made.maker.uid == creds.euid {
            return true;
        }
        at = made.parent();
    }
}

// Conversion.

fn down(ns: &UserRef, ids: Ids, id: u32) -> Option<u32> {
    down_range(ns, ids, id, 1)
}

fn down_range(ns: &UserRef, ids: Ids, id: u32, count: u32) -> Option<u32> {
    match ns {
        None => id.checked_add(count).map(|_| id),
        Some(ns) => ns.map(ids)?.down(id, count),
    }
}

fn up(ns: &UserRef, ids: Ids, id: u32) -> Option<u32> {
    match ns {
        None => (id != INVALID).then_some(id),
        Some(ns) => ns.map(ids)?.up(id),
    }
}

/// The kernel's id for the user `id` of `ns`. `None`: nobody is mapped to it.
pub fn make_kuid(ns: &UserRef, id: u32) -> Option<u32> {
    down(ns, Ids::Users, id)
}

/// The kernel's id for the group `id` of `ns`.
pub fn make_kgid(ns: &UserRef, id: u32) -> Option<u32> {
    down(ns, Ids::Groups, id)
}

/// What the kernel's user id is in `ns`. `None`: it is not mapped.
pub fn from_kuid(ns: &UserRef, kuid: u32) -> Option<u32> {
    up(ns, Ids::Users, kuid)
}

/// What the kernel's group id is in `ns`.
pub fn from_kgid(ns: &UserRef, kgid: u32) -> Option<u32> {
    up(ns, Ids::Groups, kgid)
}

/// The user id to show in `ns`: `kernel.overflowuid` if it is not mapped.
pub fn from_kuid_munged(ns: &UserRef, kuid: u32) -> u32 {
    from_kuid(ns, kuid).unwrap_or_else(|| OVERFLOW_UID.load(Relaxed) as u32)
}

/// The group id to show in `ns`.
pub fn from_kgid_munged(ns: &UserRef, kgid: u32) -> u32 {
    from_kgid(ns, kgid).unwrap_or_else(|| OVERFLOW_GID.load(Relaxed) as u32)
}

/// Whether `creds`' namespace has ids for both.
#[inline]
pub fn maps_both(ns: &UserRef, kuid: u32, kgid: u32) -> bool {
    ns.is_none() || from_kuid(ns, kuid).is_some() && from_kgid(ns, kgid).is_some()
}

/// The kernel's id of root in `ns`.
pub fn root_uid(ns: &UserRef) -> Option<u32> {
    make_kuid(ns, 0)
}

/// The kernel's ids of user and group 0 in `ns`; where these are not mapped, those of the kernel's root.
pub fn root_of(ns: &UserRef) -> (u32, u32) {
    match ns {
        None => (0, 0),
        Some(_) => (make_kuid(ns, 0).unwrap_or(0), make_kgid(ns, 0).unwrap_or(0)),
    }
}

/// What the running thread's user namespace does with ids, if that is not the initial one.
#[cold]
#[inline(never)]
fn convert(id: u32, how: fn(&UserRef, u32) -> Option<u32>) -> Option<u32> {
    current().with_creds(|creds| how(&creds.user, id))
}

#[cold]
#[inline(never)]
fn show(id: u32, how: fn(&UserRef, u32) -> u32) -> u32 {
    current().with_creds(|creds| how(&creds.user, id))
}

impl CurrentTask {
    /// Whether it is in another user namespace than the initial one. A load and a test.
    #[inline(always)]
    pub fn has_user_ns(&self) -> bool {
        self.flags().contains(TaskFlags::USER_NS)
    }
}

/// The running program is shown this for the kernel's user id.
#[inline(always)]
pub fn uid_shown(kuid: u32) -> u32 {
    match current().has_user_ns() {
        false => kuid,
        true => show(kuid, from_kuid_munged),
    }
}

/// The running program is shown this for the kernel's group id.
#[inline(always)]
pub fn gid_shown(kgid: u32) -> u32 {
    match current().has_user_ns() {
        false => kgid,
        true => show(kgid, from_kgid_munged),
    }
}

/// [`uid_shown`] and [`gid_shown`] with one test.
#[inline(always)]
pub fn ids_shown(kuid: u32, kgid: u32) -> (u32, u32) {
    match current().has_user_ns() {
        false => (kuid, kgid),
        true => (show(kuid, from_kuid_munged), show(kgid, from_kgid_munged)),
    }
}

/// The kernel's id for the user that the running program means. `EINVAL`: it has none, or means nobody.
#[inline]
pub fn uid_meant(id: u32) -> Result<u32, Errno> {
    let found = match current().has_user_ns() {
        false => Some(id).filter(|&id| id != INVALID),
        true => convert(id, make_kuid),
    };
    found.ok_or(Errno::EINVAL)
}

/// The kernel's id for the group that the running program means. `EINVAL`.
#[inline]
pub fn gid_meant(id: u32) -> Result<u32, Errno> {
    let found = match current().has_user_ns() {
        false => Some(id).filter(|&id| id != INVALID),
        true => convert(id, make_kgid),
    };
    found.ok_or(Errno::EINVAL)
}

/// [`uid_meant`], but all ones stay: "do not change". `EINVAL`.
#[inline]
pub fn uid_or_keep(id: u32) -> Result<u32, Errno> {
    if id == INVALID { Ok(id) } else { uid_meant(id) }
}

/// [`gid_meant`], but all ones stay. `EINVAL`.
#[inline]
pub fn gid_or_keep(id: u32) -> Result<u32, Errno> {
    if id == INVALID { Ok(id) } else { gid_meant(id) }
}

// Making and joining.

/// What a namespace that is new to a task makes of its credentials: all capabilities, in it alone.
fn enter(old: &Creds, ns: UserRef) -> Creds {
    Creds {
        user: ns,
        securebits: 0,
        inheritable: 0,
        permitted: CAP_ALL,
        effective: CAP_ALL,
        ambient: 0,
        bounding: CAP_ALL,
        ..old.clone()
    }
}

/// The credentials of `old`, which are the running thread's, in a new namespace that they own
/// (`CLONE_NEWUSER`). `ENOSPC`: there are too many, or it would be too deep. `EPERM`: the thread sees another
/// root than its mount namespace has, or one of its effective ids is not mapped. `ENOMEM`.
pub fn create(old: &Creds) -> Result<Creds, Errno> {
    let parent = &old.user;
    if level(parent) > DEEPEST {
        return Err(Errno::ENOSPC);
    }
    let head = Head::new(Kind::User, parent.clone())?;
    if crate::fs::mount::is_chrooted() || !maps_both(parent, old.euid, old.egid) {
        return Err(Errno::EPERM);
    }
    let ns = UserNs {
        head,
        level: level(parent) + 1,
        maker: Maker::new(old),
        maker_had_setfcap: old.capable_own(cap::SETFCAP),
        maps: [const { Once::new() }; 3],
        setgroups: AtomicBool::new(lets_setgroups(parent)),
        writing: Mutex::new(()),
        limits: [const { AtomicI32::new(i32::MAX) }; KINDS],
    };
    Ok(enter(old, Some(Arc::new(ns))))
}

/// `setns`: the running thread's credentials, which are `old`, in `ns`. `EINVAL`: it is in it already, or
/// shares its process or its directories with others. `EPERM`: it lacks `CAP_SYS_ADMIN` in it.
pub fn join(old: &Creds, ns: &UserRef) -> Result<Creds, Errno> {
    let task = current();
    if is_same(ns, &old.user) || task.process.thread_count() > 1 || unshare::shares_fs(&task) {
        return Err(Errno::EINVAL);
    }
    if !old.capable_in(ns, cap::SYS_ADMIN) {
        return Err(Errno::EPERM);
    }
    Ok(enter(old, ns.clone()))
}

/// Whether someone with the credentials `old` has all that `new` have.
pub fn has_all_of(old: &Creds, new: &Creds) -> bool {
    if is_same(&old.user, &new.user) {
        return new.permitted & !old.permitted == 0;
    }
    let mut at = &new.user;
    while let Some(ns) = at {
        if is_same(ns.parent(), &old.user) && ns.maker.uid == old.euid {
            return true;
        }
        at = ns.parent();
    }
    false
}

/// The running thread gets credentials that [`create`] or [`join`] made. Who may do more than before becomes
/// undumpable.
pub fn commit(new: Arc<Creds>) {
    let task = current();
    let old = task.creds();
    if !has_all_of(&old, &new) {
        if let Some(mm) = current_space() {
            mm.set_dump_mode(SUID_DUMPABLE.load(Relaxed));
        }
        task.parent_death_signal.store(0, Relaxed);
    }
    accounts::transfer(&old, &new);
    crate::signal::charge_to_user(&task, &new);
    task.set_creds(new);
}

// The maps as programs write and see them.

/// Who has opened one of the files.
pub struct Opener {
    /// The credentials with which it was opened.
    pub creds: Arc<Creds>,
    /// The namespace that the file is about: that of the task, when it was opened.
    pub ns: UserRef,
}

/// The map of `opener`'s file as extents: the ids outside are those of the opener's namespace or, if that is
/// the one that has the map, of its parent.
pub fn shown_map(opener: &Opener, ids: Ids, mut add: impl FnMut(Extent)) {
    let mut outside = &opener.creds.user;
    let Some(ns) = &opener.ns else {
        // As the initial one: all but the one that nobody has.
        return add(Extent {
            first: 0,
            lower: up(outside, ids, 0).unwrap_or(INVALID),
            count: INVALID,
        });
    };
    if is_same(outside, &opener.ns) {
        outside = ns.parent();
    }
    for extent in ns.map(ids).map_or(&[][..], |map| map.extents()) {
        add(Extent {
            lower: up(outside, ids, extent.lower).unwrap_or(INVALID),
            ..*extent
        });
    }
}

/// The namespace whose map may be written with the file that `opener` opened: from itself or its parent, and
/// not the initial one. `EPERM`.
pub fn may_write_map(opener: &Opener) -> Result<&Arc<UserNs>, Errno> {
    let ns = opener.ns.as_ref().ok_or(Errno::EPERM)?;
    let from = &opener.creds.user;
    match is_same(from, &opener.ns) || is_same(from, ns.parent()) {
        true => Ok(ns),
        false => Err(Errno::EPERM),
    }
}

/// A program has written a map. `EPERM`: it may not, or there is one already. `EINVAL`: it is none.
/// `ENOMEM`.
pub fn write_map(opener: &Opener, ids: Ids, text: &[u8]) -> Result<(), Errno> {
    let ns = may_write_map(opener)?;
    let _writing = ns.writing.lock();
    if ns.map(ids).is_some() || ids != Ids::Projects && !file_capable(opener, &opener.ns, cap::SYS_ADMIN) {
        return Err(Errno::EPERM);
    }
    let errno = |error| match error {
        Error::Malformed => Errno::EINVAL,
        Error::NoMemory => Errno::ENOMEM,
    };
    let extents = parse(text).map_err(errno)?;
    if !may_map(opener, ns, ids, &extents) {
        return Err(Errno::EPERM);
    }
    let outside = |first, count| down_range(ns.parent(), ids, first, count);
    let map = IdMap::new(extents, outside).map_err(errno)?.ok_or(Errno::EPERM)?;
    ns.maps[ids as usize].set(map).map_err(|_| Errno::EPERM)
}

/// Whether whoever opened the file had `cap` in `ns` (`file_ns_capable`).
fn file_capable(opener: &Opener, ns: &UserRef, cap: u32) -> bool {
    opener.creds.capable_in(ns, cap)
}

/// Whether the running thread, with a file that `opener` opened, may give `ns` these ids of its parent.
fn may_map(opener: &Opener, ns: &UserNs, ids: Ids, extents: &[Extent]) -> bool {
    let cap = match ids {
        Ids::Users => cap::SETUID,
        Ids::Groups => cap::SETGID,
        // These give no rights.
        Ids::Projects => return true,
    };
    // Programs in it could give the parent's root's files capabilities for the parent.
    let maps_root = ids == Ids::Users && extents.iter().any(|extent| extent.lower == 0);
    let may_map_root = || match is_same(&opener.creds.user, &opener.ns) {
        true => ns.maker_had_setfcap,
        false => file_capable(opener, ns.parent(), cap::SETFCAP),
    };
    if maps_root && !may_map_root() {
        return false;
    }
    let creds = &opener.creds;
    if let [Extent { lower, count: 1, .. }] = *extents
        && ns.maker.uid == creds.euid
    {
        let own = match ids {
            Ids::Users => make_kuid(ns.parent(), lower) == Some(creds.euid),
            // Who could drop groups could do what these are forbidden.
            _ => !ns.setgroups.load(Relaxed) && make_kgid(ns.parent(), lower) == Some(creds.egid),
        };
        if own {
            return true;
        }
    }
    current().with_creds(|creds| creds.capable_in(ns.parent(), cap)) && file_capable(opener, ns.parent(), cap)
}

/// Whether `setgroups` is not forbidden in `ns` (`/proc/PID/setgroups`).
pub fn lets_setgroups(ns: &UserRef) -> bool {
    ns.as_ref().is_none_or(|ns| ns.setgroups.load(Relaxed))
}

/// Whether `setgroups` works in `ns` now, for who has the capability: there must be a map.
pub fn may_setgroups(ns: &UserRef) -> bool {
    let Some(made) = ns else { return true };
    // A map comes after what forbids it, if that comes.
    made.map(Ids::Groups).is_some() && made.setgroups.load(Relaxed)
}

/// A program has written to `setgroups` of `ns`. `EPERM`: what was forbidden stays so, and nothing can be
/// forbidden once there is a map.
pub fn write_setgroups(ns: &UserRef, allow: bool) -> Result<(), Errno> {
    let Some(made) = ns else {
        return if allow { Ok(()) } else { Err(Errno::EPERM) };
    };
    let _writing = made.writing.lock();
    if allow {
        return match made.setgroups.load(Relaxed) {
            true => Ok(()),
            false => Err(Errno::EPERM),
        };
    }
    if made.map(Ids::Groups).is_some() {
        return Err(Errno::EPERM);
    }
    made.setgroups.store(false, Relaxed);
    Ok(())
}

// How many there may be.

/// The limits of the initial namespace; -1: the default.
static LIMITS: [AtomicI32; KINDS] = [const { AtomicI32::new(-1) }; KINDS];

/// How many namespaces of a kind a user of `ns` may have made (`/proc/sys/user/max_*_namespaces`).
pub fn limit(ns: &UserRef, kind: Kind) -> i32 {
    let limit = match ns {
        None => &LIMITS[kind as usize],
        Some(ns) => &ns.limits[kind as usize],
    };
    match limit.load(Relaxed) {
        -1 => i32::try_from(fork::max_threads() / 2).unwrap_or(i32::MAX),
        set => set,
    }
}

/// Sets [`limit`].
pub fn set_limit(ns: &UserRef, kind: Kind, most: i32) {
    let limit = match ns {
        None => &LIMITS[kind as usize],
        Some(ns) => &ns.limits[kind as usize],
    };
    limit.store(most, Relaxed);
}

/// How many namespaces of each kind a user has made in a user namespace.
struct Made {
    ns: UserRef,
    uid: u32,
    counts: [AtomicI32; KINDS],
}

/// All of them, by the numbers of namespace (0: the initial one) and user. The last reference may go in an
/// interrupt, with that of the namespace that counts.
static MADE: IrqSpinLock<Vec<((u32, u32), Weak<Made>)>> = IrqSpinLock::new(Vec::new());

impl Made {
    fn key(ns: &UserRef, uid: u32) -> (u32, u32) {
        (ns.as_ref().map_or(0, |ns| ns.head.inode), uid)
    }
    fn of(ns: &UserRef, uid: u32) -> Result<Arc<Self>, Errno> {
        let new = Arc::new(Self {
            ns: ns.clone(),
            uid,
            counts: [const { AtomicI32::new(0) }; KINDS],
        });
        let key = Self::key(ns, uid);
        let mut all = room_behind(|| MADE.lock(), |list| list, 1)?;
        match all.binary_search_by_key(&key, |entry| entry.0) {
            Ok(at) => {
                if let Some(known) = all[at].1.upgrade() {
                    // The new one is dropped without the lock.
                    drop(all);
                    return Ok(known);
                }
                let old = core::mem::replace(&mut all[at].1, Arc::downgrade(&new));
                drop(all);
                drop(old);
            }
            Err(at) => all.insert(at, (key, Arc::downgrade(&new))),
        }
        Ok(new)
    }
    /// The account on which this one's namespace itself counts.
    fn above(&self) -> Option<&Arc<Self>> {
        self.ns.as_ref().map(|ns| &ns.head.counted.of)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let key = Self::key(&self.ns, self.uid);
        let mut all = MADE.lock();
        // There may be a new one of the same user already.
        let found = all.binary_search_by_key(&key, |entry| entry.0);
        if let Ok(at) = found
            && all[at].1.strong_count() == 0
        {
            let old = all.remove(at);
            drop(all);
            drop(old);
        }
    }
}

/// A namespace counts as one of the user who made it, and of whoever made the user namespaces around.
/// Dropping this ends that.
pub struct Counted {
    of: Arc<Made>,
    kind: Kind,
}

impl Counted {
    /// Counts a new namespace of `kind` that `owner` owns and the running thread makes. `ENOSPC`: there are
    /// as many as allowed. `ENOMEM`.
    pub fn new(owner: &UserRef, kind: Kind) -> Result<Self, Errno> {
        let of = Made::of(owner, current().with_creds(|creds| creds.euid))?;
        let mut next = Some(&of);
        while let Some(made) = next {
            let most = limit(&made.ns, kind);
            let more = |n: i32| (n < most).then_some(n + 1);
            let count = &made.counts[kind as usize];
            if count.fetch_update(Relaxed, Relaxed, more).is_err() {
                uncount(&of, kind, Some(made));
                return Err(Errno::ENOSPC);
            }
            next = made.above();
        }
        Ok(Self { of, kind })
    }
}

/// Takes one from `from` and all above it, up to `end`, which was not counted.
fn uncount(from: &Arc<Made>, kind: Kind, end: Option<&Arc<Made>>) {
    let mut next = Some(from);
    while let Some(made) = next
        && !end.is_some_and(|end| Arc::ptr_eq(end, made))
    {
        made.counts[kind as usize].fetch_sub(1, Relaxed);
        next = made.above();
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        uncount(&self.of, self.kind, None);
    }
}
