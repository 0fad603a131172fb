//! `mqueue`: the names and files of POSIX message queues ([`crate::ipc::mqueue`]). Each IPC
//! namespace has an instance, which programs may mount, and in whose root all its queues are. As in other
//! file systems in memory its entries are dentries.

use crate::fs::dentry::Dentry;
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::inode::{Dev, FileType, Inode, InodeOps, NewInode, new_root};
use crate::fs::io::IoDst;
use crate::fs::mount::Mount;
use crate::fs::path::Path;
use crate::fs::perm::{self, EXEC, READ, WRITE};
use crate::fs::poll::{PollEvents, PollTable};
use crate::fs::pseudo::read_from;
use crate::fs::superblock::{FsType, StatFs, SuperBlock, SuperOps};
use crate::fs::{inotify, names, open};
use crate::ipc::mqueue::limits::Table;
use crate::ipc::mqueue::notice::{How, Notice};
use crate::ipc::mqueue::{Message, Queue, Wait};
use crate::ipc::ns::{Own, Place};
use crate::rcu::Shared;
use crate::sync::{Mutex, Once, SpinLock};
use crate::task::audit::names as audit;
use crate::task::{Creds, current};
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use limen_linux_abi::{Errno, SysResult, raw::general as abi};

/// `MQUEUE_MAGIC`.
const MAGIC: u64 = 0x1980_0202;
/// The size of a queue's file, in which its status text has room (`FILENT_SIZE`).
const FILE_SIZE: usize = 80;
/// How many bytes an entry adds to the directory's size (`DIRENT_SIZE`).
const DIRENT_SIZE: u64 = 20;

/// The file system type.
pub static MQUEUE: FsType = FsType {
    name: "mqueue",
    for_users: Some(|| Own::of_current().owner()),
    revealing: false,
    needs_device: false,
    mount: |_, data| {
        no_options(data)?;
        Ok(place()?.dentry)
    },
};

struct Super;

/// `EINVAL`: there is an option, and there are none.
fn no_options(data: &str) -> Result<(), Errno> {
    match data.split(',').all(str::is_empty) {
        true => Ok(()),
        false => Err(Errno::EINVAL),
    }
}

impl SuperOps for Super {
    fn statfs(&self) -> StatFs {
        StatFs::made_up(MAGIC)
    }
    fn check_options(&self, data: &str) -> Result<(), Errno> {
        no_options(data)
    }
}

static INITIAL: Once<Files> = Once::new();

/// The directory of all queues of the running thread's IPC namespace, in the mount by which `mq_open` finds
/// it. The errors of [`SuperBlock::new`]. May sleep.
fn place() -> Result<Path, Errno> {
    let own = Own::of_current();
    let Some(ns) = own.made() else {
        let files = INITIAL.get_or_init(|| {
            let sb = SuperBlock::only("mqueue", Box::new(Super));
            Files::new(&sb, &own, (0, 0))
        });
        return Ok(files.path.clone());
    };
    let files = match ns.files.get() {
        Some(files) => files,
        None => {
            let sb = SuperBlock::new("mqueue", Box::new(Super), own.owner())?;
            let new = Box::new(Files::new(&sb, &own, ns.maker));
            // Those of a thread that was faster stay.
            ns.files.get_or_init(|| new)
        }
    };
    let files = files.downcast_ref::<Files>();
    Ok(files.expect("nobody puts anything else there").path.clone())
}

/// Where the directory's operations find its entries.
type Entries = Arc<SpinLock<Option<Shared<Dentry>>>>;

/// The directory of a namespace, which goes with it where it is not mounted.
struct Files {
    path: Path,
    entries: Entries,
}

