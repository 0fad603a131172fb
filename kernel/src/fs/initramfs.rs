//! The initramfs: unpacks the boot loader's image, which has cpio archives, plain or compressed, into the
//! root. Called once, before init.
//!
//! Pages of the image are freed as they are used up, so a large image needs little more memory than its
//! files.

use crate::fs::dentry::Dentry;
use crate::fs::inode::{Dev, FileType, Inode};
use crate::fs::io::IoSrc;
use crate::fs::names::{self, New};
use crate::fs::path::Path;
use crate::fs::{mount, tmpfs};
use crate::mm::PhysRange;
use crate::mm::initrd::Initrd;
use crate::rcu::Shared;
use crate::task::Creds;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use limen_cpio::{Header, Reader, Unpack};
use limen_linux_abi::Errno;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};

/// How many bytes are handled at a time.
const PIECE: usize = 64 * 1024;
/// Longest symbolic link.
const MAX_LINK: usize = 4096;
/// The uncompressed size of a block in lz4's legacy format.
const LZ4_BLOCK: usize = 8 << 20;

/// Where the data of an entry goes.
enum Body {
    /// Nowhere: it is skipped.
    None,
    /// To a regular file, which has been written up to the given offset.
    File(Shared<Inode>, u64),
    /// To the target of a symbolic link.
    Link(Path, Vec<u8>, Vec<u8>),
}

/// Makes the files that the archive has.
struct Writer {
    root: Path,
    creds: Creds,
    /// Files with several names: (device, inode, type) to the first name. Cleared after each archive.
    links: BTreeMap<(u32, u32, u32, u32), Shared<Dentry>>,
    header: Header,
    body: Body,
    /// The times of directories are set last, since making entries changes them.
    directories: Vec<(Shared<Inode>, u32)>,
    files: usize,
    failed: usize,
    error: Option<Errno>,
}

impl Writer {
    fn find_parent(&self, name: &[u8]) -> Result<(Path, Vec<u8>), Errno> {
        let mut dir = self.root.dentry.clone();
        let mut parts = name
            .split(|c| *c == b'/')
            .filter(|p| !p.is_empty() && *p != b".")
            .peekable();
        while let Some(part) = parts.next() {
            if part == b".." {
                return Err(Errno::EINVAL);
            }
            if parts.peek().is_none() {
                return Ok((
                    Path {
                        mnt: self.root.mnt.clone(),
                        dentry: dir,
                    },
                    part.to_vec(),
                ));
            }
            dir = dir.lookup(part)?;
            if dir.inode.kind == FileType::Symlink {
                // A link such as /bin -> usr/bin: it is resolved from the root.
                let (reached, _) = dir_of_link(&self.root, &dir)?;
                dir = reached;
            }
        }
        Err(Errno::EEXIST)
    }

