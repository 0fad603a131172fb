//! The files that a program needs: interpreters of scripts, the dynamic loader, libraries.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Guest, MAX_SCRIPTS, Program, check_file, find};
use crate::arch::Arch;
use crate::elf;
use crate::status::{self, CANNOT_RUN};

/// The files collected for a program.
pub struct Wanted<'a> {
    arch: Option<Arch>,
    guest: &'a Guest<'a>,
    pub files: BTreeSet<PathBuf>,
    stand_ins: BTreeMap<String, String>,
}

impl<'a> Wanted<'a> {
    pub fn new(arch: Option<Arch>, guest: &'a Guest<'a>) -> Wanted<'a> {
        Wanted {
            arch,
            guest,
            files: BTreeSet::new(),
            stand_ins: BTreeMap::new(),
        }
    }

    pub fn program(self, path: PathBuf, arch: Arch) -> Program {
        Program {
            path,
            files: self.files,
            stand_ins: self.stand_ins,
            arch,
        }
    }

    /// Has an applet stand in for the program at `path`, if there is one; returns its architecture.
    pub fn stand_in(&mut self, path: &Path) -> Option<Arch> {
        let arch = self.arch.or(Arch::host())?;
        let stands_in = self.guest.stand_in(path, arch)?;
        self.stand_ins.insert(path.to_str()?.to_owned(), stands_in);
        Some(arch)
    }

    /// Adds `path` and all its dependencies; returns the architecture. `depth` counts script interpreters.
    pub fn collect(&mut self, path: &Path, depth: u32) -> Result<Arch> {
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
