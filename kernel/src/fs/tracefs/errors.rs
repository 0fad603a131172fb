//! `error_log`: what was wrong with commands that were written. Writing forgets it.

use super::BOTH;
use super::instance::{Row, special};
use crate::fs::pseudo::{Text, setting_file};
use crate::tracing::Instance;
use alloc::sync::Arc;
use core::fmt::Write;
use limen_linux_abi::{Errno, raw::general as abi};

pub const ROWS: &[Row] = &[Row {
    name: "error_log",
    only_top: false,
    node: |instance| {
        special(BOTH, instance, |used, flags| {
            let truncates = flags & abi::O_TRUNC != 0 && flags & abi::O_ACCMODE != abi::O_RDONLY;
            if truncates {
                used.forget_reports();
            }
            Ok(setting_file(
                Arc::new(move |out| show(&used, out)),
                Some(Arc::new(|_| Ok(()))),
            ))
        })
    },
}];

/// What stands in front of a command.
const COMMAND: &str = "  Command: ";

fn show(instance: &Arc<Instance>, out: &mut Text) -> Result<(), Errno> {
    instance.each_report(|report| {
        let (secs, usecs) = (report.time / 1_000_000_000, report.time / 1000 % 1_000_000);
        let _ = writeln!(
            out,
            "[{secs:5}.{usecs:06}] {}: error: {}",
            report.room, report.what
        );
        out.add(COMMAND);
        out.add(&report.command);
        let _ = writeln!(
            out,
            "\n{:1$}^",
            "",
            COMMAND.len() + report.at.min(report.command.len())
        );
    });
    Ok(())
}
