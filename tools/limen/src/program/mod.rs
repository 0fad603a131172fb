//! Finds the program of a run as a shell would, on the host and then in the guest. If it cannot run, says why
//! in one line. `needs` lists the files that must be copied with it, `in_tree` finds programs of `--root`.

mod in_tree;
mod needs;

pub use in_tree::find_in_tree;
use needs::Wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::applets::{self, Applets};
use crate::arch::Arch;
use crate::status::{self, CANNOT_RUN, NOT_FOUND};
use crate::{elf, guest_files};

/// A program and the files it needs.
pub struct Program {
    /// Absolute path in the guest; for a program of the host, the same as there.
    pub path: PathBuf,
    /// All host files it needs, itself included; each is copied to the same place in the guest.
    pub files: BTreeSet<PathBuf>,
    /// Paths at which it expects programs that this host does not have for the guest's architecture, and the
    /// applets of the guest that stand in for them.
    pub stand_ins: BTreeMap<String, String>,
    /// The architecture of its machine code (of the interpreter's, for a script).
    pub arch: Arch,
}

/// Where a program is looked for if the host has none that can run.
#[derive(Default)]
pub struct Guest<'a> {
    /// The values of `--add`.
    pub add: &'a [OsString],
    /// The directories of the guest's `PATH`.
    pub path: &'a [PathBuf],
    /// Whether BusyBox is in the guest.
    pub applets: bool,
}

impl Guest<'_> {
    /// BusyBox, if it is in the guest and has the applet `name`.
    fn applets(&self, name: &str, arch: Arch) -> Option<Applets> {
        let applets = self.applets.then(|| Applets::get(arch)).flatten()?;
        applets.has(name).then_some(applets)
    }

    /// The applet that stands in for the program at `path`.
    fn stand_in(&self, path: &Path, arch: Arch) -> Option<String> {
        let name = path.file_name()?.to_str()?;
        self.applets(name, arch)?.stand_in(path.to_str()?)
    }
}

/// Finds `name` on the host, else in the guest. `arch` is the architecture the user asked for, if any.
pub fn find(name: &OsStr, arch: Option<Arch>, guest: &Guest<'_>) -> Result<Program> {
    if name.is_empty() {
        return Err(status::error(
            NOT_FOUND,
            "the program's name is empty; give a program after --",
        ));
    }
    if name.as_bytes().contains(&b'/') {
        find_path(name, arch, guest)
    } else {
        find_name(name, arch, guest)
    }
}

/// The shared library at `path`, with all its dependencies; `None` if there is no shared library at `path`.
pub fn find_library(path: &OsStr, arch: Arch) -> Option<Result<Program>> {
    let path = normal(&std::path::absolute(path).ok()?);
    let meta = std::fs::metadata(&path).ok()?;
    if !meta.is_file() || check_file(&path).is_ok() {
        return None;
    }
    let bytes = std::fs::read(&path).ok()?;
    let info = elf::read(&path, &bytes).ok()?;
    if !info.runnable || Arch::of_elf(&bytes) != Some(arch) {
        return None;
    }
    let needed = elf::Libraries::new(arch, "").of(&path, info);
    Some(needed.map(|mut files| {
        files.insert(path.clone());
        Program {
            path,
            files,
            stand_ins: BTreeMap::new(),
            arch,
        }
    }))
}

/// A program that is named by its path.
fn find_path(name: &OsStr, arch: Option<Arch>, guest: &Guest<'_>) -> Result<Program> {
    let shown = name.display();
    let path = std::path::absolute(name).with_context(|| format!("cannot make {shown} absolute"))?;
    let mut wanted = Wanted::new(arch, guest);
    let why = match check_file(&path).and_then(|()| wanted.collect(&normal(&path), 0)) {
        Ok(found) => return Ok(wanted.program(normal(&path), found)),
        Err(why) => why,
    };
    // The guest may have a program at a path where the host has none, or one of another architecture.
    if Path::new(name).is_absolute() && (status::of_error(&why) == NOT_FOUND || status::is_foreign(&why)) {
        if let Some(host) = guest_files::added_at(guest.add, &path) {
            return added(path, &host, arch, guest);
        }
        let mut wanted = Wanted::new(arch, guest);
        if let Some(arch) = wanted.stand_in(&path) {
            return Ok(wanted.program(path, arch));
        }
    }
    Err(why)
}

