//! Relocations of arm64 ("ELF for the Arm 64-bit Architecture", "Static AArch64 relocations").
//!
//! Modules are built with `-mcmodel=small -fno-pic`: what they address with ADRP lies within 4 GiB. Branches
//! reach 128 MiB; further ones go through veneers, which use `x16`, as the procedure call standard allows.
//!
//! The address of a weak symbol is loaded from memory even so (it may be 0, which ADRP does not reach). There
//! is no global offset table: what takes a veneer's place among the veneers holds that address.

use crate::Fault;
use crate::machine::{Addends, Branch, Class, Machine, Site, Target, aligned, either, signed, unsigned};
use crate::read::{put, u32_at};
use crate::sites::WayOf;

/// arm64.
#[derive(Debug)]
pub enum Arm64 {}

const NONE: u32 = 0;
const NONE_TOO: u32 = 256;
const ABS64: u32 = 257;
const ABS32: u32 = 258;
const ABS16: u32 = 259;
const PREL64: u32 = 260;
const PREL32: u32 = 261;
const PREL16: u32 = 262;
const MOVW_UABS_G0: u32 = 263;
const MOVW_UABS_G0_NC: u32 = 264;
const MOVW_UABS_G1: u32 = 265;
const MOVW_UABS_G1_NC: u32 = 266;
const MOVW_UABS_G2: u32 = 267;
const MOVW_UABS_G2_NC: u32 = 268;
const MOVW_UABS_G3: u32 = 269;
const MOVW_SABS_G0: u32 = 270;
const MOVW_SABS_G1: u32 = 271;
const MOVW_SABS_G2: u32 = 272;
const LD_PREL_LO19: u32 = 273;
const ADR_PREL_LO21: u32 = 274;
const ADR_PREL_PG_HI21: u32 = 275;
const ADR_PREL_PG_HI21_NC: u32 = 276;
const ADD_ABS_LO12_NC: u32 = 277;
const LDST8_ABS_LO12_NC: u32 = 278;
const TSTBR14: u32 = 279;
const CONDBR19: u32 = 280;
const JUMP26: u32 = 282;
const CALL26: u32 = 283;
const LDST16_ABS_LO12_NC: u32 = 284;
const LDST32_ABS_LO12_NC: u32 = 285;
const LDST64_ABS_LO12_NC: u32 = 286;
const MOVW_PREL_G0: u32 = 287;
const MOVW_PREL_G0_NC: u32 = 288;
const MOVW_PREL_G1: u32 = 289;
const MOVW_PREL_G1_NC: u32 = 290;
const MOVW_PREL_G2: u32 = 291;
const MOVW_PREL_G2_NC: u32 = 292;
const MOVW_PREL_G3: u32 = 293;
const LDST128_ABS_LO12_NC: u32 = 299;
const GOT_LD_PREL19: u32 = 309;
const ADR_GOT_PAGE: u32 = 311;
const LD64_GOT_LO12_NC: u32 = 312;

/// Variants of veneers: instructions that go to an address, or the address itself.
const CODE: u8 = 0;
const ADDRESS: u8 = 1;

/// The bits of an instruction that hold 16 of MOVZ, MOVN and MOVK.
const MOVW_IMM: u32 = 0xffff << 5;
/// The bits that tell MOVN (0), MOVZ (2) and MOVK (3) apart.
const MOVW_OPC: u32 = 3 << 29;

/// Writes the 16 bits at `shift` of `value` into MOVZ or MOVK.
fn movw(site: &mut Site<'_>, value: u64, shift: u32) -> Result<(), Fault> {
    site.insert(MOVW_IMM, ((value >> shift & 0xffff) << 5) as u32)
}

/// Writes the 16 bits at `shift` of a signed number, and makes the instruction MOVN or MOVZ by the sign.
/// A MOVK stays one: it does not care for the sign.
fn movw_signed(site: &mut Site<'_>, value: i64, shift: u32) -> Result<(), Fault> {
    if site.word()? & MOVW_OPC == MOVW_OPC {
        return movw(site, value as u64, shift);
    }
    let (opc, value) = if value < 0 { (0, !value) } else { (2 << 29, value) };
    let imm = ((value >> shift & 0xffff) << 5) as u32;
    site.insert(MOVW_IMM | MOVW_OPC, opc | imm)
}

