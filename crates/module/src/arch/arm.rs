//! Relocations of 32-bit Arm, version 7 ("ELF for the Arm Architecture", "Relocation").
//!
//! Modules are built with `-fno-pic`, in Arm or Thumb instructions; one calls the other, and the kernel, as
//! the target's lowest bit says. A call changes the state by being BL or BLX; a branch that has to, or does
//! not reach (32 MiB, in Thumb 16 MiB), goes through a veneer of its own state.

use crate::Fault;
use crate::machine::{Addends, Branch, Class, Machine, Site, Target, signed};
use crate::read::{u16_at, u32_at};
use crate::sites::WayOf;

/// 32-bit Arm.
#[derive(Debug)]
pub enum Arm {}

const NONE: u32 = 0;
const PC24: u32 = 1;
const ABS32: u32 = 2;
const REL32: u32 = 3;
const THM_CALL: u32 = 10;
const CALL: u32 = 28;
const JUMP24: u32 = 29;
const THM_JUMP24: u32 = 30;
const TARGET1: u32 = 38;
const V4BX: u32 = 40;
const PREL31: u32 = 42;
const MOVW_ABS_NC: u32 = 43;
const MOVT_ABS: u32 = 44;
const MOVW_PREL_NC: u32 = 45;
const MOVT_PREL: u32 = 46;
const THM_MOVW_ABS_NC: u32 = 47;
const THM_MOVT_ABS: u32 = 48;
const THM_MOVW_PREL_NC: u32 = 49;
const THM_MOVT_PREL: u32 = 50;
const THM_JUMP19: u32 = 51;

/// Variants of veneers, by the state of who branches.
const FROM_ARM: u8 = 0;
const FROM_THUMB: u8 = 1;

/// The bit of a target that says Thumb.
const THUMB: u64 = 1;

/// `value`'s low `bits` bits as a signed number.
fn extend(value: u32, bits: u32) -> i64 {
    let unused = 32 - bits;
    i64::from((value << unused).cast_signed() >> unused)
}

/// The state of what is branched to: `None` if that is not known to be code, and so not to be changed to.
fn is_thumb(target: &Target) -> Option<bool> {
    target.code.then_some(target.value & THUMB != 0)
}

/// Two halves of a Thumb instruction as one number, the first in the high half.
fn halves(bytes: &[u8]) -> Option<u32> {
    Some(u32::from(u16_at(bytes, 0)?) << 16 | u32::from(u16_at(bytes, 2)?))
}

fn put_halves(site: &mut Site<'_>, code: u32) -> Result<(), Fault> {
    site.put(code.rotate_left(16).to_le_bytes())
}

/// The distance in BL, BLX (immediate) and B.W of Thumb.
fn thumb_distance(code: u32) -> i64 {
    let (s, j1, j2) = (code >> 26 & 1, code >> 13 & 1, code >> 11 & 1);
    let (i1, i2) = (!(j1 ^ s) & 1, !(j2 ^ s) & 1);
    let imm = s << 24 | i1 << 23 | i2 << 22 | (code >> 16 & 0x3ff) << 12 | (code & 0x7ff) << 1;
    extend(imm, 25)
}

fn with_thumb_distance(code: u32, distance: i64) -> u32 {
    let d = distance as u32;
    let s = d >> 24 & 1;
    let (j1, j2) = (!(d >> 23 & 1) & 1 ^ s, !(d >> 22 & 1) & 1 ^ s);
    code & 0xf800_d000 | s << 26 | (d >> 12 & 0x3ff) << 16 | j1 << 13 | j2 << 11 | d >> 1 & 0x7ff
}

/// The distance in a conditional B.W of Thumb.
fn thumb_conditional_distance(code: u32) -> i64 {
    let imm = (code >> 26 & 1) << 20
        | (code >> 11 & 1) << 19
        | (code >> 13 & 1) << 18
        | (code >> 16 & 0x3f) << 12
        | (code & 0x7ff) << 1;
    extend(imm, 21)
}

fn with_thumb_conditional_distance(code: u32, distance: i64) -> u32 {
    let d = distance as u32;
    code & !0x043f_2fff
        | (d >> 20 & 1) << 26
        | (d >> 19 & 1) << 11
        | (d >> 18 & 1) << 13
        | (d >> 12 & 0x3f) << 16
        | d >> 1 & 0x7ff
}

/// The 16 bits in MOVW and MOVT: the addend that is in place is signed.
fn movw_imm(code: u32) -> i64 {
    extend(code >> 4 & 0xf000 | code & 0xfff, 16)
}

fn with_movw_imm(code: u32, imm: u32) -> u32 {
    code & !0x000f_0fff | (imm & 0xf000) << 4 | imm & 0xfff
}

fn thumb_movw_imm(code: u32) -> i64 {
    extend(
        code >> 4 & 0xf000 | code >> 15 & 0x800 | code >> 4 & 0x700 | code & 0xff,
        16,
    )
}

fn with_thumb_movw_imm(code: u32, imm: u32) -> u32 {
    code & !0x040f_70ff | (imm & 0xf000) << 4 | (imm & 0x800) << 15 | (imm & 0x700) << 4 | imm & 0xff
}

