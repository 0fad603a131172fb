//! The user's own initramfs, given with `--initrd`. It is checked before QEMU gets it, because a kernel's
//! message about a bad one is hard to understand.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::packages;

/// Reads the file, unpacks what is compressed, and makes sure that it is an archive with an `/init`.
/// Returns the plain archive: no kernel then has to unpack it again.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let shown = path.display();
    let bytes = std::fs::read(path)
        .with_context(|| format!("cannot read the initrd {shown}; check the path and its permissions"))?;
    let plain = match bytes.get(..6).unwrap_or(&bytes) {
        [0x1f, 0x8b, ..] => unpack(path, "gzip", "gzip")?,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => unpack(path, "zstd", "zstd")?,
        [0x02, 0x21, 0x4c, 0x18, ..] | [0x04, 0x22, 0x4d, 0x18, ..] => unpack(path, "lz4", "lz4")?,
        [0xfd, b'7', b'z', b'X', ..] => unpack(path, "xz", "xz-utils")?,
        b"070701" | b"070702" => bytes,
        _ => bail!(
            "{shown} is no initramfs; give a newc cpio archive (find . | cpio -o -H newc), plain or \
             compressed with \
             gzip, zstd or lz4"
        ),
    };
    if !names(&plain)?.iter().any(|n| n == "init") {
        bail!("{shown} has no /init; add one, or use --root to run a program of a tree");
    }
    Ok(plain)
}

fn unpack(path: &Path, tool: &str, package: &str) -> Result<Vec<u8>> {
    packages::ensure_tool(tool, &[package])?;
    // As its standard input: zstd refuses to follow links.
    let file = std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let output = Command::new(tool).args(["-d", "-c"]).stdin(file).output();
    let output = output.with_context(|| format!("cannot start {tool}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{} cannot be unpacked: {}",
            path.display(),
            why.lines().next().unwrap_or("it is damaged")
        );
    }
    Ok(output.stdout)
}

/// The names in an archive, without a leading `./` or `/`.
fn names(archive: &[u8]) -> Result<Vec<String>> {
    let damaged = || "the initrd's archive is damaged; make it again".to_owned();
    let mut found = Vec::new();
    let mut at = 0;
    while at + 110 <= archive.len() {
        if archive[at..].starts_with(&[0]) {
            at += 4; // padding between archives put one after the other
            continue;
        }
        if !archive[at..].starts_with(b"07070") {
            bail!(damaged());
        }
        let field = |n: usize| -> Result<usize> {
            let text = std::str::from_utf8(&archive[at + 6 + 8 * n..at + 14 + 8 * n]).ok();
            text.and_then(|t| usize::from_str_radix(t, 16).ok())
                .with_context(damaged)
        };
        let (size, name_size) = (field(6)?, field(11)?);
        let name = archive
            .get(at + 110..at + 110 + name_size)
            .with_context(damaged)?;
        let name = String::from_utf8_lossy(name.strip_suffix(&[0]).unwrap_or(name)).into_owned();
        at = (at + 110 + name_size).next_multiple_of(4);
        at = (at + size).next_multiple_of(4);
        if at > archive.len() + 3 {
            bail!(damaged());
        }
        found.push(name.trim_start_matches("./").trim_start_matches('/').to_owned());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_what_we_write() {
        let mut archive = crate::cpio::Archive::default();
        archive.file("/etc/x", 0o644, b"abc");
        archive.file("init", 0o755, b"");
        let names = names(&archive.finish()).unwrap();
        assert_eq!(names, ["etc", "etc/x", "init", "TRAILER!!!"]);
    }

    #[test]
    fn a_cut_archive_is_an_error() {
        let mut archive = crate::cpio::Archive::default();
        archive.file("init", 0o755, &[7; 500]);
        let bytes = archive.finish();
        assert!(names(&bytes[..300]).is_err());
    }
}
