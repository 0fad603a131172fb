//! Open Firmware (IEEE 1275), as SLOF and QEMU's VOF offer it to the program they start: its device tree is copied into a flattened one, which is
//! all that is read afterwards. Runs with translation off, before anything else; firmware is not called again.

use super::spr::{self, MSR_LE, MSR_SF};

/// Highest number of arguments and results together.
const CELLS: usize = 8;
/// A call's arguments, in firmware's byte order.
static mut CALL: [u32; 3 + CELLS] = [0; 3 + CELLS];
/// Names given to firmware and taken from it: at most 31 characters by the standard; paths are longer.
static mut NAME: [[u8; 512]; 2] = [[0; 512]; 2];

/// What marks a flattened tree.
const MAGIC: u32 = 0xd00d_feed;
const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const END: u32 = 9;
/// Bytes of the header, and of the empty list of reservations behind it.
const HEADER: usize = 40;
const RESERVATIONS: usize = 16;

/// The firmware's entry point.
#[derive(Clone, Copy)]
pub struct Firmware(u32);

/// The physical address of something in the image.
fn phys<T: ?Sized>(at: *const T) -> u32 {
    at.cast::<u8>() as usize as u32
}

impl Firmware {
    /// # Safety
    /// `entry` is what firmware passed; translation is off, on the boot CPU.
    pub unsafe fn new(entry: usize) -> Self {
        Self(entry as u32)
    }

    /// Calls `service` (with a NUL); the first result, or all ones.
    fn call(self, service: &str, arguments: &[u32]) -> u32 {
        unsafe extern "C" {
            fn call_open_firmware(arguments: usize, entry: usize, msr: usize);
        }
        let n = arguments.len();
        let block = &raw mut CALL;
        // SAFETY: one CPU, one call at a time; the block is as long as the longest call, and firmware writes the results only.
        unsafe {
            (*block)[0] = phys(service.as_ptr()).to_be();
            (*block)[1] = (n as u32).to_be();
            (*block)[2] = 1u32.to_be();
            for (i, argument) in arguments.iter().enumerate() {
                (*block)[3 + i] = argument.to_be();
            }
            (*block)[3 + n] = u32::MAX;
            call_open_firmware(
                phys(block) as usize,
                self.0 as usize,
                spr::msr() & !(MSR_SF | MSR_LE),
            );
            u32::from_be(block.cast::<u32>().add(3 + n).read_volatile())
        }
    }

    fn child(self, node: u32) -> u32 {
        self.call("child\0", &[node])
    }
    fn peer(self, node: u32) -> u32 {
        self.call("peer\0", &[node])
    }
    /// The next property's name goes to name buffer `to`; the last one's is in the other (empty: from the start). `false`: no more.
    fn next_property(self, node: u32, to: usize) -> bool {
        let names = &raw mut NAME;
        // SAFETY: addresses of the two buffers only.
        let (last, next) = unsafe { (phys(&raw const (*names)[1 - to]), phys(&raw const (*names)[to])) };
        self.call("nextprop\0", &[node, last, next]) == 1
    }
}

/// The bytes of name buffer `n` up to the NUL.
fn name(n: usize) -> &'static [u8] {
    let names = &raw const NAME;
    // SAFETY: firmware writes the buffer only inside calls, and nobody keeps what this returns across one.
    let all = unsafe { &(*names)[n] };
    &all[..all.iter().position(|&b| b == 0).unwrap_or(all.len())]
}

/// A flattened tree under construction: structure from the front, names from the end.
struct Builder<'a> {
    out: &'a mut [u8],
    at: usize,
    strings: usize,
}

