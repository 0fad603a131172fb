//! The events of the system `syscalls`: `sys_enter_NAME` and `sys_exit_NAME` of each system call, made from
//! the table of their arguments.

mod table;

use crate::description::{Common, write_format};
use crate::event::Writer;
use crate::field::{Field, Str};
use core::fmt::{self, Write};

/// The most arguments of a system call.
pub const MOST: usize = 6;

/// The system's name.
pub const SYSTEM: &str = "syscalls";

/// The most arguments of a call that are strings, as far as records have them.
pub const MOST_STRINGS: usize = 3;

/// The most characters of a string that a record has; a longer one ends with three dots there.
pub const STRING: usize = 63;

/// Bytes of the longest record.
pub const MAX_RECORD: usize = ARGUMENTS + MOST * size_of::<usize>() + MOST_STRINGS * (4 + STRING + 1);

/// Where the arguments begin in a record.
const ARGUMENTS: usize = (Common::SIZE + 4).next_multiple_of(size_of::<usize>());

/// Which end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// `sys_enter_NAME`.
    Enter,
    /// `sys_exit_NAME`.
    Exit,
}

/// A system call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its name in events: that of Linux's function, which is not always that of the number.
    pub name: &'static str,
    /// Its arguments as C declares them.
    arguments: &'static str,
}

/// An event's name.
#[derive(Clone, Copy, Debug)]
pub struct Name(pub End, pub Call);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            End::Enter => "sys_enter_",
            End::Exit => "sys_exit_",
        })?;
        f.write_str(self.1.name)
    }
}

/// The fields of a system call's event.
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    all: [Field; 1 + MOST + MOST_STRINGS],
    len: usize,
}

impl core::ops::Deref for Fields {
    type Target = [Field];
    fn deref(&self) -> &[Field] {
        &self.all[..self.len]
    }
}

/// Names of calls' numbers that are not the names of Linux's functions.
const RENAMED: &[(&str, &str)] = &[
    ("_newselect", "select"),
    ("fadvise64_64", "fadvise64_64"),
    ("fstat", "newfstat"),
    ("fstatat", "newfstatat"),
    ("lstat", "newlstat"),
    ("sendfile", "sendfile64"),
    ("stat", "newstat"),
    ("umount2", "umount"),
    ("uname", "newuname"),
];

/// What strings are called that programs pass, and the fields with what was there when the call began.
const STRINGS: &[(&str, &str)] = &[
    ("dev_name", "__dev_name_val"),
    ("dir_name", "__dir_name_val"),
    ("filename", "__filename_val"),
    ("from_pathname", "__from_pathname_val"),
    ("library", "__library_val"),
    ("name", "__name_val"),
    ("name_user", "__name_user_val"),
    ("new_root", "__new_root_val"),
    ("newname", "__newname_val"),
    ("oldname", "__oldname_val"),
    ("path", "__path_val"),
    ("pathname", "__pathname_val"),
    ("put_old", "__put_old_val"),
    ("special", "__special_val"),
    ("specialfile", "__specialfile_val"),
    ("to_pathname", "__to_pathname_val"),
    ("type", "__type_val"),
    ("u_name", "__u_name_val"),
    ("uargs", "__uargs_val"),
    ("uname", "__uname_val"),
];

/// The field with the string to which an argument points.
fn string_field(c_type: &str, name: &str) -> Option<&'static str> {
    let listed = || STRINGS.binary_search_by(|(of, _)| (*of).cmp(name)).ok();
    let is_text = ["const char *", "char *"].contains(&c_type);
    is_text.then(listed)?.map(|at| STRINGS[at].1)
}

impl Call {
    /// The call whose events have this name behind `sys_enter_` and `sys_exit_`.
    pub fn named(name: &str) -> Option<Self> {
        let at = table::CALLS.binary_search_by(|(of, _)| (*of).cmp(name)).ok()?;
        let (name, arguments) = table::CALLS[at];
        Some(Self { name, arguments })
    }

