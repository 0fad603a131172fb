//! The arguments of a new program, as records `EXECVE` tell them: in as many records as they need, those that
//! are long in several pieces.

use crate::Error;
use crate::text::Untrusted;
use alloc::vec::Vec;
use core::fmt::{self, Write};

/// How many bytes of arguments a record has at most (`MAX_EXECVE_AUDIT_LEN`).
const ROOM: usize = 7500;
/// How many bytes what stands before a piece can have; and what must be left for it to be worth beginning
/// another argument.
const BEFORE: usize = 96;
const LEAST: usize = BEFORE + 8;
/// How many bytes of an argument are looked at first.
const FIRST: usize = 64;

/// Bytes that grow.
struct Record(Vec<u8>);

impl Write for Record {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.try_reserve(text.len()).map_err(|_| fmt::Error)?;
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Writes `bytes` in hexadecimal, or quoted.
fn put(record: &mut Record, bytes: &[u8], hex: bool) -> fmt::Result {
    match hex {
        true => write!(record, "{}", crate::text::Hex(bytes)),
        false => write!(record, "{}", Untrusted(bytes)),
    }
}

/// Length and look of the argument at `at`: how many bytes it has, whether they can be told as they are.
fn measure(read: &mut impl FnMut(usize, &mut [u8]) -> usize, chunk: &mut [u8], at: usize) -> (usize, bool) {
    let (mut len, mut plain) = (0, true);
    // Most are short, and there may be very many.
    let mut some = FIRST;
    loop {
        let room = some.min(chunk.len());
        some *= 8;
        let got = read(at + len, &mut chunk[..room]).min(room);
        let bytes = &chunk[..got];
        let end = bytes.iter().position(|byte| *byte == 0);
        let own = &bytes[..end.unwrap_or(got)];
        plain &= Untrusted(own).is_plain();
        len += own.len();
        if end.is_some() || got == 0 {
            return (len, plain);
        }
    }
}

/// Tells arguments that lie one behind the other, each with a zero byte at its end. `read` copies bytes from
/// a place on and returns how many; `tell` gets the text of each record.
///
/// # Errors
///
/// [`Error::NoMemory`].
pub fn tell(
    size: usize,
    mut read: impl FnMut(usize, &mut [u8]) -> usize,
    mut tell: impl FnMut(&[u8]),
) -> Result<(), Error> {
    let mut chunk = Vec::new();
    chunk.try_reserve_exact(ROOM).map_err(|_| Error::NoMemory)?;
    chunk.resize(ROOM, 0);
    let mut count = 0;
    let mut at = 0;
    while at < size {
        at += measure(&mut read, &mut chunk, at).0 + 1;
        count += 1;
    }
    let mut record = Record(Vec::new());
    let no_memory = |_: fmt::Error| Error::NoMemory;
    write!(record, "argc={count}").map_err(no_memory)?;
    let (mut left, mut at) = (ROOM, 0);
    for n in 0..count {
        let (len, plain) = measure(&mut read, &mut chunk, at);
        // What does not fit into a record is told in one way, whatever its pieces look like.
        let hex = !plain || len >= ROOM;
        let (each, around) = if hex { (2, 0) } else { (1, 2) };
        let (mut done, mut pieces) = (0, 0);
        loop {
            if left < LEAST {
                tell(&record.0);
                record.0.clear();
                left = ROOM;
            }
            let rest = len - done;
            let before = record.0.len();
            if pieces == 0 && each * rest + around + BEFORE <= left {
                write!(record, " a{n}=").map_err(no_memory)?;
            } else {
                if pieces == 0 {
                    write!(record, " a{n}_len={}", each * len).map_err(no_memory)?;
                }
                write!(record, " a{n}[{pieces}]=").map_err(no_memory)?;
            }
            left = left.saturating_sub(record.0.len() - before);
            let piece = rest.min((left - around) / each);
            let got = read(at + done, &mut chunk[..piece]).min(piece);
            put(&mut record, &chunk[..got], hex).map_err(no_memory)?;
            left = left.saturating_sub(each * got + around);
            done += got;
            pieces += 1;
            if done >= len || got == 0 {
                break;
            }
        }
        at += len + 1;
    }
    tell(&record.0);
    Ok(())
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::string::String;
    use std::{format, vec};

    fn records(arguments: &[&[u8]]) -> Vec<String> {
        let area: Vec<u8> = arguments
            .iter()
            .flat_map(|a| a.iter().copied().chain([0]))
            .collect();
        let mut records = vec![];
        let read = |at: usize, to: &mut [u8]| {
            let from = area.get(at..).unwrap_or_default();
            let n = from.len().min(to.len());
            to[..n].copy_from_slice(&from[..n]);
            n
        };
        tell(area.len(), read, |record| {
            records.push(String::from_utf8(record.to_vec()).unwrap());
        })
        .unwrap();
        records
    }

    #[test]
    fn few_arguments() {
        assert_eq!(records(&[]), ["argc=0"]);
        assert_eq!(
            records(&[b"ls", b"", b"a b", b"-l"]),
            ["argc=4 a0=\"ls\" a1=\"\" a2=612062 a3=\"-l\""]
        );
    }

    #[test]
    fn a_long_argument() {
        let long = [b'x'; 8000];
        let told = records(&[b"p", &long]);
        assert!(told[0].starts_with("argc=2 a0=\"p\" a1_len=16000 a1[0]=7878"));
        assert!(told.len() == 3 && told[1].starts_with(" a1[1]=78") && told[2].starts_with(" a1[2]=78"));
        assert!(told.iter().all(|record| record.len() <= ROOM + 16));
        // One that fits into a record of its own is in two pieces only if it stands behind others.
        let half = [b'y'; 5000];
        let told = records(&[&half, &half]);
        assert_eq!(told.len(), 2);
        assert!(told[0].starts_with("argc=2 a0=\"yyy") && told[0].contains("\" a1_len=5000 a1[0]=\"yyy"));
        assert!(told[1].starts_with(" a1[1]=\"yyy"));
    }

    proptest! {
        #[test]
        fn nothing_is_lost(lens in prop::collection::vec(0usize..20_000, 0..8), bytes in 1u8..=255) {
            let arguments: Vec<Vec<u8>> = lens.iter().map(|len| vec![bytes; *len]).collect();
            let all: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
            let told = records(&all).concat();
            for (n, argument) in all.iter().enumerate() {
                let mut text = String::new();
                for word in told.split(' ') {
                    let whole = word.strip_prefix(&format!("a{n}="));
                    let piece = word.strip_prefix(&format!("a{n}[")).and_then(|w| w.split_once("]="));
                    let Some(piece) = whole.or(piece.map(|(_, piece)| piece)) else { continue };
                    match piece.strip_prefix('"') {
                        Some(plain) => text.push_str(&format!("{}",
                            crate::text::Hex(plain.strip_suffix('"').unwrap().as_bytes()))),
                        None => text.push_str(piece),
                    }
                }
                prop_assert_eq!(text, format!("{}", crate::text::Hex(argument)));
            }
        }
    }
}
