//! `security.capability`: the capabilities of a program, as its attribute says them. A user namespace's root
//! can give some that count in that namespace and those below it: the attribute then has the id of that root
//! (version 3 of its layout). Programs see and write it as their own namespace has it.

use crate::fs::inode::Inode;
use crate::mm::reserve::copy_of;
use crate::task::creds::cap;
use crate::task::current;
use crate::task::ns::user::{self, UserRef};
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// `VFS_CAP_REVISION_MASK`.
const VERSION: u32 = 0xff00_0000;
const VERSION_2: u32 = 0x0200_0000;
const VERSION_3: u32 = 0x0300_0000;
/// The sizes in bytes of an attribute without and with an id.
const SIZE_2: usize = 20;
const SIZE_3: usize = 24;

/// The version of an attribute, and the id in it (0 if it has none). `None`: it is of neither version.
fn read(bytes: &[u8]) -> Option<(u32, u32)> {
    let word = |at: usize| {
        let four = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(four.try_into().ok()?))
    };
    match (word(0)? & VERSION, bytes.len()) {
        (VERSION_2, SIZE_2) => Some((VERSION_2, 0)),
        (VERSION_3, SIZE_3) => Some((VERSION_3, word(SIZE_2)?)),
        _ => None,
    }
}

/// The attribute in another version. `id`: that of the root; `None`: version 2.
fn with_root(bytes: &[u8], id: Option<u32>) -> Result<Vec<u8>, Errno> {
    let mut new = copy_of(&bytes[..SIZE_2])?;
    let magic = u32::from_le_bytes([new[0], new[1], new[2], new[3]]) & !VERSION;
    let version = if id.is_some() { VERSION_3 } else { VERSION_2 };
    new[..4].copy_from_slice(&(magic | version).to_le_bytes());
    if let Some(id) = id {
        crate::mm::reserve::room_exact(&mut new, 4)?;
        new.extend_from_slice(&id.to_le_bytes());
    }
    Ok(new)
}

/// What is kept of an attribute that the running thread sets, which has `CAP_SETFCAP` for the file. `EINVAL`:
/// it is none, or names a root that is not mapped.
pub fn kept(inode: &Inode, bytes: Vec<u8>) -> Result<Vec<u8>, Errno> {
    let (version, id) = read(&bytes).ok_or(Errno::EINVAL)?;
    let creds = current().creds();
    let owner = &inode.sb.owner;
    // For everybody to whom the file system belongs.
    if version == VERSION_2 && creds.capable_in(owner, cap::SETFCAP) {
        return Ok(bytes);
    }
    let root = user::make_kuid(&creds.user, id).ok_or(Errno::EINVAL)?;
    let id = user::from_kuid(owner, root).ok_or(Errno::EINVAL)?;
    with_root(&bytes, Some(id))
}

/// An attribute as the running thread sees it. `EOVERFLOW`: it is of a root of whom its user namespace knows
/// nothing.
pub fn shown(inode: &Inode, bytes: &[u8]) -> Result<Vec<u8>, Errno> {
    let (_, id) = read(bytes).ok_or(Errno::EINVAL)?;
    let creds = current().creds();
    let root = user::make_kuid(&inode.sb.owner, id);
    if let Some(id) = root.and_then(|root| user::from_kuid(&creds.user, root))
        && id != 0
    {
        return with_root(bytes, Some(id));
    }
    if !root.is_some_and(|root| is_root_of(root, &creds.user)) {
        return Err(Errno::EOVERFLOW);
    }
    with_root(bytes, None)
}

/// Whether the kernel's user id `kuid` is root in `ns` or in one around it.
fn is_root_of(kuid: u32, ns: &UserRef) -> bool {
    let mut at = ns;
    loop {
        if user::from_kuid(at, kuid) == Some(0) {
            return true;
        }
        match at {
            Some(made) => at = made.parent(),
            None => return false,
        }
    }
}
