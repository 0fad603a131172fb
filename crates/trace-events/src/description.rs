//! What the tracing files say about an event: its `format`, and the fields that all events have.

use crate::field::{Field, Kind};
use core::fmt::{self, Write};

/// The number of the first event. Smaller ones are Linux's fixed numbers of the tracers' own entries.
pub const FIRST_ID: u16 = 32;

/// What stands in front of every record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Common {
    /// The event's number.
    pub id: u16,
    /// `TRACE_FLAG_*`: in which context it was recorded.
    pub flags: u8,
    /// Depth to which preemption was off (4 bits), and migration (4 bits).
    pub preempt_count: u8,
    /// The thread that recorded.
    pub pid: i32,
}

impl Common {
    /// Bytes of it.
    pub const SIZE: usize = 8;

    /// As it is in the record.
    #[inline(always)]
    pub const fn to_bytes(self) -> [u8; Self::SIZE] {
        let [a, b] = self.id.to_ne_bytes();
        let [e, f, g, h] = self.pid.to_ne_bytes();
        [a, b, self.flags, self.preempt_count, e, f, g, h]
    }

    /// From the front of a record.
    pub fn read(record: &[u8]) -> Option<Self> {
        let &[a, b, flags, preempt_count, e, f, g, h] = record.first_chunk()?;
        Some(Self {
            id: u16::from_ne_bytes([a, b]),
            flags,
            preempt_count,
            pid: i32::from_ne_bytes([e, f, g, h]),
        })
    }
}

const COMMON: [Field; 4] = [
    Field::after::<u16>(0, "unsigned short", "common_type"),
    Field::after::<u8>(2, "unsigned char", "common_flags"),
    Field::after::<u8>(3, "unsigned char", "common_preempt_count"),
    Field::after::<i32>(4, "int", "common_pid"),
];

/// The fields that all records have.
pub const fn common_fields() -> &'static [Field] {
    &COMMON
}

/// An event: its names, the fields of its records, and how they read as text.
#[derive(Debug)]
pub struct Description {
    /// The system, a directory of `events`.
    pub system: &'static str,
    /// The name, a directory in it.
    pub name: &'static str,
    /// Its own fields.
    pub fields: &'static [Field],
    /// The `print fmt`.
    pub print: &'static str,
    /// Bytes of a record without dynamic strings.
    pub size: usize,
}

impl Description {
    /// The text of the event's `format` file.
    ///
    /// # Errors
    /// Only those of `to`.
    pub fn write_format(&self, id: u16, to: &mut dyn Write) -> fmt::Result {
        write_format(to, &self.name, id, self.fields, &self.print)
    }
}

/// Writes fields as `format` files list them.
///
/// # Errors
/// Only those of `to`.
pub fn write_fields(to: &mut dyn Write, fields: &[Field]) -> fmt::Result {
    for field in fields {
        let (offset, size, signed) = (field.offset, field.size, u8::from(field.signed));
        write!(to, "\tfield:{} {}", field.c_type, field.name)?;
        match field.kind {
            Kind::Chars => write!(to, "[{size}]")?,
            Kind::Array(of) => write!(to, "[{}]", size / u16::from(of))?,
            _ => {}
        }
        writeln!(to, ";\toffset:{offset};\tsize:{size};\tsigned:{signed};")?;
    }
    Ok(())
}

/// Writes the text of a `format` file.
///
/// # Errors
/// Only those of `to`.
pub fn write_format(
    to: &mut dyn Write,
    name: &dyn fmt::Display,
    id: u16,
    fields: &[Field],
    print: &dyn fmt::Display,
) -> fmt::Result {
    write!(to, "name: {name}\nID: {id}\nformat:\n")?;
    write_fields(to, &COMMON)?;
    to.write_char('\n')?;
    write_fields(to, fields)?;
    write!(to, "\nprint fmt: {print}\n")
}