impl Builder<'_> {
    fn cell(&mut self, value: u32) {
        self.out[self.at..self.at + 4].copy_from_slice(&value.to_be_bytes());
        self.at += 4;
    }
    fn pad(&mut self) {
        while !self.at.is_multiple_of(4) {
            self.out[self.at] = 0;
            self.at += 1;
        }
    }
    /// Offset of a property's name, counted from the end of the names.
    fn name(&mut self, name: &[u8]) -> usize {
        let end = self.out.len();
        let mut at = self.strings;
        while at < end {
            let length = self.out[at..].iter().position(|&b| b == 0).unwrap_or(0);
            if &self.out[at..at + length] == name {
                return end - at;
            }
            at += length + 1;
        }
        self.strings -= name.len() + 1;
        self.out[self.strings..self.strings + name.len()].copy_from_slice(name);
        self.out[self.strings + name.len()] = 0;
        end - self.strings
    }

    fn node(&mut self, firmware: Firmware, node: u32, root: bool) {
        self.cell(BEGIN_NODE);
        if !root {
            let names = &raw mut NAME;
            // SAFETY: the buffer's address and size.
            let (at, size) = unsafe { (phys(&raw const (*names)[0]), (*names)[0].len() as u32) };
            let length = firmware
                .call("package-to-path\0", &[node, at, size - 1])
                .min(size - 1);
            // SAFETY: within the buffer; firmware need not end the path.
            unsafe { (*names)[0][length as usize] = 0 };
            let path = name(0);
            let from = path.iter().rposition(|&b| b == b'/').map_or(0, |n| n + 1);
            let last = &path[from..];
            self.out[self.at..self.at + last.len()].copy_from_slice(last);
            self.at += last.len();
        }
        self.out[self.at] = 0;
        self.at += 1;
        self.pad();
        self.properties(firmware, node);
        let mut child = firmware.child(node);
        while child != 0 && child != u32::MAX {
            self.node(firmware, child, false);
            child = firmware.peer(child);
        }
        self.cell(END_NODE);
    }

    fn properties(&mut self, firmware: Firmware, node: u32) {
        let names = &raw mut NAME;
        // SAFETY: nobody holds a reference into the buffers here.
        unsafe { (*names)[1][0] = 0 };
        let mut to = 0;
        while firmware.next_property(node, to) {
            let at = name(to);
            let wanted = at != b"name";
            // SAFETY: the buffer's address.
            let at_phys = unsafe { phys(&raw const (*names)[to]) };
            let length = firmware.call("getproplen\0", &[node, at_phys]);
            if wanted && length < 1 << 20 {
                self.cell(PROPERTY);
                self.cell(length);
                // Counted from the end; made an offset when the size of the names is known.
                let offset = self.name(name(to));
                self.cell(offset as u32);
                assert!(
                    self.at + (length as usize) < self.strings,
                    "the device tree is too large"
                );
                let to = phys(&raw const self.out[self.at]);
                firmware.call("getprop\0", &[node, at_phys, to, length]);
                self.at += length as usize;
                self.pad();
            }
            to = 1 - to;
        }
    }

    /// Puts names and header in place; the size of the whole.
    fn finish(mut self) -> usize {
        self.cell(END);
        let structure = HEADER + RESERVATIONS;
        let (strings, end) = (self.at, self.out.len());
        let size = end - self.strings;
        self.out.copy_within(self.strings..end, strings);
        // Names were counted from their end.
        let mut at = structure;
        while at < strings {
            let cell =
                |out: &[u8], at: usize| u32::from_be_bytes([out[at], out[at + 1], out[at + 2], out[at + 3]]);
            match cell(self.out, at) {
                BEGIN_NODE => {
                    let length = self.out[at + 4..].iter().position(|&b| b == 0).unwrap_or(0);
                    at += (4 + length + 1).next_multiple_of(4);
                }
                PROPERTY => {
                    let offset = size as u32 - cell(self.out, at + 8);
                    self.out[at + 8..at + 12].copy_from_slice(&offset.to_be_bytes());
                    at += (12 + cell(self.out, at + 4) as usize).next_multiple_of(4);
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

/// Copies firmware's tree to `out` as a flattened one; its size.
pub fn flatten(firmware: Firmware, out: &mut [u8]) -> usize {
    let strings = out.len();
    let mut builder = Builder {
        out,
        at: HEADER + RESERVATIONS,
        strings,
    };
    let root = firmware.peer(0);
    builder.node(firmware, root, true);
    builder.finish()
}