    /// What its number is called, as programs know it.
    pub fn number_name(&self) -> &'static str {
        let renamed = RENAMED
            .iter()
            .find(|(from, to)| *to == self.name && !from.starts_with('_'));
        renamed.map_or(self.name, |(from, _)| from)
    }

    /// Which of its arguments are strings that records have, by their places.
    pub fn strings(&self) -> impl Iterator<Item = usize> + use<> {
        let all = self.arguments().enumerate();
        all.filter(|(_, (c_type, name))| string_field(c_type, name).is_some())
            .map(|(place, _)| place)
            .take(MOST_STRINGS)
    }

    /// The call whose number has this name. A call that the table does not know has no arguments.
    pub fn of(name: &'static str) -> Self {
        let (name, arguments) = Self::find(name);
        Self {
            name,
            arguments: arguments.unwrap_or_default(),
        }
    }

    /// Whether the table knows the call whose number has this name.
    pub fn is_known(name: &'static str) -> bool {
        Self::find(name).1.is_some()
    }

    fn find(name: &'static str) -> (&'static str, Option<&'static str>) {
        let renamed = RENAMED.iter().find(|(from, _)| *from == name);
        let name = renamed.map_or(name, |(_, to)| to);
        let found = table::CALLS.binary_search_by(|(of, _)| (*of).cmp(name));
        (name, found.ok().map(|at| table::CALLS[at].1))
    }

    /// Types and names of its arguments.
    pub fn arguments(&self) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
        let all = self.arguments.split(", ").filter(|argument| !argument.is_empty());
        all.take(MOST).filter_map(|argument| argument.rsplit_once(' '))
    }

    /// How many arguments it has.
    pub fn count(&self) -> usize {
        self.arguments().count()
    }

    /// The fields of an event's records.
    pub fn fields(&self, end: End) -> Fields {
        let number = Field::after::<i32>(Common::SIZE, "int", "__syscall_nr");
        let mut fields = Fields {
            all: [number; 1 + MOST + MOST_STRINGS],
            len: 1,
        };
        let mut add = |field| {
            fields.all[fields.len] = field;
            fields.len += 1;
        };
        match end {
            End::Exit => add(Field::after::<isize>(ARGUMENTS, "long", "ret")),
            End::Enter => {
                for (index, (c_type, name)) in self.arguments().enumerate() {
                    let at = ARGUMENTS + index * size_of::<usize>();
                    add(Field::after::<usize>(at, c_type, name));
                }
                let behind = ARGUMENTS + self.count() * size_of::<usize>();
                let strings = self
                    .arguments()
                    .filter_map(|(c_type, name)| string_field(c_type, name));
                for (index, name) in strings.take(MOST_STRINGS).enumerate() {
                    add(Field::after::<Str<'_>>(
                        behind + 4 * index,
                        "__data_loc char[]",
                        name,
                    ));
                }
            }
        }
        fields
    }

    /// The text of an event's `format` file.
    ///
    /// # Errors
    /// Only those of `to`.
    pub fn write_format(&self, end: End, id: u16, to: &mut dyn Write) -> fmt::Result {
        write_format(to, &Name(end, *self), id, &self.fields(end), &Print(end, *self))
    }

    /// Writes a record as `trace` shows it, behind the event's name: for the way in the call as in C, for the
    /// way out its result.
    ///
    /// # Errors
    /// Only those of `to`.
    pub fn print(&self, end: End, record: &[u8], to: &mut dyn Write) -> fmt::Result {
        let fields = self.fields(end);
        let mut values = fields.iter().skip(1);
        if end == End::Exit {
            let result = values.next().and_then(|field| field.integer(record)).unwrap_or(0);
            let bits = 8 * size_of::<usize>() as u32;
            let result = result.cast_unsigned() << (64 - bits) >> (64 - bits);
            return write!(to, "sys_{} -> 0x{result:x}", self.name);
        }
        write!(to, "sys_{}(", self.name)?;
        let mut strings = fields.iter().skip(1 + self.count());
        for (index, (field, (c_type, name))) in values.zip(self.arguments()).enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            let value = field.integer(record).unwrap_or(0);
            write!(to, "{comma}{name}: {value:x}")?;
            if let Some(string) = string_field(c_type, name).and_then(|_| strings.next())
                && value != 0
            {
                let text = string.text(record).unwrap_or_default();
                write!(to, " \"{}\"", core::str::from_utf8(text).unwrap_or_default())?;
            }
        }
        to.write_char(')')
    }
}

