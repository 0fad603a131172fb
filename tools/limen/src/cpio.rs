//! Writes the archive format of an initramfs: cpio "newc"
//! (`Documentation/driver-api/early-userspace/buffer-format`). Used by `image.rs`. The archive is kept in
//! memory; an entry's parents are made when they are missing.

use std::collections::{BTreeMap, BTreeSet};

/// Mode bits of a directory, a regular file, a symbolic link, a character and a block device.
pub const S_IFDIR: u32 = 0o040_000;
pub const S_IFREG: u32 = 0o100_000;
pub const S_IFLNK: u32 = 0o120_000;
pub const S_IFCHR: u32 = 0o020_000;
pub const S_IFBLK: u32 = 0o060_000;
/// The type bits of a mode.
pub const S_IFMT: u32 = 0o170_000;

/// The attributes of an entry, besides its name and content.
#[derive(Clone, Copy, Default)]
pub struct Meta {
    /// Type and permissions, as in `st_mode`.
    pub mode: u32,
    /// Owner and group.
    pub uid: u32,
    pub gid: u32,
    /// Modification time in seconds since 1970; the format has 32 bits for it.
    pub mtime: u32,
    /// Major and minor number of a device.
    pub device: (u32, u32),
}

/// An archive being written. Symbolic links to directories are followed as the guest will follow them: with
/// `/bin` a link to `/usr/bin`, what is added below `/bin` goes to `/usr/bin`. So every file has one name
/// here. If a name is added twice, the first entry stays.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    /// Entries by their names, which have no links on the way.
    entries: BTreeMap<Vec<u8>, Entry>,
    last_inode: u32,
    problem: Option<String>,
    /// The most bytes it may take; 0 for no limit.
    room: u64,
}

/// What kind of entry has a name.
enum Entry {
    /// A directory made only because an entry is in it; an explicit entry replaces it.
    Implied,
    Directory,
    /// A symbolic link and its target.
    Link(Vec<u8>),
    Other,
}

/// The number of symbolic links that Linux follows in one path (`MAXSYMLINKS`).
const MAX_LINKS: u32 = 40;
/// The largest file: the format has 32 bits for its size.
const MAX_SIZE: u64 = u32::MAX as u64;

impl Archive {
    /// Adds an entry. The first one of a name stays, so what the user asked for explicitly is added first.
    pub fn add(&mut self, name: impl AsRef<[u8]>, meta: Meta, content: &[u8]) {
        let Some(name) = self.make_way(name.as_ref(), meta.mode) else {
            return;
        };
        self.last_inode += 1;
        self.entry(&name, meta, 1, self.last_inode, content);
        let entry = match meta.mode & S_IFMT {
            S_IFDIR => Entry::Directory,
            S_IFLNK => Entry::Link(content.to_vec()),
            _ => Entry::Other,
        };
        self.entries.insert(name, entry);
    }

    /// Adds several names of one file (hard links).
    pub fn add_links<N: AsRef<[u8]>>(&mut self, names: &[N], meta: Meta, content: &[u8]) {
        let names: BTreeSet<Vec<u8>> = names
            .iter()
            .filter_map(|name| self.make_way(name.as_ref(), meta.mode))
            .collect();
        self.last_inode += 1;
        let inode = self.last_inode;
        let count = names.len();
        for (i, name) in names.into_iter().enumerate() {
            // The kernel takes the content from the last name; the others have none.
            let content = if i + 1 == count { content } else { &[] };
            self.entry(&name, meta, count as u32, inode, content);
            self.entries.insert(name, Entry::Other);
        }
    }

    /// Makes the directories on the way to `name`. Returns the name without links on the way, or `None` if it
    /// exists already.
    fn make_way(&mut self, name: &[u8], mode: u32) -> Option<Vec<u8>> {
        let name = self.place(name, false);
        if name.is_empty() {
            return None;
        }
        if let Some(at) = name.iter().rposition(|b| *b == b'/') {
            self.imply(&name[..at]);
        }
        match self.entries.get(&name) {
            None => Some(name),
            // The directory gets its own permissions: the kernel takes them from the later entry.
            Some(Entry::Implied) if mode & S_IFMT == S_IFDIR => Some(name),
            Some(_) => None,
        }
    }