/// A program that is looked up on `PATH`: the host's first, passing over those of other architectures, then
/// the guest's.
fn find_name(name: &OsStr, arch: Option<Arch>, guest: &Guest<'_>) -> Result<Program> {
    let mut passed_over = None;
    for candidate in candidates(name) {
        let mut wanted = Wanted::new(arch, guest);
        let path = std::path::absolute(candidate).context("cannot make a path absolute")?;
        let why = match check_file(&path) {
            Ok(()) => match wanted.collect(&path, 0) {
                Ok(found) => return Ok(wanted.program(path, found)),
                Err(why) if status::is_foreign(&why) => why,
                Err(why) => return Err(why),
            },
            Err(why) => why,
        };
        passed_over.get_or_insert(why);
    }
    for dir in guest.path {
        let place = dir.join(name);
        if let Some(host) = guest_files::added_at(guest.add, &place) {
            return added(place, &host, arch, guest);
        }
    }
    if let Some(processor) = arch.or(Arch::host())
        && let Some(text) = name.to_str()
        && guest.applets(text, processor).is_some()
    {
        let path = Path::new(applets::PLACE).join(name);
        return Ok(Wanted::new(arch, guest).program(path, processor));
    }
    if let Some(why) = passed_over {
        return Err(why);
    }
    let shown = name.display();
    let hint = if Path::new(name).exists() {
        format!("; did you mean ./{shown}?")
    } else {
        String::new()
    };
    Err(status::error(
        NOT_FOUND,
        format!(
            "{shown}: no such program on PATH, nor one of the guest's{hint} (install it, or give its path)"
        ),
    ))
}

/// The files called `name` on the host's `PATH`.
fn candidates(name: &OsStr) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .filter(|candidate| candidate.is_file())
        .collect()
}

/// A program that `--add` puts into the guest, with the files it needs.
fn added(place: PathBuf, host: &Path, arch: Option<Arch>, guest: &Guest<'_>) -> Result<Program> {
    let mut wanted = Wanted::new(arch, guest);
    check_file(host)?;
    let found = wanted.collect(host, 0)?;
    // It is copied only to the place that `--add` names.
    wanted.files.remove(host);
    Ok(wanted.program(place, found))
}

/// Removes `.`, and resolves `..` textually where the file system gives the same answer.
fn normal(path: &Path) -> PathBuf {
    use std::path::Component;
    if !path.components().any(|c| matches!(c, Component::ParentDir)) {
        return path.components().collect();
    }
    // A symbolic link at the end is kept: a program may look at the name it was started by.
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    };
    std::fs::canonicalize(parent).map_or_else(|_| path.to_owned(), |parent| parent.join(name))
}

/// The most scripts that may be each other's interpreters.
const MAX_SCRIPTS: u32 = 4;

/// An error that says why this file cannot be run, if it cannot.
fn check_file(path: &Path) -> Result<()> {
    let shown = path.display();
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err(status::error(
                NOT_FOUND,
                format!("{shown}: no such file; check the path"),
            ));
        }
        Err(e) => return Err(status::error(CANNOT_RUN, format!("{shown}: {e}"))),
    };
    if meta.is_dir() {
        return Err(status::error(
            CANNOT_RUN,
            format!("{shown} is a directory; to use it as the guest's root, say --root {shown}"),
        ));
    }
    if !meta.is_file() {
        return Err(status::error(
            CANNOT_RUN,
            format!("{shown} is not a regular file"),
        ));
    }
    if meta.permissions().mode() & 0o111 == 0 {
        return Err(status::error(
            CANNOT_RUN,
            format!("{shown} is not executable; chmod +x it, or name its interpreter"),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status_of(name: &str) -> i32 {
        let error = find(name.as_ref(), None, &Guest::default())
            .err()
            .expect("should not be found");
        assert!(!format!("{error:#}").contains('\n'));
        crate::status::of_error(&error)
    }

    #[test]
    fn what_cannot_run_has_the_shells_status() {
        assert_eq!(status_of("no-such-program-anywhere"), NOT_FOUND);
        assert_eq!(status_of("/no/such/file"), NOT_FOUND);
        assert_eq!(status_of("/"), CANNOT_RUN);
        assert_eq!(status_of("/etc/passwd"), CANNOT_RUN);
    }

    #[test]
    fn a_shell_brings_its_loader() {
        let program = find("sh".as_ref(), None, &Guest::default()).unwrap();
        assert!(
            program
                .files
                .iter()
                .any(|f| f.to_string_lossy().contains("ld-linux"))
        );
    }
}