/// Whether an instruction is BLX (immediate): what is a condition in others is 15.
fn is_blx(code: u32) -> bool {
    code >> 28 == 15
}

/// Whether an instruction is BL without a condition.
fn is_plain_bl(code: u32) -> bool {
    code >> 24 == 0xeb
}

/// Whether a Thumb instruction is BL or BLX (immediate).
fn is_thumb_call(code: u32) -> bool {
    code & 0xc000 == 0xc000
}

impl Arm {
    fn arm_branch(code: u32, target: &Target) -> Branch {
        // What is not known to be code has the state that the instruction says.
        let thumb = is_thumb(target).unwrap_or(is_blx(code));
        let half = i64::from(is_blx(code) && code & 1 << 24 != 0) * 2;
        Branch {
            addend: (extend(code, 24) << 2) + half,
            mask: THUMB,
            bias: 8,
            reach: (-(1 << 25), (1 << 25) - 2),
            direct: !thumb || is_plain_bl(code) || is_blx(code),
            variant: FROM_ARM,
        }
    }

    fn thumb_branch(kind: u32, code: u32, target: &Target) -> Branch {
        let call = kind == THM_CALL && is_thumb_call(code);
        let (addend, reach) = if kind == THM_JUMP19 {
            (thumb_conditional_distance(code), 1 << 20)
        } else {
            (thumb_distance(code), 1 << 24)
        };
        Branch {
            addend,
            mask: THUMB,
            bias: 4,
            // BLX may round its distance up by 2.
            reach: (-reach, reach - 4),
            direct: is_thumb(target).unwrap_or(true) || call,
            variant: FROM_THUMB,
        }
    }

    /// BL, BLX and B of Arm instructions.
    fn relocate_arm_branch(
        site: &mut Site<'_>,
        target: &Target,
        veneer: &mut dyn FnMut(&Branch, u64) -> Option<u64>,
    ) -> Result<(), Fault> {
        let code = site.word()?;
        let way = Self::arm_branch(code, target).way(target, site.address, veneer)?;
        let thumb = !way.veneer && is_thumb(target).unwrap_or(is_blx(code));
        let code = match (thumb, is_plain_bl(code) || is_blx(code)) {
            (true, _) => 0xfa00_0000 | (way.distance as u32 & 2) << 23,
            (false, true) => 0xeb00_0000,
            (false, false) => code & 0xff00_0000,
        };
        if way.distance & if thumb { 1 } else { 3 } != 0 {
            return Err(Fault::Misaligned);
        }
        site.put((code | (way.distance >> 2) as u32 & 0xff_ffff).to_le_bytes())
    }

    /// BL, BLX and B.W of Thumb instructions.
    fn relocate_thumb_branch(
        site: &mut Site<'_>,
        kind: u32,
        target: &Target,
        veneer: &mut dyn FnMut(&Branch, u64) -> Option<u64>,
    ) -> Result<(), Fault> {
        const IS_BL: u32 = 1 << 12;
        let code = halves(site.bytes).ok_or(Fault::Outside)?;
        let way = Self::thumb_branch(kind, code, target).way(target, site.address, veneer)?;
        let (mut code, mut distance) = (code, way.distance);
        if kind == THM_JUMP19 {
            if distance & 1 != 0 {
                return Err(Fault::Misaligned);
            }
            return put_halves(site, with_thumb_conditional_distance(code, distance));
        }
        if kind == THM_CALL && is_thumb_call(code) {
            let thumb = way.veneer || is_thumb(target).unwrap_or(code & IS_BL != 0);
            code = code & !IS_BL | if thumb { IS_BL } else { 0 };
            if !thumb {
                // BLX counts from the word in which the instruction begins.
                distance += site.address as i64 & 2;
                if distance & 3 != 0 {
                    return Err(Fault::Misaligned);
                }
            }
        }
        if distance & 1 != 0 {
            return Err(Fault::Misaligned);
        }
        put_halves(site, with_thumb_distance(code, signed(distance, 25)?))
    }
}

impl Machine for Arm {
    const NUMBER: u16 = 40;
    const CLASS: Class = Class::Bits32;
    const ADDENDS: Addends = Addends::InPlace;
    const VENEER: (u64, u64) = (8, 4);
    const SITE_REACH: i64 = 1 << 25;
    const SITE_VENEERS: u64 = 1;

    /// EABI version 5, instructions little-endian.
    fn flags_fit(flags: u32) -> bool {
        flags & 0xff80_0000 == 0x0500_0000
    }

    /// Unwind tables of functions that are only needed for `init` carry these names.
    fn is_init(name: &[u8]) -> bool {
        let bare = name
            .strip_prefix(b".ARM.exidx")
            .or_else(|| name.strip_prefix(b".ARM.extab"));
        bare.unwrap_or(name).starts_with(b".init")
    }

    fn is_marker(name: &[u8]) -> bool {
        matches!(
            name,
            [b'$', b'a' | b't' | b'd'] | [b'$', b'a' | b't' | b'd', b'.', ..]
        )
    }