    /// Makes a directory that has an entry in it, and its parents.
    fn imply(&mut self, name: &[u8]) {
        match self.entries.get(name) {
            Some(Entry::Implied | Entry::Directory) => {}
            Some(_) => {
                let name = String::from_utf8_lossy(name).into_owned();
                self.problem
                    .get_or_insert(format!("/{name} is to be a file and a directory of the guest"));
            }
            None => {
                if let Some(at) = name.iter().rposition(|b| *b == b'/') {
                    self.imply(&name[..at]);
                }
                self.last_inode += 1;
                let meta = Meta {
                    mode: S_IFDIR | 0o755,
                    ..Meta::default()
                };
                self.entry(name, meta, 1, self.last_inode, &[]);
                self.entries.insert(name.to_vec(), Entry::Implied);
            }
        }
    }

    /// `name` without slashes around it and without `.` and `..`. Links to directories on the way are
    /// followed; with `whole`, also one at the end.
    fn place(&mut self, name: &[u8], whole: bool) -> Vec<u8> {
        let mut left: Vec<Vec<u8>> = parts(name);
        let mut at: Vec<u8> = Vec::new();
        let mut links = 0;
        while let Some(part) = left.pop() {
            let above = at.len();
            if part == b".." {
                at.truncate(at.iter().rposition(|b| *b == b'/').unwrap_or(0));
                continue;
            }
            if !at.is_empty() {
                at.push(b'/');
            }
            at.extend_from_slice(&part);
            if left.is_empty() && !whole {
                break;
            }
            if let Some(Entry::Link(target)) = self.entries.get(&at) {
                links += 1;
                if links > MAX_LINKS {
                    let name = String::from_utf8_lossy(name).into_owned();
                    self.problem
                        .get_or_insert(format!("{name}: too many symbolic links on the way"));
                    return Vec::new();
                }
                at.truncate(if target.starts_with(b"/") { 0 } else { above });
                left.append(&mut parts(target));
            }
        }
        at
    }

    /// What could not be added as asked, if anything.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Whether an entry of this name exists that is neither a directory nor a link.
    pub fn has_file(&mut self, name: &[u8]) -> bool {
        let name = self.place(name, true);
        matches!(self.entries.get(&name), Some(Entry::Other))
    }

    /// An archive of at most so many bytes.
    pub fn with_room(room: u64) -> Archive {
        Archive {
            room,
            ..Archive::default()
        }
    }

    /// The size of the largest file that still fits.
    pub fn room(&self) -> u64 {
        match self.room {
            0 => MAX_SIZE,
            room => room.saturating_sub(self.bytes.len() as u64).min(MAX_SIZE),
        }
    }

    /// Adds a directory and its parents with ordinary permissions, where they are missing.
    pub fn directory(&mut self, name: impl AsRef<[u8]>) {
        let name = self.place(name.as_ref(), true);
        if !name.is_empty() {
            self.imply(&name);
        }
    }

    /// Adds a regular file that root owns.
    pub fn file(&mut self, name: impl AsRef<[u8]>, permissions: u32, content: &[u8]) {
        self.add(
            name,
            Meta {
                mode: S_IFREG | permissions,
                ..Meta::default()
            },
            content,
        );
    }

    /// Adds a symbolic link.
    pub fn symlink(&mut self, name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) {
        self.add(
            name,
            Meta {
                mode: S_IFLNK | 0o777,
                ..Meta::default()
            },
            target.as_ref(),
        );
    }

