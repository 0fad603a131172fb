//! BusyBox, Debian's static one of the guest's architecture. It is the shell of runs without a program. In
//! every other run its applets are the last directory of the guest's `PATH`: they stand in for programs that
//! were not brought into the guest.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::cpio::{Archive, Meta, S_IFREG};
use crate::{made, packages, tree};

/// The guest's folder of the applets, the last one on `PATH`.
pub const PLACE: &str = "/.limen/bin";
/// The folders in which scripts expect these programs.
const FOLDERS: [&str; 4] = ["/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/"];
/// After BusyBox could not be fetched (no network, not Debian), runs that do not need it wait this long
/// before they try again.
const PAUSE: Duration = Duration::from_secs(3600);

/// BusyBox for one architecture.
pub struct Applets {
    binary: PathBuf,
    /// The applets with their folders, such as `usr/bin/awk`.
    places: Vec<String>,
    names: BTreeSet<String>,
}

impl Applets {
    /// Fetches BusyBox when it is missing.
    pub fn fetch(arch: Arch) -> Result<Applets> {
        let binary = packages::fetch(arch, "busybox-static")?.join("bin/busybox");
        let places: Vec<String> = list(arch)?
            .lines()
            .filter(|line| line.contains('/'))
            .map(str::to_owned)
            .collect();
        let name = |place: &String| place.rsplit('/').next().unwrap_or_default().to_owned();
        let mut names: BTreeSet<String> = places.iter().map(name).collect();
        names.insert("busybox".to_owned());
        Ok(Applets {
            binary,
            places,
            names,
        })
    }

    /// As [`Applets::fetch`], for runs that do not need it: says once in a while that it cannot be had.
    pub fn get(arch: Arch) -> Option<Applets> {
        let failed = tree::target().join(format!("limen/packages/{}/busybox-static.failed", arch.debian()));
        let age = std::fs::metadata(&failed)
            .and_then(|m| m.modified())
            .ok()
            .and_then(|t| t.elapsed().ok());
        if age.is_some_and(|age| age < PAUSE) {
            return None;
        }
        match Applets::fetch(arch) {
            Ok(applets) => Some(applets),
            Err(error) => {
                eprintln!("limen: going on without BusyBox's programs: {error:#}");
                let _ = made::replace(&failed, b"");
                None
            }
        }
    }

    /// Whether `name` is one of its applets.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// The guest's path of the applet that can stand in for a program that scripts expect at `path`, such as
    /// `/bin/sh`.
    pub fn stand_in(&self, path: &str) -> Option<String> {
        let name = FOLDERS.iter().find_map(|folder| path.strip_prefix(folder))?;
        self.has(name).then(|| format!("{PLACE}/{name}"))
    }

    /// Adds the applets in [`PLACE`]: one file with many names.
    pub fn add_behind(&self, archive: &mut Archive) -> Result<()> {
        let names: Vec<String> = self.names.iter().map(|name| format!("{PLACE}/{name}")).collect();
        let meta = Meta {
            mode: S_IFREG | 0o755,
            ..Meta::default()
        };
        archive.add_links(&names, meta, &self.read()?);
        Ok(())
    }

    /// Adds BusyBox as `/bin/busybox`, with a symbolic link for each applet where scripts expect it.
    pub fn add_installed(&self, archive: &mut Archive) -> Result<()> {
        archive.file("bin/busybox", 0o755, &self.read()?);
        for place in &self.places {
            let folder = place.rsplit_once('/').map_or("", |(folder, _)| folder);
            let target = if folder == "bin" {
                "busybox".to_owned()
            } else {
                format!("{}bin/busybox", "../".repeat(folder.split('/').count()))
            };
            archive.symlink(place, &target);
        }
        Ok(())
    }

    fn read(&self) -> Result<Vec<u8>> {
        std::fs::read(&self.binary).with_context(|| format!("cannot read {}", self.binary.display()))
    }
}

/// The list of applets, a line each. The host's BusyBox is asked: it is of the same release, and one of
/// another architecture could not be started here.
fn list(arch: Arch) -> Result<String> {
    let lister = Arch::host().unwrap_or(arch);
    let binary = packages::fetch(lister, "busybox-static")?.join("bin/busybox");
    let list = tree::cache(&format!("packages/{}", lister.debian()))?.join("busybox-static.programs");
    made::ensure(&list, std::slice::from_ref(&binary), |new| {
        let output = std::process::Command::new(&binary).arg("--list-full").output();
        let output = output.with_context(|| format!("cannot start {}", binary.display()))?;
        if !output.status.success() || output.stdout.is_empty() {
            bail!("{} does not list its programs", binary.display());
        }
        Ok(std::fs::write(new, &output.stdout)?)
    })?;
    std::fs::read_to_string(&list).with_context(|| format!("cannot read {}", list.display()))
}
