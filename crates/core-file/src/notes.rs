//! Notes: what killed the program, its processes' and threads' data, registers, files that were mapped.

use crate::{Machine, NoMemory, add};
use alloc::vec::Vec;

const PRSTATUS: u32 = 1;
const FLOAT: u32 = 2;
const PRPSINFO: u32 = 3;
const AUXV: u32 = 6;
const SIGINFO: u32 = 0x5349_4749;
const FILE: u32 = 0x4649_4c45;

/// What a program was.
#[derive(Clone, Copy, Debug)]
pub struct Person<'a> {
    /// `R`, `S` and so on.
    pub state: u8,
    /// The nice value.
    pub nice: i8,
    /// `PF_*`.
    pub flags: u64,
    /// Its real user.
    pub uid: u32,
    /// Its real group.
    pub gid: u32,
    /// The process, its parent, its group, its session.
    pub ids: [i32; 4],
    /// Its name.
    pub comm: [u8; 16],
    /// Its arguments, each with a NUL behind it.
    pub arguments: &'a [u8],
    /// Whether users have 16 bits here (32-bit Arm).
    pub short_ids: bool,
}

/// What a thread was.
#[derive(Clone, Copy, Debug)]
pub struct Thread {
    /// The signal that killed the program.
    pub signal: u32,
    /// Its own pending signals, and those that it blocks.
    pub signals: [u64; 2],
    /// The thread, its process's parent, group, session.
    pub ids: [i32; 4],
    /// Microseconds in user mode and in the kernel; the same of children that were waited for.
    pub times: [u64; 4],
}

/// A register set (`NT_*`). The first of a thread has its general registers.
#[derive(Debug)]
pub struct Registers {
    /// Its number.
    pub note: u32,
    /// The registers.
    pub bytes: Vec<u8>,
}

/// A mapped file.
#[derive(Debug)]
pub struct Mapping {
    /// The addresses.
    pub range: (u64, u64),
    /// The first page in the file.
    pub page: u64,
    /// The file's path.
    pub path: Vec<u8>,
}

/// What there is once.
#[derive(Debug)]
pub struct About<'a> {
    /// The program.
    pub person: Person<'a>,
    /// The signal's `siginfo_t`.
    pub siginfo: &'a [u8],
    /// The auxiliary vector.
    pub auxv: &'a [u8],
    /// Mapped files, in the order of their addresses.
    pub files: &'a [Mapping],
}

/// Notes, one behind the other.
#[derive(Debug)]
pub struct Notes {
    machine: Machine,
    /// All of them.
    pub bytes: Vec<u8>,
}

/// Fills up with zeros to a multiple of `align` from `start` on.
fn pad(out: &mut Vec<u8>, start: usize, align: usize) -> Result<(), NoMemory> {
    let len = out.len() - start;
    add(out, &[0; 8][..len.next_multiple_of(align) - len])
}

impl Notes {
    /// No notes.
    pub const fn new(machine: Machine) -> Self {
        Self {
            machine,
            bytes: Vec::new(),
        }
    }

    fn note(&mut self, name: &[u8; 5], kind: u32, data: &[u8]) -> Result<(), NoMemory> {
        let out = &mut self.bytes;
        out.try_reserve(24 + data.len())?;
        // `CORE` has one NUL behind it, `LINUX` too.
        let len = name.iter().position(|byte| *byte == 0).unwrap_or(name.len()) + 1;
        for word in [len as u32, data.len() as u32, kind] {
            add(out, &word.to_le_bytes())?;
        }
        add(out, name)?;
        add(out, &[0; 3])?;
        add(out, data)?;
        pad(out, 0, 4)
    }

