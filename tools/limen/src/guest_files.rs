//! Puts host files and trees into an archive. Keeps permissions, links and times; files of the user who runs
//! `limen` become root's. Links of single files are followed, so that their targets are copied, too.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::cpio::{Archive, Meta, S_IFBLK, S_IFCHR, S_IFDIR, S_IFMT, S_IFREG};
use crate::program::Program;

/// Adds the host file at `path` to the same place in the guest, with every symbolic link on the way to it.
pub fn add_file(archive: &mut Archive, path: &Path) -> Result<()> {
    let mut path = path.to_owned();
    for _ in 0..40 {
        match first_link(&path)? {
            None => return add_plain(archive, &path, &path),
            Some((link, target, rest)) => {
                archive.symlink(bytes(&link), bytes(&target));
                let base = link.parent().unwrap_or(Path::new("/"));
                path = clean(&base.join(target).join(rest));
            }
        }
    }
    bail!("{}: too many symbolic links", path.display())
}

/// Adds the symbolic links at the top of `root` that lead to folders in it (with a merged `/usr`, `/bin` is
/// one). Entries added below them later go to the links' targets.
pub fn add_top_links(archive: &mut Archive, root: &Path) {
    let mut links: Vec<PathBuf> = std::fs::read_dir(root)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()))
        .map(|entry| entry.path())
        .collect();
    links.sort();
    for link in links {
        let Ok(target) = std::fs::read_link(&link) else {
            continue;
        };
        let inside = root.join(target.strip_prefix("/").unwrap_or(&target));
        if inside.is_dir()
            && let Some(name) = link.file_name()
            && let Ok(meta) = std::fs::symlink_metadata(&link)
        {
            archive.directory(bytes(target.as_path()));
            archive.add(name.as_bytes(), describe(&meta), bytes(&target));
        }
    }
}

