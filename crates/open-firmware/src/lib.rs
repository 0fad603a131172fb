//! Open Firmware's device tree (IEEE 1275), as SLOF and QEMU's VOF offer it to the program that they start,
//! copied into a flattened one.
//!
//! The caller makes the calls ([`Firmware`]): it knows what an address is to the firmware, and how to call
//! it.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

/// The magic number of a flattened tree.
const MAGIC: u32 = 0xd00d_feed;
const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const END: u32 = 9;
/// How many bytes the header and the empty list of reservations behind it take.
const HEADER: usize = 40;
const RESERVATIONS: usize = 16;
/// How many bytes a name may have. The standard allows 31 characters; paths are longer.
const NAME: usize = 512;
/// Properties of more bytes than this are left out.
const LONGEST: u32 = 1 << 20;

/// An argument of a call.
#[derive(Debug)]
pub enum Argument<'a> {
    /// A number.
    Cell(u32),
    /// The address of bytes that are read.
    From(&'a [u8]),
    /// The address of bytes that are written.
    To(&'a mut [u8]),
}
use Argument::{Cell, From, To};

/// Firmware, and how to call it.
pub trait Firmware {
    /// Calls `service`, whose name ends with a NUL. Returns its first result, or all ones after an error.
    fn call(&mut self, service: &str, arguments: &mut [Argument<'_>]) -> u32;
}

/// The bytes up to the NUL.
fn name(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0);
    &bytes[..end.unwrap_or(bytes.len())]
}

/// A flattened tree that is being made: the structure from the front, names from the end.
struct Builder<'a, F> {
    firmware: &'a mut F,
    out: &'a mut [u8],
    at: usize,
    strings: usize,
}

impl<F: Firmware> Builder<'_, F> {
    fn cell(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.at += bytes.len();
    }

    /// Takes the next `size` bytes of the structure.
    fn room(&mut self, size: usize) -> &mut [u8] {
        assert!(self.at + size <= self.strings, "the device tree is too large");
        &mut self.out[self.at..self.at + size]
    }

    fn pad(&mut self) {
        while !self.at.is_multiple_of(4) {
            self.bytes(&[0]);
        }
    }

    /// The offset of a property's name, counted from the end of the names.
    fn name(&mut self, wanted: &[u8]) -> usize {
        let end = self.out.len();
        let mut at = self.strings;
        while at < end {
            let known = name(&self.out[at..]);
            if known == wanted {
                return end - at;
            }
            at += known.len() + 1;
        }
        let size = wanted.len() + 1;
        assert!(self.at + size <= self.strings, "the device tree is too large");
        self.strings -= size;
        self.out[self.strings..][..wanted.len()].copy_from_slice(wanted);
        self.out[self.strings + wanted.len()] = 0;
        end - self.strings
    }

    fn node(&mut self, node: u32, root: bool) {
        self.cell(BEGIN_NODE);
        if !root {
            let mut path = [0; NAME];
            // The firmware need not end the path with a NUL.
            let size = NAME as u32 - 1;
            let arguments = &mut [Cell(node), To(&mut path), Cell(size)];
            let length = self.firmware.call("package-to-path\0", arguments).min(size);
            path[length as usize] = 0;
            let path = name(&path);
            let from = path.iter().rposition(|&byte| byte == b'/').map_or(0, |n| n + 1);
            self.bytes(&path[from..]);
        }
        self.bytes(&[0]);
        self.pad();
        self.properties(node);
        let mut child = self.firmware.call("child\0", &mut [Cell(node)]);
        while child != 0 && child != u32::MAX {
            self.node(child, false);
            child = self.firmware.call("peer\0", &mut [Cell(child)]);
        }
        self.cell(END_NODE);
    }

    fn properties(&mut self, node: u32) {
        // Given the name of a property, first none, the firmware returns the next one's.
        let (mut last, mut next) = ([0; NAME], [0; NAME]);
        loop {
            let arguments = &mut [Cell(node), From(&last), To(&mut next)];
            if self.firmware.call("nextprop\0", arguments) != 1 {
                return;
            }
            let arguments = &mut [Cell(node), From(&next)];
            let length = self.firmware.call("getproplen\0", arguments);
            if name(&next) != b"name" && length < LONGEST {
                self.cell(PROPERTY);
                self.cell(length);
                // Converted to an offset from their start when the size of all names is known.
                let offset = self.name(name(&next));
                self.cell(offset as u32);
                self.room(length as usize);
                let to = &mut self.out[self.at..self.at + length as usize];
                let arguments = &mut [Cell(node), From(&next), To(to), Cell(length)];
                self.firmware.call("getprop\0", arguments);
                self.at += length as usize;
                self.pad();
            }
            last = next;
        }
    }

    /// Moves names and header to their places. Returns the size of the whole in bytes.
    fn finish(mut self) -> usize {
        self.cell(END);
        let structure = HEADER + RESERVATIONS;
        let (strings, end) = (self.at, self.out.len());
        let size = end - self.strings;
        self.out.copy_within(self.strings..end, strings);
        let mut at = structure;
        while at < strings {
            let cell = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|n| self.out[at + n]));
            match cell(at) {
                BEGIN_NODE => at += (4 + name(&self.out[at + 4..]).len() + 1).next_multiple_of(4),
                PROPERTY => {
                    let (length, offset) = (cell(at + 4), size as u32 - cell(at + 8));
                    self.out[at + 8..at + 12].copy_from_slice(&offset.to_be_bytes());
                    at += (12 + length as usize).next_multiple_of(4);
                }
                _ => at += 4,
            }
        }
        let total = strings + size;
        let header = [
            MAGIC,
            total as u32,
            structure as u32,
            strings as u32,
            HEADER as u32,
            17,
            16,
            0,
            size as u32,
            (strings - structure) as u32,
        ];
        for (i, word) in header.into_iter().enumerate() {
            self.out[i * 4..i * 4 + 4].copy_from_slice(&word.to_be_bytes());
        }
        self.out[HEADER..structure].fill(0);
        total
    }
}