    /// The thread that was killed comes first, and brings `about`.
    pub fn thread(
        &mut self,
        thread: &Thread,
        registers: &[Registers],
        about: Option<&About<'_>>,
    ) -> Result<(), NoMemory> {
        let general = registers.first().map_or(&[][..], |set| &set.bytes);
        let others = registers.get(1..).unwrap_or(&[]);
        let has_float = others.iter().any(|set| set.note == FLOAT);
        let status = self.status(thread, general, has_float)?;
        self.note(b"CORE\0", PRSTATUS, &status)?;
        if let Some(about) = about {
            let person = self.person(&about.person)?;
            self.note(b"CORE\0", PRPSINFO, &person)?;
            self.note(b"CORE\0", SIGINFO, about.siginfo)?;
            self.note(b"CORE\0", AUXV, about.auxv)?;
            if !about.files.is_empty() {
                let files = self.files(about.files)?;
                self.note(b"CORE\0", FILE, &files)?;
            }
        }
        for set in others {
            let name = if set.note == FLOAT { b"CORE\0" } else { b"LINUX" };
            self.note(name, set.note, &set.bytes)?;
        }
        Ok(())
    }

    /// `struct elf_prstatus`.
    fn status(&self, thread: &Thread, general: &[u8], has_float: bool) -> Result<Vec<u8>, NoMemory> {
        let machine = self.machine;
        let width = machine.width();
        let mut out = Vec::new();
        for word in [thread.signal, 0, 0] {
            add(&mut out, &word.to_le_bytes())?;
        }
        add(&mut out, &(thread.signal as u16).to_le_bytes())?;
        pad(&mut out, 0, width)?;
        for set in thread.signals {
            machine.word(&mut out, set)?;
        }
        for id in thread.ids {
            add(&mut out, &id.to_le_bytes())?;
        }
        for time in thread.times {
            machine.word(&mut out, time / 1_000_000)?;
            machine.word(&mut out, time % 1_000_000)?;
        }
        add(&mut out, general)?;
        add(&mut out, &u32::from(has_float).to_le_bytes())?;
        pad(&mut out, 0, width)?;
        Ok(out)
    }

    /// `struct elf_prpsinfo`.
    fn person(&self, person: &Person<'_>) -> Result<Vec<u8>, NoMemory> {
        const NAMES: &[u8] = b"RSDTtXZPI";
        let machine = self.machine;
        let mut out = Vec::new();
        let state = NAMES.iter().position(|name| *name == person.state).unwrap_or(0) as u8;
        let zombie = u8::from(person.state == b'Z');
        add(&mut out, &[state, person.state, zombie, person.nice as u8])?;
        pad(&mut out, 0, machine.width())?;
        machine.word(&mut out, person.flags)?;
        for id in [person.uid, person.gid] {
            match person.short_ids {
                true => add(&mut out, &u16::try_from(id).unwrap_or(0xfffe).to_le_bytes())?,
                false => add(&mut out, &id.to_le_bytes())?,
            }
        }
        for id in person.ids {
            add(&mut out, &id.to_le_bytes())?;
        }
        add(&mut out, &person.comm)?;
        let mut shown = [0; 80];
        for (to, from) in shown[..79].iter_mut().zip(person.arguments) {
            *to = if *from == 0 { b' ' } else { *from };
        }
        add(&mut out, &shown)?;
        Ok(out)
    }

