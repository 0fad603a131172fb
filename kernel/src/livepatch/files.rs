//! `/sys/kernel/livepatch`: a directory for each patch, as Linux has it.

use super::patch::{self, Patch};
use crate::fs::inode::FileType;
use crate::fs::pseudo::{Directory, Node, Text};
use crate::fs::sysfs;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use limen_linux_abi::Errno;

fn patches() -> Vec<Arc<Patch>> {
    patch::all().unwrap_or_default()
}

/// What `kstrtobool` takes.
fn truth(text: &[u8]) -> Result<bool, Errno> {
    match text.trim_ascii() {
        [b'1' | b'y' | b'Y' | b't' | b'T', ..] | [b'o' | b'O', b'n' | b'N'] => Ok(true),
        [b'0' | b'n' | b'N' | b'f' | b'F', ..] | [b'o' | b'O', b'f' | b'F', ..] => Ok(false),
        _ => Err(Errno::EINVAL),
    }
}

const FILES: [&str; 4] = ["enabled", "force", "replace", "transition"];

/// The directory of a patch.
struct One(Arc<Patch>);

impl One {
    fn file(&self, name: &str) -> Node {
        let patch = self.0.clone();
        let shows = |what: fn(&Patch) -> bool| {
            let patch = self.0.clone();
            move |out: &mut Text| {
                let _ = writeln!(out, "{}", u8::from(what(&patch)));
                Ok(())
            }
        };
        match name {
            "enabled" => {
                let store = move |text: &[u8]| patch::set_enabled(&patch, truth(text)?);
                Node::File(0o644, Arc::new(shows(Patch::is_enabled)), Some(Arc::new(store)))
            }
            "force" => {
                let store = move |text: &[u8]| match truth(text)? {
                    true => patch::force(&patch),
                    false => Ok(()),
                };
                let show = |_: &mut Text| Err(Errno::EIO);
                Node::File(0o200, Arc::new(show), Some(Arc::new(store)))
            }
            "replace" => Node::File(0o444, Arc::new(shows(|patch| patch.replaces)), None),
            _ => Node::File(0o444, Arc::new(shows(patch::is_in_transition)), None),
        }
    }
}

impl Directory for One {
    fn get(&self, name: &[u8]) -> Option<Node> {
        let found = FILES.iter().find(|known| known.as_bytes() == name)?;
        Some(self.file(found))
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        for (i, name) in FILES.iter().enumerate().skip(pos.saturating_sub(2) as usize) {
            if !add(name.as_bytes(), FileType::Regular, i as u64 + 3) {
                return;
            }
        }
    }
}

/// The directory.
struct All;

impl Directory for All {
    fn get(&self, name: &[u8]) -> Option<Node> {
        let found = patches()
            .into_iter()
            .find(|patch| patch.name.as_bytes() == name)?;
        Some(Node::Directory(0o755, Arc::new(One(found))))
    }
    fn which(&self, name: &[u8]) -> u64 {
        let found = patches().into_iter().find(|patch| patch.name.as_bytes() == name);
        found.map_or(0, |patch| Arc::as_ptr(&patch) as u64)
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        for (i, patch) in patches().iter().enumerate().skip(pos.saturating_sub(2) as usize) {
            if !add(patch.name.as_bytes(), FileType::Directory, i as u64 + 3) {
                return;
            }
        }
    }
}

/// Registers the files. Boot.
pub fn init() {
    sysfs::TREE.add("kernel/livepatch", Node::Directory(0o755, Arc::new(All)));
}
