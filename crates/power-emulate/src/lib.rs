//! Instructions of 64-bit Power that a processor may leave to the kernel. The caller provides registers and
//! memory.
//!
//! * Loads and stores of multiple words and strings, which have no little-endian order of their own (Power
//!   ISA, book I, 3.3.5 and 3.3.6; alignment interrupts: book III, 7.5.8): decoded ([`decode`]) and done
//!   piece by piece ([`perform`]). In little-endian order each register holds a little-endian word, as Linux
//!   has it.
//! * Moves from and to special-purpose registers that user mode may not touch itself but is given, as on
//!   Linux ([`special`]).
//! * What of an enabled floating-point exception is said first ([`float_exception`]).

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

/// The bits of `XER` with the number of bytes that `lswx` and `stswx` move.
const XER_BYTES: usize = 0x7f;

/// The program's memory.
pub trait Memory {
    /// Loads a byte; `None` if it cannot be read.
    fn load(&self, at: usize) -> Option<u8>;
    /// Stores a byte; `None` if it cannot be written.
    fn store(&mut self, at: usize, byte: u8) -> Option<()>;
}

/// A load or store of several registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// `true`: a load; `false`: a store.
    pub load: bool,
    /// The first register. r0 follows r31.
    pub first: usize,
    /// The address of the first byte.
    pub at: usize,
    /// How many bytes: four for each register, perhaps fewer for the last one.
    pub bytes: usize,
}

impl Access {
    /// Whether it loads or stores a register.
    fn has(&self, register: usize) -> bool {
        register.wrapping_sub(self.first) % 32 < self.bytes.div_ceil(4)
    }
}

/// Decodes an instruction. `None`: it is another one, or an invalid form: a load of its own base register.
pub fn decode(instruction: u32, gpr: &[usize; 32], xer: usize) -> Option<Access> {
    let field = |shift: u32| (instruction >> shift & 31) as usize;
    let (first, ra, rb) = (field(21), field(16), field(11));
    let base = if ra == 0 { 0 } else { gpr[ra] };
    let displacement = instruction as u16 as i16 as usize;
    let string = if rb == 0 { 32 } else { rb };
    let (load, at, bytes) = match (instruction >> 26, instruction >> 1 & 0x3ff) {
        // lmw, stmw
        (46, _) => (true, base.wrapping_add(displacement), 4 * (32 - first)),
        (47, _) => (false, base.wrapping_add(displacement), 4 * (32 - first)),
        // lswi, stswi
        (31, 597) => (true, base, string),
        (31, 725) => (false, base, string),
        // lswx, stswx
        (31, 533) => (true, base.wrapping_add(gpr[rb]), xer & XER_BYTES),
        (31, 661) => (false, base.wrapping_add(gpr[rb]), xer & XER_BYTES),
        _ => return None,
    };
    let access = Access {
        load,
        first,
        at,
        bytes,
    };
    (!load || ra == 0 || !access.has(ra)).then_some(access)
}

/// Does the access. `Err`: the address of a byte that cannot be accessed; a part has been done then.
pub fn perform(
    access: &Access,
    gpr: &mut [usize; 32],
    memory: &mut impl Memory,
    little_endian: bool,
) -> Result<(), usize> {
    for done in (0..access.bytes).step_by(4) {
        let register = &mut gpr[(access.first + done / 4) % 32];
        let length = (access.bytes - done).min(4);
        // Addresses wrap around: the first one follows the last.
        let places = (0..length).map(|n| access.at.wrapping_add(done + n));
        if access.load {
            let mut word = [0; 4];
            for (at, byte) in places.zip(&mut word) {
                *byte = memory.load(at).ok_or(at)?;
            }
            *register = if little_endian {
                u32::from_le_bytes(word)
            } else {
                u32::from_be_bytes(word)
            } as usize;
        } else {
            let word = *register as u32;
            let word = if little_endian {
                word.to_le_bytes()
            } else {
                word.to_be_bytes()
            };
            for (at, byte) in places.zip(word) {
                memory.store(at, byte).ok_or(at)?;
            }
        }
    }
    Ok(())
}

/// A special-purpose register that the kernel lets user mode access (book III, 5.4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// The processor's version, to be read.
    Version,
    /// Data stream control, to be read.
    ReadStreamControl,
    /// Data stream control, to be written.
    WriteStreamControl,
}

/// Which special register is moved, and from or to which general register. Data stream control has two
/// numbers: one for user mode, which not every processor has, and the kernel's.
pub fn special(instruction: u32) -> Option<(Special, usize)> {
    let what = match instruction & 0xfc1f_ffff {
        0x7c1f_42a6 => Special::Version,
        0x7c03_02a6 | 0x7c11_02a6 => Special::ReadStreamControl,
        0x7c03_03a6 | 0x7c11_03a6 => Special::WriteStreamControl,
        _ => return None,
    };
    Some((what, (instruction >> 21 & 31) as usize))
}

/// The first floating-point exception that is pending and enabled in an `FPSCR`: 0 is an invalid operation,
/// then overflow, underflow, division by zero and inexact result (book I, 4.2.2).
pub fn float_exception(fpscr: u64) -> Option<usize> {
    (0..5).find(|n| fpscr >> (29 - n) & fpscr >> (7 - n) & 1 != 0)
}

#[cfg(test)]
mod tests;
