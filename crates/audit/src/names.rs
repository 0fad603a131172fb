//! The files that a call looks up by name, in the order of its records `PATH`: what each name was, where it
//! led, and which name a later event is about.

use crate::Error;
use alloc::vec::Vec;

/// A file on its device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// The device's number as the kernel has it: `major << 20 | minor`.
    pub dev: u32,
    /// The inode's number.
    pub ino: u64,
}

/// A device's major and minor number.
pub fn halves(dev: u32) -> (u32, u32) {
    (dev >> 20, dev & 0xf_ffff)
}

/// The capabilities of a file (`security.capability`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileCaps {
    /// Those that exec gives.
    pub permitted: u64,
    /// Those that it gives to who has them inheritable.
    pub inheritable: u64,
    /// Whether they are effective at once.
    pub effective: bool,
    /// The layout's version; 0: the file has none.
    pub version: u8,
    /// The user who is root where they count.
    pub root: u32,
}

impl FileCaps {
    /// Reads the attribute. `None`: it is none.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let word = |n: usize| {
            let bytes = bytes.get(4 * n..4 * n + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        let first = word(0)?;
        let version = (first >> 24) as u8;
        let words = match version {
            1 => 3,
            2 => 5,
            3 => 6,
            _ => return None,
        };
        if bytes.len() != 4 * words {
            return None;
        }
        let set = |at: usize| {
            let high = if version == 1 { 0 } else { word(at + 2)? };
            Some(u64::from(word(at)?) | u64::from(high) << 32)
        };
        Some(Self {
            permitted: set(1)?,
            inheritable: set(2)?,
            effective: first & 1 != 0,
            version,
            root: if version == 3 { word(5)? } else { 0 },
        })
    }
}

/// What is told of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileFacts {
    /// Which it is.
    pub id: FileId,
    /// `st_mode`.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// The device that it stands for, as in [`FileId::dev`].
    pub rdev: u32,
    /// Its capabilities.
    pub caps: FileCaps,
}

/// What a name was for the call (`nametype`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It was read and led nowhere, or was only a text.
    Unknown,
    /// The file was used.
    Normal,
    /// The directory of a name that is made or removed.
    Parent,
    /// It is removed.
    Delete,
    /// It is made.
    Create,
}

impl Kind {
    /// As records tell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::Normal => "NORMAL",
            Self::Parent => "PARENT",
            Self::Delete => "DELETE",
            Self::Create => "CREATE",
        }
    }
}

/// One file that the call looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// Which of the texts it has.
    text: Option<usize>,
    /// How much of the text is told; `None`: all.
    len: Option<usize>,
    /// What it was.
    pub kind: Kind,
    /// The file. `None`: there is none.
    pub file: Option<FileFacts>,
    /// There is no record `PATH` of it, but it counts.
    pub hidden: bool,
}

#[cfg(test)]
impl Name {
    /// For tests: a file on device 0:7.
    pub(crate) const fn of(kind: Kind, ino: u64, mode: u32, uid: u32) -> Self {
        let id = FileId { dev: 7, ino };
        let (gid, rdev) = (uid + 11, 0);
        let caps = FileCaps {
            permitted: 0,
            inheritable: 0,
            effective: false,
            version: 0,
            root: 0,
        };
        let file = Some(FileFacts {
            id,
            mode,
            uid,
            gid,
            rdev,
            caps,
        });
        Self {
            text: None,
            len: None,
            kind,
            file,
            hidden: false,
        }
    }
}

/// What stands behind `name=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told<'a> {
    /// This text.
    Text(&'a [u8]),
    /// The working directory: the name has no directory.
    Here,
    /// Nothing: the file was not looked up by name.
    Nothing,
}

/// A text that a program passed.
#[derive(Debug)]
struct Text {
    bytes: Vec<u8>,
    /// The entry that was made for it.
    entry: usize,
    /// Whether it is a path that has been looked up, or is being.
    begun: bool,
}

/// All files that a call has looked up so far.
#[derive(Debug, Default)]
pub struct Names {
    texts: Vec<Text>,
    list: Vec<Name>,
    /// The text by which something is looked up.
    current: Option<usize>,
}

/// How many bytes of a path are its directory, with the slash behind it.
pub fn parent_len(path: &[u8]) -> usize {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
    path[..end]
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(usize::from(end == 0 && !path.is_empty()), |slash| slash + 1)
}

/// Whether `name` is the last one of `path`, whose directory has `parent` bytes.
fn is_last(name: &[u8], path: &[u8], parent: usize) -> bool {
    let mut rest = path.get(parent..).unwrap_or_default();
    while let [head @ .., b'/'] = rest
        && !head.is_empty()
    {
        rest = head;
    }
    rest == name
}

/// Whether `name` is the last one of `path`.
pub fn is_named(path: &[u8], name: &[u8]) -> bool {
    is_last(name, path, parent_len(path))
}

