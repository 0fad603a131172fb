//! A Linux image given with `--kernel`: its kind, and the virtio modules of its own package that the agent
//! needs, in the order in which they must be loaded. Debian builds virtio as modules; a kernel that has
//! virtio built in needs none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::arch::{self, Arch};
use crate::{made, packages, tree};

/// The word at 0x24 of an arm kernel image.
const ZIMAGE: u32 = 0x016f_2818;

/// What a kernel file turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub enum Kind {
    /// A Linux image: bzImage, arm64 `Image`, zImage or `vmlinux`.
    Linux,
    /// A Limen image (it names itself), so Limen's command line options apply.
    Limen,
}

/// Looks at the kernel file: its kind and its architecture.
pub fn identify(path: &Path, bytes: &[u8]) -> Result<(Kind, Arch)> {
    let word = |at: usize| bytes.get(at..at + 4);
    if word(0x202).is_some() && word(0x202) == Some(b"HdrS") {
        return Ok((Kind::Linux, Arch::X86_64));
    }
    if word(0x38) == Some(b"ARM\x64") {
        return Ok((kind_of(bytes), Arch::Arm64));
    }
    if word(0x24) == Some(&ZIMAGE.to_le_bytes()) {
        return Ok((kind_of(bytes), Arch::Arm));
    }
    if let Some(arch) = Arch::of_elf(bytes) {
        return Ok((kind_of(bytes), arch));
    }
    if bytes.starts_with(&[0x1f, 0x8b]) || bytes.starts_with(b"MZ") {
        bail!(
            "{}: this image is compressed or an EFI program; give the plain Image (arm64), bzImage (x86_64) \
             or zImage (arm)",
            path.display()
        );
    }
    bail!(
        "{} is no kernel image; give a bzImage or a PVH ELF (x86_64), an Image (arm64), a zImage (arm) or a \
         vmlinux (powerpc64)",
        path.display()
    )
}