    fn make(&mut self, header: &Header, name: &[u8]) -> Result<(), Errno> {
        let kind = FileType::from_mode(header.mode).ok_or(Errno::EINVAL)?;
        let (dir, name) = match self.find_parent(name) {
            Ok(found) => found,
            // The root itself.
            Err(Errno::EEXIST) if kind == FileType::Directory => {
                self.dress(&self.root.dentry.inode.clone(), header);
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        let key = (header.dev.0, header.dev.1, header.ino, kind as u32);
        if header.nlink > 1
            && kind != FileType::Directory
            && let Some(first) = self.links.get(&key).cloned()
        {
            let old = Path {
                mnt: dir.mnt.clone(),
                dentry: first.clone(),
            };
            let _ = names::remove(&dir, &name, &self.creds, false, false);
            names::link(&dir, &name, &self.creds, &old, false)?;
            if kind == FileType::Regular && header.size != 0 {
                self.body = Body::File(first.inode.clone(), 0);
            }
            return Ok(());
        }
        if let Ok(there) = dir.dentry.lookup(&name) {
            if there.inode.kind == FileType::Directory && kind == FileType::Directory {
                self.dress(&there.inode, header);
                return Ok(());
            }
            names::remove(
                &dir,
                &name,
                &self.creds,
                there.inode.kind == FileType::Directory,
                false,
            )?;
        }
        if kind == FileType::Symlink {
            self.body = Body::Link(dir, name, Vec::new());
            return Ok(());
        }
        let rdev = match kind {
            FileType::CharDevice | FileType::BlockDevice => Dev::new(header.rdev.0, header.rdev.1),
            _ => Dev::default(),
        };
        let new = New {
            kind,
            mode: header.mode & 0o7777,
            rdev,
            target: b"",
        };
        let made = names::create(&dir, &name, &self.creds, &new)?;
        self.dress(&made.inode, header);
        if header.nlink > 1 && kind != FileType::Directory {
            self.links.insert(key, made.clone());
        }
        if kind == FileType::Regular {
            self.body = Body::File(made.inode.clone(), 0);
        }
        Ok(())
    }

    /// Sets owner, permissions and times.
    fn dress(&mut self, inode: &Shared<Inode>, header: &Header) {
        inode.set_owner(header.uid, header.gid);
        if inode.kind != FileType::Symlink {
            inode.set_mode(header.mode);
        }
        if inode.kind == FileType::Directory {
            self.directories.push((inode.clone(), header.mtime));
        } else {
            set_time(inode, header.mtime);
        }
    }

    fn note(&mut self, result: Result<(), Errno>) {
        if let Err(e) = result {
            self.failed += 1;
            self.error.get_or_insert(e);
        }
    }
}

fn set_time(inode: &Inode, seconds: u32) {
    let t = i64::from(seconds) * 1_000_000_000;
    inode.set_times(Some(t), Some(t), None);
}

/// The directory, inside `root`, to which a link in an archive's path leads.
fn dir_of_link(root: &Path, link: &Shared<Dentry>) -> Result<(Shared<Dentry>, ()), Errno> {
    use crate::fs::walk::{Walk, Walker};
    let start = Path {
        mnt: root.mnt.clone(),
        dentry: link.parent().ok_or(Errno::ENOENT)?,
    };
    let mut w = Walker::below(root.clone(), start, Walk::FOLLOW | Walk::DIRECTORY);
    w.all(&link.inode.ops.readlink(&link.inode)?)?;
    Ok((w.cur.dentry, ()))
}

impl Unpack for Writer {
    fn entry(&mut self, header: &Header, name: &[u8]) {
        self.header = *header;
        self.body = Body::None;
        self.files += 1;
        let result = self.make(header, name);
        self.note(result);
    }
    fn data(&mut self, bytes: &[u8]) {
        let result = match &mut self.body {
            Body::None => Ok(()),
            Body::File(inode, at) => match &inode.pages {
                Some(pages) => {
                    let r = pages
                        .writing()
                        .write_at(*at, &mut IoSrc::kernel(bytes), bytes.len());
                    *at += bytes.len() as u64;
                    match r {
                        Ok(n) if n == bytes.len() => Ok(()),
                        Ok(_) => Err(Errno::ENOSPC),
                        Err(e) => Err(e),
                    }
                }
                None => Ok(()),
            },
            Body::Link(_, _, target) if target.len() + bytes.len() < MAX_LINK => {
                target.extend_from_slice(bytes);
                Ok(())
            }
            Body::Link(..) => Err(Errno::ENAMETOOLONG),
        };
        self.note(result);
    }
    fn end(&mut self) {
        match core::mem::replace(&mut self.body, Body::None) {
            Body::None => {}
            Body::File(inode, _) => set_time(&inode, self.header.mtime),
            Body::Link(dir, name, target) => {
                let new = New {
                    kind: FileType::Symlink,
                    mode: 0o777,
                    rdev: Dev::default(),
                    target: &target,
                };
                let result = names::create(&dir, &name, &self.creds, &new);
                let header = self.header;
                let result = result.map(|made| {
                    self.dress(&made.inode, &header);
                    if header.nlink > 1 {
                        let key = (header.dev.0, header.dev.1, header.ino, FileType::Symlink as u32);
                        self.links.insert(key, made);
                    }
                });
                self.note(result);
            }
        }
    }
}

/// Archives one after the other, with zeros between them.
struct Stream {
    reader: Reader,
    writer: Writer,
    /// No archive was found, or a broken one: the rest is ignored.
    broken: bool,
}

impl Stream {
    fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.broken {
            if self.reader.is_done() {
                self.reader = Reader::new();
                self.writer.links.clear();
            }
            if self.reader.is_fresh() {
                let zeros = bytes.iter().take_while(|b| **b == 0).count();
                bytes = &bytes[zeros..];
                if bytes.is_empty() {
                    return;
                }
            }
            match self.reader.push(bytes, &mut self.writer) {
                Ok(n) => bytes = &bytes[n..],
                Err(e) => {
                    warning!("initramfs: broken archive: {e:?}");
                    self.broken = true;
                }
            }
        }
    }
}

/// The error of a compressed part.
type Bad = &'static str;

/// A decoder on the heap. A function of its own: the large decoder is on the stack only until it returns.
#[inline(never)]
fn inflater() -> Box<DecompressorOxide> {
    Box::default()
}

#[inline(never)]
fn gzip(image: &mut Initrd, mut at: u64, out: &mut Stream) -> Result<u64, Bad> {
    const CUT: Bad = "the gzip header is cut off";
    let head = image.bytes(at, PIECE);
    let flags = *head.get(3).ok_or(CUT)?;
    let mut skip = 10;
    if flags & 4 != 0 {
        let len = head.get(skip..skip + 2).ok_or(CUT)?;
        skip += 2 + usize::from(u16::from_le_bytes([len[0], len[1]]));
    }
    for bit in [8, 16] {
        if flags & bit != 0 {
            skip += head
                .get(skip..)
                .ok_or(CUT)?
                .iter()
                .position(|b| *b == 0)
                .ok_or(CUT)?
                + 1;
        }
    }
    if flags & 2 != 0 {
        skip += 2;
    }
    at += skip as u64;
    let mut state = inflater();
    // At least as large as the format's window, so that back references find what was produced.
    let mut ring = vec![0u8; PIECE].into_boxed_slice();
    let mut pos = 0;
    let mut total = 0u64;
    loop {
        let input = image.bytes(at, PIECE);
        let more = if at + (input.len() as u64) < image.len() {
            inflate_flags::TINFL_FLAG_HAS_MORE_INPUT
        } else {
            0
        };
        let (status, consumed, written) = decompress(&mut state, input, &mut ring, pos, more);
        at += consumed as u64;
        total += written as u64;
        out.push(&ring[pos..pos + written]);
        pos = (pos + written) % PIECE;
        match status {
            TINFLStatus::Done => break,
            TINFLStatus::NeedsMoreInput | TINFLStatus::HasMoreOutput if consumed != 0 || written != 0 => {}
            TINFLStatus::NeedsMoreInput | TINFLStatus::FailedCannotMakeProgress => {
                return Err("the gzip data is cut off");
            }
            _ => return Err("the gzip data is corrupt"),
        }
        image.release(at);
    }
    let tail = image.bytes(at, 8);
    if tail
        .get(4..8)
        .is_some_and(|size| *size != (total as u32).to_le_bytes())
    {
        return Err("the gzip size does not match");
    }
    Ok(at + 8)
}

/// The image, as the zstd decoder reads it.
struct ImageReader<'a> {
    image: &'a mut Initrd,
    at: u64,
}

