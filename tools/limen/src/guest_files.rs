//! Puts host files and trees into an archive: keeps permissions, links and times, makes root the owner where the host's
//! owner would be an accident, and follows the links of single files so that what they point to comes along.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::cpio::{Archive, Meta, S_IFDIR, S_IFMT, S_IFREG};

/// Adds the host file at `path` to the same place in the guest, with every symbolic link on the way to it.
pub fn add_file(archive: &mut Archive, path: &Path) -> Result<()> {
    let mut path = path.to_owned();
    for _ in 0..40 {
        match first_link(&path)? {
            None => return add_plain(archive, &path, &path),
            Some((link, target, rest)) => {
                archive.symlink(&link.to_string_lossy(), &target.to_string_lossy());
                let base = link.parent().unwrap_or(Path::new("/"));
                path = clean(&base.join(target).join(rest));
            }
        }
    }
    bail!("{}: too many symbolic links", path.display())
}

/// Adds the symbolic links on the way to `files` (`/lib` is one where `/usr` is merged), and the directories they lead to, so that what is
/// added before the files themselves does not make directories of them.
pub fn add_links_to(archive: &mut Archive, files: &BTreeSet<PathBuf>) -> Result<()> {
    for file in files {
        if let Some((link, target, rest)) = first_link(file)?
            && !rest.as_os_str().is_empty()
        {
            let base = link.parent().unwrap_or(Path::new("/"));
            archive.directory(&clean(&base.join(&target)).to_string_lossy());
            archive.symlink(&link.to_string_lossy(), &target.to_string_lossy());
        }
    }
    Ok(())
}

/// Adds the descriptions of the terminals `names` that this host has: programs that draw on the screen do not start without.
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

/// The first symbolic link on the way to `path`: the link, its target, and what follows it.
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
fn clean(path: &Path) -> PathBuf {
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
    let meta = std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    if meta.is_dir() {
        return add_tree(archive, path, &name.to_string_lossy());
    }
    let content = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    archive.add(&name.to_string_lossy(), describe(&meta), &content);
    Ok(())
}

fn describe(meta: &std::fs::Metadata) -> Meta {
    // A user who is not root cannot own the guest's files either: there, they are root's.
    let mine = meta.uid() == rustix::process::getuid().as_raw();
    Meta {
        mode: meta.mode(),
        uid: if mine { 0 } else { meta.uid() },
        gid: if mine { 0 } else { meta.gid() },
        mtime: u32::try_from(meta.mtime()).unwrap_or(0),
        device: (0, 0),
    }
}

/// `HOST[:GUEST]` as given to `--add`: the host's path, and where it goes if that is said.
fn parse_spec(spec: &str) -> Result<(PathBuf, Option<&str>)> {
    let (host, guest) = match spec.split_once(':') {
        Some((host, guest)) => (host, Some(guest)),
        None => (spec, None),
    };
    let path = std::path::absolute(host).with_context(|| format!("--add {spec}: not a path"))?;
    Ok((path, guest))
}

/// What `--add` puts at `place` in the guest: the host's path.
pub fn added_at(specs: &[String], place: &str) -> Option<PathBuf> {
    specs.iter().find_map(|spec| {
        let (host, guest) = parse_spec(spec).ok()?;
        let guest = guest.map_or_else(|| host.clone(), PathBuf::from);
        let rest = Path::new(place).strip_prefix(guest).ok()?;
        let found = if rest.as_os_str().is_empty() {
            host
        } else {
            host.join(rest)
        };
        found.is_file().then_some(found)
    })
}

/// Adds what one `--add` says.
pub fn add_spec(archive: &mut Archive, spec: &str) -> Result<()> {
    let (path, guest) = parse_spec(spec)?;
    match guest {
        Some(guest) => add_plain(archive, &path, Path::new(guest)),
        None if path.is_dir() => add_tree(archive, &path, &path.to_string_lossy()),
        None => add_file(archive, &path),
    }
    .with_context(|| format!("--add {spec}: give a host file or directory that can be read"))
}

/// Adds the tree below `dir` as the guest's `prefix` (empty for its root).
pub fn add_tree(archive: &mut Archive, dir: &Path, prefix: &str) -> Result<()> {
    let mut links: BTreeMap<(u64, u64), (Meta, PathBuf, Vec<String>)> = BTreeMap::new();
    let mut todo: Vec<(PathBuf, String)> = vec![(dir.to_owned(), prefix.trim_matches('/').to_owned())];
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
            archive.add(&name, described, &[]);
            let entries = std::fs::read_dir(&path).with_context(|| format!("cannot read {shown}"))?;
            let mut names: Vec<_> = entries
                .collect::<Result<Vec<_>, _>>()?
                .into_iter()
                .map(|e| e.file_name())
                .collect();
            names.sort();
            for entry in names.into_iter().rev() {
                let Some(entry) = entry.to_str() else {
                    bail!("{shown}: a name in it is not UTF-8")
                };
                let child = if name.is_empty() {
                    entry.to_owned()
                } else {
                    format!("{name}/{entry}")
                };
                todo.push((path.join(entry), child));
            }
        } else if kind.is_symlink() {
            let target = std::fs::read_link(&path)?;
            archive.add(&name, described, target.to_string_lossy().as_bytes());
        } else if kind.is_file() && meta.nlink() > 1 {
            let key = (meta.dev(), meta.ino());
            links
                .entry(key)
                .or_insert_with(|| (described, path.clone(), Vec::new()))
                .2
                .push(name);
        } else if kind.is_file() {
            let content = std::fs::read(&path).with_context(|| format!("cannot read {shown}"))?;
            archive.add(&name, described, &content);
        } else if described.mode & S_IFMT != 0 {
            let device = meta.rdev();
            let device = (rustix::fs::major(device), rustix::fs::minor(device));
            archive.add(&name, Meta { device, ..described }, &[]);
        }
    }
    for (meta, path, names) in links.into_values() {
        let content = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        archive.add_links(&names, meta, &content);
    }
    Ok(())
}

/// Adds a program's files. Those from a cross compiler's tree go where the guest's loader looks for them.
pub fn add_all(archive: &mut Archive, files: &BTreeSet<PathBuf>, arch: Arch) -> Result<()> {
    let cross = format!("/usr/{}", arch.gnu());
    let mut unusual = false;
    for file in files {
        match file.strip_prefix(&cross) {
            // The cross compiler's tree is the guest's root; what a link of it names goes to the link's own place.
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
    // The loader finds libraries in other places through its cache; entries of files that are not there do no harm.
    if unusual && Path::new("/etc/ld.so.cache").exists() && Arch::host() == Some(arch) {
        add_file(archive, Path::new("/etc/ld.so.cache"))?;
    }
    Ok(())
}

/// Where loaders look without being told.
const STANDARD: [&str; 6] = ["/lib/", "/usr/lib/", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// What most programs expect of a root, where it is not there yet: users, a shell's name lookups, a temporary place.
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
        mode: crate::cpio::S_IFCHR | 0o600,
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