impl Names {
    /// None.
    pub const fn new() -> Self {
        Self {
            texts: Vec::new(),
            list: Vec::new(),
            current: None,
        }
    }
    /// All, in their order.
    pub fn all(&self) -> &[Name] {
        &self.list
    }
    /// Forgets all.
    pub fn clear(&mut self) {
        self.texts.clear();
        self.list.clear();
        self.current = None;
    }
    /// What stands behind `name=` of one of them.
    pub fn told(&self, name: &Name) -> Told<'_> {
        let text = name.text.and_then(|n| self.texts.get(n));
        match (text, name.len) {
            (None, _) => Told::Nothing,
            (Some(_), Some(0)) => Told::Here,
            (Some(text), Some(len)) => Told::Text(text.bytes.get(..len).unwrap_or(&text.bytes)),
            (Some(text), None) => Told::Text(&text.bytes),
        }
    }

    fn text_of(&self, name: &Name) -> Option<&[u8]> {
        Some(&self.texts.get(name.text?)?.bytes)
    }

    fn add(&mut self, text: Option<usize>, kind: Kind) -> Result<&mut Name, Error> {
        self.list.try_reserve(1).map_err(|_| Error::NoMemory)?;
        let at = self.list.len();
        self.list.push(Name {
            text,
            len: None,
            kind,
            file: None,
            hidden: false,
        });
        self.list.get_mut(at).ok_or(Error::NoMemory)
    }

    fn keep(&mut self, bytes: &[u8], begun: bool) -> Result<usize, Error> {
        let mut own = Vec::new();
        own.try_reserve_exact(bytes.len()).map_err(|_| Error::NoMemory)?;
        own.extend_from_slice(bytes);
        self.texts.try_reserve(1).map_err(|_| Error::NoMemory)?;
        let text = self.texts.len();
        let entry = self.list.len();
        self.add(Some(text), Kind::Unknown)?;
        self.texts.push(Text {
            bytes: own,
            entry,
            begun,
        });
        Ok(text)
    }

    /// The program has passed a text: the target of a link, or a path that will be looked up. Where the order
    /// of several matters they are told before the first lookup.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`].
    pub fn pass(&mut self, text: &[u8]) -> Result<(), Error> {
        self.keep(text, false).map(|_| ())
    }

    /// The call begins to look a path up. What is found next is found by it.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`].
    pub fn begin(&mut self, path: &[u8]) -> Result<(), Error> {
        let passed = self
            .texts
            .iter()
            .position(|text| !text.begun && text.bytes == path);
        let text = match passed {
            Some(text) => text,
            None => self.keep(path, true)?,
        };
        if let Some(text) = self.texts.get_mut(text) {
            text.begun = true;
        }
        self.current = Some(text);
        Ok(())
    }

    /// The last path leads to a file, or to the directory of its last name (`parent`).
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`].
    pub fn found(&mut self, file: FileFacts, parent: bool) -> Result<(), Error> {
        let fits = |name: &Name| match parent {
            true => matches!(name.kind, Kind::Parent | Kind::Unknown),
            false => name.kind != Kind::Parent,
        };
        let current = self.current;
        let own = current.and_then(|n| self.texts.get(n)).map(|text| text.entry);
        let own = own.filter(|at| self.list.get(*at).is_some_and(fits));
        // The same file may have been found by the same path before.
        let same = |name: &Name| name.file.is_some_and(|known| known.id == file.id) && fits(name);
        let at = match own.or_else(|| self.list.iter().rposition(same)) {
            Some(at) => at,
            None => {
                self.add(current, Kind::Unknown)?;
                self.list.len() - 1
            }
        };
        let len = self
            .list
            .get(at)
            .and_then(|name| self.text_of(name))
            .map(parent_len);
        if let Some(name) = self.list.get_mut(at) {
            name.file = Some(file);
            (name.kind, name.len) = match parent {
                true => (Kind::Parent, len),
                false => (Kind::Normal, None),
            };
        }
        Ok(())
    }

    /// The last path is a name in a directory of the kernel's own, of which no record tells.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`].
    pub fn found_hidden(&mut self, directory: FileFacts) -> Result<(), Error> {
        self.found(directory, true)?;
        let is_it = |name: &&mut Name| {
            name.kind == Kind::Parent && name.file.is_some_and(|file| file.id == directory.id)
        };
        if let Some(name) = self.list.iter_mut().rev().find(is_it) {
            name.hidden = true;
        }
        Ok(())
    }

    /// A file is used that was not looked up by name.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`].
    pub fn used(&mut self, file: FileFacts) -> Result<(), Error> {
        let name = self.add(None, Kind::Normal)?;
        name.file = Some(file);
        Ok(())
    }

    /// Whether a file is among them.
    pub fn has(&self, id: FileId) -> bool {
        self.list
            .iter()
            .any(|name| name.kind != Kind::Parent && name.file.is_some_and(|file| file.id == id))
    }

    /// `name` is made in a directory, or removed from it. `file`: what it stands for, if it does.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`].
    pub fn child(
        &mut self,
        directory: FileFacts,
        name: &[u8],
        file: Option<FileFacts>,
        kind: Kind,
    ) -> Result<(), Error> {
        let is_parent = |entry: &Name| {
            matches!(entry.kind, Kind::Parent | Kind::Unknown)
                && entry.file.is_some_and(|known| known.id == directory.id)
                && self
                    .text_of(entry)
                    .is_some_and(|text| is_last(name, text, entry.len.unwrap_or_else(|| parent_len(text))))
        };
        let parent = self.list.iter().position(is_parent);
        let text = parent.and_then(|at| self.list.get(at)?.text);
        let parent_text = parent.and_then(|at| self.list.get(at)?.len);
        let is_child = |entry: &Name| {
            (entry.kind == kind || entry.kind == Kind::Unknown)
                && self.text_of(entry).is_some_and(|text| {
                    text == name || is_last(name, text, parent_text.unwrap_or_else(|| parent_len(text)))
                })
        };
        let child = self.list.iter().position(is_child);
        if let Some(parent) = parent.and_then(|at| self.list.get_mut(at)) {
            parent.kind = Kind::Parent;
        } else {
            self.add(None, Kind::Parent)?.file = Some(directory);
        }
        let child = match child {
            Some(at) => at,
            None => {
                self.add(text, kind)?;
                self.list.len() - 1
            }
        };
        if let Some(child) = self.list.get_mut(child) {
            child.kind = kind;
            child.file = file;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
