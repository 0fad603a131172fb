//! Relocations of x86_64 ("System V ABI, AMD64 Architecture Processor Supplement", 4.4).
//!
//! Modules are built with `-mcmodel=kernel -fno-pic` (Rust: `relocation-model=static`,
//! `code-model=kernel`) and lie within 2 GiB of the kernel, in the last 2 GiB of the address space: so every
//! branch reaches, and there are no veneers.

use crate::Fault;
use crate::machine::{Addends, Branch, Class, Machine, Site, Target, either, signed, unsigned};
use crate::sites::WayOf;

/// x86_64.
#[derive(Debug)]
pub enum X86_64 {}

const NONE: u32 = 0;
const ABS64: u32 = 1;
const PC32: u32 = 2;
const PLT32: u32 = 4;
const ABS32: u32 = 10;
const ABS32S: u32 = 11;
const ABS16: u32 = 12;
const PC16: u32 = 13;
const ABS8: u32 = 14;
const PC8: u32 = 15;
const PC64: u32 = 24;

impl Machine for X86_64 {
    const NUMBER: u16 = 62;
    const CLASS: Class = Class::Bits64;
    const ADDENDS: Addends = Addends::Apart;
    const VENEER: (u64, u64) = (0, 1);
    const SITE_REACH: i64 = 1 << 31;
    const SITE_VENEERS: u64 = 0;

    fn branch(_: u32, _: &[u8], _: i64, _: &Target) -> Option<Branch> {
        None
    }

    fn write_veneer(_: &mut [u8], _: u8, _: u64) {}

    fn make_site(bytes: &mut [u8], address: u64, nothing: u64, way: WayOf<'_>) -> Option<(u64, u64)> {
        /// `nop` of five bytes; GCC leaves five of one.
        const NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0, 8];
        // The site lies in one quadword.
        let [slot, code] = bytes.as_chunks_mut::<8>().0.get_mut(..2)? else {
            return None;
        };
        let made = code.get_mut(..NOP.len())?;
        let intact = *slot == [0x90; 8] && (*made == [0x90; NOP.len()] || *made == NOP);
        if !intact || !address.is_multiple_of(8) {
            return None;
        }
        let to = way(0, address + 13)?;
        *slot = nothing.to_le_bytes();
        made.copy_from_slice(&NOP);
        Some((address + 8, to))
    }

    fn relocate(
        site: &mut Site<'_>,
        kind: u32,
        target: &Target,
        _: &mut dyn FnMut(&Branch, u64) -> Option<u64>,
    ) -> Result<(), Fault> {
        let value = target.value.wrapping_add_signed(site.addend);
        let relative = value.wrapping_sub(site.address) as i64;
        match kind {
            NONE => Ok(()),
            ABS64 => site.put(value.to_le_bytes()),
            ABS32 => site.put((unsigned(value, 32)? as u32).to_le_bytes()),
            ABS32S => site.put((signed(value as i64, 32)? as u32).to_le_bytes()),
            PC32 | PLT32 => site.put((signed(relative, 32)? as u32).to_le_bytes()),
            PC64 => site.put(relative.to_le_bytes()),
            ABS16 => site.put((either(value as i64, 16)? as u16).to_le_bytes()),
            PC16 => site.put((signed(relative, 16)? as u16).to_le_bytes()),
            ABS8 => site.put((either(value as i64, 8)? as u8).to_le_bytes()),
            PC8 => site.put((signed(relative, 8)? as u8).to_le_bytes()),
            3 | 9 | 25..=31 | 41 | 42 => Err(Fault::Refused(
                "needs a global offset table: the module must be compiled with -fno-pic -mcmodel=kernel",
            )),
            16..=23 | 34..=36 => Err(Fault::Refused("is for variables of threads")),
            _ => Err(Fault::Unknown),
        }
    }
}
