//! `nsfs`: files that stand for namespaces, and keep them. They are reached by the links of `/proc/<pid>/ns`
//! and by ioctls, and have names where they are mounted (`mount --bind`).

use crate::fs::anon;
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::inode::{Inode, InodeOps};
use crate::fs::open;
use crate::fs::path::Path;
use crate::mm::user::UserPtr;
use crate::rcu::{Shared, Weak};
use crate::task::current;
use crate::task::ns::{self, Kind, NsRef, pid, user};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use limen_linux_abi::native::ioc;
use limen_linux_abi::{Errno, SysResult, raw::general as abi};

/// `NSIO`.
const IO: u8 = 0xb7;
const NS_GET_USERNS: u32 = ioc::none(IO, 1);
const NS_GET_PARENT: u32 = ioc::none(IO, 2);
const NS_GET_NSTYPE: u32 = ioc::none(IO, 3);
const NS_GET_OWNER_UID: u32 = ioc::none(IO, 4);

/// A namespace's file. The namespace lives as long as it.
struct Node(NsRef);

impl InodeOps for Node {
    fn made_up(&self) -> bool {
        true
    }
    fn open(&self, _: &Shared<Inode>, _: u32) -> Result<Option<Arc<dyn FileOps>>, Errno> {
        Ok(Some(Arc::new(Open(self.0.clone()))))
    }
    fn namespace(&self) -> Option<&NsRef> {
        Some(&self.0)
    }
}

/// What the file is called where it has no name: `uts:[4026531838]`.
pub fn label(ns: &NsRef) -> String {
    format!("{}:[{}]", ns.kind().name(), ns.inode())
}

/// The place of a namespace's file.
pub fn path(ns: &NsRef) -> Path {
    anon::namespace_place(file(ns), label(ns).as_bytes())
}

/// A namespace's file: the one that there is, if anybody has it.
fn file(ns: &NsRef) -> Shared<Inode> {
    fn there(place: &Option<Weak<Inode>>) -> Option<Shared<Inode>> {
        place.as_ref().and_then(Weak::upgrade)
    }
    let place = ns.file();
    if let Some(inode) = there(&place.lock()) {
        return inode;
    }
    let new = anon::namespace_file(Box::new(Node(ns.clone())), ns.inode());
    let mut place = place.lock();
    // By another thread, meanwhile. What is not needed is dropped without the lock.
    if let Some(inode) = there(&place) {
        drop(place);
        return inode;
    }
    let old = place.replace(Shared::downgrade(&new));
    drop(place);
    drop(old);
    new
}

/// Opens a namespace's file, as ioctls do. Returns the descriptor. `EMFILE`, `ENFILE`.
pub fn open_namespace(ns: NsRef) -> SysResult {
    let file = open::open_found(path(&ns), abi::O_RDONLY)?;
    Ok(current().files().install(file, true)? as usize)
}

/// The namespace for which a file stands, if it is one of nsfs.
pub fn namespace(file: &File) -> Option<NsRef> {
    file.ops().downcast::<Open>().map(|open| open.0.clone())
}

/// The user namespace that owns one. `EPERM`: the running thread's is neither it nor one above it.
fn owner(ns: &NsRef) -> Result<NsRef, Errno> {
    let owner = match ns {
        NsRef::Initial(Kind::User) => return Err(Errno::EPERM),
        ns => user::reference(&ns.owner()),
    };
    let own = user::reference(&current().creds().user);
    visible(owner, &own)
}

/// `ns`, if `own` is it or above it. Else `EPERM`.
fn visible(ns: NsRef, own: &NsRef) -> Result<NsRef, Errno> {
    let mut above = Some(ns.clone());
    while let Some(one) = above {
        if one.is(own) {
            return Ok(ns);
        }
        above = one.parent();
    }
    Err(Errno::EPERM)
}

/// What `NS_GET_PARENT` opens. `EINVAL`: namespaces of this kind are in no others; `EPERM`.
fn parent(ns: &NsRef) -> Result<NsRef, Errno> {
    match ns.kind() {
        Kind::User => owner(ns),
        Kind::Pid => {
            let own = ns::of_task(&current(), Kind::Pid).ok_or(Errno::EPERM)?;
            visible(ns.parent().ok_or(Errno::EPERM)?, &own)
        }
        _ => Err(Errno::EINVAL),
    }
}

/// An open file of a namespace.
struct Open(NsRef);

impl FileOps for Open {
    fn mode(&self) -> FileMode {
        FileMode::NO_READ | FileMode::NO_WRITE
    }
    fn ioctl(&self, _: &File, cmd: u32, arg: usize) -> SysResult {
        let ns = &self.0;
        match cmd {
            NS_GET_USERNS => open_namespace(owner(ns)?),
            NS_GET_PARENT => open_namespace(parent(ns)?),
            NS_GET_NSTYPE => Ok(ns.kind().flag().bits() as usize),
            NS_GET_OWNER_UID => {
                if ns.kind() != Kind::User {
                    return Err(Errno::EINVAL);
                }
                UserPtr::<u32>::new(arg).write(user::owner_uid(ns))?;
                Ok(0)
            }
            _ if pid::translates(cmd) => {
                if ns.kind() != Kind::Pid {
                    return Err(Errno::EINVAL);
                }
                pid::translate(&ns.made(), cmd, arg as i32)
            }
            _ => Err(Errno::ENOTTY),
        }
    }
}