    /// `NT_FILE`: how many, the page size, addresses and places, and then the names.
    fn files(&self, files: &[Mapping]) -> Result<Vec<u8>, NoMemory> {
        let machine = self.machine;
        let mut out = Vec::new();
        machine.word(&mut out, files.len() as u64)?;
        machine.word(&mut out, machine.page)?;
        for file in files {
            for word in [file.range.0, file.range.1, file.page] {
                machine.word(&mut out, word)?;
            }
        }
        for file in files {
            add(&mut out, &file.path)?;
            add(&mut out, b"\0")?;
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;

    fn machine(wide: bool) -> Machine {
        Machine {
            number: 0,
            flags: 0,
            wide,
            page: 4096,
        }
    }

    const THREAD: Thread = Thread {
        signal: 11,
        signals: [1, 2],
        ids: [7, 8, 9, 10],
        times: [3_000_004, 0, 0, 0],
    };

    fn person(short_ids: bool) -> Person<'static> {
        Person {
            state: b'R',
            nice: -5,
            flags: 0x40_0000,
            uid: 70_000,
            gid: 5,
            ids: [1, 2, 3, 4],
            comm: *b"prog\0\0\0\0\0\0\0\0\0\0\0\0",
            arguments: b"prog\0one\0two\0",
            short_ids,
        }
    }

    /// The notes' names, kinds and data.
    fn read(bytes: &[u8]) -> vec::Vec<(vec::Vec<u8>, u32, vec::Vec<u8>)> {
        let mut found = vec![];
        let mut at = 0;
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        while at < bytes.len() {
            let [name, data] = [word(at) as usize, word(at + 4) as usize];
            let start = at + 12 + name.next_multiple_of(4);
            let text = bytes[at + 12..at + 12 + name].to_vec();
            found.push((text, word(at + 8), bytes[start..start + data].to_vec()));
            at = start + data.next_multiple_of(4);
        }
        found
    }

    /// The sizes are those of C's structures on x86-64, 64-bit Arm and Power, and 32-bit Arm.
    #[test]
    fn sizes() {
        for (wide, registers, status, short, info) in [
            (true, 27 * 8, 336, false, 136),
            (true, 34 * 8, 392, false, 136),
            (true, 48 * 8, 504, false, 136),
            (false, 18 * 4, 148, true, 124),
        ] {
            let notes = Notes::new(machine(wide));
            assert_eq!(
                notes.status(&THREAD, &vec![0; registers], true).unwrap().len(),
                status
            );
            assert_eq!(notes.person(&person(short)).unwrap().len(), info);
        }
    }

    #[test]
    fn order_and_names() {
        let mut notes = Notes::new(machine(true));
        let sets = [1, 2, 0x202].map(|note| Registers {
            note,
            bytes: vec![note as u8; 8],
        });
        let files = [Mapping {
            range: (0x1000, 0x2000),
            page: 3,
            path: b"/bin/a".to_vec(),
        }];
        let about = About {
            person: person(false),
            siginfo: &[9; 128],
            auxv: &[1; 16],
            files: &files,
        };
        notes.thread(&THREAD, &sets, Some(&about)).unwrap();
        notes.thread(&THREAD, &sets[..2], None).unwrap();
        let found = read(&notes.bytes);
        let kinds: vec::Vec<u32> = found.iter().map(|note| note.1).collect();
        assert_eq!(kinds, [1, 3, SIGINFO, 6, FILE, 2, 0x202, 1, 2]);
        for (name, kind, _) in &found {
            let wanted: &[u8] = if *kind == 0x202 { b"LINUX\0" } else { b"CORE\0" };
            assert_eq!(name, wanted);
        }
        let status = &found[0].2;
        assert_eq!(
            [status[0], status[12], status[16], status[24], status[32]],
            [11, 11, 1, 2, 7]
        );
        // Seconds and microseconds; registers; whether floating point follows.
        assert_eq!([status[48], status[56], status[112], status[120]], [3, 4, 1, 1]);
        let info = &found[1].2;
        assert_eq!([info[1], info[3], info[20]], [b'R', -5i8 as u8, 5]);
        assert_eq!(&info[56..70], b"prog one two \0");
        let file = &found[4].2;
        assert_eq!(file.len(), 16 + 24 + 7);
        assert_eq!(
            [file[0], file[9], file[17], file[25], file[32]],
            [1, 0x10, 0x10, 0x20, 3]
        );
        assert_eq!(&file[40..], b"/bin/a\0");
    }

    #[test]
    fn long_arguments_end_with_a_nul() {
        let notes = Notes::new(machine(false));
        let long = Person {
            arguments: &[b'x'; 200],
            ..person(true)
        };
        let info = notes.person(&long).unwrap();
        assert_eq!([info[122], info[123]], [b'x', 0]);
        // A user that does not fit is nobody.
        assert_eq!(&info[8..10], [0xfe, 0xff]);
    }
}
