//! What file systems have in common whose files are made up when they are read: `procfs`, `sysfs`, `devpts`.
//! A [`Directory`] has names, and a [`Node`] is what a name stands for. The text of a file is made by a read
//! at its start and stays the same until the next read there.

use crate::fs::dentry::Dentry;
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::inode::{Dev, FileType, Inode, InodeOps, Link, NewInode};
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::procfs::Subject;
use crate::fs::readdir::DirSink;
use crate::fs::superblock::{StatFs, SuperBlock, SuperOps};
use crate::rcu::Shared;
use crate::sync::{Mutex, Once, SpinLock};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use limen_linux_abi::Errno;
use limen_linux_abi::SysResult;

/// Text that is being written; it may have any bytes. Programs can influence its length, so memory may be
/// missing: then reading fails, even if the writer ignored the error.
#[derive(Default)]
pub struct Text {
    bytes: Vec<u8>,
    cut: bool,
}

impl Text {
    /// Adds `bytes`.
    pub fn add(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.cut |= crate::mm::reserve::room(&mut self.bytes, bytes.len()).is_err();
        if !self.cut {
            self.bytes.extend_from_slice(bytes);
        }
    }
    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
    /// Leaves the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }
    /// Removes all text.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.cut = false;
    }
    /// The whole text. `ENOMEM`: a part is missing.
    pub fn whole(self) -> Result<Vec<u8>, Errno> {
        if self.cut {
            Err(Errno::ENOMEM)
        } else {
            Ok(self.bytes)
        }
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.add(s);
        if self.cut { Err(fmt::Error) } else { Ok(()) }
    }
}

/// Writes the text of a file.
pub type Show = Arc<dyn Fn(&mut Text) -> Result<(), Errno> + Send + Sync>;
/// Handles what a program writes to a file.
pub type Store = Arc<dyn Fn(&[u8]) -> Result<(), Errno> + Send + Sync>;
/// Opens a file that has operations of its own.
pub type Open = Arc<dyn Fn(u32) -> Result<Arc<dyn FileOps>, Errno> + Send + Sync>;
/// Whether the running thread may do what these bits say (read 4, write 2, execute 1).
pub type Rights = fn(u32) -> bool;
/// Finds a directory of another file system.
pub type Same = Arc<dyn Fn() -> Result<Shared<Inode>, Errno> + Send + Sync>;
/// Gives user and group that are root's.
pub type Root = fn() -> (u32, u32);
/// Whether the running thread may do what the second number says with a file of this mode.
pub type Lets = fn(u32, u32) -> bool;
/// Returns where a link leads.
pub type Follow = Arc<dyn Fn() -> Result<Link, Errno> + Send + Sync>;

/// How many bytes a write to a text file may have.
const STORE_MAX: usize = crate::mm::PAGE_SIZE;

/// What a name stands for.
#[derive(Clone)]
pub enum Node {
    /// A text file: mode, text, and how to handle a write.
    File(u32, Show, Option<Store>),
    /// A file with operations of its own: mode, kind, device number, how to open it.
    Special(u32, FileType, Dev, Open),
    /// A file with operations of its own, and whose it is. A function decides which digit of the mode is the
    /// running thread's; other capabilities have no effect.
    Strict(u32, Root, Lets, Open),
    /// A file with operations of its own. Who may do what the mode says is decided by a function, not by
    /// owner and capabilities.
    Decided(u32, Rights, Open),
    /// A symbolic link.
    Link(Follow),
    /// A directory.
    Directory(u32, Arc<dyn Directory>),
    /// A directory that is one of another file system.
    Same(Same),
}

/// The names of a directory.
pub trait Directory: Send + Sync {
    /// What is at `name`.
    fn get(&self, name: &[u8]) -> Option<Node>;
    /// Calls `add(name, kind, next)` for each entry from cookie `pos` on (2 for the first) until it returns
    /// `false`.
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool);
    /// Tells what is at `name` now from what was there before or will be: a watch of the one reports nothing
    /// of the other.
    fn which(&self, name: &[u8]) -> u64 {
        let _ = name;
        0
    }
    /// Owner and group of everything in it that is not a directory.
    fn owner(&self) -> (u32, u32) {
        (0, 0)
    }
    /// Its own owner and group, if its mode is `mode`.
    fn own(&self, mode: u32) -> (u32, u32) {
        let _ = mode;
        self.owner()
    }
    /// Whether nothing ever is in it: it was made only to mount something on it.
    fn is_mount_point(&self) -> bool {
        false
    }
    /// The process or thread whose directory this is, if it is one.
    fn subject(&self) -> Option<&Subject> {
        None
    }
    /// Whether `splice` and `sendfile` can read its text files. On Linux they cannot read those of processes.
    fn splices(&self) -> bool {
        true
    }
    /// The tree to which names can be added, if there is one.
    fn tree(&self) -> Option<&Tree> {
        None
    }
    /// Whether programs may make and remove directories here.
    fn lets_make(&self) -> bool {
        false
    }
    /// Makes a directory.
    fn make(&self, name: &[u8]) -> Result<(), Errno> {
        let _ = name;
        Err(Errno::EPERM)
    }
    /// Removes a directory that a program made.
    fn remove(&self, name: &[u8]) -> Result<(), Errno> {
        let _ = name;
        Err(Errno::EPERM)
    }
    /// Where the changes are kept that programs make to modes and owners. `None`: they are forgotten.
    fn changes(&self) -> Option<&Changes> {
        None
    }
}

