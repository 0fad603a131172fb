//! `trace_marker` and `trace_marker_raw`: programs write into the trace.

use super::WRITE;
use super::instance::{Row, special};
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::io::IoSrc;
use crate::tracing::Use;
use crate::tracing::marker::MOST;
use alloc::sync::Arc;
use limen_linux_abi::{Errno, SysResult};

pub const ROWS: &[Row] = &[
    Row {
        name: "trace_marker",
        only_top: false,
        node: |instance| {
            special(WRITE, instance, |used, _| {
                Ok(Arc::new(Marker { used, raw: false }))
            })
        },
    },
    Row {
        name: "trace_marker_raw",
        only_top: false,
        node: |instance| {
            special(WRITE, instance, |used, _| {
                Ok(Arc::new(Marker { used, raw: true }))
            })
        },
    },
];

/// An open marker file.
struct Marker {
    used: Use,
    raw: bool,
}

impl FileOps for Marker {
    fn mode(&self) -> FileMode {
        FileMode::STREAM | FileMode::NO_PREAD
    }
    fn write(&self, _: &File, src: &mut IoSrc<'_>, _: Option<u64>) -> SysResult {
        let len = src.remaining();
        if len == 0 {
            return if self.raw { Err(Errno::EINVAL) } else { Ok(0) };
        }
        if self.raw && len > MOST {
            return Err(Errno::EINVAL);
        }
        let len = if self.raw { len } else { self.used.marker_room(len) };
        let mut bytes = crate::mm::copy::zeroed(len)?;
        match src.take(&mut bytes) {
            Ok(n) if n == len => {}
            _ => {
                if !self.raw {
                    self.used.mark(b"<faulted>")?;
                }
                return Err(Errno::EFAULT);
            }
        }
        if self.raw {
            self.used.mark_raw(&bytes)?;
        } else {
            self.used.mark(&bytes)?;
        }
        Ok(len)
    }
}
