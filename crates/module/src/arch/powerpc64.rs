//! Relocations of powerpc64 little-endian ("64-Bit ELF V2 ABI Specification, Power Architecture", 3.5).
//!
//! Modules are built with `-mabi=elfv2 -mcmodel=medium` (or `large`) `-fno-pic -mno-pcrel`, not for size
//! (`-Os` calls functions that only a linker makes). A module has one TOC, and so one value of `r2` in all
//! its functions; `.TOC.` is 32 KiB after the start of its `.toc`.
//!
//! A call within the module goes to the function's local entry point. Any other call goes through a veneer
//! even if it would reach: it saves `r2`, and gives `r12` the address that the function makes its own `r2`
//! from. The instruction after such a call must be the `nop` that compilers leave there: it becomes the load
//! that restores `r2`. A call within the module that does not reach goes through a veneer that leaves `r2`
//! alone.

use crate::Fault;
use crate::machine::{Addends, Branch, Class, Machine, Site, Target, aligned, either, signed};
use crate::read;
use crate::sites::WayOf;

/// powerpc64, little-endian.
#[derive(Debug)]
pub enum Powerpc64 {}

const NONE: u32 = 0;
const ADDR32: u32 = 1;
const ADDR16_LO: u32 = 4;
const ADDR16_HI: u32 = 5;
const ADDR16_HA: u32 = 6;
const REL24: u32 = 10;
const REL32: u32 = 26;
const ADDR64: u32 = 38;
const ADDR16_HIGHER: u32 = 39;
const ADDR16_HIGHERA: u32 = 40;
const ADDR16_HIGHEST: u32 = 41;
const ADDR16_HIGHESTA: u32 = 42;
const REL64: u32 = 44;
const TOC16: u32 = 47;
const TOC16_LO: u32 = 48;
const TOC16_HI: u32 = 49;
const TOC16_HA: u32 = 50;
const TOC: u32 = 51;
const ADDR16_LO_DS: u32 = 57;
const TOC16_DS: u32 = 63;
const TOC16_LO_DS: u32 = 64;
const ADDR16_HIGH: u32 = 110;
const ADDR16_HIGHA: u32 = 111;
const ENTRY: u32 = 118;
const REL16: u32 = 249;
const REL16_LO: u32 = 250;
const REL16_HI: u32 = 251;
const REL16_HA: u32 = 252;

/// Variants of veneers.
const TO_OTHERS: u8 = 0;
const TO_OWN: u8 = 1;

const NOP: u32 = 0x6000_0000;
/// `std r2, 24(r1)` and `ld r2, 24(r1)`: where the ABI has the TOC pointer saved.
const SAVE_TOC: u32 = 0xf841_0018;
const RESTORE_TOC: u32 = 0xe841_0018;

/// How far a function's local entry point is from the global one, by the top three bits of `st_other`.
fn local_entry(other: u8) -> i64 {
    match other >> 5 {
        0 | 1 => 0,
        n => 1 << n,
    }
}

/// The half of `value` at `shift`, for an instruction that adds a signed lower part later.
fn adjusted(value: i64, shift: u32) -> i64 {
    value.wrapping_add(0x8000) >> shift
}

/// Writes 16 bits.
fn half(site: &mut Site<'_>, value: i64) -> Result<(), Fault> {
    site.put((value as u16).to_le_bytes())
}

/// Writes 16 bits of which the instruction keeps the lowest two for itself.
fn half_ds(site: &mut Site<'_>, value: i64) -> Result<(), Fault> {
    let kept = u16::from(*site.bytes.first().ok_or(Fault::Outside)? & 3);
    site.put((aligned(value, 4)? as u16 | kept).to_le_bytes())
}

impl Machine for Powerpc64 {
    const NUMBER: u16 = 21;
    const CLASS: Class = Class::Bits64;
    const ADDENDS: Addends = Addends::Apart;
    const VENEER: (u64, u64) = (32, 4);
    const SITE_REACH: i64 = 1 << 25;
    const SITE_VENEERS: u64 = 2;
    const SITE_VENEER: u8 = TO_OWN;
    const BASE_SYMBOL: &'static [u8] = b".TOC.";

    /// Version 2 of the ABI.
    fn flags_fit(flags: u32) -> bool {
        flags & 3 == 2
    }

    fn base(section: &dyn Fn(&[u8]) -> Option<u64>) -> u64 {
        // Without a TOC anything near the module's data will do.
        let near = [b".toc".as_slice(), b".data", b".bss", b".rodata", b".text"];
        near.into_iter()
            .find_map(section)
            .unwrap_or(0)
            .wrapping_add(0x8000)
    }

    fn branch(kind: u32, _: &[u8], addend: i64, target: &Target) -> Option<Branch> {
        (kind == REL24).then(|| Branch {
            addend: if target.own {
                addend.wrapping_add(local_entry(target.other))
            } else {
                addend
            },
            mask: 0,
            bias: 0,
            reach: (-(1 << 25), (1 << 25) - 4),
            direct: target.own,
            variant: if target.own { TO_OWN } else { TO_OTHERS },
        })
    }