/// Limen's image has its name in its version, and an option of this name that no other kernel knows.
fn kind_of(bytes: &[u8]) -> Kind {
    let marks: [&[u8]; 2] = [b"PREEMPT Limen ", b"limen.panic_exit"];
    if marks.iter().any(|m| find(bytes, m).is_some()) {
        Kind::Limen
    } else {
        Kind::Linux
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    // By the first byte, which is rare: quick on tens of megabytes.
    let mut at = 0;
    while let Some(next) = bytes[at..].iter().position(|b| *b == what[0]) {
        at += next;
        if bytes[at..].starts_with(what) {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// The release of a Linux image, as `uname -r` will print it. A zImage has it in its compressed part only:
/// then it is taken from the file's name.
pub fn release(path: &Path, bytes: &[u8]) -> Option<String> {
    if bytes.get(0x24..0x28) == Some(&ZIMAGE.to_le_bytes()) {
        let name = path.canonicalize().ok()?;
        let name = name.file_name()?.to_str()?;
        return name.split_once('-').map(|(_, release)| release.to_owned());
    }
    let at = if bytes.get(0x202..0x206) == Some(b"HdrS") {
        0x200 + usize::from(u16::from_le_bytes([*bytes.get(0x20e)?, *bytes.get(0x20f)?]))
    } else {
        find(bytes, b"Linux version ")? + b"Linux version ".len()
    };
    let text = bytes.get(at..at + 100)?;
    let text = text.split(|b| *b == b' ' || *b == 0).next()?;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// The folder of modules that belongs to an image: beside it as in its package, or installed on this host.
pub fn module_dir(kernel: &Path, release: &str) -> Option<PathBuf> {
    let near = kernel.canonicalize().ok()?;
    let mut places: Vec<PathBuf> = near
        .ancestors()
        .skip(1)
        .take(3)
        .map(|d| d.join("lib/modules").join(release))
        .collect();
    places.extend(
        near.ancestors()
            .skip(1)
            .take(3)
            .map(|d| d.join("usr/lib/modules").join(release)),
    );
    places.push(PathBuf::from("/lib/modules").join(release));
    places.into_iter().find(|p| p.is_dir())
}

/// The modules for the agent's channel, each with its content, dependencies first.
pub fn virtio_modules(dir: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut index: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut todo = vec![dir.join("kernel/drivers/virtio"), dir.join("kernel/drivers/char")];
    while let Some(folder) = todo.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                todo.push(path);
            } else if let Some((stem, _)) = name.split_once(".ko") {
                index.insert(stem.replace('-', "_"), path);
            }
        }
    }
    let mut modules = Vec::new();
    let mut done = BTreeSet::new();
    for wanted in ["virtio_mmio", "virtio_pci", "virtio_console", "virtio_rng"] {
        load_order(wanted, &index, &mut done, &mut modules)?;
    }
    Ok(modules)
}

fn load_order(
    name: &str,
    index: &BTreeMap<String, PathBuf>,
    done: &mut BTreeSet<String>,
    modules: &mut Vec<(String, Vec<u8>)>,
) -> Result<()> {
    // A module that is not in the index is built in.
    let Some(path) = index.get(name) else {
        return Ok(());
    };
    if !done.insert(name.to_owned()) {
        return Ok(());
    }
    let content = unpacked(path)?;
    for dependency in dependencies(&content) {
        load_order(&dependency, index, done, modules)?;
    }
    modules.push((name.to_owned(), content));
    Ok(())
}

/// A module's bytes; newer Debian releases compress them.
fn unpacked(path: &Path) -> Result<Vec<u8>> {
    let tool = match path.extension().and_then(|e| e.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => return std::fs::read(path).with_context(|| format!("cannot read {}", path.display())),
    };
    packages::ensure_tool(tool, &[if tool == "xz" { "xz-utils" } else { tool }])?;
    let output = Command::new(tool).arg("-dc").arg(path).output()?;
    if !output.status.success() {
        bail!("{tool} cannot unpack {}", path.display());
    }
    Ok(output.stdout)
}

/// The `depends=` entry of a module's `.modinfo`.
fn dependencies(module: &[u8]) -> Vec<String> {
    let Ok(elf) = goblin::elf::Elf::parse(module) else {
        return Vec::new();
    };
    let section = elf
        .section_headers
        .iter()
        .find(|s| elf.shdr_strtab.get_at(s.sh_name) == Some(".modinfo"));
    let Some(range) = section.and_then(|s| s.file_range()) else {
        return Vec::new();
    };
    let info = module.get(range).unwrap_or_default();
    info.split(|b| *b == 0)
        .filter_map(|entry| entry.strip_prefix(b"depends="))
        .flat_map(|list| list.split(|b| *b == b','))
        .filter(|name| !name.is_empty())
        .map(|name| String::from_utf8_lossy(name).replace('-', "_"))
        .collect()
}

/// Debian's current image of an architecture, fetched into the tree: for comparisons.
pub fn debian_image(arch: Arch) -> Result<PathBuf> {
    let (image, dir) = debian_package(arch)?;
    let boot = dir.join("boot");
    std::fs::read_dir(&boot)
        .with_context(|| format!("cannot read {}", boot.display()))?
        .flatten()
        .map(|e| e.path())
        .find(|p| {
            p.file_name()
                .is_some_and(|n| n.to_string_lossy().starts_with("vmlinu"))
        })
        .with_context(|| {
            format!(
                "{image} has no vmlinuz or vmlinux below {}",
                tree::root().display()
            )
        })
}

/// The name and the folder of the package with Debian's current image.
fn debian_package(arch: Arch) -> Result<(String, PathBuf)> {
    let image = {
        let (suite, package) = arch.linux_package();
        packages::dependency(arch, suite, package, "linux-image-")?
    };
    let dir = packages::fetch(arch, &image)?;
    Ok((image, dir))
}

/// Linux's source as Debian packages it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Debian 12's own, 6.1.
    Stable,
    /// Version 6.12, from Debian 12's backports.
    Newer,
}

impl Source {
    /// Flags with which its tests are compiled with Linux's headers of the same version, where Debian 12's
    /// own are older. Fetched once.
    pub fn headers(self, arch: Arch) -> Result<Vec<String>> {
        if self == Source::Stable {
            return Ok(Vec::new());
        }
        let package = format!("linux-libc-dev/{}", arch::BACKPORTS);
        let include = packages::fetch(arch, &package)?.join("usr/include");
        let folders = [include.join(arch.gnu()), include];
        Ok(folders.iter().map(|f| format!("-I{}", f.display())).collect())
    }

    /// The name of the package, and the archive in it. The package is the same for every architecture, so any
    /// one is asked for it.
    fn archive(self) -> Result<(String, PathBuf)> {
        let arch = Arch::host().unwrap_or(Arch::X86_64);
        let package = match self {
            Source::Stable => packages::dependency(arch, arch::DEBIAN, "linux-source", "linux-source-")?,
            Source::Newer => "linux-source-6.12".to_owned(),
        };
        let dir = packages::fetch(arch, &package)?;
        let archive = dir.join("usr/src").join(format!("{package}.tar.xz"));
        packages::ensure_tool("xz", &["xz-utils"])?;
        Ok((package, archive))
    }

    /// One file of the source, fetched into the tree.
    pub fn file(self, path: &str) -> Result<PathBuf> {
        let name = Path::new(path).file_name().context("a file has a name")?;
        let (package, archive) = self.archive()?;
        let made = tree::cache(&format!("linux-source/{package}"))?.join(name);
        made::ensure(&made, &[], |new| {
            let output = Command::new("tar")
                .arg("-xJOf")
                .arg(&archive)
                .args(["--occurrence=1", &format!("{package}/{path}")])
                .output()
                .context("cannot start tar")?;
            if !output.status.success() || output.stdout.is_empty() {
                bail!(
                    "{} has no {path}: {}",
                    archive.display(),
                    String::from_utf8_lossy(&output.stderr)
                );
            }
            Ok(std::fs::write(new, &output.stdout)?)
        })
    }

    /// The selftests (`tools/testing/selftests`) that are run here, and the headers they share. Unpacked
    /// once.
    pub fn selftests(self) -> Result<PathBuf> {
        const INSIDE: &str = "tools/testing/selftests";
        let folders = [
            // Where the tests of memory are.
            match self {
                Source::Stable => "vm",
                Source::Newer => "mm",
            },
            "clone3",
            "rseq",
            "membarrier",
            "futex",
            "seccomp",
            "syscall_user_dispatch",
            "ftrace",
            "ptrace",
            "sigaltstack",
            "breakpoints",
            "x86",
            "timers",
            "pidfd",
            "arm64",
            "powerpc",
        ];
        // Of the kernel's own, one test of x86 has the names of a descriptor's bits from there.
        const HEADER: &str = "arch/x86/include/asm/desc_defs.h";
        let (package, archive) = self.archive()?;
        let place = tree::cache(&format!("linux-source/{package}"))?;
        // Another list is unpacked anew.
        let made = place.join(format!("tests-{}-desc_defs", folders.join("-")));
        let made = made::ensure(&made, &[], |new| {
            std::fs::create_dir_all(new)?;
            let done = Command::new("tar")
                .arg("-xJf")
                .arg(&archive)
                .arg("-C")
                .arg(new)
                .args(["--strip-components=1", "--wildcards"])
                .arg(format!("{package}/{INSIDE}/kselftest*.h"))
                .arg(format!("{package}/tools/include/*"))
                .arg(format!("{package}/{HEADER}"))
                .args(folders.map(|f| format!("{package}/{INSIDE}/{f}/*")))
                .status()
                .context("cannot start tar")?;
            if !done.success() {
                bail!("{} could not be unpacked", archive.display());
            }
            Ok(())
        })?;
        Ok(made.join(INSIDE))
    }
}

/// A devicetree of Debian's current image, for machines for which QEMU makes none.
pub fn debian_devicetree(arch: Arch, name: &str) -> Result<PathBuf> {
    let (image, dir) = debian_package(arch)?;
    let found = dir.join("usr/lib").join(&image).join(name);
    if !found.is_file() {
        bail!("{image} has no {name} (looked for {})", found.display());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_told_apart() {
        let mut bytes = vec![0u8; 4096];
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x20e..0x210].copy_from_slice(&0x300u16.to_le_bytes());
        bytes[0x500..0x50b].copy_from_slice(b"6.1.0-1 (x)");
        assert_eq!(
            identify(Path::new("k"), &bytes).unwrap(),
            (Kind::Linux, Arch::X86_64)
        );
        assert_eq!(release(Path::new("k"), &bytes).unwrap(), "6.1.0-1");
        let mut arm = vec![0u8; 4096];
        arm[0x38..0x3c].copy_from_slice(b"ARM\x64");
        assert_eq!(
            identify(Path::new("k"), &arm).unwrap(),
            (Kind::Linux, Arch::Arm64)
        );
        arm[0x800..0x810].copy_from_slice(b"limen.panic_exit");
        assert_eq!(
            identify(Path::new("k"), &arm).unwrap(),
            (Kind::Limen, Arch::Arm64)
        );
        let mut zimage = vec![0u8; 4096];
        zimage[0x24..0x28].copy_from_slice(&ZIMAGE.to_le_bytes());
        assert_eq!(
            identify(Path::new("k"), &zimage).unwrap(),
            (Kind::Linux, Arch::Arm)
        );
        assert!(identify(Path::new("k"), b"hello").is_err());
    }
}
