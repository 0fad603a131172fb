//! The stack tracer's files: the most that was in use of a kernel stack, and by which calls.
//! `stack_trace_filter` is in `functions`.

use super::instance::{Row, number, setting, shown};
use super::{BOTH, READ};
use crate::fs::pseudo::Text;
use crate::ftrace::stack_tracer;
use crate::trace::symbols::Symbol;
use crate::tracing::Instance;
use alloc::sync::Arc;
use core::fmt::Write;
use limen_linux_abi::Errno;

pub const ROWS: &[Row] = &[
    Row {
        name: "stack_max_size",
        only_top: true,
        node: |instance| setting(BOTH, instance, show_size, store_size),
    },
    Row {
        name: "stack_trace",
        only_top: true,
        node: |instance| shown(READ, instance, show),
    },
];

fn show_size(_: &Arc<Instance>, out: &mut Text) -> Result<(), Errno> {
    let _ = writeln!(out, "{}", stack_tracer::max_size());
    Ok(())
}

fn store_size(_: &Arc<Instance>, bytes: &[u8]) -> Result<(), Errno> {
    stack_tracer::set_max_size(usize::try_from(number(bytes)?).map_err(|_| Errno::ERANGE)?);
    Ok(())
}

fn show(_: &Arc<Instance>, out: &mut Text) -> Result<(), Errno> {
    let calls = stack_tracer::calls()?;
    let _ = writeln!(
        out,
        "        Depth    Size   Location    ({} entries)",
        calls.len()
    );
    out.add("        -----    ----   --------\n");
    if stack_tracer::max_size() == 0 && !stack_tracer::is_on() {
        out.add("#\n# The stack tracer is off: echo 1 > /proc/sys/kernel/stack_tracer_enabled\n#\n");
        return Ok(());
    }
    for (n, (at, used)) in calls.iter().enumerate() {
        let own = used - calls.get(n + 1).map_or(0, |next| next.1.min(*used));
        let _ = write!(out, "{n:3}) {used:8}   {own:5}   ");
        let _ = Symbol(*at).write_short(true, out);
        out.add("\n");
    }
    Ok(())
}
