//! Access control lists as POSIX.1e drafted them and Linux has them: their form as extended attributes, whom
//! they allow what, and what new files inherit.
//!
//! What a list gives the file's owner, others, and by its mask all users and groups in between is also in the
//! file's permission bits. It is kept only there. So a list never changes, `chmod` need not know of it, and
//! all files that inherited a list share it; but whatever reads an access list needs the file's mode.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;

/// The version of the attribute's format.
const VERSION: u32 = 2;
/// The size in bytes of the part before the entries, and of an entry.
const HEADER: usize = 4;
const ENTRY: usize = 8;
/// The id in entries that have none.
const NO_ID: u32 = u32::MAX;

/// Read, write, execute.
const ALL: u16 = 7;

/// Why an attribute is not a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// It has another version.
    Version,
    /// It has another format, or its entries contradict each other.
    Malformed,
    /// There is no memory for it.
    NoMemory,
}

/// For whom an entry is. The values are those in the attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
enum Tag {
    Owner = 1,
    User = 2,
    OwningGroup = 4,
    Group = 8,
    Mask = 16,
    Other = 32,
}

impl Tag {
    fn decode(raw: u16) -> Option<Self> {
        Some(match raw {
            1 => Self::Owner,
            2 => Self::User,
            4 => Self::OwningGroup,
            8 => Self::Group,
            16 => Self::Mask,
            32 => Self::Other,
            _ => return None,
        })
    }
    fn has_id(self) -> bool {
        matches!(self, Self::User | Self::Group)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tag: Tag,
    perm: u16,
    id: u32,
}

/// Entries as they were read. They may not make a valid list.
#[derive(Debug)]
pub struct Parsed(Vec<Entry>);

/// A list: entries for the owner, users, the owning group, groups, the mask (if there are users or groups),
/// and others, in this order.
#[derive(Debug, PartialEq, Eq)]
pub struct Acl(Vec<Entry>);

/// The user whose access is checked.
pub trait Who {
    /// Whether the user's id is `uid`.
    fn is_user(&self, uid: u32) -> bool;
    /// Whether the user is in group `gid`.
    fn in_group(&self, gid: u32) -> bool;
}

/// Reads an attribute. `None`: it has no entries, which means that there is no list.
pub fn parse(bytes: &[u8]) -> Result<Option<Parsed>, Error> {
    let (version, rest) = bytes.split_first_chunk::<HEADER>().ok_or(Error::Malformed)?;
    if u32::from_le_bytes(*version) != VERSION {
        return Err(Error::Version);
    }
    let (raw, rest) = rest.as_chunks::<ENTRY>();
    if !rest.is_empty() {
        return Err(Error::Malformed);
    }
    if raw.is_empty() {
        return Ok(None);
    }
    let mut entries = Vec::new();
    entries
        .try_reserve_exact(raw.len())
        .map_err(|_| Error::NoMemory)?;
    for &[t0, t1, p0, p1, i0, i1, i2, i3] in raw {
        let tag = Tag::decode(u16::from_le_bytes([t0, t1])).ok_or(Error::Malformed)?;
        let id = u32::from_le_bytes([i0, i1, i2, i3]);
        if tag.has_id() && id == NO_ID {
            return Err(Error::Malformed);
        }
        entries.push(Entry {
            tag,
            perm: u16::from_le_bytes([p0, p1]),
            id,
        });
    }
    Ok(Some(Parsed(entries)))
}

/// Whose id an entry has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A user's.
    User(u32),
    /// A group's.
    Group(u32),
}

impl Entry {
    fn named(&self) -> Option<Named> {
        match self.tag {
            Tag::User => Some(Named::User(self.id)),
            Tag::Group => Some(Named::Group(self.id)),
            _ => None,
        }
    }
}

impl Parsed {
    /// Makes other ids of those in it. An error: `convert` has none for one of them.
    pub fn convert(&mut self, convert: impl Fn(Named) -> Option<u32>) -> Result<(), Error> {
        for entry in &mut self.0 {
            if let Some(named) = entry.named() {
                entry.id = convert(named).ok_or(Error::Malformed)?;
            }
        }
        Ok(())
    }