/// Modes and owners that programs have changed, by the numbers of inodes.
pub struct Changes(SpinLock<BTreeMap<u64, (u32, u32, u32)>>);

impl Changes {
    /// None.
    pub const fn new() -> Self {
        Self(SpinLock::new(BTreeMap::new()))
    }
    /// Takes over how `inode` is now.
    fn note(&self, inode: &Inode) {
        self.0.lock().insert(inode.ino, inode.identity());
    }
    /// Changes `inode`, which was just made, as it was changed before.
    fn repeat(&self, inode: &Inode) {
        let found = self.0.lock().get(&inode.ino).copied();
        if let Some((mode, uid, gid)) = found {
            inode.set_mode(mode);
            inode.set_owner(uid, gid);
        }
    }
    /// Forgets all of them, or changes them first.
    pub fn retain(&self, mut keep: impl FnMut(&mut (u32, u32, u32)) -> bool) {
        self.0.lock().retain(|_, change| keep(change));
    }
}

impl Node {
    /// A text file that everyone may read.
    pub fn text(show: impl Fn(&mut Text) -> Result<(), Errno> + Send + Sync + 'static) -> Self {
        Self::File(0o444, Arc::new(show), None)
    }
    /// A text file that only its owner may read: kernel addresses are in it.
    pub fn private(show: impl Fn(&mut Text) -> Result<(), Errno> + Send + Sync + 'static) -> Self {
        Self::File(0o400, Arc::new(show), None)
    }
    /// A text file that its owner may write, too.
    pub fn setting(
        show: impl Fn(&mut Text) -> Result<(), Errno> + Send + Sync + 'static,
        store: impl Fn(&[u8]) -> Result<(), Errno> + Send + Sync + 'static,
    ) -> Self {
        Self::File(0o644, Arc::new(show), Some(Arc::new(store)))
    }
    /// A link to a fixed text.
    pub fn link(to: &str) -> Self {
        let to = to.as_bytes().to_vec();
        Self::Link(Arc::new(move || Ok(Link::Text(to.clone()))))
    }

    /// The kind of file.
    pub fn kind(&self) -> FileType {
        match self {
            Self::File(..) | Self::Strict(..) | Self::Decided(..) => FileType::Regular,
            Self::Special(_, kind, ..) => *kind,
            Self::Link(_) => FileType::Symlink,
            Self::Directory(..) | Self::Same(_) => FileType::Directory,
        }
    }

    fn inode(self, sb: &Arc<SuperBlock>, ino: u64, owner: (u32, u32), splices: bool) -> Inode {
        self.with_ops(sb, ino, owner, |node| Ops(node, splices, None))
    }
    /// An inode in `directory`, which keeps changes.
    fn inode_in(
        self,
        sb: &Arc<SuperBlock>,
        ino: u64,
        owner: (u32, u32),
        directory: &Arc<dyn Directory>,
    ) -> Inode {
        let splices = directory.splices();
        self.with_ops(sb, ino, owner, |node| Ops(node, splices, Some(directory.clone())))
    }
    fn with_ops(
        self,
        sb: &Arc<SuperBlock>,
        ino: u64,
        (uid, gid): (u32, u32),
        ops: impl FnOnce(Self) -> Ops,
    ) -> Inode {
        let mode = match &self {
            Self::File(mode, ..)
            | Self::Special(mode, ..)
            | Self::Strict(mode, ..)
            | Self::Decided(mode, ..)
            | Self::Directory(mode, _) => *mode,
            Self::Link(_) => 0o777,
            Self::Same(_) => 0,
        };
        let rdev = match &self {
            Self::Special(_, _, rdev, _) => *rdev,
            _ => Dev::default(),
        };
        let new = NewInode {
            kind: self.kind(),
            mode,
            uid,
            gid,
            rdev,
            target: b"",
        };
        Inode::with_ino(sb, ino, Box::new(ops(self)), &new)
    }
}