    /// The finished archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry(b"TRAILER!!!", Meta::default(), 1, 0, &[]);
        self.bytes
    }

    fn entry(&mut self, name: &[u8], meta: Meta, links: u32, inode: u32, content: &[u8]) {
        let fields = [
            inode,
            meta.mode,
            meta.uid,
            meta.gid,
            links,
            meta.mtime,
            content.len() as u32,
            0,
            0,
            meta.device.0,
            meta.device.1,
            name.len() as u32 + 1,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        while !self.bytes.len().is_multiple_of(4) {
            self.bytes.push(0);
        }
    }
}

/// The components of a path, the first one last.
fn parts(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|b| *b == b'/')
        .filter(|part| !part.is_empty() && *part != b".")
        .rev()
        .map(<[u8]>::to_vec)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_come_first_and_once() {
        let mut archive = Archive::default();
        archive.file("/a/b/c", 0o644, b"x");
        archive.directory("a/b");
        let text = String::from_utf8_lossy(&archive.finish()).into_owned();
        let a = text.find("a\0").unwrap();
        let b = text.find("a/b\0").unwrap();
        let c = text.find("a/b/c\0").unwrap();
        assert!(a < b && b < c);
        assert_eq!(text.matches("a/b\0").count(), 1);
        assert!(text.ends_with("TRAILER!!!\0\0\0\0"));
    }

    fn names(archive: &Archive) -> Vec<&str> {
        archive
            .entries
            .keys()
            .map(|name| std::str::from_utf8(name).unwrap())
            .collect()
    }

    #[test]
    fn links_to_directories_are_followed() {
        let mut archive = Archive::default();
        archive.symlink("bin", "usr/bin");
        archive.symlink("usr/lib64", "/usr/lib/../lib");
        archive.file("bin/x", 0o755, b"first");
        archive.file("usr/bin/x", 0o755, b"second");
        archive.file("lib64/../usr/lib64/./y", 0o644, b"");
        archive.directory("bin");
        assert_eq!(
            names(&archive),
            [
                "bin",
                "usr",
                "usr/bin",
                "usr/bin/x",
                "usr/lib",
                "usr/lib/y",
                "usr/lib64"
            ]
        );
        assert!(archive.problem().is_none());
        let text = String::from_utf8_lossy(&archive.finish()).into_owned();
        assert!(text.contains("first") && !text.contains("second"));
    }

    #[test]
    fn what_cannot_be_is_told() {
        let mut archive = Archive::default();
        archive.symlink("a", "b");
        archive.symlink("b", "a");
        archive.file("a/x", 0o644, b"");
        assert!(archive.problem().unwrap().contains("links"));
        let mut archive = Archive::default();
        archive.file("a", 0o644, b"");
        archive.file("a/x", 0o644, b"");
        assert!(archive.problem().unwrap().contains("/a"));
    }

    #[test]
    fn a_directory_gets_the_permissions_it_is_to_have() {
        let mut archive = Archive::default();
        archive.file("tmp/x", 0o644, b"");
        let meta = Meta {
            mode: S_IFDIR | 0o1777,
            ..Meta::default()
        };
        archive.add("tmp", meta, &[]);
        let later = Meta {
            mode: S_IFDIR | 0o123,
            ..meta
        };
        archive.add("tmp", later, &[]);
        let text = String::from_utf8_lossy(&archive.finish()).into_owned();
        assert_eq!(text.matches(&format!("{:08x}", meta.mode)).count(), 1);
        assert!(!text.contains(&format!("{:08x}", later.mode)));
    }

    #[test]
    fn entries_are_padded_to_four() {
        let mut archive = Archive::default();
        archive.file("f", 0o600, b"12345");
        assert_eq!(archive.finish().len() % 4, 0);
    }

    #[test]
    fn the_last_link_carries_the_content() {
        let mut archive = Archive::default();
        let meta = Meta {
            mode: S_IFREG | 0o644,
            ..Meta::default()
        };
        archive.add_links(&["x", "y"], meta, b"content");
        let text = String::from_utf8_lossy(&archive.finish()).into_owned();
        assert_eq!(text.matches("content").count(), 1);
        assert!(text.find("y\0").unwrap() < text.find("content").unwrap());
    }
}
