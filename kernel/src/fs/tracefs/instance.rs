//! The directory of an instance: its files, and those that other rooms have added.

use super::{CHANGES, DIRECTORY, owner};
use crate::fs::inode::{Dev, FileType};
use crate::fs::pseudo::{Changes, Directory, Node, Text, setting_file};
use crate::sync::SpinLock;
use crate::tracing::{self, Instance, Use};
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// A name in an instance's directory.
pub struct Row {
    /// The name.
    pub name: &'static str,
    /// Whether only the top instance has it.
    pub only_top: bool,
    /// What it stands for.
    pub node: fn(&Arc<Instance>) -> Node,
}

static ROWS: SpinLock<Vec<&'static [Row]>> = SpinLock::new(Vec::new());

/// Adds names. Boot.
pub fn register(rows: &'static [Row]) {
    ROWS.lock().push(rows);
}

/// All rows.
fn rows() -> impl Iterator<Item = &'static Row> {
    let all = ROWS.lock().clone();
    all.into_iter().flatten()
}

/// An instance's directory.
pub struct Files(Arc<Instance>);

impl Files {
    /// Of this one.
    pub fn new(instance: Arc<Instance>) -> Self {
        Self(instance)
    }
    fn rows(&self) -> impl Iterator<Item = &'static Row> {
        let top = self.0.is_top();
        rows().filter(move |row| top || !row.only_top)
    }
}

impl Directory for Files {
    fn get(&self, name: &[u8]) -> Option<Node> {
        let row = self.rows().find(|row| row.name.as_bytes() == name)?;
        Some((row.node)(&self.0))
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        for (n, row) in self.rows().enumerate().skip(pos.saturating_sub(2) as usize) {
            let kind = (row.node)(&self.0).kind();
            if !add(row.name.as_bytes(), kind, n as u64 + 3) {
                return;
            }
        }
    }
    fn owner(&self) -> (u32, u32) {
        owner()
    }
    fn changes(&self) -> Option<&Changes> {
        Some(&CHANGES)
    }
}

/// A directory with names that are known beforehand.
pub struct Names<T>(pub Vec<(&'static str, T)>, pub fn(&T) -> Node);

impl<T: Send + Sync> Directory for Names<T> {
    fn get(&self, name: &[u8]) -> Option<Node> {
        let found = self.0.iter().find(|row| row.0.as_bytes() == name)?;
        Some(self.1(&found.1))
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        for (n, (name, what)) in self.0.iter().enumerate().skip(pos.saturating_sub(2) as usize) {
            if !add(name.as_bytes(), self.1(what).kind(), n as u64 + 3) {
                return;
            }
        }
    }
    fn owner(&self) -> (u32, u32) {
        owner()
    }
    fn changes(&self) -> Option<&Changes> {
        Some(&CHANGES)
    }
}

/// The directory in which programs make instances.
struct Instances;

pub const INSTANCES: &[Row] = &[Row {
    name: "instances",
    only_top: true,
    node: |_| Node::Directory(DIRECTORY, Arc::new(Instances)),
}];

impl Directory for Instances {
    fn get(&self, name: &[u8]) -> Option<Node> {
        let instance = tracing::find(name)?;
        Some(Node::Directory(DIRECTORY, Arc::new(Files::new(instance))))
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        // An instance's place does not change when others go.
        for instance in tracing::all().filter(|one| one.number + 2 >= pos) {
            if !add(&instance.name, FileType::Directory, instance.number + 3) {
                return;
            }
        }
    }
    fn which(&self, name: &[u8]) -> u64 {
        tracing::find(name).map_or(0, |instance| instance.number)
    }
    fn owner(&self) -> (u32, u32) {
        owner()
    }
    fn changes(&self) -> Option<&Changes> {
        Some(&CHANGES)
    }
    fn lets_make(&self) -> bool {
        true
    }
    fn make(&self, name: &[u8]) -> Result<(), Errno> {
        tracing::make(name).map(drop)
    }
    fn remove(&self, name: &[u8]) -> Result<(), Errno> {
        tracing::remove(name)
    }
}

/// A file with operations of its own, which uses its instance while it is open. `open` gets the flags.
pub fn special(
    mode: u32,
    instance: &Arc<Instance>,
    open: impl Fn(Use, u32) -> Result<Arc<dyn crate::fs::file::FileOps>, Errno> + Send + Sync + 'static,
) -> Node {
    let instance = instance.clone();
    Node::Special(
        mode,
        FileType::Regular,
        Dev::default(),
        Arc::new(move |flags| open(instance.get()?, flags)),
    )
}

/// A text file of an instance that is read.
pub fn shown(
    mode: u32,
    instance: &Arc<Instance>,
    show: impl Fn(&Arc<Instance>, &mut Text) -> Result<(), Errno> + Clone + Send + Sync + 'static,
) -> Node {
    special(mode, instance, move |used, _| {
        let show = show.clone();
        Ok(setting_file(Arc::new(move |out| show(&used, out)), None))
    })
}

/// A text file of an instance that is read and written.
pub fn setting(
    mode: u32,
    instance: &Arc<Instance>,
    show: impl Fn(&Arc<Instance>, &mut Text) -> Result<(), Errno> + Clone + Send + Sync + 'static,
    store: impl Fn(&Arc<Instance>, &[u8]) -> Result<(), Errno> + Clone + Send + Sync + 'static,
) -> Node {
    special(mode, instance, move |used, _| {
        let used = Arc::new(used);
        let (show, store, user) = (show.clone(), store.clone(), used.clone());
        Ok(setting_file(
            Arc::new(move |out| show(&used, out)),
            Some(Arc::new(move |bytes| store(&user, bytes))),
        ))
    })
}

/// The word that was written, without space around it.
pub fn word(bytes: &[u8]) -> Result<&str, Errno> {
    let text = core::str::from_utf8(bytes).map_err(|_| Errno::EINVAL)?;
    Ok(text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\0'))
}

/// A number that was written.
pub use crate::fs::pseudo::parse_any_base as number;