/// Adds the links of a merged `/usr` as this host has them: programs and scripts use either path.
pub fn add_merged_usr(archive: &mut Archive) {
    for name in ["bin", "sbin", "lib", "lib64"] {
        if let Ok(target) = std::fs::read_link(Path::new("/").join(name)) {
            archive.directory(bytes(&target));
            archive.symlink(name, bytes(&target));
        }
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// Adds the terminfo entries of the terminals `names` that this host has: full-screen programs do not start
/// without.
pub fn add_terminals(archive: &mut Archive, names: &[&str]) -> Result<()> {
    for name in names {
        let Some(letter) = name.get(..1).filter(|_| !name.contains('/')) else {
            continue;
        };
        let place = format!("{letter}/{name}");
        let found = ["/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo"]
            .map(|dir| Path::new(dir).join(&place))
            .into_iter()
            .find(|path| path.is_file());
        if let Some(path) = found {
            add_plain(archive, &path, &Path::new("/usr/share/terminfo").join(&place))?;
        }
    }
    Ok(())
}

/// The first symbolic link on the way to `path`: the link, its target, and the rest of the path.
fn first_link(path: &Path) -> Result<Option<(PathBuf, PathBuf, PathBuf)>> {
    let mut so_far = PathBuf::new();
    let parts: Vec<_> = path.components().collect();
    for (i, part) in parts.iter().enumerate() {
        so_far.push(part);
        let meta = std::fs::symlink_metadata(&so_far)
            .with_context(|| format!("cannot read {}", so_far.display()))?;
        if meta.file_type().is_symlink() {
            let target = std::fs::read_link(&so_far)?;
            return Ok(Some((so_far, target, parts[i + 1..].iter().collect())));
        }
    }
    Ok(None)
}

/// Resolves `.` and `..` in an absolute path that has no links before them.
pub fn clean(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

fn add_plain(archive: &mut Archive, path: &Path, name: &Path) -> Result<()> {
    let shown = path.display();
    let meta = std::fs::metadata(path).with_context(|| format!("cannot read {shown}"))?;
    let kind = meta.file_type();
    if kind.is_dir() {
        return add_tree(archive, path, name);
    }
    if kind.is_socket() {
        bail!("{shown} is a socket, which leads nowhere in a guest");
    }
    let content = if kind.is_file() {
        read(archive, path, &meta)?
    } else {
        Vec::new()
    };
    archive.add(bytes(name), describe(&meta), &content);
    Ok(())
}

/// The content of a file; an error if it does not fit.
fn read(archive: &Archive, path: &Path, meta: &std::fs::Metadata) -> Result<Vec<u8>> {
    use std::io::Read;
    let shown = path.display();
    let room = archive.room();
    let mut content = Vec::new();
    if meta.len() <= room {
        let file = std::fs::File::open(path).with_context(|| format!("cannot read {shown}"))?;
        // Some files (procfs, sysfs) have a size of 0 and are not empty.
        let mut file = file.take(room + 1);
        file.read_to_end(&mut content)
            .with_context(|| format!("cannot read {shown}"))?;
    }
    if meta.len() > room || content.len() as u64 > room {
        bail!("too little room for {shown} in the guest's memory; give more with --mem, or fewer files");
    }
    Ok(content)
}

fn describe(meta: &std::fs::Metadata) -> Meta {
    // A user who is not root cannot own the guest's files: there, root does.
    let mine = meta.uid() == rustix::process::getuid().as_raw();
    Meta {
        mode: meta.mode(),
        uid: if mine { 0 } else { meta.uid() },
        gid: if mine { 0 } else { meta.gid() },
        mtime: u32::try_from(meta.mtime()).unwrap_or(0),
        device: match meta.mode() & S_IFMT {
            S_IFCHR | S_IFBLK => (rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev())),
            _ => (0, 0),
        },
    }
}

/// `HOST[:GUEST]` as given to `--add`: the host's path, and the guest's if there is one.
fn parse_spec(spec: &OsStr) -> Result<(PathBuf, Option<&OsStr>)> {
    let colon = spec.as_bytes().iter().position(|b| *b == b':');
    // A file's own name may have a colon.
    let (host, guest) = match colon.filter(|_| std::fs::symlink_metadata(spec).is_err()) {
        Some(at) => (
            OsStr::from_bytes(&spec.as_bytes()[..at]),
            Some(OsStr::from_bytes(&spec.as_bytes()[at + 1..])),
        ),
        None => (spec, None),
    };
    if host.is_empty() || guest.is_some_and(|guest| guest.is_empty()) {
        bail!(
            "--add {}: a path is empty; give HOST or HOST:GUEST",
            spec.display()
        );
    }
    let path = std::path::absolute(host).with_context(|| format!("--add {}: not a path", spec.display()))?;
    Ok((path, guest))
}

/// The host's path that `--add` puts at `place` in the guest.
pub fn added_at(specs: &[OsString], place: &Path) -> Option<PathBuf> {
    specs.iter().find_map(|spec| {
        let (host, guest) = parse_spec(spec).ok()?;
        let guest = guest.map_or_else(|| host.clone(), |guest| Path::new("/").join(guest));
        let rest = place.strip_prefix(guest).ok()?;
        let found = if rest.as_os_str().is_empty() {
            host
        } else {
            host.join(rest)
        };
        found.is_file().then_some(found)
    })
}

/// Whether `--add` puts anything at `place` in the guest.
pub fn is_added(specs: &[OsString], place: &Path) -> bool {
    let mut parsed = specs.iter().filter_map(|spec| parse_spec(spec).ok());
    parsed.any(|(host, guest)| match guest {
        Some(guest) => place.starts_with(Path::new("/").join(guest)),
        None => place.starts_with(std::fs::canonicalize(&host).unwrap_or(host)),
    })
}

/// Adds the files of one `--add`.
pub fn add_spec(archive: &mut Archive, spec: &OsStr) -> Result<()> {
    let (path, guest) = parse_spec(spec)?;
    let added = match guest {
        Some(guest) => add_plain(archive, &path, Path::new(guest)),
        None => add_file(archive, &path),
    };
    added.with_context(|| {
        format!(
            "--add {}: give a host file or directory that can be read",
            spec.display()
        )
    })
}

/// Adds the tree below `dir` as the guest's `prefix` (empty for its root).
pub fn add_tree(archive: &mut Archive, dir: &Path, prefix: &Path) -> Result<()> {
    let mut links: BTreeMap<(u64, u64), (std::fs::Metadata, PathBuf, Vec<Vec<u8>>)> = BTreeMap::new();
    let mut todo: Vec<(PathBuf, PathBuf)> = vec![(dir.to_owned(), prefix.to_owned())];
    while let Some((path, name)) = todo.pop() {
        let shown = path.display();
        let meta = if path == dir {
            std::fs::metadata(&path)
        } else {
            std::fs::symlink_metadata(&path)
        };
        let meta = meta.with_context(|| format!("cannot read {shown}"))?;
        let described = describe(&meta);
        let kind = meta.file_type();
        if kind.is_dir() {
            archive.add(bytes(&name), described, &[]);
            let entries = std::fs::read_dir(&path).with_context(|| format!("cannot read {shown}"))?;
            let mut names: Vec<_> = entries
                .collect::<Result<Vec<_>, _>>()
                .with_context(|| format!("cannot read {shown}"))?
                .into_iter()
                .map(|e| e.file_name())
                .collect();
            names.sort();
            for entry in names.into_iter().rev() {
                todo.push((path.join(&entry), name.join(&entry)));
            }
        } else if kind.is_symlink() {
            let target = std::fs::read_link(&path)?;
            archive.add(bytes(&name), described, bytes(&target));
        } else if kind.is_file() && meta.nlink() > 1 {
            let key = (meta.dev(), meta.ino());
            links
                .entry(key)
                .or_insert_with(|| (meta, path.clone(), Vec::new()))
                .2
                .push(bytes(&name).to_vec());
        } else if kind.is_file() {
            let content = read(archive, &path, &meta)?;
            archive.add(bytes(&name), described, &content);
        } else if described.mode & S_IFMT != 0 {
            archive.add(bytes(&name), described, &[]);
        }
    }
    for (meta, path, names) in links.into_values() {
        let content = read(archive, &path, &meta)?;
        archive.add_links(&names, describe(&meta), &content);
    }
    Ok(())
}

/// Adds a program's files, and links to applets for programs that the host does not have.
pub fn add_program(archive: &mut Archive, program: &Program) -> Result<()> {
    add_all(archive, &program.files, program.arch)?;
    for (place, stands_in) in &program.stand_ins {
        archive.symlink(place, stands_in);
    }
    Ok(())
}

/// Adds files of a program. Those from a cross compiler's tree go where the guest's loader looks for them.
pub fn add_all(archive: &mut Archive, files: &BTreeSet<PathBuf>, arch: Arch) -> Result<()> {
    let cross = format!("/usr/{}", arch.gnu());
    let mut unusual = false;
    for file in files {
        match file.strip_prefix(&cross) {
            // The cross compiler's tree is the guest's root. If `file` is a link, its target is copied to the
            // link's own place.
            Ok(name) => add_plain(archive, file, &Path::new("/").join(name))?,
            Err(_) => add_file(archive, file)?,
        }
        let folder = file
            .parent()
            .unwrap_or(Path::new("/"))
            .to_string_lossy()
            .into_owned();
        unusual |= file.to_string_lossy().contains(".so")
            && !STANDARD.contains(&folder.trim_end_matches(arch.gnu()));
    }
    // The loader finds libraries in unusual places through its cache. Entries for files that do not exist do
    // no harm.
    if unusual && Path::new("/etc/ld.so.cache").exists() && Arch::host() == Some(arch) {
        add_file(archive, Path::new("/etc/ld.so.cache"))?;
    }
    Ok(())
}

/// The folders in which loaders look by default.
const STANDARD: [&str; 6] = ["/lib/", "/usr/lib/", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// What most programs expect of a root file system, where it does not exist yet: users, name look-ups, a
/// temporary folder.
pub fn add_basics(archive: &mut Archive) {
    for dir in ["dev", "proc", "sys", "run", "root", "var", "etc"] {
        archive.directory(dir);
    }
    archive.add(
        "tmp",
        Meta {
            mode: S_IFDIR | 0o1777,
            ..Meta::default()
        },
        &[],
    );
    let console = Meta {
        mode: S_IFCHR | 0o600,
        device: (5, 1),
        ..Meta::default()
    };
    archive.add("dev/console", console, &[]);
    let user = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
    let group = "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n";
    let meta = Meta {
        mode: S_IFREG | 0o644,
        ..Meta::default()
    };
    archive.add("etc/passwd", meta, user.as_bytes());
    archive.add("etc/group", meta, group.as_bytes());
    archive.add("etc/hostname", meta, b"limen\n");
    archive.add("etc/hosts", meta, b"127.0.0.1 localhost limen\n::1 localhost\n");
    archive.add(
        "etc/nsswitch.conf",
        meta,
        b"passwd: files\ngroup: files\nhosts: files dns\n",
    );
}
