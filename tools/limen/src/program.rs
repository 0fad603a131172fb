//! Finds the program of a run as a shell would, on the host and then in the guest. If it cannot run, says why
//! in one line. Lists the files that must be copied with it: interpreters of scripts, the dynamic loader,
//! libraries.

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

/// The most scripts that may be each other's interpreters.
const MAX_SCRIPTS: u32 = 4;

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

/// The files collected for a program.
struct Wanted<'a> {
    arch: Option<Arch>,
    guest: &'a Guest<'a>,
    files: BTreeSet<PathBuf>,
    stand_ins: BTreeMap<String, String>,
}

impl<'a> Wanted<'a> {
    fn new(arch: Option<Arch>, guest: &'a Guest<'a>) -> Wanted<'a> {
        Wanted {
            arch,
            guest,
            files: BTreeSet::new(),
            stand_ins: BTreeMap::new(),
        }
    }

    fn program(self, path: PathBuf, arch: Arch) -> Program {
        Program {
            path,
            files: self.files,
            stand_ins: self.stand_ins,
            arch,
        }
    }

    /// Has an applet stand in for the program at `path`, if there is one; returns its architecture.
    fn stand_in(&mut self, path: &Path) -> Option<Arch> {
        let arch = self.arch.or(Arch::host())?;
        let stands_in = self.guest.stand_in(path, arch)?;
        self.stand_ins.insert(path.to_str()?.to_owned(), stands_in);
        Some(arch)
    }

    /// Adds `path` and all its dependencies; returns the architecture. `depth` counts script interpreters.
    fn collect(&mut self, path: &Path, depth: u32) -> Result<Arch> {
        let shown = path.display();
        let start = elf::read_start(path, 512)
            .map_err(|e| status::error(CANNOT_RUN, format!("cannot read {shown}: {e}")))?;
        if start.starts_with(b"#!") {
            if depth >= MAX_SCRIPTS {
                return Err(status::error(
                    CANNOT_RUN,
                    format!("{shown}: scripts interpret each other too deeply"),
                ));
            }
            self.files.insert(path.to_owned());
            return self.collect_script(path, &start, depth);
        }
        if !elf::is_elf(&start) {
            let what = if start.is_empty() {
                "is empty"
            } else {
                "is neither an ELF program nor a script with #!"
            };
            return Err(status::error(
                CANNOT_RUN,
                format!(
                    "{shown} {what}; give a Linux program, or name its interpreter: limen run -- sh {shown}"
                ),
            ));
        }
        if start.len() < 64 {
            return Err(status::error(
                CANNOT_RUN,
                format!("{shown} is cut short; build it again"),
            ));
        }
        // Class, byte order and machine decide how the rest of the header is read.
        let Some(arch) = Arch::of_elf(&start) else {
            return Err(status::foreign(format!(
                "{shown} is for {}; Limen runs {} programs",
                machine_name(&start),
                Arch::names()
            )));
        };
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
        let info = elf::read(path, &bytes)
            .map_err(|e| status::error(CANNOT_RUN, format!("{e:#}; build it again")))?;
        if let Some(wanted) = self.arch
            && wanted != arch
        {
            return Err(status::foreign(format!(
                "{shown} is an {arch} program; run it with --arch {arch}, or build it for {wanted}"
            )));
        }
        if !info.runnable {
            return Err(status::error(
                CANNOT_RUN,
                format!("{shown} is an object file, not a program; link it first"),
            ));
        }
        self.files.insert(path.to_owned());
        if let Some(interpreter) = info.interpreter.clone() {
            let loader = host_place(&interpreter, arch);
            let Some(loader) = loader else {
                return Err(status::error(
                    CANNOT_RUN,
                    format!(
                        "{shown} needs the dynamic loader {interpreter}, which is not on this host; link it \
                         statically \
                     (-static), or give a tree that has it with --root"
                    ),
                ));
            };
            self.files.insert(loader);
            self.files
                .extend(elf::Libraries::new(arch, &interpreter).of(path, info)?);
        }
        Ok(arch)
    }

    /// As [`Wanted::collect`], for a script.
    fn collect_script(&mut self, path: &Path, start: &[u8], depth: u32) -> Result<Arch> {
        let shown = path.display();
        let cannot = |why: String| Err(status::error(CANNOT_RUN, format!("{shown}{why}")));
        let line = start[2..].split(|b| *b == b'\n').next().unwrap_or_default();
        let mut words = line
            .split(|b| *b == b' ' || *b == b'\t')
            .filter(|word| !word.is_empty())
            .map(OsStr::from_bytes);
        let Some(interpreter) = words.next() else {
            return cannot(": its #! line names no interpreter".to_owned());
        };
        let name = interpreter.display();
        if line.ends_with(b"\r") {
            return cannot(
                " has the line endings of Windows, which are no part of an interpreter's name; \
                convert it (dos2unix)"
                    .to_owned(),
            );
        }
        let at = Path::new(interpreter);
        if !at.is_absolute() {
            return cannot(format!(
                " names its interpreter {name} without its place; give its whole path in the #! line"
            ));
        }
        let arch = match check_file(at).and_then(|()| self.collect(at, depth + 1)) {
            Ok(arch) => arch,
            Err(why) => match self.stand_in(at) {
                Some(arch) => arch,
                None if status::is_foreign(&why) => {
                    return Err(status::foreign(format!("{shown} needs its interpreter: {why:#}")));
                }
                None if check_file(at).is_ok() => return Err(why),
                None => {
                    return cannot(format!(
                        " needs the interpreter {name}, which is not on this host; install it or change the \
                         #! line"
                    ));
                }
            },
        };
        // "#!/usr/bin/env NAME": the program that env will start is needed, too.
        if at.file_name().is_some_and(|n| n == "env")
            && let Some(name) =
                words.find(|w| !w.as_bytes().starts_with(b"-") && !w.as_bytes().contains(&b'='))
        {
            self.arch = Some(arch);
            let found = find(name, self.arch, self.guest)
                .map_err(|why| status::error(CANNOT_RUN, format!("{shown} needs {why:#}")))?;
            self.files.extend(found.files);
            self.stand_ins.extend(found.stand_ins);
        }
        Ok(arch)
    }
}

/// The host's path of a guest path: the same, or in the cross compiler's tree.
fn host_place(guest: &str, arch: Arch) -> Option<PathBuf> {
    [
        PathBuf::from(guest),
        PathBuf::from(format!("/usr/{}{guest}", arch.gnu())),
    ]
    .into_iter()
    .find(|p| p.exists())
}

/// The machine that an ELF header names, for machines that Limen does not support.
fn machine_name(header: &[u8]) -> String {
    const BIG: u8 = 2;
    let big = header[5] == BIG;
    let machine = [header[18], header[19]];
    let machine = if big {
        u16::from_be_bytes(machine)
    } else {
        u16::from_le_bytes(machine)
    };
    let name = match machine {
        3 => "32-bit x86",
        40 | 183 if big => "big-endian Arm",
        8 => "MIPS",
        20 => "32-bit Power",
        21 if big => "big-endian Power",
        22 => "S/390",
        243 => "RISC-V",
        258 => "LoongArch",
        62 => "x32",
        other => return format!("a machine with ELF number {other}"),
    };
    name.to_owned()
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
