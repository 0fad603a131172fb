//! Writes the archive format of an initramfs: cpio "newc" (`Documentation/driver-api/early-userspace/buffer-format`).
//! Used by `image.rs`. The archive is kept in memory; an entry's parents are made when they are missing.

use std::collections::BTreeSet;

/// Mode bits of a directory, a regular file, a symbolic link and a character device.
pub const S_IFDIR: u32 = 0o040_000;
pub const S_IFREG: u32 = 0o100_000;
pub const S_IFLNK: u32 = 0o120_000;
pub const S_IFCHR: u32 = 0o020_000;
/// The bits of a mode that say what kind of file it is.
pub const S_IFMT: u32 = 0o170_000;

/// What an entry has besides its name and content.
#[derive(Clone, Copy, Default)]
pub struct Meta {
    /// Kind and permissions, as in `st_mode`.
    pub mode: u32,
    /// Owner and group.
    pub uid: u32,
    pub gid: u32,
    /// Modification time in seconds since 1970; the format has 32 bits for it.
    pub mtime: u32,
    /// Major and minor number of a device.
    pub device: (u32, u32),
}

/// An archive being written.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    names: BTreeSet<String>,
    last_inode: u32,
}

impl Archive {
    /// Adds an entry. The first of a name wins, so that what was asked for explicitly is added first.
    pub fn add(&mut self, name: &str, meta: Meta, content: &[u8]) {
        let name = name.trim_matches('/');
        if name.is_empty() || self.names.contains(name) {
            return;
        }
        if let Some((parent, _)) = name.rsplit_once('/') {
            self.directory(parent);
        }
        self.last_inode += 1;
        self.entry(name, meta, 1, self.last_inode, content);
        self.names.insert(name.to_owned());
    }

    /// Adds several names of one file.
    pub fn add_links(&mut self, names: &[String], meta: Meta, content: &[u8]) {
        let names: Vec<String> = names
            .iter()
            .map(|n| n.trim_matches('/').to_owned())
            .filter(|n| !n.is_empty() && !self.names.contains(n))
            .collect();
        self.last_inode += 1;
        let inode = self.last_inode;
        for (i, name) in names.iter().enumerate() {
            if let Some((parent, _)) = name.rsplit_once('/') {
                self.directory(parent);
            }
            // The kernel takes the content with the last name; the others carry none.
            let content = if i + 1 == names.len() { content } else { &[] };
            self.entry(name, meta, names.len() as u32, inode, content);
            self.names.insert(name.clone());
        }
    }

    /// Adds a directory and its parents with ordinary permissions, where they are missing.
    pub fn directory(&mut self, name: &str) {
        self.add(
            name,
            Meta {
                mode: S_IFDIR | 0o755,
                ..Meta::default()
            },
            &[],
        );
    }

    /// Adds a regular file that root owns.
    pub fn file(&mut self, name: &str, permissions: u32, content: &[u8]) {
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
    pub fn symlink(&mut self, name: &str, target: &str) {
        self.add(
            name,
            Meta {
                mode: S_IFLNK | 0o777,
                ..Meta::default()
            },
            target.as_bytes(),
        );
    }

    /// The finished archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", Meta::default(), 1, 0, &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, meta: Meta, links: u32, inode: u32, content: &[u8]) {
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
        self.bytes.extend_from_slice(name.as_bytes());
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
        archive.add_links(&["x".into(), "y".into()], meta, b"content");
        let text = String::from_utf8_lossy(&archive.finish()).into_owned();
        assert_eq!(text.matches("content").count(), 1);
        assert!(text.find("y\0").unwrap() < text.find("content").unwrap());
    }
}