/// The operations of a made-up inode. `bool`: see [`Directory::splices`]. The directory that has it, if that
/// keeps changes.
struct Ops(Node, bool, Option<Arc<dyn Directory>>);

/// An inode number for `name` in the directory with number `parent`; the same as long as `which` is.
fn number(parent: u64, name: &[u8], which: u64) -> u64 {
    let mut hash = parent ^ 0xcbf2_9ce4_8422_2325;
    hash = (hash ^ which).wrapping_mul(0x100_0000_01b3);
    for byte in name {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    }
    // Neither 0 nor 1, and few enough bits for 32-bit programs.
    (hash ^ hash >> 32) & 0x7fff_ffff | 0x1000
}

impl InodeOps for Ops {
    fn is_mount_point(&self) -> bool {
        matches!(&self.0, Node::Directory(_, directory) if directory.is_mount_point())
    }
    fn lookup(&self, dir: &Shared<Inode>, name: &[u8]) -> Result<Shared<Inode>, Errno> {
        let Node::Directory(_, directory) = &self.0 else {
            return Err(Errno::ENOTDIR);
        };
        let node = directory.get(name).ok_or(Errno::ENOENT)?;
        let owner = match &node {
            Node::Same(find) => return find(),
            Node::Directory(mode, inner) => inner.own(*mode),
            Node::Strict(_, root, ..) => root(),
            _ => directory.owner(),
        };
        let ino = number(dir.ino, name, directory.which(name));
        let Some(changes) = directory.changes() else {
            return Ok(Shared::new(node.inode(&dir.sb, ino, owner, directory.splices())));
        };
        let inode = node.inode_in(&dir.sb, ino, owner, directory);
        changes.repeat(&inode);
        Ok(Shared::new(inode))
    }
    fn changed(&self, inode: &Inode) {
        if let Some(changes) = self.2.as_ref().and_then(|directory| directory.changes()) {
            changes.note(inode);
        }
    }
    fn lets_make(&self) -> bool {
        matches!(&self.0, Node::Directory(_, directory) if directory.lets_make())
    }
    fn make_in(&self, name: &[u8]) -> Result<(), Errno> {
        match &self.0 {
            Node::Directory(_, directory) => directory.make(name),
            _ => Err(Errno::ENOTDIR),
        }
    }
    fn remove_in(&self, name: &[u8]) -> Result<(), Errno> {
        match &self.0 {
            Node::Directory(_, directory) => directory.remove(name),
            _ => Err(Errno::ENOTDIR),
        }
    }
    fn list(&self, dir: &Shared<Inode>, pos: u64, sink: &mut DirSink<'_>) -> Result<(), Errno> {
        let Node::Directory(_, directory) = &self.0 else {
            return Err(Errno::ENOTDIR);
        };
        directory.list(pos, &mut |name, kind, next| {
            sink.add(name, number(dir.ino, name, directory.which(name)), kind, next)
        });
        Ok(())
    }
    fn made_up(&self) -> bool {
        true
    }
    fn subject(&self) -> Option<&Subject> {
        match &self.0 {
            Node::Directory(_, directory) => directory.subject(),
            _ => None,
        }
    }
    fn permission(&self, _: &Inode, mask: u32) -> Option<Result<(), Errno>> {
        let may = match &self.0 {
            Node::Strict(mode, _, lets, _) => lets(*mode, mask),
            Node::Decided(_, rights, _) => rights(mask),
            _ => return None,
        };
        Some(if may { Ok(()) } else { Err(Errno::EACCES) })
    }
    fn follow(&self, _: &Shared<Inode>) -> Result<Link, Errno> {
        match &self.0 {
            Node::Link(follow) => follow(),
            _ => Err(Errno::EINVAL),
        }
    }
    fn open(&self, _: &Shared<Inode>, flags: u32) -> Result<Option<Arc<dyn FileOps>>, Errno> {
        Ok(match &self.0 {
            Node::File(_, show, store) => Some(Arc::new(TextFile::new(show.clone(), store.clone(), self.1))),
            Node::Special(_, _, _, open) | Node::Strict(.., open) | Node::Decided(_, _, open) => {
                Some(open(flags)?)
            }
            _ => None,
        })
    }
}

