//! System calls about credentials: user and group ids, groups, capabilities.

use super::SysResult;
use crate::mm::current_space;
use crate::mm::user::{UserPtr, read_bytes, write_bytes};
use crate::task::creds::{CAP_ALL, Creds, cap, securebits};
use crate::task::ns::user;
use crate::task::{TaskFlags, current, pid::find_task_here, rlimit, user as accounts};
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;
use limen_linux_abi::id::IdWord;

/// An argument that means "do not change".
const KEEP: u32 = u32::MAX;
/// How many supplementary groups there may be (`NGROUPS_MAX`).
const NGROUPS_MAX: usize = 65536;

/// Makes changed credentials effective: adapts capabilities, counts the thread for its new user, and makes a
/// process whose ids have changed undumpable.
fn commit(old: &Creds, mut new: Creds) -> SysResult {
    new.fix_caps_after_setuid(old);
    if new.fsuid != old.fsuid {
        new.fix_caps_after_setfsuid(old);
    }
    let task = current();
    if old.euid != new.euid || old.egid != new.egid || old.fsuid != new.fsuid || old.fsgid != new.fsgid {
        // Comes before the new ids can be seen, so that whoever sees them finds the process undumpable.
        if let Some(mm) = current_space() {
            mm.set_dump_mode(crate::mm::space::SUID_DUMPABLE.load(core::sync::atomic::Ordering::Relaxed));
        }
        task.parent_death_signal
            .store(0, core::sync::atomic::Ordering::Relaxed);
    }
    if old.uid != new.uid {
        // The change itself does not fail, as programs do not expect that: a later exec does.
        let limit = accounts::Limit::of(task.process.limits.soft(rlimit::which::NPROC));
        if new.uid != 0 && accounts::has_too_many(&new, limit) {
            task.set_flags(TaskFlags::NPROC_EXCEEDED);
        } else {
            task.clear_flags(TaskFlags::NPROC_EXCEEDED);
        }
    }
    accounts::transfer(old, &new);
    if old.uid != new.uid {
        crate::signal::charge_to_user(&task, &new);
    }
    task.set_creds(Arc::new(new));
    Ok(0)
}

fn may_be(id: u32, ids: &[u32]) -> bool {
    id == KEEP || ids.contains(&id)
}

fn setuid_to(uid: u32) -> SysResult {
    let old = current().creds();
    let uid = user::uid_meant(uid)?;
    let mut new = (*old).clone();
    if old.capable_own(cap::SETUID) {
        new.uid = uid;
        new.suid = uid;
    } else if uid != old.uid && uid != old.suid {
        return Err(Errno::EPERM);
    }
    new.euid = uid;
    new.fsuid = uid;
    commit(&old, new)
}

fn setgid_to(gid: u32) -> SysResult {
    let old = current().creds();
    let gid = user::gid_meant(gid)?;
    let mut new = (*old).clone();
    if old.capable_own(cap::SETGID) {
        new.gid = gid;
        new.sgid = gid;
    } else if gid != old.gid && gid != old.sgid {
        return Err(Errno::EPERM);
    }
    new.egid = gid;
    new.fsgid = gid;
    commit(&old, new)
}

/// The credentials of the thread that `capget` names; 0 is the caller.
fn capability_creds(pid: i32) -> Result<Arc<Creds>, Errno> {
    match pid {
        0 => Ok(current().creds()),
        ..0 => Err(Errno::EINVAL),
        _ => Ok(find_task_here(pid).ok_or(Errno::ESRCH)?.creds()),
    }
}

/// How many 32-bit words each set has in a version of the interface. For an unknown version, the newest one's
/// number is written into the header.
fn capability_words(header: UserPtr<[u32; 2]>) -> Result<Result<(usize, i32), ()>, Errno> {
    let version = header.cast::<u32>();
    let words = match version.read()? {
        0x1998_0330 => 1,
        0x2007_1026 | 0x2008_0522 => 2,
        _ => {
            version.write(0x2008_0522)?;
            return Ok(Err(()));
        }
    };
    let [_, pid] = header.read()?;
    Ok(Ok((words, pid as i32)))
}

