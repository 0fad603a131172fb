//! The latency format (`options/latency-format`): times since the first event, and marks for long gaps.

use crate::head::Head;
use crate::line::{Style, Time, comm, state};
use crate::{Entry, Options};
use core::fmt::{self, Write};

/// The lines in front.
pub(crate) fn columns(head: &Head<'_>, options: Options, out: &mut dyn Write) -> fmt::Result {
    write!(
        out,
        "# {name} latency trace v1.1.5\n\
         # --------------------------------------------------------------------\n\
         # latency: 0 us, #{entries}/{written}, CPU#0 | (M:preempt VP:0, KP:0, SP:0 HP:0 #P:{cpus})\n\
         #    -----------------\n\
         #    | task: -0 (uid:0 nice:0 policy:0 rt_prio:0)\n\
         #    -----------------\n\
         #\n",
        name = head.tracer,
        entries = head.entries,
        written = head.written,
        cpus = head.cpus
    )?;
    if options.contains(Options::VERBOSE) {
        return Ok(());
    }
    out.write_str(
        "#                    _------=> CPU#            \n\
         #                   / _-----=> irqs-off/BH-disabled\n\
         #                  | / _----=> need-resched    \n\
         #                  || / _---=> hardirq/softirq \n\
         #                  ||| / _--=> preempt-depth   \n\
         #                  |||| / _-=> migrate-disable \n\
         #                  ||||| /     delay           \n\
         #  cmd     pid     |||||| time  |   caller     \n\
         #     \\   /        ||||||  \\    |    /       \n",
    )
}

/// The mark of a gap, in microseconds.
pub(crate) fn mark(gap: u64) -> char {
    match gap {
        1_000_001.. => '$',
        100_001.. => '@',
        10_001.. => '*',
        1_001.. => '#',
        101.. => '!',
        11.. => '+',
        _ => ' ',
    }
}

/// The columns in front of an event.
pub(crate) fn context(entry: &Entry<'_>, style: &Style<'_>, out: &mut dyn Write) -> fmt::Result {
    let mut room = [0; 16];
    let pid = entry.common.pid;
    let name = comm(style.world, pid, &mut room);
    let since = entry.time.saturating_sub(style.start);
    let gap = style.next.unwrap_or(entry.time).saturating_sub(entry.time);
    let nanoseconds = style.time == Time::Nanoseconds;
    if style.options.contains(Options::VERBOSE) {
        let common = &entry.common;
        write!(
            out,
            "{name:>16} {pid:7} {:3} {} {:08x} ",
            entry.cpu,
            common.flags.bits(),
            common.preempt_count
        )?;
        return if nanoseconds {
            let ms = |ns: u64| (ns / 1_000_000, ns / 1000 % 1000);
            let ((a, b), (c, d)) = (ms(since), ms(gap));
            write!(out, "[{:08x}] {a}.{b:03}ms (+{c}.{d:03}ms): ", entry.time / 1000)
        } else {
            write!(out, "[{:016x}] {since} (+{gap}): ", entry.time)
        };
    }
    write!(out, "{:>8.8}-{pid:<7} {:3}", name, entry.cpu)?;
    for column in state(&entry.common) {
        out.write_char(column)?;
    }
    if nanoseconds {
        write!(out, " {:4}us{}: ", since / 1000, mark(gap / 1000))
    } else {
        write!(out, " {since:4}: ")
    }
}