impl ruzstd::io::Read for ImageReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, ruzstd::io::Error> {
        let bytes = self.image.bytes(self.at, buf.len());
        buf[..bytes.len()].copy_from_slice(bytes);
        let n = bytes.len();
        self.at += n as u64;
        self.image.release(self.at);
        Ok(n)
    }
}

#[inline(never)]
fn zstd(image: &mut Initrd, at: u64, out: &mut Stream) -> Result<u64, Bad> {
    use ruzstd::io::Read;
    let mut source = ImageReader { image, at };
    let mut decoder =
        ruzstd::decoding::StreamingDecoder::new(&mut source).map_err(|_| "the zstd header is corrupt")?;
    let mut buffer = vec![0u8; PIECE].into_boxed_slice();
    loop {
        match decoder.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => out.push(&buffer[..n]),
            Err(_) => return Err("the zstd data is corrupt"),
        }
    }
    drop(decoder);
    Ok(source.at)
}

#[inline(never)]
fn lz4(image: &mut Initrd, mut at: u64, out: &mut Stream) -> Result<u64, Bad> {
    const MAGIC: u32 = 0x184c_2102;
    let mut buffer: Box<[u8]> = Box::default();
    at += 4;
    loop {
        let word = image.bytes(at, 4);
        let Ok(word) = <[u8; 4]>::try_from(word) else {
            break;
        };
        let size = u32::from_le_bytes(word);
        if size == MAGIC {
            at += 4;
            continue;
        }
        let input = image.bytes(at + 4, size as usize);
        if size == 0 || input.len() != size as usize {
            break;
        }
        if buffer.is_empty() {
            buffer = vec![0u8; LZ4_BLOCK].into_boxed_slice();
        }
        let n =
            lz4_flex::block::decompress_into(input, &mut buffer).map_err(|_| "the lz4 data is corrupt")?;
        out.push(&buffer[..n]);
        at += 4 + u64::from(size);
        image.release(at);
    }
    Ok(at)
}