/// Whether the running task may do `want` (bits of a digit of the mode) with a file for which capabilities
/// have no effect, and whose owner and group are these: the owner according to the first digit.
pub fn digit(mode: u32, want: u32, (uid, gid): (u32, u32)) -> bool {
    let creds = crate::task::current().creds();
    let bits = if creds.euid == uid {
        mode >> 6
    } else if creds.egid == gid || creds.groups.contains(&gid) {
        mode >> 3
    } else {
        mode
    };
    want & !bits & 7 == 0
}

/// Opens a text file. For [`Node::Special`].
pub fn text_file(show: impl Fn(&mut Text) -> Result<(), Errno> + Send + Sync + 'static) -> Arc<dyn FileOps> {
    Arc::new(TextFile::new(Arc::new(show), None, false))
}

/// Opens a text file that can be written if `store` is given, and spliced from. For [`Node::Special`].
pub fn setting_file(show: Show, store: Option<Store>) -> Arc<dyn FileOps> {
    Arc::new(TextFile::new(show, store, true))
}

/// An open text file.
struct TextFile {
    show: Show,
    store: Option<Store>,
    splices: bool,
    text: Mutex<Option<Vec<u8>>>,
}

impl TextFile {
    fn new(show: Show, store: Option<Store>, splices: bool) -> Self {
        Self {
            show,
            store,
            splices,
            text: Mutex::new(None),
        }
    }
    fn read_at(&self, dst: &mut IoDst<'_>, pos: u64) -> SysResult {
        let mut text = self.text.lock();
        if pos == 0 || text.is_none() {
            let mut new = Text::default();
            (self.show)(&mut new)?;
            *text = Some(new.whole()?);
        }
        let bytes = text.as_deref().unwrap_or_default();
        let rest = bytes
            .get(pos.min(bytes.len() as u64) as usize..)
            .unwrap_or_default();
        if rest.is_empty() { Ok(0) } else { dst.put(rest) }
    }
}

impl FileOps for TextFile {
    fn mode(&self) -> FileMode {
        if self.splices {
            FileMode::SENDS
        } else {
            FileMode::empty()
        }
    }
    fn read(&self, file: &File, dst: &mut IoDst<'_>, pos: Option<u64>) -> SysResult {
        read_from(file, pos, |pos| self.read_at(dst, pos))
    }
    fn write(&self, _: &File, src: &mut IoSrc<'_>, _: Option<u64>) -> SysResult {
        let result = proc_reg_write(self.store.as_ref(), src);
        Errno::from_return_value(result as usize).map_or(Ok(result as usize), Err)
    }
    fn seek(&self, file: &File, offset: i64, whence: u32) -> Result<u64, Errno> {
        seek(file, offset, whence)
    }
}

/// A program writes to a text file: how many bytes, or an error number below zero. A function of its own with
/// such a value, so that a tracer of Linux's function (`funcgraph-retval`) is shown the same.
#[inline(never)]
fn proc_reg_write(store: Option<&Store>, src: &mut IoSrc<'_>) -> isize {
    let len = src.remaining();
    let mut write = || {
        let store = store.ok_or(Errno::EIO)?;
        if len > STORE_MAX {
            return Err(Errno::EINVAL);
        }
        let mut bytes = crate::mm::copy::zeroed(len)?;
        let mut n = 0;
        while n < len {
            n += src.take(&mut bytes[n..])?;
        }
        store(&bytes)
    };
    match write() {
        Ok(()) => len as isize,
        Err(error) => error.to_return_value() as isize,
    }
}

/// Reads at `pos`, or at the file's position, which is moved.
pub fn read_from(file: &File, pos: Option<u64>, read_at: impl FnOnce(u64) -> SysResult) -> SysResult {
    if let Some(pos) = pos {
        return read_at(pos);
    }
    let mut pos = file.pos.lock();
    let n = read_at(*pos)?;
    *pos += n as u64;
    Ok(n)
}

/// Moves the position of a file whose size is not known: a text, a directory.
pub fn seek(file: &File, offset: i64, whence: u32) -> Result<u64, Errno> {
    let mut pos = file.pos.lock();
    let new = match whence {
        0 => offset,
        1 => (*pos as i64).checked_add(offset).ok_or(Errno::EINVAL)?,
        _ => return Err(Errno::EINVAL),
    };
    *pos = u64::try_from(new).map_err(|_| Errno::EINVAL)?;
    Ok(*pos)
}

/// A directory with fixed names. More can be added.
pub struct Tree(SpinLock<BTreeMap<Vec<u8>, Node>>);

impl Tree {
    /// Without names.
    pub const fn new() -> Self {
        Self(SpinLock::new(BTreeMap::new()))
    }

