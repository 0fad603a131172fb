//! Advice after a program failed: files that it looked for in the guest, that are missing there and that this
//! host has, and the options that bring them. The kernel keeps the names (`kernel/src/fs/missing.rs`) and the
//! agent passes them on; other kernels keep none.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use crate::applets::Applets;
use crate::arch::Arch;
use crate::{elf, guest_files};

/// The most options that are shown.
const SHOWN: usize = 8;

/// A name as the kernel writes it: a line in which unprintable bytes are octal escapes.
pub fn path_of(line: &[u8]) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = line.trim_ascii_end();
    while let Some((first, after)) = rest.split_first() {
        let digit = |at: usize| {
            after
                .get(at)
                .filter(|d| (b'0'..=b'7').contains(d))
                .map(|d| d - b'0')
        };
        rest = after;
        match (first, digit(0), digit(1), digit(2)) {
            (b'\\', Some(high @ 0..4), Some(middle), Some(low)) => {
                bytes.push(high << 6 | middle << 3 | low);
                rest = &after[3..];
            }
            _ => bytes.push(*first),
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// Folders that many packages share: a missing file in one of these is brought by itself. A missing file in
/// any other folder is brought with the whole folder.
const SHARED: [&str; 26] = [
    "/",
    "/bin",
    "/etc",
    "/home",
    "/lib",
    "/lib64",
    "/mnt",
    "/opt",
    "/root",
    "/sbin",
    "/srv",
    "/usr",
    "/usr/bin",
    "/usr/include",
    "/usr/lib",
    "/usr/lib/jvm",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local",
    "/usr/local/bin",
    "/usr/local/lib",
    "/usr/local/sbin",
    "/usr/local/share",
    "/usr/sbin",
    "/usr/share",
    "/var",
];

/// Files that most programs look for and few need (locales, the loader's own files, settings), and files of
/// which the guest has its own. So are the tables of character sets (`gconv`), of whatever architecture.
const USUAL: [&str; 30] = [
    "/dev",
    "/etc/bash.bashrc",
    "/etc/gitconfig",
    "/etc/host.conf",
    "/etc/inputrc",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/networks",
    "/etc/perl",
    "/etc/profile",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
    "/lib/terminfo",
    "/proc",
    "/run",
    "/sys",
    "/tmp",
    "/usr/lib/locale",
    "/usr/lib/ssl/openssl.cnf",
    "/usr/local/lib/site_perl",
    "/usr/share/locale",
    "/usr/share/locale-langpack",
    "/usr/share/terminfo",
    "/usr/share/zoneinfo",
];

/// The advice after a failure: one line for each option that brings something the program looked for, quoted
/// for a shell. `given` is what `--add` brought.
pub fn advice(missing: &[PathBuf], arch: Arch, given: &[OsString]) -> Option<String> {
    let mut options: BTreeMap<PathBuf, &str> = BTreeMap::new();
    let given = |path: &Path| guest_files::is_added(given, path);
    let applets = Applets::get(arch);
    // The last names are looked at first: the program most likely failed because of them.
    for path in missing.iter().rev() {
        let mut option = option_for(path, arch, applets.as_ref());
        if option.as_ref().is_some_and(|(path, _)| given(path)) {
            // A symbolic link was copied; its target was not.
            let leads_to = std::fs::canonicalize(path).ok();
            option = leads_to.and_then(|path| option_for(&path, arch, applets.as_ref()));
        }
        if let Some((path, option)) = option
            && !given(&path)
        {
            options.entry(path).or_insert(option);
        }
    }
    let whole: BTreeSet<PathBuf> = options
        .iter()
        .filter(|(_, option)| **option == "--add")
        .map(|(path, _)| path.clone())
        .collect();
    // A file in a folder that is brought needs no option.
    options.retain(|path, _| !path.ancestors().skip(1).any(|above| whole.contains(above)));
    let words: Vec<String> = options
        .iter()
        .map(|(path, option)| {
            let path = path.to_string_lossy().into_owned();
            format!("{option} {}", crate::session::shell_words(&[path]))
        })
        .collect();
    if words.is_empty() {
        return None;
    }
    let mut text =
        "the program looked for files that this host has and the guest has not; what brings them:".to_owned();
    for word in words.iter().take(SHOWN) {
        text += &format!("\n  {word}");
    }
    if words.len() > SHOWN {
        text += &format!("\n  and {} more (--root for a whole system)", words.len() - SHOWN);
    }
    Some(text)
}

/// The option, and its value, that brings this missing file of the guest; `None` if the host does not have it
/// or no program needs it.
fn option_for(path: &Path, arch: Arch, applets: Option<&Applets>) -> Option<(PathBuf, &'static str)> {
    let meta = std::fs::metadata(path).ok()?;
    // A folder may have two names (merged `/usr`, or `..`): they are made one.
    let path = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => std::fs::canonicalize(parent).ok()?.join(name),
        _ => return None,
    };
    let usual =
        USUAL.iter().any(|usual| path.starts_with(usual)) || path.iter().any(|folder| folder == "gconv");
    if usual || SHARED.iter().any(|shared| path == Path::new(shared)) {
        return None;
    }
    let folder = path.parent()?;
    let bytes = path.file_name()?.as_bytes();
    // Settings in root's home: the guest has root's home, too.
    if folder == Path::new("/root") && bytes.starts_with(b".") {
        return None;
    }
    let header = if meta.is_file() {
        elf::read_start(&path, 64).unwrap_or_default()
    } else {
        Vec::new()
    };
    let other = elf::is_elf(&header) && Arch::of_elf(&header) != Some(arch);
    if other {
        return None;
    }
    if meta.is_file() && (elf::is_elf(&header) || header.starts_with(b"#!")) {
        let program = folder.ends_with("bin") || folder.ends_with("sbin");
        let stood_in = program
            && path
                .file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| applets.is_some_and(|applets| applets.has(name)));
        if stood_in {
            return None;
        }
        if program || is_shared(folder) {
            return Some((path, "--with"));
        }
    }
    // The outermost folder that is not shared.
    let mut whole = path.clone();
    while let Some(above) = whole.parent()
        && !is_shared(above)
    {
        whole = above.to_owned();
    }
    Some((whole, "--add"))
}

/// Whether many packages share a folder: the list above, library folders of an architecture, and users'
/// homes.
fn is_shared(folder: &Path) -> bool {
    let gnu = Arch::ALL.iter().any(|arch| folder.ends_with(arch.gnu()));
    let homes = folder.parent() == Some(Path::new("/home"));
    // Source trees and builds in a home are not brought as a whole.
    let depth = folder
        .components()
        .filter(|c| matches!(c, Component::Normal(_)))
        .count();
    SHARED.iter().any(|shared| folder == Path::new(shared)) || gnu && depth <= 3 || homes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        assert_eq!(path_of(b"/a\\040b\\134\n"), Path::new("/a b\\"));
        assert_eq!(path_of(b"/\\377\n").as_os_str().as_bytes(), b"/\xff");
        assert_eq!(path_of(b"/a\\9\n"), Path::new("/a\\9"));
    }

    #[test]
    fn only_what_the_host_has_and_matters() {
        let Some(arch) = Arch::host() else { return };
        let option = |path: &str| option_for(Path::new(path), arch, None);
        assert!(option("/no/such/file").is_none());
        assert!(option("/etc/ld.so.cache").is_none());
        assert!(option("/usr/lib").is_none());
        let (path, option) = option("/bin/sh").unwrap();
        assert_eq!(
            (path.file_name().unwrap().to_str(), option),
            (Some("sh"), "--with")
        );
    }
}