#[inline(never)]
fn cpio(image: &mut Initrd, mut at: u64, out: &mut Stream) -> u64 {
    loop {
        let bytes = image.bytes(at, PIECE);
        // Between archives a compressed part may begin.
        if bytes.is_empty() || out.broken || (out.reader.is_done() && bytes[0] != 0 && bytes[0] != b'0') {
            return at;
        }
        if out.reader.is_done() {
            let zeros = bytes.iter().take_while(|b| **b == 0).count();
            if zeros != 0 {
                at += zeros as u64;
                continue;
            }
            out.reader = Reader::new();
            out.writer.links.clear();
        }
        match out.reader.push(bytes, &mut out.writer) {
            Ok(n) => at += n as u64,
            Err(e) => {
                warning!("initramfs: broken archive: {e:?}");
                out.broken = true;
            }
        }
        image.release(at);
    }
}

/// Unpacks the image into the first root and frees it. (It, and each format, with a frame of its own:
/// together they would take too much of the stack.)
#[inline(never)]
pub fn unpack(range: PhysRange) {
    let root = mount::initial_root();
    let mut image = Initrd::new(range);
    let writer = Writer {
        root: root.clone(),
        creds: Creds::root(),
        links: BTreeMap::new(),
        header: Header::default(),
        body: Body::None,
        directories: Vec::new(),
        files: 0,
        failed: 0,
        error: None,
    };
    let mut out = Stream {
        reader: Reader::new(),
        writer,
        broken: false,
    };
    tmpfs::set_page_limit(&root.dentry.inode.sb, usize::MAX);
    let mut at = 0;
    while at < image.len() && !out.broken {
        let head = image.bytes(at, 4);
        let result = match head {
            [0, ..] => Ok(at + 1),
            [b'0', b'7', b'0', ..] => Ok(cpio(&mut image, at, &mut out)),
            [0x1f, 0x8b, ..] => gzip(&mut image, at, &mut out),
            [0x28, 0xb5, 0x2f, 0xfd] => zstd(&mut image, at, &mut out),
            [0x02, 0x21, 0x4c, 0x18] => lz4(&mut image, at, &mut out),
            _ => Err("neither a cpio archive nor gzip, zstd or lz4"),
        };
        match result {
            Ok(next) => at = next,
            Err(why) => {
                error!("initramfs: {why} (at byte {at})");
                break;
            }
        }
    }
    drop(image);
    let w = out.writer;
    for (inode, mtime) in &w.directories {
        set_time(inode, *mtime);
    }
    tmpfs::set_page_limit(&root.dentry.inode.sb, 0);
    if let Some(e) = w.error {
        error!(
            "initramfs: {} of {} entries failed, the first with {e:?}",
            w.failed, w.files
        );
    }
    debug!("initramfs: {} entries", w.files);
}