crate::syscalls! {
    fn getuid | getuid16() { Ok(Id::show_user(user::uid_shown(current().creds().uid)).shown()) }
    fn geteuid | geteuid16() { Ok(Id::show_user(user::uid_shown(current().creds().euid)).shown()) }
    fn getgid | getgid16() { Ok(Id::show_group(user::gid_shown(current().creds().gid)).shown()) }
    fn getegid | getegid16() { Ok(Id::show_group(user::gid_shown(current().creds().egid)).shown()) }

    fn setuid | setuid16(uid: Id) { setuid_to(uid) }
    fn setgid | setgid16(gid: Id) { setgid_to(gid) }

    fn setreuid | setreuid16(uid: Id, euid: Id) {
        let old = current().creds();
        let [uid, euid] = [user::uid_or_keep(uid)?, user::uid_or_keep(euid)?];
        let privileged = old.capable_own(cap::SETUID);
        if !privileged && (!may_be(uid, &[old.uid, old.euid])
            || !may_be(euid, &[old.uid, old.euid, old.suid])) {
            return Err(Errno::EPERM);
        }
        let mut new = (*old).clone();
        if uid != KEEP { new.uid = uid; }
        if euid != KEEP { new.euid = euid; }
        if uid != KEEP || euid != KEEP && euid != old.uid { new.suid = new.euid; }
        new.fsuid = new.euid;
        commit(&old, new)
    }

    fn setregid | setregid16(gid: Id, egid: Id) {
        let old = current().creds();
        let [gid, egid] = [user::gid_or_keep(gid)?, user::gid_or_keep(egid)?];
        let privileged = old.capable_own(cap::SETGID);
        if !privileged && (!may_be(gid, &[old.gid, old.egid])
            || !may_be(egid, &[old.gid, old.egid, old.sgid])) {
            return Err(Errno::EPERM);
        }
        let mut new = (*old).clone();
        if gid != KEEP { new.gid = gid; }
        if egid != KEEP { new.egid = egid; }
        if gid != KEEP || egid != KEEP && egid != old.gid { new.sgid = new.egid; }
        new.fsgid = new.egid;
        commit(&old, new)
    }

    fn setresuid | setresuid16(uid: Id, euid: Id, suid: Id) {
        let old = current().creds();
        let [uid, euid, suid] =
            [user::uid_or_keep(uid)?, user::uid_or_keep(euid)?, user::uid_or_keep(suid)?];
        let ids = [old.uid, old.euid, old.suid];
        let allowed = [uid, euid, suid].into_iter().all(|id| may_be(id, &ids));
        if !allowed && !old.capable_own(cap::SETUID) {
            return Err(Errno::EPERM);
        }
        let mut new = (*old).clone();
        if uid != KEEP { new.uid = uid; }
        if euid != KEEP { new.euid = euid; }
        if suid != KEEP { new.suid = suid; }
        new.fsuid = new.euid;
        commit(&old, new)
    }

    fn setresgid | setresgid16(gid: Id, egid: Id, sgid: Id) {
        let old = current().creds();
        let [gid, egid, sgid] =
            [user::gid_or_keep(gid)?, user::gid_or_keep(egid)?, user::gid_or_keep(sgid)?];
        let ids = [old.gid, old.egid, old.sgid];
        let allowed = [gid, egid, sgid].into_iter().all(|id| may_be(id, &ids));
        if !allowed && !old.capable_own(cap::SETGID) {
            return Err(Errno::EPERM);
        }
        let mut new = (*old).clone();
        if gid != KEEP { new.gid = gid; }
        if egid != KEEP { new.egid = egid; }
        if sgid != KEEP { new.sgid = sgid; }
        new.fsgid = new.egid;
        commit(&old, new)
    }

    fn getresuid | getresuid16(uid: UserPtr<Id>, euid: UserPtr<Id>, suid: UserPtr<Id>) {
        let creds = current().creds();
        uid.write(Id::show_user(user::uid_shown(creds.uid)))?;
        euid.write(Id::show_user(user::uid_shown(creds.euid)))?;
        suid.write(Id::show_user(user::uid_shown(creds.suid)))?;
        Ok(0)
    }

    fn getresgid | getresgid16(gid: UserPtr<Id>, egid: UserPtr<Id>, sgid: UserPtr<Id>) {
        let creds = current().creds();
        gid.write(Id::show_group(user::gid_shown(creds.gid)))?;
        egid.write(Id::show_group(user::gid_shown(creds.egid)))?;
        sgid.write(Id::show_group(user::gid_shown(creds.sgid)))?;
        Ok(0)
    }

    fn setfsuid | setfsuid16(uid: Id) {
        let old = current().creds();
        // An id that is not mapped is no error: nothing changes.
        let uid = user::uid_meant(uid).unwrap_or(KEEP);
        let allowed = [old.uid, old.euid, old.suid, old.fsuid].contains(&uid) || old.capable_own(cap::SETUID);
        if allowed && uid != KEEP && uid != old.fsuid {
            let mut new = (*old).clone();
            new.fsuid = uid;
            commit(&old, new)?;
        }
        Ok(Id::show_user(user::uid_shown(old.fsuid)).shown())
    }

    fn setfsgid | setfsgid16(gid: Id) {
        let old = current().creds();
        // An id that is not mapped is no error: nothing changes.
        let gid = user::gid_meant(gid).unwrap_or(KEEP);
        let allowed = [old.gid, old.egid, old.sgid, old.fsgid].contains(&gid) || old.capable_own(cap::SETGID);
        if allowed && gid != KEEP && gid != old.fsgid {
            let mut new = (*old).clone();
            new.fsgid = gid;
            commit(&old, new)?;
        }
        Ok(Id::show_group(user::gid_shown(old.fsgid)).shown())
    }

    fn getgroups | getgroups16(size: i32, list: UserPtr<Id>) {
        let groups = current().creds().groups.clone();
        if size < 0 { return Err(Errno::EINVAL); }
        if size == 0 { return Ok(groups.len()); }
        if groups.len() > size as usize { return Err(Errno::EINVAL); }
        for (n, gid) in groups.iter().enumerate() {
            list.add(n).write(Id::show_group(user::gid_shown(*gid)))?;
        }
        Ok(groups.len())
    }

    fn setgroups | setgroups16(size: i32, list: UserPtr<Id>) {
        let old = current().creds();
        if !old.capable_own(cap::SETGID) || !user::may_setgroups(&old.user) { return Err(Errno::EPERM); }
        if size < 0 || size as usize > NGROUPS_MAX { return Err(Errno::EINVAL); }
        let size = size as usize;
        let mut groups: Vec<u32> = Vec::new();
        crate::mm::reserve::room_exact(&mut groups, size)?;
        for n in 0..size {
            groups.push(user::gid_meant(list.add(n).read()?.id())?);
        }
        groups.sort_unstable();
        let mut new = (*old).clone();
        new.groups = Arc::new(groups);
        commit(&old, new)
    }

    fn capget(header: UserPtr<[u32; 2]>, data: usize) {
        let (words, pid) = match capability_words(header)? {
            Ok(found) => found,
            // The program only asks for the version.
            Err(()) => return if data == 0 { Ok(0) } else { Err(Errno::EINVAL) },
        };
        let creds = capability_creds(pid)?;
        if data == 0 { return Ok(0); }
        let mut out = [0u8; 24];
        for n in 0..words {
            for (field, set) in [creds.effective, creds.permitted, creds.inheritable].iter().enumerate() {
                let at = n * 12 + field * 4;
                out[at..at + 4].copy_from_slice(&((set >> (32 * n)) as u32).to_ne_bytes());
            }
        }
        write_bytes(data, &out[..words * 12])?;
        Ok(0)
    }

    fn capset(header: UserPtr<[u32; 2]>, data: usize) {
        let Ok((words, pid)) = capability_words(header)? else { return Err(Errno::EINVAL) };
        if pid != 0 && pid != current().own_tid() { return Err(Errno::EPERM); }
        let mut raw = [0u8; 24];
        read_bytes(&mut raw[..words * 12], data)?;
        let set = |field: usize| {
            (0..words).fold(0u64, |set, n| {
                let at = n * 12 + field * 4;
                set | u64::from(u32::from_ne_bytes([raw[at], raw[at + 1], raw[at + 2],
                    raw[at + 3]])) << (32 * n)
            }) & CAP_ALL
        };
        let (effective, permitted, inheritable) = (set(0), set(1), set(2));
        let old = current().creds();
        if permitted & !old.permitted != 0
            || effective & !permitted != 0
            || inheritable & !(old.inheritable | old.bounding) != 0
            || inheritable & !(old.inheritable | old.permitted) != 0 && !old.capable_own(cap::SETPCAP)
        {
            return Err(Errno::EPERM);
        }
        let mut new = (*old).clone();
        new.effective = effective;
        new.permitted = permitted;
        new.inheritable = inheritable;
        new.ambient &= permitted & inheritable;
        current().set_creds(Arc::new(new));
        Ok(0)
    }
}

