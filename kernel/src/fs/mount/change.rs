//! Changes of a mount that leave it where it is: its flags and options, and who sees what happens in it.

use super::spread::{gather, share};
use super::tree::{change, is_mounted};
use super::{
    ACCESS_TIMES, MS_BIND, MS_PROPAGATION, MS_RDONLY, MS_REC, MS_SHARED, MS_SILENT, MS_SLAVE, MS_UNBINDABLE,
    Mount, PER_MOUNT, UNBINDABLE, table,
};
use crate::fs::path::Path;
use crate::mm::reserve::handling;
use crate::rcu::Shared;
use core::sync::atomic::{AtomicU32, Ordering};
use limen_linux_abi::Errno;

/// Sets `MS_RDONLY` in `flags`, unless one of `busy` is not 0: `EBUSY`. The caller has locked all mounts.
fn make_read_only(flags: &AtomicU32, busy: &[&AtomicU32]) -> Result<(), Errno> {
    let before = flags.fetch_or(MS_RDONLY, Ordering::SeqCst);
    if before & MS_RDONLY == 0 && busy.iter().any(|count| count.load(Ordering::SeqCst) != 0) {
        flags.fetch_and(!MS_RDONLY, Ordering::Relaxed);
        return Err(Errno::EBUSY);
    }
    Ok(())
}

/// `MS_REMOUNT`: changes the options of the file system, or with `MS_BIND` only those of the mount. `EBUSY`:
/// it is to be read-only, and files are open for writing, or there are some without a name. `EPERM`: a flag
/// is locked, or the file system belongs to a user namespace in which the caller is nobody.
pub fn remount(at: &Path, flags: u32, data: &str) -> Result<(), Errno> {
    let _change = change();
    at.mnt.check_mine()?;
    if !is_mounted(at) {
        return Err(Errno::EINVAL);
    }
    let mut own = flags & PER_MOUNT;
    if flags & ACCESS_TIMES == 0 {
        own |= at.mnt.flags() & ACCESS_TIMES;
    }
    if !at.mnt.keeps_locked(own) {
        return Err(Errno::EPERM);
    }
    let sb = &at.mnt.root.inode.sb;
    let before = sb.flags.load(Ordering::Relaxed);
    if flags & MS_BIND == 0 {
        if !table::is_admin(&sb.owner) {
            return Err(Errno::EPERM);
        }
        sb.ops.check_options(data)?;
        if flags & MS_RDONLY != 0 {
            make_read_only(&sb.flags, &[&sb.writers, &sb.nameless])?;
        }
        sb.ops
            .remount(data)
            .inspect_err(|_| sb.flags.store(before, Ordering::Relaxed))?;
        sb.flags
            .store(before & !MS_RDONLY | flags & MS_RDONLY, Ordering::Relaxed);
    } else if flags & !before & MS_RDONLY != 0 {
        make_read_only(&at.mnt.flags, &[&at.mnt.writers])?;
    }
    at.mnt.flags.store(own, Ordering::Relaxed);
    table::with_current(|table| table.changes.announce());
    Ok(())
}

/// `MS_SHARED`, `MS_PRIVATE`, `MS_SLAVE`, `MS_UNBINDABLE`, of a mount or, with `MS_REC`, of all below it,
/// too.
pub fn change_type(at: &Path, flags: u32) -> Result<(), Errno> {
    let kind = flags & !(MS_REC | MS_SILENT);
    if !is_mounted(at) || kind & !MS_PROPAGATION != 0 || !kind.is_power_of_two() {
        return Err(Errno::EINVAL);
    }
    let mut peers = change();
    at.mnt.check_mine()?;
    let tree = gather(&at.mnt, &at.dentry, |_| Ok(flags & MS_REC != 0))?;
    if kind == MS_SHARED {
        handling(|| peers.reserve(tree.0.len(), tree.0.len())).map_err(|_| Errno::ENOMEM)?;
    }
    // Slaves of a group that ends are private, too.
    let mut gone = |mnt: Shared<Mount>| mnt.set_member(None);
    for limb in &tree.0 {
        let mnt = &limb.mnt;
        match (kind, mnt.member()) {
            (MS_SHARED, _) => share(&mut peers, mnt),
            (_, None) => {}
            (MS_SLAVE, Some(member)) => peers.make_slave(member, &mut gone),
            (_, Some(member)) => peers.remove(member, &mut gone),
        }
        match kind {
            MS_SHARED | MS_SLAVE => {}
            MS_UNBINDABLE => mnt.set_state(UNBINDABLE, 0),
            _ => mnt.set_state(0, UNBINDABLE),
        }
    }
    Ok(())
}