    /// Adds `node` at `path`. Directories on the way are made.
    pub fn add(&self, path: &str, node: Node) {
        let Some((first, rest)) = path.split_once('/') else {
            self.0.lock().insert(path.as_bytes().to_vec(), node);
            return;
        };
        let sub = {
            let mut names = self.0.lock();
            let entry = names
                .entry(first.as_bytes().to_vec())
                .or_insert_with(|| Node::Directory(0o555, Arc::new(Tree::new())));
            entry.clone()
        };
        if let Node::Directory(_, dir) = sub
            && let Some(tree) = dir.tree()
        {
            tree.add(rest, node);
        }
    }

    /// Removes a name that has no `/`.
    pub fn remove(&self, name: &[u8]) {
        let node = self.0.lock().remove(name);
        drop(node);
    }

    /// The node with this name.
    pub fn find(&self, name: &[u8]) -> Option<Node> {
        self.0.lock().get(name).cloned()
    }

    /// Lists as [`Directory::list`] does, with cookies from 2 on. `false`: `add` returned that.
    pub fn walk(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) -> bool {
        let names: Vec<(Vec<u8>, FileType)> = self
            .0
            .lock()
            .iter()
            .map(|(name, node)| (name.clone(), node.kind()))
            .collect();
        let skip = pos.saturating_sub(2) as usize;
        for (i, (name, kind)) in names.iter().enumerate().skip(skip) {
            if !add(name, *kind, i as u64 + 3) {
                return false;
            }
        }
        true
    }
}

impl Directory for Tree {
    fn get(&self, name: &[u8]) -> Option<Node> {
        self.find(name)
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        self.walk(pos, add);
    }
    fn tree(&self) -> Option<&Tree> {
        Some(self)
    }
}

/// A directory made only to mount something on it, which stays empty.
pub struct MountPoint;

impl Directory for MountPoint {
    fn get(&self, _: &[u8]) -> Option<Node> {
        None
    }
    fn list(&self, _: u64, _: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {}
    fn is_mount_point(&self) -> bool {
        true
    }
}

/// A root that only has the names of a static tree.
pub struct Fixed(pub &'static Tree);

impl Directory for Fixed {
    fn get(&self, name: &[u8]) -> Option<Node> {
        self.0.find(name)
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        self.0.walk(pos, add);
    }
}

/// Makes the root of a file system that shows `directory`.
pub fn root(sb: &Arc<SuperBlock>, mode: u32, directory: Arc<dyn Directory>) -> Shared<Dentry> {
    let owner = directory.owner();
    Dentry::new_root(Shared::new(
        Node::Directory(mode, directory).inode(sb, 1, owner, true),
    ))
}

/// A file system without options that has one instance for all mounts: its magic number.
pub struct Plain(pub u64);

impl SuperOps for Plain {
    fn statfs(&self) -> StatFs {
        StatFs::made_up(self.0)
    }
}

/// The root of a file system that has one instance for all mounts.
pub struct Only(Once<Shared<Dentry>>);

impl Only {
    /// Not made yet.
    pub const fn new() -> Self {
        Self(Once::new())
    }

    /// The root, made at first use, of the file system `name`.
    pub fn root(
        &self,
        name: &'static str,
        ops: impl SuperOps,
        directory: impl Directory + 'static,
    ) -> Shared<Dentry> {
        let make = || {
            let sb = SuperBlock::only(name, Box::new(ops));
            root(&sb, 0o555, Arc::new(directory))
        };
        self.0.get_or_init(make).clone()
    }
}

/// Parses a number that was written to a setting.
pub fn parse<T: core::str::FromStr>(bytes: &[u8]) -> Result<T, Errno> {
    let text = core::str::from_utf8(bytes).map_err(|_| Errno::EINVAL)?;
    text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\0')
        .parse()
        .map_err(|_| Errno::EINVAL)
}

/// [`parse`] of a number that may begin with `0x` (hexadecimal) or `0` (octal), as in C.
pub fn parse_any_base(bytes: &[u8]) -> Result<u64, Errno> {
    let text = core::str::from_utf8(bytes).map_err(|_| Errno::EINVAL)?;
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\0');
    let (digits, base) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    u64::from_str_radix(digits, base).map_err(|_| Errno::EINVAL)
}

/// Collects text as a string, for functions that append to one.
pub fn with_string<R>(out: &mut Text, f: impl FnOnce(&mut String) -> R) -> R {
    let mut s = String::new();
    let result = f(&mut s);
    out.add(s);
    result
}