/// Writes the 21 bits of ADR or ADRP.
fn adr(site: &mut Site<'_>, value: i64) -> Result<(), Fault> {
    let (low, high) = (value as u32 & 3, (value >> 2) as u32 & 0x7_ffff);
    site.insert(3 << 29 | 0x7_ffff << 5, low << 29 | high << 5)
}

/// Writes the low 12 bits of `value`, counted in `1 << scale` bytes.
fn low12(site: &mut Site<'_>, value: u64, scale: u32) -> Result<(), Fault> {
    let low = aligned(value as i64 & 0xfff, 1 << scale)?;
    site.insert(0xfff << 10, ((low >> scale) as u32) << 10)
}

/// Writes a distance of `bits` bits, counted in instructions, at bit `at`.
fn distance(site: &mut Site<'_>, value: i64, bits: u32, at: u32) -> Result<(), Fault> {
    let value = aligned(signed(value, bits + 2)?, 4)? >> 2;
    let mask = ((1 << bits) - 1) << at;
    site.insert(mask, (value as u32) << at)
}

impl Machine for Arm64 {
    const NUMBER: u16 = 183;
    const CLASS: Class = Class::Bits64;
    const ADDENDS: Addends = Addends::Apart;
    const VENEER: (u64, u64) = (24, 8);
    const SITE_REACH: i64 = 1 << 27;
    const SITE_VENEERS: u64 = 1;

    fn is_marker(name: &[u8]) -> bool {
        matches!(name, [b'$', b'x' | b'd'] | [b'$', b'x' | b'd', b'.', ..])
    }

    fn branch(kind: u32, _: &[u8], addend: i64, _: &Target) -> Option<Branch> {
        let (reach, variant) = match kind {
            JUMP26 | CALL26 => ((-(1 << 27), (1 << 27) - 4), CODE),
            GOT_LD_PREL19 | ADR_GOT_PAGE | LD64_GOT_LO12_NC => ((i64::MIN, i64::MAX), ADDRESS),
            _ => return None,
        };
        Some(Branch {
            addend,
            mask: 0,
            bias: 0,
            reach,
            direct: variant == CODE,
            variant,
        })
    }

