//! Finds a program in the tree that becomes the guest's root (`--root`).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Guest, MAX_SCRIPTS, check_file};
use crate::arch::Arch;
use crate::status::{self, CANNOT_RUN, NOT_FOUND};
use crate::{applets, elf, guest_files};

/// Finds `name` inside the tree at `root`, or among the files that `--add` puts into it. Returns its path in
/// the guest, and its architecture if that is known.
pub fn find_in_tree(
    root: &Path,
    name: &OsStr,
    wanted: Option<Arch>,
    guest: &Guest<'_>,
) -> Result<(PathBuf, Option<Arch>)> {
    let bare = !name.as_bytes().contains(&b'/');
    let places: Vec<PathBuf> = if bare {
        guest.path.iter().map(|dir| dir.join(name)).collect()
    } else {
        vec![Path::new("/").join(Path::new(name).strip_prefix("./").unwrap_or(Path::new(name)))]
    };
    for place in places {
        let Some(host) = in_tree(root, &place, guest) else {
            continue;
        };
        match check_file(&host) {
            // A shell passes over files on `PATH` that it cannot execute.
            Err(_) if bare => continue,
            Err(why) if status::of_error(&why) == NOT_FOUND => continue,
            checked => checked?,
        }
        let arch = arch_in_tree(root, host, guest);
        if let (Some(wanted), Some(arch)) = (wanted, arch)
            && wanted != arch
        {
            return Err(status::error(
                CANNOT_RUN,
                format!(
                    "{} in {} is an {arch} program; run it with --arch {arch}",
                    place.display(),
                    root.display()
                ),
            ));
        }
        return Ok((place, arch));
    }
    // No such file: BusyBox may have it, for the architecture of the tree's shell.
    let arch = wanted
        .or_else(|| arch_in_tree(root, in_tree(root, Path::new("/bin/sh"), guest)?, guest))
        .or(Arch::host());
    if bare
        && let (Some(arch), Some(text)) = (arch, name.to_str())
        && guest.applets(text, arch).is_some()
    {
        return Ok((Path::new(applets::PLACE).join(name), Some(arch)));
    }
    Err(status::error(
        NOT_FOUND,
        format!(
            "{}: no such program in {}; give its path inside that tree",
            name.display(),
            root.display()
        ),
    ))
}

/// The host's path of the file that will be at `place` in the guest.
fn in_tree(root: &Path, place: &Path, guest: &Guest<'_>) -> Option<PathBuf> {
    guest_files::added_at(guest.add, place).or_else(|| resolve_in_tree(root, place))
}

/// The architecture of a program in a tree, or of what interprets it there.
fn arch_in_tree(root: &Path, mut host: PathBuf, guest: &Guest<'_>) -> Option<Arch> {
    for _ in 0..MAX_SCRIPTS {
        let start = elf::read_start(&host, 512).ok()?;
        if !start.starts_with(b"#!") {
            return Arch::of_elf(&start);
        }
        let line = start[2..].split(|b| *b == b'\n').next()?;
        let interpreter = line
            .split(|b| b.is_ascii_whitespace())
            .find(|word| !word.is_empty())?;
        host = in_tree(root, Path::new(OsStr::from_bytes(interpreter)), guest)?;
    }
    None
}

/// Follows symbolic links with `root` as the root directory.
fn resolve_in_tree(root: &Path, place: &Path) -> Option<PathBuf> {
    let split = |path: &Path| -> Vec<OsString> {
        let parts = path.as_os_str().as_bytes().split(|b| *b == b'/').rev();
        parts.map(|part| OsStr::from_bytes(part).to_owned()).collect()
    };
    let mut parts = split(place);
    let mut at = PathBuf::new();
    let mut links = 0;
    while let Some(part) = parts.pop() {
        match part.as_bytes() {
            b"" | b"." => continue,
            b".." => {
                at.pop();
                continue;
            }
            _ => {}
        }
        let host = root.join(&at).join(&part);
        match std::fs::read_link(&host) {
            Ok(target) => {
                links += 1;
                if links > 40 {
                    return None;
                }
                if target.is_absolute() {
                    at = PathBuf::new();
                }
                parts.extend(split(&target));
            }
            Err(_) => at.push(part),
        }
    }
    Some(root.join(at))
}