/// Copies the firmware's tree to `out` as a flattened one. Returns its size in bytes.
///
/// # Panics
/// If there is not enough room.
pub fn flatten(firmware: &mut impl Firmware, out: &mut [u8]) -> usize {
    let root = firmware.call("peer\0", &mut [Cell(0)]);
    let strings = out.len();
    let mut builder = Builder {
        firmware,
        out,
        at: HEADER + RESERVATIONS,
        strings,
    };
    builder.node(root, true);
    builder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Path and properties; parents come before children. The number of a node is its index plus one.
    struct Fake(Vec<(&'static str, Vec<(&'static str, Vec<u8>)>)>);

    impl Fake {
        fn parent(&self, n: usize) -> Option<usize> {
            let (parent, _) = self.0[n].0.rsplit_once('/')?;
            (n > 0).then(|| {
                self.0
                    .iter()
                    .position(|node| node.0.trim_end_matches('/') == parent)
            })?
        }
        fn first(&self, from: usize, parent: usize) -> u32 {
            let found = (from..self.0.len()).find(|&n| self.parent(n) == Some(parent));
            found.map_or(0, |n| n as u32 + 1)
        }
    }

    impl Firmware for Fake {
        fn call(&mut self, service: &str, arguments: &mut [Argument<'_>]) -> u32 {
            let Cell(node) = arguments[0] else { panic!() };
            let n = (node as usize).wrapping_sub(1);
            let key = arguments.iter().find_map(|argument| match argument {
                From(bytes) => Some(name(bytes)),
                _ => None,
            });
            let place = |key: &[u8]| self.0[n].1.iter().position(|p| p.0.as_bytes() == key);
            let mut written = Vec::new();
            let result = match service {
                "peer\0" if node == 0 => 1,
                "peer\0" => self.parent(n).map_or(0, |parent| self.first(n + 1, parent)),
                "child\0" => self.first(n + 1, n),
                "package-to-path\0" => {
                    written.extend(self.0[n].0.bytes());
                    written.len() as u32
                }
                "nextprop\0" => match self.0[n].1.get(place(key.unwrap()).map_or(0, |n| n + 1)) {
                    Some((next, _)) => {
                        written.extend(next.bytes().chain([0]));
                        1
                    }
                    None => 0,
                },
                _ => {
                    let value = &self.0[n].1[place(key.unwrap()).unwrap()].1;
                    written.extend(value);
                    value.len() as u32
                }
            };
            for argument in arguments {
                if let To(bytes) = argument {
                    bytes[..written.len()].copy_from_slice(&written);
                }
            }
            result
        }
    }

    fn fake() -> Fake {
        Fake(vec![
            (
                "/",
                vec![("name", b"".into()), ("#address-cells", vec![0, 0, 0, 2])],
            ),
            (
                "/cpus",
                vec![("name", b"cpus\0".into()), ("#address-cells", vec![0, 0, 0, 1])],
            ),
            (
                "/cpus/PowerPC,POWER9@0",
                vec![("reg", vec![0; 4]), ("odd", vec![7; 5]), ("empty", vec![])],
            ),
            ("/chosen", vec![("bootargs", b"quiet\0".into())]),
        ])
    }

    /// The tree as text: nodes in braces, properties with their bytes.
    fn text(blob: &[u8]) -> String {
        let cell = |at: usize| u32::from_be_bytes(blob[at..at + 4].try_into().unwrap());
        assert_eq!((cell(0), cell(4) as usize, cell(20)), (MAGIC, blob.len(), 17));
        let (mut at, strings) = (cell(8) as usize, cell(12) as usize);
        assert_eq!(at + cell(36) as usize, strings);
        assert_eq!(strings + cell(32) as usize, blob.len());
        let word = |at: usize| String::from_utf8(name(&blob[at..]).to_vec()).unwrap();
        let mut text = String::new();
        loop {
            match cell(at) {
                BEGIN_NODE => {
                    text += &format!("{}{{", word(at + 4));
                    at += (5 + word(at + 4).len()).next_multiple_of(4);
                }
                END_NODE => {
                    text += "}";
                    at += 4;
                }
                PROPERTY => {
                    let (length, offset) = (cell(at + 4) as usize, cell(at + 8) as usize);
                    text += &format!(
                        "{}={:?};",
                        word(strings + offset),
                        &blob[at + 12..at + 12 + length]
                    );
                    at += (12 + length).next_multiple_of(4);
                }
                END => break,
                other => panic!("{other}"),
            }
        }
        assert_eq!(at + 4, strings);
        text
    }

    #[test]
    fn flattened() {
        let mut out = [0xaa; 1024];
        let size = flatten(&mut fake(), &mut out);
        let expected = "{#address-cells=[0, 0, 0, 2];cpus{#address-cells=[0, 0, 0, 1];\
            PowerPC,POWER9@0{reg=[0, 0, 0, 0];odd=[7, 7, 7, 7, 7];empty=[];}}\
            chosen{bootargs=[113, 117, 105, 101, 116, 0];}}";
        assert_eq!(text(&out[..size]), expected);
        // Each name is there once.
        let names = size - u32::from_be_bytes(out[12..16].try_into().unwrap()) as usize;
        assert_eq!(names, "#address-cells reg odd empty bootargs ".len());
    }

    #[test]
    #[should_panic(expected = "the device tree is too large")]
    fn too_large() {
        flatten(&mut fake(), &mut [0; 128]);
    }
}
