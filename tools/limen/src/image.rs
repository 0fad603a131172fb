//! Composes the initramfs of a run: the agent as `/init`, the description of the run for it, the program with what it
//! needs, and the files asked for.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::arch::Arch;
use crate::cpio::Archive;
use crate::{agent, guest_files, packages, program, status};

/// As many arguments, and environment strings, the agent takes, and a description of less than so many bytes (programs/init/agent.h).
const MAX_WORDS: usize = 16_384;
const MAX_TEXT: usize = 1 << 20;

/// What the agent is told, besides the program.
#[derive(Default)]
pub struct Description {
    /// Program and arguments; the first is a path in the guest.
    pub arguments: Vec<String>,
    /// `NAME=VALUE` strings.
    pub environment: Vec<String>,
    pub cwd: String,
    /// The guest's device for the terminal.
    pub terminal: &'static str,
    /// Bit n: descriptor n of the program is the terminal.
    pub tty_fds: u32,
    /// The terminal's size in rows and columns, where there is one.
    pub size: (u16, u16),
    /// Modules to load first, by name.
    pub modules: Vec<(String, Vec<u8>)>,
}

impl Description {
    /// Adds the description and its modules where the agent looks for them.
    fn add(&self, archive: &mut Archive) -> Result<()> {
        let mut text = Vec::new();
        let mut line = |key: &str, value: &str| {
            text.extend_from_slice(format!("{key}={value}").as_bytes());
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
            line("terminal", self.terminal);
            line("ttyfds", &self.tty_fds.to_string());
            line("rows", &self.size.0.to_string());
            line("cols", &self.size.1.to_string());
        }
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

/// The whole initramfs of a run with the agent; `fill` adds what the program needs. The agent and the description come
/// first, and the first of a name wins: a tree's own `/init` stays out.
pub fn compose(
    arch: Arch,
    description: &Description,
    fill: impl FnOnce(&mut Archive) -> Result<()>,
) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    agent::add(&mut archive, arch)?;
    description.add(&mut archive)?;
    fill(&mut archive)?;
    guest_files::add_basics(&mut archive);
    Ok(archive.finish())
}

/// Adds Debian's static BusyBox with a link for each of its programs. Returns its path in the guest.
pub fn add_busybox(archive: &mut Archive, arch: Arch) -> Result<String> {
    let dir = packages::fetch(arch, "busybox-static")?;
    let path = dir.join("bin/busybox");
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    archive.file("bin/busybox", 0o755, &bytes);
    for applet in applets(arch)? {
        let Some((folder, _)) = applet.rsplit_once('/') else {
            continue;
        };
        let up = "../".repeat(folder.split('/').count());
        let target = if folder == "bin" {
            "busybox".to_owned()
        } else {
            format!("{up}bin/busybox")
        };
        archive.symlink(&applet, &target);
    }
    Ok("/bin/busybox".to_owned())
}

/// The names of BusyBox's programs with their folders, such as `usr/bin/awk`. The list is the host's BusyBox's, which is
/// the same release; another architecture's cannot be asked here.
fn applets(arch: Arch) -> Result<Vec<String>> {
    let runs_here = Arch::host() == Some(arch);
    let lister = if runs_here {
        arch
    } else {
        Arch::host().unwrap_or(arch)
    };
    let path = packages::fetch(lister, "busybox-static")?.join("bin/busybox");
    let output = std::process::Command::new(&path).arg("--list-full").output();
    let output = output.with_context(|| format!("cannot start {}", path.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .filter(|l| l.contains('/'))
        .collect())
}

/// Adds what `--add` and `--with` ask for.
pub fn add_requests(archive: &mut Archive, arch: Arch, add: &[String], with: &[String]) -> Result<()> {
    for name in with {
        let found = program::find(name, Some(arch)).with_context(|| format!("--with {name}"))?;
        guest_files::add_all(archive, &found.files, arch)?;
    }
    add.iter()
        .try_for_each(|spec| guest_files::add_spec(archive, spec))
}

/// Writes an initramfs where QEMU can read it; the file is removed when the value is dropped.
pub struct TemporaryFile(pub PathBuf);

impl TemporaryFile {
    /// A file of this content below `target/limen/run`.
    pub fn new(content: &[u8]) -> Result<TemporaryFile> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = crate::tree::cache("run")?.join(format!("{}-{number}.cpio", std::process::id()));
        std::fs::write(&path, content)
            .with_context(|| format!("cannot write {}; is the disk full?", path.display()))?;
        Ok(TemporaryFile(path))
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
