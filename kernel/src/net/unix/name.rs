//! Names of local sockets: addresses (`struct sockaddr_un`), and which socket is bound to one.

use super::{Sock, bound};
use crate::fs::inode::{FileType, Inode};
use crate::fs::lookup::{AT_FDCWD, lookup};
use crate::fs::perm::{WRITE, path_permission};
use crate::fs::walk::Walk;
use crate::net::AF_UNIX;
use crate::rcu::glance;
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// The size of `struct sockaddr_un` in bytes.
const ADDR_LEN: usize = 110;

/// A name: the bytes of `sun_path`. An abstract one begins with a NUL.
pub type Name = Arc<[u8]>;

/// The name in an address (`struct sockaddr_un`). `EINVAL`: it has none, or is of another family.
pub fn name_of(address: &[u8]) -> Result<Name, Errno> {
    let Some((family, mut name)) = address.split_first_chunk() else {
        return Err(Errno::EINVAL);
    };
    if address.len() > ADDR_LEN || u32::from(u16::from_ne_bytes(*family)) != AF_UNIX || name.is_empty() {
        return Err(Errno::EINVAL);
    }
    if name[0] != 0 {
        name = name.split(|b| *b == 0).next().unwrap_or(name);
    }
    Ok(Arc::from(name))
}

/// The address with a name. Without a name it has only the family.
pub fn address_of(name: Option<&Name>) -> Vec<u8> {
    let mut raw = (AF_UNIX as u16).to_ne_bytes().to_vec();
    if let Some(name) = name {
        raw.extend_from_slice(name);
        if name.first().is_some_and(|b| *b != 0) {
            raw.push(0);
        }
    }
    raw
}

/// The socket of the kind of `from` that is bound to a name, an abstract one in its network namespace.
/// `ECONNREFUSED`: there is none.
pub fn find(from: &Sock, name: Name) -> Result<Arc<Sock>, Errno> {
    let kind = from.kind;
    let bound = if name.first() == Some(&0) {
        bound::find(from.net.number(), kind, &name)
    } else {
        let at = lookup(AT_FDCWD, &name, Walk::FOLLOW)?;
        path_permission(&at, WRITE, &crate::task::current().creds())?;
        find_bound(&at.dentry.inode)
    };
    let bound = bound.ok_or(Errno::ECONNREFUSED)?;
    if bound.kind != kind {
        return Err(Errno::EPROTOTYPE);
    }
    Ok(bound)
}

/// The socket that is bound to the path of `inode`.
fn find_bound(inode: &Inode) -> Option<Arc<Sock>> {
    if inode.kind != FileType::Socket {
        return None;
    }
    let sock = inode.socket.look(&glance())?.upgrade()?;
    sock.downcast().ok()
}
