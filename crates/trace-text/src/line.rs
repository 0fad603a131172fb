//! A line of `trace`: the columns in front, and what the fixed kinds of records say.

use crate::entry::{COMMON, LONG};
use crate::{Common, Entry, Flags, Kind, Options, World, binary, latency, symbol};
use core::fmt::{self, Write};

/// How a time is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// The clock counts nanoseconds: seconds and microseconds.
    Nanoseconds,
    /// It counts something else: the number.
    Count,
}

/// Everything that decides what a line looks like.
#[derive(Clone, Copy)]
pub struct Style<'a> {
    /// Who knows names.
    pub world: &'a dyn World,
    /// The options.
    pub options: Options,
    /// How times are shown.
    pub time: Time,
    /// The first event's time, and that of the event behind this one if it is known: for the latency format.
    pub start: u64,
    /// See [`Self::start`].
    pub next: Option<u64>,
}

/// The line about lost events. `u64::MAX`: it is not known how many.
pub fn lost(cpu: usize, events: u64, out: &mut dyn Write) -> fmt::Result {
    match events {
        0 => Ok(()),
        u64::MAX => writeln!(out, "CPU:{cpu} [LOST EVENTS]"),
        n => writeln!(out, "CPU:{cpu} [LOST {n} EVENTS]"),
    }
}

/// The line in front of the first event of a CPU whose earlier ones are lost.
pub fn started(cpu: usize, out: &mut dyn Write) -> fmt::Result {
    writeln!(out, "##### CPU {cpu} buffer started ####")
}

/// The name of a thread as it stands in front of its number.
pub fn comm<'a>(world: &dyn World, pid: i32, room: &'a mut [u8; 16]) -> &'a str {
    if pid == 0 {
        return "<idle>";
    }
    let Some(comm) = world.comm(pid) else {
        return "<...>";
    };
    *room = comm;
    let end = room.iter().position(|byte| *byte == 0).unwrap_or(room.len());
    match core::str::from_utf8(&room[..end]) {
        Ok(text) => text,
        Err(e) => core::str::from_utf8(&room[..e.valid_up_to()]).unwrap_or_default(),
    }
}

/// The five columns: interrupts, reschedule, handler, preemption, migration.
pub fn state(common: &Common) -> [char; 5] {
    let flags = common.flags;
    let irqs = match (flags.contains(Flags::IRQS_OFF), flags.contains(Flags::BH_OFF)) {
        (true, true) => 'D',
        (true, false) => 'd',
        (false, true) => 'b',
        (false, false) => '.',
    };
    let lazy = flags.contains(Flags::NEED_RESCHED_LAZY);
    let need = flags.contains(Flags::NEED_RESCHED);
    let preempt = flags.contains(Flags::PREEMPT_RESCHED);
    let resched = match (need, preempt, lazy) {
        (true, true, true) => 'B',
        (true, true, false) => 'N',
        (false, true, true) => 'L',
        (true, false, true) => 'b',
        (true, false, false) => 'n',
        (false, false, true) => 'l',
        (false, true, false) => 'p',
        (false, false, false) => '.',
    };
    let (hard, soft) = (flags.contains(Flags::HARDIRQ), flags.contains(Flags::SOFTIRQ));
    let handler = match (flags.contains(Flags::NMI), hard, soft) {
        (true, true, _) => 'Z',
        (true, false, _) => 'z',
        (false, true, true) => 'H',
        (false, true, false) => 'h',
        (false, false, true) => 's',
        (false, false, false) => '.',
    };
    let digit = |count: u8| match count {
        0 => '.',
        n => char::from_digit(n.into(), 16).unwrap_or('.'),
    };
    let count = common.preempt_count;
    [irqs, resched, handler, digit(count & 15), digit(count >> 4)]
}

/// A time in the columns in front.
pub fn time(time: u64, style: Time, out: &mut dyn Write) -> fmt::Result {
    match style {
        Time::Nanoseconds => {
            let usecs = time.saturating_add(500) / 1000;
            write!(out, " {:5}.{:06}", usecs / 1_000_000, usecs % 1_000_000)
        }
        Time::Count => write!(out, " {time:12}"),
    }
}

/// The columns in front of an event.
fn context(entry: &Entry<'_>, style: &Style<'_>, out: &mut dyn Write) -> fmt::Result {
    let mut room = [0; 16];
    let pid = entry.common.pid;
    let name = comm(style.world, pid, &mut room);
    write!(out, "{name:>16}-{pid:<7} ")?;
    if style.options.contains(Options::RECORD_TGID) {
        match style.world.tgid(pid) {
            Some(tgid) if tgid != 0 => write!(out, "({tgid:7}) ")?,
            _ => out.write_str("(-------) ")?,
        }
    }
    write!(out, "[{:03}] ", entry.cpu)?;
    if style.options.contains(Options::IRQ_INFO) {
        for column in state(&entry.common) {
            out.write_char(column)?;
        }
    }
    time(entry.time, style.time, out)?;
    out.write_str(": ")
}

/// The lines of an event.
pub fn line(entry: &Entry<'_>, style: &Style<'_>, out: &mut dyn Write) -> fmt::Result {
    let options = style.options;
    if options.contains(Options::PRINTK_MSG_ONLY) && is_text(entry) {
        return message(entry, style.world, out);
    }
    if options.contains(Options::HEX) {
        return numbers(entry, style, true, out);
    }
    if options.contains(Options::RAW) {
        return numbers(entry, style, false, out);
    }
    if options.contains(Options::CONTEXT_INFO) {
        if options.contains(Options::LATENCY_FMT) {
            latency::context(entry, style, out)?;
        } else {
            context(entry, style, out)?;
        }
    }
    body(entry, style, out)
}

