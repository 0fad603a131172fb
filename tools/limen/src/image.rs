//! Composes the initramfs of a run: the agent as `/init`, its description of the run, the program with all
//! files it needs, and the files asked for.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::cpio::Archive;
use crate::{agent, guest_files, program, status};

/// Limits of the agent (programs/init/agent.h): the number of arguments, and of environment strings; the
/// description must have fewer bytes than the second constant.
const MAX_WORDS: usize = 16_384;
const MAX_TEXT: usize = 1 << 20;

/// What the agent is told, besides the program.
#[derive(Default)]
pub struct Description {
    /// Program and arguments; the first is a path in the guest.
    pub arguments: Vec<OsString>,
    /// `NAME=VALUE` strings.
    pub environment: Vec<OsString>,
    pub cwd: OsString,
    /// The guest's device for the terminal.
    pub terminal: &'static str,
    /// Bit n: descriptor n of the program is the terminal.
    pub tty_fds: u32,
    /// The terminal's size in rows and columns, where there is one.
    pub size: (u16, u16),
    /// Modules to load first, by name.
    pub modules: Vec<(String, Vec<u8>)>,
    /// What is set in tracefs before the program starts: keys and values for the agent.
    pub trace: Vec<(&'static str, String)>,
}

impl Description {
    /// Adds the description and its modules where the agent looks for them.
    fn add(&self, archive: &mut Archive) -> Result<()> {
        let mut text = Vec::new();
        let mut line = |key: &str, value: &dyn AsRef<OsStr>| {
            text.extend_from_slice(key.as_bytes());
            text.push(b'=');
            text.extend_from_slice(value.as_ref().as_bytes());
            text.push(0);
        };
        for (name, content) in &self.modules {
            let path = format!("/.limen/modules/{name}.ko");
            archive.file(&path, 0o644, content);
            line("module", &path);
        }
        self.arguments.iter().for_each(|a| line("arg", a));
        self.environment.iter().for_each(|e| line("env", e));
        line("cwd", &self.cwd);
        if self.tty_fds != 0 {
            line("terminal", &self.terminal);
            line("ttyfds", &self.tty_fds.to_string());
            line("rows", &self.size.0.to_string());
            line("cols", &self.size.1.to_string());
        }
        self.trace.iter().for_each(|(key, value)| line(key, value));
        if self.arguments.len() > MAX_WORDS || self.environment.len() > MAX_WORDS || text.len() >= MAX_TEXT {
            return Err(status::error(
                status::CANNOT_RUN,
                "argument list too long; hand the words over in a file or through a pipe",
            ));
        }
        archive.file("/.limen/run", 0o600, &text);
        Ok(())
    }
}

/// The whole initramfs of a run with the agent, of at most `room` bytes; `fill` adds what the program needs.
/// The agent and the description come first, and the first entry of a name stays: a tree's own `/init` is not
/// used.
pub fn compose(
    arch: Arch,
    description: &Description,
    room: u64,
    fill: impl FnOnce(&mut Archive) -> Result<()>,
) -> Result<Vec<u8>> {
    let mut archive = Archive::with_room(room);
    agent::add(&mut archive, arch)?;
    description.add(&mut archive)?;
    fill(&mut archive)?;
    guest_files::add_basics(&mut archive);
    let cwd = description.cwd.as_bytes();
    if archive.has_file(cwd) {
        bail!(
            "--cwd {}: a file in the guest; give a directory",
            description.cwd.display()
        );
    }
    archive.directory(cwd);
    if let Some(problem) = archive.problem() {
        bail!("{problem}; look at what --add, --with and --root bring");
    }
    Ok(archive.finish())
}

/// Adds what `--add` and `--with` ask for.
pub fn add_requests(archive: &mut Archive, arch: Arch, add: &[OsString], with: &[OsString]) -> Result<()> {
    let guest = program::Guest {
        add: &[],
        applets: true,
        path: &[],
    };
    for name in with {
        let library = name
            .as_bytes()
            .contains(&b'/')
            .then(|| program::find_library(name, arch));
        let found = library
            .flatten()
            .unwrap_or_else(|| program::find(name, Some(arch), &guest))
            .with_context(|| format!("--with {}", name.display()))?;
        guest_files::add_program(archive, &found)?;
    }
    add.iter()
        .try_for_each(|spec| guest_files::add_spec(archive, spec))
}

/// An initramfs in memory (`memfd`) that QEMU can read by a path: however this process ends, nothing of it is
/// left.
pub struct TemporaryFile {
    /// Its name for everybody on this host, while the value lives.
    pub path: PathBuf,
    _file: OwnedFd,
}

impl TemporaryFile {
    /// A file of this content.
    pub fn new(content: &[u8]) -> Result<TemporaryFile> {
        let fd = rustix::fs::memfd_create("limen-initramfs", rustix::fs::MemfdFlags::CLOEXEC)
            .context("cannot make a file in memory")?;
        let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd()));
        let mut file = std::fs::File::from(fd);
        file.write_all(content)
            .context("cannot keep the initramfs in memory; is there enough?")?;
        Ok(TemporaryFile {
            path,
            _file: file.into(),
        })
    }
}