    /// The list, if the entries are a valid one.
    pub fn check(self) -> Result<Acl, Error> {
        use Tag::{Group, Mask, Other, Owner, OwningGroup, User};
        let mut before = None;
        let mut named = false;
        for entry in &self.0 {
            let follows = match (before, entry.tag) {
                (None, Owner) => true,
                (Some(Owner | User), User | OwningGroup) => true,
                (Some(OwningGroup | Group), Group | Mask) => true,
                (Some(OwningGroup | Group), Other) => !named,
                (Some(Mask), Other) => true,
                _ => false,
            };
            if !follows || entry.perm & !ALL != 0 {
                return Err(Error::Malformed);
            }
            named |= entry.tag.has_id();
            before = Some(entry.tag);
        }
        match before {
            Some(Other) => Ok(Acl(self.0)),
            _ => Err(Error::Malformed),
        }
    }
}

impl Acl {
    /// The size in bytes of its attribute.
    pub fn size(&self) -> usize {
        HEADER + self.0.len() * ENTRY
    }

    /// Appends its attribute to `out`, which has room for it. `mode`: the list is the access list of a file
    /// with this mode; `None`: it is written as it is. `show` says which ids are written.
    pub fn encode_with(&self, mode: Option<u32>, out: &mut Vec<u8>, show: impl Fn(Named) -> Option<u32>) {
        out.extend_from_slice(&VERSION.to_le_bytes());
        for entry in &self.0 {
            let perm = match mode {
                Some(mode) => self.perm(entry, mode),
                None => entry.perm,
            };
            let id = entry.named().and_then(&show).unwrap_or(NO_ID);
            out.extend_from_slice(&(entry.tag as u16).to_le_bytes());
            out.extend_from_slice(&perm.to_le_bytes());
            out.extend_from_slice(&id.to_le_bytes());
        }
    }

    /// The permission bits (`0777`) that correspond to it. The group's bits are the mask, if there is one.
    pub fn mode(&self) -> u32 {
        let mut mode = 0;
        for entry in &self.0 {
            let perm = u32::from(entry.perm);
            match entry.tag {
                Tag::Owner => mode |= perm << 6,
                Tag::OwningGroup => mode |= perm << 3,
                Tag::Mask => mode = mode & !0o070 | perm << 3,
                Tag::Other => mode |= perm,
                Tag::User | Tag::Group => {}
            }
        }
        mode
    }

    /// Whether the permission bits express the whole list.
    pub fn is_mode(&self) -> bool {
        !self.has_mask()
    }

    fn has_mask(&self) -> bool {
        // The mask is the last entry but one.
        self.0.iter().rev().nth(1).is_some_and(|e| e.tag == Tag::Mask)
    }

    /// The permission bits of a new file that is made with `mode` in a directory with this default list. The
    /// list becomes the file's access list, unless the bits express all of it.
    pub fn inherit(&self, mode: u32) -> u32 {
        mode & (self.mode() | !0o777)
    }

    /// What an entry of the access list of a file with `mode` allows.
    fn perm(&self, entry: &Entry, mode: u32) -> u16 {
        let bits = |shift: u32| (mode >> shift) as u16 & ALL;
        match entry.tag {
            Tag::Owner => bits(6),
            Tag::Mask => bits(3),
            Tag::OwningGroup if !self.has_mask() => bits(3),
            Tag::Other => bits(0),
            _ => entry.perm,
        }
    }

    /// Whether a user who is not the owner may do all of `want` (read 4, write 2, execute 1). This is the
    /// access list of a file with `mode` and group `gid`. If the user has an entry, only that counts. Else,
    /// of the groups that the user is in, one that allows all of `want` is enough. The entry for others
    /// counts for a user who is in none of them.
    pub fn allows(&self, mode: u32, gid: u32, who: &impl Who, want: u32) -> bool {
        let want = want as u16 & ALL;
        let masked = (mode >> 3) as u16 & ALL;
        let mut in_some = false;
        for entry in &self.0 {
            let perm = self.perm(entry, mode);
            let member = match entry.tag {
                Tag::User if who.is_user(entry.id) => return perm & masked & want == want,
                Tag::OwningGroup => who.in_group(gid),
                Tag::Group => who.in_group(entry.id),
                Tag::Other => return !in_some && perm & want == want,
                _ => false,
            };
            if member && perm & want == want {
                return masked & want == want;
            }
            in_some |= member;
        }
        false
    }
}

#[cfg(test)]
mod tests;