/// The options of `prctl` for credentials. `None`: it is another option.
pub fn prctl(option: u32, arg: [usize; 4]) -> Option<SysResult> {
    const GET_KEEPCAPS: u32 = 7;
    const SET_KEEPCAPS: u32 = 8;
    const CAPBSET_READ: u32 = 23;
    const CAPBSET_DROP: u32 = 24;
    const GET_SECUREBITS: u32 = 27;
    const SET_SECUREBITS: u32 = 28;
    const SET_NO_NEW_PRIVS: u32 = 38;
    const GET_NO_NEW_PRIVS: u32 = 39;
    const CAP_AMBIENT: u32 = 47;
    let task = current();
    let old = task.creds();
    let change = |f: &dyn Fn(&mut Creds)| {
        let mut new = (*old).clone();
        f(&mut new);
        task.set_creds(Arc::new(new));
        Ok(0)
    };
    let capability = |arg: usize| {
        if arg < 64 && CAP_ALL >> arg & 1 != 0 {
            Ok(1u64 << arg)
        } else {
            Err(Errno::EINVAL)
        }
    };
    Some(match option {
        GET_KEEPCAPS => Ok((old.securebits & securebits::KEEP_CAPS != 0) as usize),
        SET_KEEPCAPS if arg[0] > 1 => Err(Errno::EINVAL),
        SET_KEEPCAPS if old.securebits & securebits::KEEP_CAPS << 1 != 0 => Err(Errno::EPERM),
        SET_KEEPCAPS if arg[0] == 1 => change(&|new| new.securebits |= securebits::KEEP_CAPS),
        SET_KEEPCAPS => change(&|new| new.securebits &= !securebits::KEEP_CAPS),
        CAPBSET_READ => capability(arg[0]).map(|bit| (old.bounding & bit != 0) as usize),
        CAPBSET_DROP if !old.capable_own(cap::SETPCAP) => Err(Errno::EPERM),
        CAPBSET_DROP => capability(arg[0]).and_then(|bit| change(&|new| new.bounding &= !bit)),
        GET_SECUREBITS => Ok(old.securebits as usize),
        SET_SECUREBITS => {
            let bits = arg[0] as u32;
            let locked = old.securebits & securebits::LOCKS;
            // A locked bit cannot be changed, and its lock not be removed.
            let frozen = locked | locked >> 1;
            if bits & !securebits::ALL != 0
                || (bits ^ old.securebits) & frozen != 0
                || !old.capable_own(cap::SETPCAP)
            {
                Err(Errno::EPERM)
            } else {
                change(&|new| new.securebits = bits)
            }
        }
        SET_NO_NEW_PRIVS if arg != [1, 0, 0, 0] => Err(Errno::EINVAL),
        SET_NO_NEW_PRIVS => {
            task.set_flags(TaskFlags::NO_NEW_PRIVS);
            Ok(0)
        }
        GET_NO_NEW_PRIVS if arg != [0; 4] => Err(Errno::EINVAL),
        GET_NO_NEW_PRIVS => Ok(task.flags().contains(TaskFlags::NO_NEW_PRIVS) as usize),
        CAP_AMBIENT => ambient(&old, arg, &change),
        _ => return None,
    })
}

/// `PR_CAP_AMBIENT`.
fn ambient(old: &Creds, arg: [usize; 4], change: &dyn Fn(&dyn Fn(&mut Creds)) -> SysResult) -> SysResult {
    const IS_SET: usize = 1;
    const RAISE: usize = 2;
    const LOWER: usize = 3;
    const CLEAR_ALL: usize = 4;
    if arg[0] == CLEAR_ALL {
        if arg[1..] != [0; 3] {
            return Err(Errno::EINVAL);
        }
        return change(&|new| new.ambient = 0);
    }
    if arg[1] >= 64 || CAP_ALL >> arg[1] & 1 == 0 || arg[2..] != [0; 2] {
        return Err(Errno::EINVAL);
    }
    let bit = 1u64 << arg[1];
    match arg[0] {
        IS_SET => Ok((old.ambient & bit != 0) as usize),
        RAISE => {
            let refused = old.permitted & old.inheritable & bit == 0
                || old.securebits & securebits::NO_CAP_AMBIENT_RAISE != 0;
            if refused {
                Err(Errno::EPERM)
            } else {
                change(&|new| new.ambient |= bit)
            }
        }
        LOWER => change(&|new| new.ambient &= !bit),
        _ => Err(Errno::EINVAL),
    }
}
