//! `snapshot`: what was recorded until it was taken, beside what is recorded since then.

use super::BOTH;
use super::instance::{Row, number, special};
use super::trace::text;
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::pseudo::{Node, Text};
use crate::tracing::read::Only;
use crate::tracing::{Instance, Use};
use alloc::sync::Arc;
use limen_linux_abi::{Errno, SysResult};

pub const ROWS: &[Row] = &[Row {
    name: "snapshot",
    only_top: false,
    node: |instance| file(instance, None),
}];

/// `snapshot` of all CPUs, or one.
pub fn file(instance: &Arc<Instance>, only: Only) -> Node {
    special(BOTH, instance, move |used, _| {
        let used = Arc::new(used);
        Ok(Arc::new(Snapshot {
            text: text(used.clone(), true, only),
            used,
            only,
        }))
    })
}

/// The lines of a snapshot without records.
pub fn help(instance: &Instance, only: Only, out: &mut Text) {
    let state = if instance.has_snapshot() {
        "allocated"
    } else {
        "freed"
    };
    out.add("#\n# * Snapshot is ");
    out.add(state);
    out.add(" *\n#\n# Snapshot commands:\n");
    if only.is_none() {
        out.add("# echo 0 > snapshot : empties the snapshot and frees its memory\n");
    }
    out.add("# echo 1 > snapshot : takes a snapshot, with memory that is allocated if there is none\n");
    out.add("# echo 2 > snapshot : empties the snapshot (as does any number but 0 and 1)\n");
}

/// An open `snapshot`.
struct Snapshot {
    text: Arc<dyn FileOps>,
    used: Arc<Use>,
    only: Only,
}

impl FileOps for Snapshot {
    fn mode(&self) -> FileMode {
        FileMode::SENDS
    }
    fn read(&self, file: &File, dst: &mut IoDst<'_>, pos: Option<u64>) -> SysResult {
        self.text.read(file, dst, pos)
    }
    fn write(&self, _: &File, src: &mut IoSrc<'_>, _: Option<u64>) -> SysResult {
        let mut bytes = [0; 64];
        let len = src.remaining();
        if len >= bytes.len() {
            return Err(Errno::EINVAL);
        }
        src.take_whole(&mut bytes[..len])?;
        match number(&bytes[..len])? {
            0 if self.only.is_some() => return Err(Errno::EINVAL),
            0 => self.used.free_snapshot(),
            1 => self.used.snapshot(self.only)?,
            _ => self.used.clear_snapshot(self.only)?,
        }
        Ok(len)
    }
    fn seek(&self, file: &File, offset: i64, whence: u32) -> Result<u64, Errno> {
        self.text.seek(file, offset, whence)
    }
}