    fn write_veneer(bytes: &mut [u8], variant: u8, to: u64) {
        if variant == ADDRESS {
            let _ = put(bytes, to.to_le_bytes());
            return;
        }
        let part = |shift: u32| ((to >> shift & 0xffff) as u32) << 5;
        // MOVZ x16, then three MOVKs, then BR x16: it may land on a BTI C.
        let code = [
            0xd280_0010 | part(0),
            0xf2a0_0010 | part(16),
            0xf2c0_0010 | part(32),
            0xf2e0_0010 | part(48),
            0xd61f_0200,
        ];
        for (bytes, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(code) {
            *bytes = word.to_le_bytes();
        }
    }

    fn make_site(bytes: &mut [u8], address: u64, nothing: u64, way: WayOf<'_>) -> Option<(u64, u64)> {
        const NOP: u32 = 0xd503_201f;
        /// `mov x9, x30`.
        const KEEP: u32 = 0xaa1e_03e9;
        let mut words = (0..16).step_by(4).map(|at| u32_at(bytes, at));
        if !address.is_multiple_of(8) || !words.all(|word| word == Some(NOP)) {
            return None;
        }
        let to = way(0, address + 12)?;
        put(bytes, nothing.to_le_bytes())?;
        put(bytes.get_mut(8..)?, KEEP.to_le_bytes())?;
        Some((address + 8, to))
    }

    fn relocate(
        site: &mut Site<'_>,
        kind: u32,
        target: &Target,
        veneer: &mut dyn FnMut(&Branch, u64) -> Option<u64>,
    ) -> Result<(), Fault> {
        let value = target.value.wrapping_add_signed(site.addend);
        let signed_value = value as i64;
        let relative = value.wrapping_sub(site.address) as i64;
        let pages = ((value & !0xfff).wrapping_sub(site.address & !0xfff)) as i64;
        match kind {
            NONE | NONE_TOO => Ok(()),
            ABS64 => site.put(value.to_le_bytes()),
            ABS32 => site.put((either(signed_value, 32)? as u32).to_le_bytes()),
            ABS16 => site.put((either(signed_value, 16)? as u16).to_le_bytes()),
            PREL64 => site.put(relative.to_le_bytes()),
            PREL32 => site.put((signed(relative, 32)? as u32).to_le_bytes()),
            PREL16 => site.put((signed(relative, 16)? as u16).to_le_bytes()),
            MOVW_UABS_G0 => movw(site, unsigned(value, 16)?, 0),
            MOVW_UABS_G0_NC => movw(site, value, 0),
            MOVW_UABS_G1 => movw(site, unsigned(value, 32)?, 16),
            MOVW_UABS_G1_NC => movw(site, value, 16),
            MOVW_UABS_G2 => movw(site, unsigned(value, 48)?, 32),
            MOVW_UABS_G2_NC => movw(site, value, 32),
            MOVW_UABS_G3 => movw(site, value, 48),
            MOVW_SABS_G0 => movw_signed(site, signed(signed_value, 17)?, 0),
            MOVW_SABS_G1 => movw_signed(site, signed(signed_value, 33)?, 16),
            MOVW_SABS_G2 => movw_signed(site, signed(signed_value, 49)?, 32),
            MOVW_PREL_G0 => movw_signed(site, signed(relative, 17)?, 0),
            MOVW_PREL_G0_NC => movw(site, relative as u64, 0),
            MOVW_PREL_G1 => movw_signed(site, signed(relative, 33)?, 16),
            MOVW_PREL_G1_NC => movw(site, relative as u64, 16),
            MOVW_PREL_G2 => movw_signed(site, signed(relative, 49)?, 32),
            MOVW_PREL_G2_NC => movw(site, relative as u64, 32),
            MOVW_PREL_G3 => movw_signed(site, relative, 48),
            LD_PREL_LO19 | CONDBR19 => distance(site, relative, 19, 5),
            TSTBR14 => distance(site, relative, 14, 5),
            ADR_PREL_LO21 => adr(site, signed(relative, 21)?),
            ADR_PREL_PG_HI21 => adr(site, signed(pages, 33)? >> 12),
            ADR_PREL_PG_HI21_NC => adr(site, pages >> 12),
            ADD_ABS_LO12_NC | LDST8_ABS_LO12_NC => low12(site, value, 0),
            LDST16_ABS_LO12_NC => low12(site, value, 1),
            LDST32_ABS_LO12_NC => low12(site, value, 2),
            LDST64_ABS_LO12_NC => low12(site, value, 3),
            LDST128_ABS_LO12_NC => low12(site, value, 4),
            JUMP26 | CALL26 => {
                let branch = Self::branch(kind, site.bytes, site.addend, target).ok_or(Fault::Unknown)?;
                let way = branch.way(target, site.address, veneer)?;
                distance(site, way.distance, 26, 0)
            }
            GOT_LD_PREL19 | ADR_GOT_PAGE | LD64_GOT_LO12_NC => {
                let branch = Self::branch(kind, site.bytes, site.addend, target).ok_or(Fault::Unknown)?;
                let far = branch.way(target, site.address, veneer)?.distance;
                let slot = site.address.wrapping_add_signed(far);
                let pages = ((slot & !0xfff).wrapping_sub(site.address & !0xfff)) as i64;
                match kind {
                    GOT_LD_PREL19 => distance(site, far, 19, 5),
                    ADR_GOT_PAGE => adr(site, signed(pages, 33)? >> 12),
                    _ => low12(site, slot, 3),
                }
            }
            300..=313 => Err(Fault::Refused(
                "is relative to a global offset table: modules are compiled with -fno-pic -mcmodel=small",
            )),
            512..=573 => Err(Fault::Refused("is for variables of threads")),
            _ => Err(Fault::Unknown),
        }
    }
}
