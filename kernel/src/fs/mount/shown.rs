//! What `/proc/<pid>` says of mounts: `mounts`, `mountstats` and `mountinfo`.

use super::tree::{Peers, behind, change};
use super::{
    MS_NOATIME, MS_NODEV, MS_NODIRATIME, MS_NOEXEC, MS_NOSUID, MS_NOSYMFOLLOW, MS_RDONLY, Mount, Mounts,
    UNBINDABLE, namespace,
};
use crate::fs::dentry::Dentry;
use crate::fs::nsfs;
use crate::fs::path::Path;
use crate::fs::pseudo::{Text, with_string};
use crate::rcu::Shared;
use crate::task::current;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use limen_linux_abi::Errno;

/// The options in a line about a mount.
fn options(m: &Mount, out: &mut Text) {
    let f = m.flags();
    let ro = (f | m.root.inode.sb.flags.load(Ordering::Relaxed)) & MS_RDONLY != 0;
    out.add(if ro { "ro" } else { "rw" });
    for (bit, name) in [
        (MS_NOSUID, ",nosuid"),
        (MS_NODEV, ",nodev"),
        (MS_NOEXEC, ",noexec"),
        (MS_NOSYMFOLLOW, ",nosymfollow"),
        (MS_NOATIME, ",noatime"),
        (MS_NODIRATIME, ",nodiratime"),
    ] {
        if f & bit != 0 {
            out.add(name);
        }
    }
    if f & MS_NOATIME == 0 && !matches!(m.root.inode.sb.fs_type, "rootfs" | "nsfs") {
        out.add(",relatime");
    }
}

/// Adds `text` with blanks and backslashes in octal, as in `/proc/mounts`.
fn escape(text: &[u8], out: &mut Text) {
    use core::fmt::Write;
    for c in text.utf8_chunks() {
        for ch in c.valid().chars() {
            match ch {
                ' ' | '\t' | '\n' | '\\' | '#' => {
                    let _ = write!(out, "\\{:03o}", ch as u32);
                }
                _ => out.add(ch.encode_utf8(&mut [0; 4])),
            }
        }
        if !c.invalid().is_empty() {
            out.add("?");
        }
    }
}

/// Calls `f` with each mount of a namespace that is below `root`, with its place as seen from there, and with
/// the groups of peers.
fn for_each(
    mounts: &Mounts,
    root: &Path,
    mut f: impl FnMut(&Shared<Mount>, &[u8], &Peers),
) -> Result<(), Errno> {
    // Nothing may be unmounted meanwhile: the references held here would make mounts look busy.
    let peers = change();
    let list = &mounts.table().list;
    let mut last = (0, 0);
    while let Some((place, m)) = behind(list, last) {
        last = place;
        if crate::task::current().fatal_signal_pending() {
            return Err(Errno::EINTR);
        }
        let (name, reached) = Path {
            mnt: m.clone(),
            dentry: m.root.clone(),
        }
        .absolute(root)?;
        if reached {
            f(&m, &name, &peers);
        }
    }
    Ok(())
}

/// Calls `f` with the root of each mount of the running task's namespace that can be seen from `root`, until
/// an error.
pub fn for_roots_below(root: &Path, mut f: impl FnMut(&Dentry) -> Result<(), Errno>) -> Result<(), Errno> {
    let mut result = Ok(());
    let mounts = Mounts::of(current().namespaces());
    for_each(&mounts, root, |m, _, _| {
        if result.is_ok() {
            result = f(&m.root);
        }
    })?;
    result
}

/// `/proc/<pid>/mounts`, as seen from `root`.
pub fn show_mounts(mounts: &Mounts, root: &Path, out: &mut Text) -> Result<(), Errno> {
    for_each(mounts, root, |m, name, _| {
        let sb = &m.root.inode.sb;
        escape(m.source.as_bytes(), out);
        out.add(" ");
        escape(name, out);
        out.add(" ");
        out.add(sb.fs_type);
        out.add(" ");
        options(m, out);
        with_string(out, |out| sb.ops.show_options(out));
        out.add(" 0 0\n");
    })
}

/// `/proc/<pid>/mountstats`, as seen from `root`.
pub fn show_mountstats(mounts: &Mounts, root: &Path, out: &mut Text) -> Result<(), Errno> {
    for_each(mounts, root, |m, name, _| {
        out.add("device ");
        escape(m.source.as_bytes(), out);
        out.add(" mounted on ");
        escape(name, out);
        out.add(" with fstype ");
        out.add(m.root.inode.sb.fs_type);
        out.add("\n");
    })
}

/// Who sees what happens in a mount, and in which mounts it sees what happens.
fn show_peers(m: &Mount, root: &Path, mounts: &Mounts, peers: &Peers, out: &mut Text) {
    use core::fmt::Write;
    if let Some(member) = m.member() {
        if let Some(group) = peers.shared(member) {
            let _ = write!(out, " shared:{}", group.id());
        }
        if let Some(master) = peers.master(member) {
            let _ = write!(out, " master:{}", master.id());
            // The nearest of its masters of which something can be seen from here.
            let is_seen = |member| {
                let mnt: &Shared<Mount> = peers.value(member);
                let here = mnt
                    .table
                    .lock()
                    .as_ref()
                    .is_some_and(|table| Arc::ptr_eq(table, mounts.table()));
                let top = Path {
                    mnt: mnt.clone(),
                    dentry: mnt.root.clone(),
                };
                here && top.is_under(root).unwrap_or(false)
            };
            let mut from = Some(master);
            while let Some(group) = from
                && !peers.peers(group).any(is_seen)
            {
                from = peers.master_of(group);
            }
            if let Some(from) = from.filter(|from| *from != master) {
                let _ = write!(out, " propagate_from:{}", from.id());
            }
        }
    }
    if m.is(UNBINDABLE) {
        out.add(" unbindable");
    }
}

/// What a mount shows of its file system.
fn show_root(root: &Shared<Dentry>, out: &mut Text) {
    // A namespace has no name there.
    if let Some(ns) = namespace::of_file(root) {
        out.add(nsfs::label(&ns));
        return;
    }
    let mut inside = Vec::new();
    let mut d = root.clone();
    while let (Some(p), n) = d.position() {
        inside.push(n);
        d = p;
    }
    if inside.is_empty() {
        out.add("/");
    }
    for n in inside.iter().rev() {
        out.add("/");
        escape(n, out);
    }
}

/// `/proc/<pid>/mountinfo`, as seen from `root`.
pub fn show_mountinfo(mounts: &Mounts, root: &Path, out: &mut Text) -> Result<(), Errno> {
    use core::fmt::Write;
    for_each(mounts, root, |m, name, peers| {
        let sb = &m.root.inode.sb;
        let parent = m.mountpoint().map_or(m.id, |p| p.mnt.id);
        let _ = write!(out, "{} {} {}:{} ", m.id, parent, sb.dev.major(), sb.dev.minor());
        show_root(&m.root, out);
        out.add(" ");
        escape(name, out);
        out.add(" ");
        options(m, out);
        show_peers(m, root, mounts, peers, out);
        let _ = write!(out, " - {} ", sb.fs_type);
        escape(m.source.as_bytes(), out);
        let ro = sb.flags.load(Ordering::Relaxed) & MS_RDONLY != 0;
        out.add(if ro { " ro" } else { " rw" });
        with_string(out, |out| sb.ops.show_options(out));
        out.add("\n");
    })
}
