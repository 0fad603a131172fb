//! What `/proc/<pid>` says of mounts: `mounts`, `mountstats` and `mountinfo`.

use super::tree::{CHANGE, LIST, behind};
use super::{MS_NOATIME, MS_NODEV, MS_NODIRATIME, MS_NOEXEC, MS_NOSUID, MS_NOSYMFOLLOW, MS_RDONLY, Mount};
use crate::fs::dentry::Dentry;
use crate::fs::path::Path;
use crate::fs::pseudo::{Text, with_string};
use crate::rcu::Shared;
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
    if f & MS_NOATIME == 0 && m.root.inode.sb.fs_type != "rootfs" {
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

/// Calls `f` with each mount below `root`, and with its place as seen from there.
fn for_each(root: &Path, mut f: impl FnMut(&Shared<Mount>, &[u8])) -> Result<(), Errno> {
    // Nothing may be unmounted meanwhile: the references held here would make mounts look busy.
    let _change = CHANGE.lock();
    let mut last = (0, 0);
    while let Some((place, m)) = behind(&LIST, last) {
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
            f(&m, &name);
        }
    }
    Ok(())
}

/// Calls `f` with the root of each mount that can be seen from `root`, until an error.
pub fn for_roots_below(root: &Path, mut f: impl FnMut(&Dentry) -> Result<(), Errno>) -> Result<(), Errno> {
    let mut result = Ok(());
    for_each(root, |m, _| {
        if result.is_ok() {
            result = f(&m.root);
        }
    })?;
    result
}

/// `/proc/<pid>/mounts`, as seen from `root`.
pub fn show_mounts(root: &Path, out: &mut Text) -> Result<(), Errno> {
    for_each(root, |m, name| {
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
pub fn show_mountstats(root: &Path, out: &mut Text) -> Result<(), Errno> {
    for_each(root, |m, name| {
        out.add("device ");
        escape(m.source.as_bytes(), out);
        out.add(" mounted on ");
        escape(name, out);
        out.add(" with fstype ");
        out.add(m.root.inode.sb.fs_type);
        out.add("\n");
    })
}

/// `/proc/<pid>/mountinfo`, as seen from `root`.
pub fn show_mountinfo(root: &Path, out: &mut Text) -> Result<(), Errno> {
    use core::fmt::Write;
    for_each(root, |m, name| {
        let sb = &m.root.inode.sb;
        let parent = m.mountpoint().map_or(m.id, |p| p.mnt.id);
        let _ = write!(out, "{} {} {}:{} ", m.id, parent, sb.dev.major(), sb.dev.minor());
        let mut inside = Vec::new();
        let mut d = m.root.clone();
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
        out.add(" ");
        escape(name, out);
        out.add(" ");
        options(m, out);
        let _ = write!(out, " - {} ", sb.fs_type);
        escape(m.source.as_bytes(), out);
        let ro = sb.flags.load(Ordering::Relaxed) & MS_RDONLY != 0;
        out.add(if ro { " ro" } else { " rw" });
        with_string(out, |out| sb.ops.show_options(out));
        out.add("\n");
    })
}