    fn code_address(value: u64) -> u64 {
        value & !THUMB
    }

    /// Unwind tables name the routines that would interpret them, in relocations that do nothing.
    fn is_ignored(name: &[u8]) -> bool {
        matches!(
            name,
            b"__aeabi_unwind_cpp_pr0" | b"__aeabi_unwind_cpp_pr1" | b"__aeabi_unwind_cpp_pr2"
        )
    }

    fn branch(kind: u32, bytes: &[u8], _: i64, target: &Target) -> Option<Branch> {
        match kind {
            PC24 | CALL | JUMP24 => Some(Self::arm_branch(u32_at(bytes, 0)?, target)),
            THM_CALL | THM_JUMP24 | THM_JUMP19 => Some(Self::thumb_branch(kind, halves(bytes)?, target)),
            _ => None,
        }
    }

    fn write_veneer(bytes: &mut [u8], variant: u8, to: u64) {
        // `ldr pc` from the word after it, in either state; it changes the state by the lowest bit.
        let code: u32 = if variant == FROM_THUMB {
            0xf000_f8df
        } else {
            0xe51f_f004
        };
        for (bytes, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip([code, to as u32]) {
            *bytes = word.to_le_bytes();
        }
    }

    fn make_site(bytes: &mut [u8], address: u64, nothing: u64, way: WayOf<'_>) -> Option<(u64, u64)> {
        const NOP: u32 = 0xe320_f000;
        /// `b .+28`, over all of it.
        const OFF: u32 = 0xea00_0005;
        /// `mov ip, lr`, then the call, then `b .+16`, which passes over the slot.
        const KEEP: u32 = 0xe1a0_c00e;
        const CALL: u32 = 0xeb00_0000;
        const PASS: u32 = 0xea00_0002;
        // GCC leaves seven that do nothing; LLVM passes over them.
        let mut words = (4..28).step_by(4).map(|at| u32_at(bytes, at));
        let intact = words.all(|word| word == Some(NOP)) && matches!(u32_at(bytes, 0), Some(NOP | OFF));
        if !intact || !address.is_multiple_of(4) {
            return None;
        }
        let to = way(0, address + 16)?;
        let distance = (to as u32).wrapping_sub(address as u32 + 16) >> 2 & 0xff_ffff;
        let made = [OFF, KEEP, CALL | distance, PASS, nothing as u32];
        for (bytes, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(made) {
            *bytes = word.to_le_bytes();
        }
        Some((address, to))
    }

    fn relocate(
        site: &mut Site<'_>,
        kind: u32,
        target: &Target,
        veneer: &mut dyn FnMut(&Branch, u64) -> Option<u64>,
    ) -> Result<(), Fault> {
        let value = target.value as u32;
        let place = site.address as u32;
        match kind {
            // BX is an instruction of every processor that runs this.
            NONE | V4BX => Ok(()),
            ABS32 | TARGET1 => {
                let sum = value.wrapping_add(site.word()?);
                site.put(sum.to_le_bytes())
            }
            REL32 => {
                let sum = value.wrapping_add(site.word()?).wrapping_sub(place);
                site.put(sum.to_le_bytes())
            }
            PREL31 => {
                let addend = extend(site.word()?, 31) as u32;
                let sum = value.wrapping_add(addend).wrapping_sub(place);
                signed(sum.cast_signed().into(), 31)?;
                site.insert(0x7fff_ffff, sum)
            }
            PC24 | CALL | JUMP24 => Self::relocate_arm_branch(site, target, veneer),
            THM_CALL | THM_JUMP24 | THM_JUMP19 => Self::relocate_thumb_branch(site, kind, target, veneer),
            MOVW_ABS_NC | MOVT_ABS | MOVW_PREL_NC | MOVT_PREL => {
                let code = site.word()?;
                let sum = Self::moved(value, movw_imm(code), place, kind - MOVW_ABS_NC);
                site.put(with_movw_imm(code, sum).to_le_bytes())
            }
            THM_MOVW_ABS_NC | THM_MOVT_ABS | THM_MOVW_PREL_NC | THM_MOVT_PREL => {
                let code = halves(site.bytes).ok_or(Fault::Outside)?;
                let sum = Self::moved(value, thumb_movw_imm(code), place, kind - THM_MOVW_ABS_NC);
                put_halves(site, with_thumb_movw_imm(code, sum))
            }
            25 | 26 | 27 | 96 => Err(Fault::Refused(
                "needs a global offset table: the module must be compiled with -fno-pic",
            )),
            104..=108 => Err(Fault::Refused("is for variables of threads")),
            _ => Err(Fault::Unknown),
        }
    }
}

impl Arm {
    /// What MOVW (`which` 0), MOVT (1) and those relative to the place (2, 3) move.
    fn moved(value: u32, addend: i64, place: u32, which: u32) -> u32 {
        let sum = value.wrapping_add(addend as u32);
        let sum = if which >= 2 { sum.wrapping_sub(place) } else { sum };
        if which % 2 == 1 { sum >> 16 } else { sum }
    }
}