/// Text of a program, which may be any bytes.
pub(crate) fn text(bytes: &[u8], out: &mut dyn Write) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        out.write_str(chunk.valid())?;
        for byte in chunk.invalid() {
            write!(out, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

/// Whether it is text of a program or of the kernel.
pub(crate) fn is_text(entry: &Entry<'_>) -> bool {
    [Kind::PRINT, Kind::BPRINT, Kind::BPUTS].contains(&entry.common.kind)
}

/// That text.
pub(crate) fn message(entry: &Entry<'_>, world: &dyn World, out: &mut dyn Write) -> fmt::Result {
    if entry.common.kind == Kind::PRINT {
        return text(entry.text(COMMON + LONG), out);
    }
    let address = entry.long(COMMON + LONG);
    match (world.text(address), entry.common.kind) {
        (None, _) => writeln!(out, "(unknown text at {address:#x})"),
        (Some(known), Kind::BPRINT) => binary::write(known, entry.rest(COMMON + 2 * LONG), out),
        (Some(known), _) => text(known, out),
    }
}

/// What an event says, with the line's end.
pub(crate) fn body(entry: &Entry<'_>, style: &Style<'_>, out: &mut dyn Write) -> fmt::Result {
    let (world, options) = (style.world, style.options);
    match entry.common.kind {
        Kind::FUNCTION => {
            symbol(world, options, entry.long(COMMON), out)?;
            let parent = entry.long(COMMON + LONG);
            if options.contains(Options::PRINT_PARENT) && parent != 0 {
                out.write_str(" <-")?;
                symbol(world, options, parent, out)?;
            }
            out.write_char('\n')
        }
        Kind::PRINT | Kind::BPRINT | Kind::BPUTS => {
            symbol(world, options, entry.long(COMMON), out)?;
            out.write_str(": ")?;
            message(entry, world, out)
        }
        Kind::RAW_DATA => raw_data(entry, out),
        Kind::STACK => stack(entry, COMMON.next_multiple_of(LONG) + LONG, style, out),
        Kind::USER_STACK => {
            out.write_str("<user stack trace>\n")?;
            for address in addresses(entry, COMMON + LONG).take_while(|address| *address != 0) {
                writeln!(out, " => <{address:0width$x}>", width = 2 * LONG)?;
            }
            Ok(())
        }
        Kind::GRAPH_ENTRY => {
            out.write_str("graph_ent: func=")?;
            symbol(world, options, entry.long(COMMON), out)?;
            out.write_char('\n')
        }
        Kind::GRAPH_RETURN => {
            out.write_str("graph_ret: func=")?;
            symbol(world, options, entry.long(COMMON), out)?;
            out.write_char('\n')
        }
        kind => {
            if !world.event(entry, out)? {
                write!(out, "Unknown type {}", kind.0)?;
            }
            out.write_char('\n')
        }
    }
}

fn raw_data(entry: &Entry<'_>, out: &mut dyn Write) -> fmt::Result {
    write!(out, "# {:x} buf:", entry.u32(COMMON))?;
    for byte in entry.rest(COMMON + 4) {
        write!(out, " {byte:02x}")?;
    }
    out.write_char('\n')
}

fn addresses<'a>(entry: &Entry<'a>, at: usize) -> impl Iterator<Item = u64> {
    let longs = entry.rest(at).as_chunks::<LONG>().0;
    longs.iter().map(|bytes| usize::from_ne_bytes(*bytes) as u64)
}

fn stack(entry: &Entry<'_>, at: usize, style: &Style<'_>, out: &mut dyn Write) -> fmt::Result {
    out.write_str("<stack trace>\n")?;
    for address in addresses(entry, at).take_while(|address| *address != usize::MAX as u64) {
        out.write_str(" => ")?;
        symbol(style.world, style.options, address, out)?;
        out.write_char('\n')?;
    }
    Ok(())
}

/// An event as numbers.
fn numbers(entry: &Entry<'_>, style: &Style<'_>, hex: bool, out: &mut dyn Write) -> fmt::Result {
    let (world, options) = (style.world, style.options);
    if options.contains(Options::CONTEXT_INFO) {
        let (pid, cpu, time) = (entry.common.pid, entry.cpu, entry.time);
        if hex {
            write!(out, "{pid:08x} {cpu:08x} {time:016x} ")?;
        } else {
            write!(out, "{pid} {cpu} {time} ")?;
        }
    }
    match entry.common.kind {
        Kind::FUNCTION if hex => {
            let (ip, parent) = (entry.long(COMMON), entry.long(COMMON + LONG));
            writeln!(out, "{ip:0width$x} {parent:0width$x} ", width = 2 * LONG)
        }
        Kind::FUNCTION => writeln!(out, "{:x} {:x}", entry.long(COMMON), entry.long(COMMON + LONG)),
        Kind::PRINT | Kind::RAW_DATA if hex => writeln!(out, "type: {}\n", entry.common.kind.0),
        Kind::PRINT => {
            write!(out, "# {:x} ", entry.long(COMMON))?;
            text(entry.text(COMMON + LONG), out)
        }
        Kind::BPRINT | Kind::BPUTS if !hex => {
            write!(out, ": {:x} : ", entry.long(COMMON))?;
            message(entry, world, out)
        }
        Kind::RAW_DATA => raw_data(entry, out),
        kind => {
            write!(out, "{}", kind.0)?;
            for byte in entry.rest(COMMON) {
                write!(out, " {byte:02x}")?;
            }
            out.write_char('\n')
        }
    }
}