    fn write_veneer(bytes: &mut [u8], variant: u8, to: u64) {
        let half = |shift: u32| (to >> shift & 0xffff) as u32;
        let code = [
            if variant == TO_OTHERS { SAVE_TOC } else { NOP },
            0x3d80_0000 | half(48), // lis r12
            0x618c_0000 | half(32), // ori r12, r12
            0x798c_07c6,            // sldi r12, r12, 32
            0x658c_0000 | half(16), // oris r12, r12
            0x618c_0000 | half(0),  // ori r12, r12
            0x7d89_03a6,            // mtctr r12
            0x4e80_0420,            // bctr
        ];
        for (bytes, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(code) {
            *bytes = word.to_le_bytes();
        }
    }

    fn make_site(bytes: &mut [u8], address: u64, nothing: u64, way: WayOf<'_>) -> Option<(u64, u64)> {
        /// `mflr r0`.
        const KEEP: u32 = 0x7c08_02a6;
        /// The first half of `addis r2, r12, x`: the function makes its TOC, in two instructions.
        const MAKES_TOC: u32 = 0x3c4c;
        let word = |at: usize| read::u32_at(bytes, at);
        let toc = word(8)? >> 16 == MAKES_TOC;
        let site = if toc { 16 } else { 8 };
        let intact = [0, 4, site, site + 4].iter().all(|at| word(*at) == Some(NOP));
        // GCC 12 leaves it before the TOC is made: calls by name pass behind, and r12 is wanted still.
        let early = !toc && word(16).is_some_and(|word| word >> 16 == MAKES_TOC);
        if early || !intact || !address.is_multiple_of(8) {
            return None;
        }
        let to = way(usize::from(toc), address + site as u64 + 4)?;
        read::put(bytes, nothing.to_le_bytes())?;
        read::put(bytes.get_mut(site..)?, KEEP.to_le_bytes())?;
        Some(((address + site as u64) | u64::from(toc), to))
    }

    fn relocate(
        site: &mut Site<'_>,
        kind: u32,
        target: &Target,
        veneer: &mut dyn FnMut(&Branch, u64) -> Option<u64>,
    ) -> Result<(), Fault> {
        let value = target.value.wrapping_add_signed(site.addend) as i64;
        let relative = value.wrapping_sub(site.address as i64);
        let toc = value.wrapping_sub(site.base as i64);
        match kind {
            // ENTRY says where a linker may shorten code.
            NONE | ENTRY => Ok(()),
            ADDR64 => site.put(value.to_le_bytes()),
            TOC => site.put(site.base.wrapping_add_signed(site.addend).to_le_bytes()),
            REL64 => site.put(relative.to_le_bytes()),
            ADDR32 => site.put((either(value, 32)? as u32).to_le_bytes()),
            REL32 => site.put((signed(relative, 32)? as u32).to_le_bytes()),
            ADDR16_LO => half(site, value),
            ADDR16_LO_DS => half_ds(site, value),
            ADDR16_HI => half(site, signed(value, 32)? >> 16),
            ADDR16_HA => half(site, signed(adjusted(value, 0), 32)? >> 16),
            ADDR16_HIGH => half(site, value >> 16),
            ADDR16_HIGHA => half(site, adjusted(value, 16)),
            ADDR16_HIGHER => half(site, value >> 32),
            ADDR16_HIGHERA => half(site, adjusted(value, 32)),
            ADDR16_HIGHEST => half(site, value >> 48),
            ADDR16_HIGHESTA => half(site, adjusted(value, 48)),
            TOC16 => half(site, signed(toc, 16)?),
            TOC16_DS => half_ds(site, signed(toc, 16)?),
            TOC16_LO => half(site, toc),
            TOC16_LO_DS => half_ds(site, toc),
            TOC16_HI => half(site, signed(toc, 32)? >> 16),
            TOC16_HA => half(site, signed(adjusted(toc, 0), 32)? >> 16),
            REL16 => half(site, signed(relative, 16)?),
            REL16_LO => half(site, relative),
            REL16_HI => half(site, signed(relative, 32)? >> 16),
            REL16_HA => half(site, signed(adjusted(relative, 0), 32)? >> 16),
            REL24 => {
                let branch = Self::branch(kind, site.bytes, site.addend, target).ok_or(Fault::Unknown)?;
                let way = branch.way(target, site.address, veneer)?;
                if !target.own {
                    match read::u32_at(site.bytes, 4) {
                        Some(NOP | RESTORE_TOC) => {}
                        _ => {
                            return Err(Fault::Refused(
                                "is of a call out of the module without a nop after it",
                            ));
                        }
                    }
                    let next = site.bytes.get_mut(4..).ok_or(Fault::Outside)?;
                    read::put(next, RESTORE_TOC.to_le_bytes()).ok_or(Fault::Outside)?;
                }
                site.insert(0x03ff_fffc, aligned(way.distance, 4)? as u32)
            }
            116 | 128..=152 => Err(Fault::Refused(
                "is relative to the instruction: the module must be compiled with -mno-pcrel",
            )),
            14..=17 | 52..=55 | 59 | 60 => Err(Fault::Refused(
                "needs a global offset table: the module must be compiled with -fno-pic",
            )),
            67..=107 => Err(Fault::Refused("is for variables of threads")),
            _ => Err(Fault::Unknown),
        }
    }
}