impl Files {
    /// Of namespace `own`, in the instance `sb`.
    fn new(sb: &Arc<SuperBlock>, own: &Own, (uid, gid): (u32, u32)) -> Self {
        let entries: Entries = Arc::new(SpinLock::new(None));
        let root = Root {
            limits: own.queues(),
            entries: entries.clone(),
        };
        let dentry = new_root(sb, Box::new(root), 0o1777);
        dentry.inode.set_owner(uid, gid);
        *entries.lock() = Some(dentry.clone());
        let mnt = Mount::new_internal(dentry.clone(), 0);
        Self {
            path: Path { mnt, dentry },
            entries,
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let root = self.entries.lock().take();
        drop(root);
    }
}

/// The directory.
struct Root {
    limits: Place<Table>,
    entries: Entries,
}

impl InodeOps for Root {
    fn create(&self, dir: &Shared<Inode>, new: &NewInode<'_>) -> Result<Shared<Inode>, Errno> {
        match new.kind {
            FileType::Regular => make(&self.limits, dir, new.mode, None),
            _ => Err(Errno::EPERM),
        }
    }
    fn writable_directory(&self) -> bool {
        true
    }
    fn moves_names(&self) -> bool {
        false
    }
    fn size(&self, _: &Inode) -> u64 {
        let root = self.entries.lock();
        let children = root.as_ref().and_then(|root| root.children());
        let entries = children.map_or(0, |children| children.len());
        (2 + entries as u64) * DIRENT_SIZE
    }
}

/// A queue's file.
struct Node(Arc<Queue>);

impl InodeOps for Node {
    fn open(&self, _: &Shared<Inode>, flags: u32) -> Result<Option<Arc<dyn FileOps>>, Errno> {
        if flags & abi::O_DIRECT != 0 {
            return Err(Errno::EINVAL);
        }
        Ok(Some(self.0.clone()))
    }
    fn permission(&self, _: &Inode, mask: u32) -> Option<Result<(), Errno>> {
        // No file here is a program, whatever its mode says.
        (mask & EXEC != 0).then_some(Err(Errno::EACCES))
    }
    fn size(&self, _: &Inode) -> u64 {
        FILE_SIZE as u64
    }
    fn evict(&self, _: &Inode) {
        self.0.end();
    }
}

/// Makes a queue's file. `mode`: without the umask's bits. The errors of [`Queue::new`].
fn make(
    limits: &Place<Table>,
    dir: &Shared<Inode>,
    mode: u32,
    asked: Option<[isize; 2]>,
) -> Result<Shared<Inode>, Errno> {
    let queue = Queue::new(limits, asked)?;
    let creds = current().creds();
    let new = NewInode {
        kind: FileType::Regular,
        mode,
        uid: creds.fsuid,
        gid: creds.fsgid,
        rdev: Dev::default(),
        target: b"",
    };
    Ok(Shared::new(Inode::new(&dir.sb, Box::new(Node(queue)), &new)))
}

/// `EACCES`: it is no name of a single entry, or the running thread may not search the directory.
fn check_name(dir: &Dentry, name: &[u8], creds: &Creds) -> Result<(), Errno> {
    if matches!(name, b"" | b"." | b"..") || name.contains(&b'/') {
        return Err(Errno::EACCES);
    }
    perm::permission(&dir.inode, EXEC, creds)
}

/// `mq_open`. `name`: without a slash. `mode`: permissions of a new queue, without the umask. `asked`: how
/// many messages it may have, and how long each. Errors: `EACCES`, `ENOENT`, `EEXIST`, `EINVAL`, `EROFS`,
/// `ENAMETOOLONG`, `ENFILE`, those of [`Queue::new`] and [`SuperBlock::new`]. May sleep.
pub fn open(name: &[u8], flags: u32, mode: u32, asked: Option<[isize; 2]>) -> Result<Arc<File>, Errno> {
    let creds = current().creds();
    let Path { mnt, dentry } = &place()?;
    check_name(dentry, name, &creds)?;
    let found = loop {
        match dentry.lookup(name) {
            Ok(found) => {
                audit::found(&found);
                may_open(&found.inode, flags, &creds)?;
                break found;
            }
            Err(Errno::ENOENT) if flags & abi::O_CREAT != 0 => {
                mnt.check_writable()?;
                audit::found_hidden_parent(dentry);
                // A thread that wants to make a queue which another thread has made meanwhile opens that one,
                // even if there was room for one only.
                let _making = MAKING.lock();
                if matches!(dentry.lookup(name), Err(Errno::ENOENT)) {
                    match create(dentry, name, mode, asked, &creds) {
                        // By `open` in a mount of the directory.
                        Err(Errno::EEXIST) => {}
                        made => break made?,
                    }
                }
            }
            Err(errno) => return Err(errno),
        }
    };
    let path = Path {
        mnt: mnt.clone(),
        dentry: found,
    };
    open::open_found(path, flags)
}

/// Held by threads in `mq_open` that make a queue.
static MAKING: Mutex<()> = Mutex::new(());

/// Whether `mq_open` may open what is there.
fn may_open(inode: &Inode, flags: u32, creds: &Creds) -> Result<(), Errno> {
    const NEW: u32 = abi::O_CREAT | abi::O_EXCL;
    if flags & NEW == NEW {
        return Err(Errno::EEXIST);
    }
    let want = match flags & abi::O_ACCMODE {
        abi::O_RDONLY => READ,
        abi::O_WRONLY => WRITE,
        abi::O_RDWR => READ | WRITE,
        _ => return Err(Errno::EINVAL),
    };
    perm::permission(inode, want, creds)
}

/// Makes a queue with this name.
fn create(
    dir: &Shared<Dentry>,
    name: &[u8],
    mode: u32,
    asked: Option<[isize; 2]>,
    creds: &Creds,
) -> Result<Shared<Dentry>, Errno> {
    perm::permission(&dir.inode, WRITE | EXEC, creds).inspect_err(|_| audit::not_made(&dir.inode, name))?;
    let mode = mode & 0o7777 & !current().fs().umask();
    let limits = Own::of_current().queues();
    let made = make(&limits, &dir.inode, mode, asked).and_then(|inode| names::insert_new(dir, name, inode));
    let child = made.inspect_err(|errno| {
        if *errno != Errno::EEXIST {
            audit::not_made(&dir.inode, name);
        }
    })?;
    inotify::created(dir, &child);
    Ok(child)
}

/// `mq_unlink`. Errors: `EACCES`, `ENOENT`, `EPERM`, `EROFS`, `EBUSY`, `ENAMETOOLONG`. May sleep.
pub fn unlink(name: &[u8]) -> Result<(), Errno> {
    let place = &place()?;
    audit::found_hidden_parent(&place.dentry);
    place.mnt.check_writable()?;
    let creds = current().creds();
    check_name(&place.dentry, name, &creds)?;
    names::remove(place, name, &creds, false, false)
}

/// The queue behind a file. `EBADF`: it is another kind of file.
pub fn of(file: &File) -> Result<&Queue, Errno> {
    file.ops().downcast().ok_or(Errno::EBADF)
}

/// How long a call on the file waits.
fn wait(file: &File, wait: Wait) -> Wait {
    if file.nonblocking() { Wait::Not } else { wait }
}

/// All three times of a queue's file are now: a message has come or gone.
fn touch(file: &File) {
    let inode = file.inode();
    inode.touch_modified();
    inode.set_times(Some(inode.times().mtime), None, None);
}

/// `mq_timedsend` of a message that [`Queue::check_sent`] has let pass. May sleep.
pub fn send(file: &File, message: Message, until: Wait) -> Result<(), Errno> {
    if of(file)?.send(message, wait(file, until))? {
        touch(file);
    }
    Ok(())
}

/// `mq_timedreceive` with a buffer that [`Queue::check_received`] has let pass. May sleep.
pub fn receive(file: &File, until: Wait) -> Result<Message, Errno> {
    let (message, at_once) = of(file)?.receive(wait(file, until))?;
    if at_once {
        touch(file);
    }
    Ok(message)
}

/// Times of access and change are now.
fn touch_changed(file: &File) {
    let inode = file.inode();
    inode.touch_changed();
    inode.set_times(Some(inode.times().ctime), None, None);
}

/// `mq_notify` by the running process; `None`: it is not to be told any more. `EBADF`, `EBUSY`.
pub fn notify(file: &File, how: Option<How>) -> Result<(), Errno> {
    let queue = of(file)?;
    let changed = match how {
        Some(how) => queue.give_notice(Notice::new(how)).map(|()| true)?,
        None => queue.forget_notice(&current().process),
    };
    if changed {
        touch_changed(file);
    }
    Ok(())
}

/// `mq_getsetattr` sets `O_NONBLOCK`, or clears it. `EBADF`.
pub fn set_nonblocking(file: &File, on: bool) -> Result<(), Errno> {
    of(file)?;
    let flags = if on { abi::O_NONBLOCK } else { 0 };
    file.change_flags(flags, abi::O_NONBLOCK)?;
    touch_changed(file);
    Ok(())
}

impl FileOps for Queue {
    fn mode(&self) -> FileMode {
        FileMode::POLLS | FileMode::NO_WRITE
    }
    fn read(&self, file: &File, dst: &mut IoDst<'_>, pos: Option<u64>) -> SysResult {
        let status = self.status();
        let notice = status.notice.unwrap_or_default();
        let mut text = format!(
            "QSIZE:{:<10} NOTIFY:{:<5} SIGNO:{:<5} NOTIFY_PID:{:<6}\n",
            status.bytes, notice.how, notice.signal, notice.pid
        );
        text.truncate(FILE_SIZE - 1);
        let read = read_from(file, pos, |pos| {
            let from = usize::try_from(pos).unwrap_or(usize::MAX);
            match text.as_bytes().get(from..) {
                Some(rest) if !rest.is_empty() => dst.put(&rest[..rest.len().min(dst.remaining())]),
                _ => Ok(0),
            }
        })?;
        if read != 0 {
            touch_changed(file);
        }
        Ok(read)
    }
    fn poll(&self, _: &File, table: Option<&mut PollTable<'_>>) -> PollEvents {
        if let Some(table) = table {
            table.register(&self.changes);
        }
        let count = self.len();
        let mut events = PollEvents::empty();
        events.set(PollEvents::READABLE, count != 0);
        events.set(PollEvents::WRITABLE, count < self.shape.messages);
        events
    }
    fn flush(&self, _: &File) {
        self.forget_notice(&current().process);
    }
}