/// The `print fmt` of an event.
struct Print(End, Call);

impl fmt::Display for Print {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(end, call) = self;
        if *end == End::Exit {
            return f.write_str("\"0x%lx\", REC->ret");
        }
        // As many digits as a `long` has bytes: Linux's own text, which tools print.
        let digits = size_of::<usize>();
        f.write_char('"')?;
        for (index, (c_type, name)) in call.arguments().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{name}: 0x%0{digits}lx")?;
            if string_field(c_type, name).is_some() {
                f.write_str(" \\\"%s\\\"")?;
            }
        }
        f.write_char('"')?;
        for (c_type, name) in call.arguments() {
            write!(f, ", ((unsigned long)(REC->{name}))")?;
            if let Some(field) = string_field(c_type, name) {
                write!(f, ", __get_str({field})")?;
            }
        }
        Ok(())
    }
}

/// Makes of what was at the place of a string what its record has: the first `read` bytes of `from` are what
/// could be read there, which may go on behind it. Bytes that are no ASCII text become dots. Returns the
/// length.
pub fn clean_string(from: &mut [u8; STRING], read: usize) -> usize {
    let read = read.min(STRING);
    let Some(len) = from[..read].iter().position(|byte| *byte == 0) else {
        let (text, at): (&[u8], usize) = if read < STRING {
            (b"(fault)", 0)
        } else {
            (b"...", STRING - 3)
        };
        from[at..at + text.len()].copy_from_slice(text);
        let len = at + text.len();
        return show(&mut from[..len]);
    };
    show(&mut from[..len])
}

fn show(text: &mut [u8]) -> usize {
    let hidden = text.iter_mut().filter(|byte| !(b' '..=b'~').contains(*byte));
    hidden.for_each(|byte| *byte = b'.');
    text.len()
}

/// Stores the record of a call that begins, with its strings in the order of [`Call::strings`]; returns its
/// length. Any context; allocates nothing.
pub fn encode_enter(
    common: &Common,
    number: i32,
    call: &Call,
    arguments: &[usize],
    strings: &[&[u8]],
    to: &mut [u8; MAX_RECORD],
) -> usize {
    let count = call.count().min(arguments.len());
    let len = encode(common, number, &arguments[..count], to);
    let fields = call.fields(End::Enter);
    let places = fields.get(1 + count..).unwrap_or_default();
    let mut record = Writer::new(common, to, len + 4 * places.len());
    for (index, field) in places.iter().enumerate() {
        record.put(field, &Str(strings.get(index).copied().unwrap_or_default()));
    }
    record.finish()
}

/// Stores the record of a call that has ended; returns its length. Any context; allocates nothing.
pub fn encode_exit(common: &Common, number: i32, result: isize, to: &mut [u8; MAX_RECORD]) -> usize {
    encode(common, number, &[result.cast_unsigned()], to)
}

fn encode(common: &Common, number: i32, words: &[usize], to: &mut [u8; MAX_RECORD]) -> usize {
    to[..Common::SIZE].copy_from_slice(&common.to_bytes());
    to[Common::SIZE..ARGUMENTS].fill(0);
    to[Common::SIZE..][..4].copy_from_slice(&number.to_ne_bytes());
    let mut len = ARGUMENTS;
    for (word, to) in words
        .iter()
        .zip(to[ARGUMENTS..].chunks_exact_mut(size_of::<usize>()))
    {
        to.copy_from_slice(&word.to_ne_bytes());
        len += size_of::<usize>();
    }
    len
}
