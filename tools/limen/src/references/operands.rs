//! What refers to what: pointers in data, and the addresses that instructions have as operands or make.

use anyhow::{Result, bail};
use object::Architecture;

use super::halves::{Halves, Pairs};
use crate::noinstr::{Flow, Step, arm, arm64, powerpc64};

/// Pointers in data, and in what lies between functions: where they are, and what they say.
pub fn words(bytes: &[u8], at: u64, is_64: bool, found: &mut Vec<(u64, u64)>) {
    let size = if is_64 { 8 } else { 4 };
    for n in (0..bytes.len().saturating_sub(size - 1)).step_by(4) {
        let word = &bytes[n..n + size];
        let value = word.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
        found.push((at + n as u64, value));
    }
}

/// What reads the instructions of processors that make addresses of halves.
pub fn decoder(architecture: Architecture) -> Option<fn(&[u8], u64) -> Step> {
    Some(match architecture {
        Architecture::Aarch64 => arm64::decode,
        Architecture::Arm => arm::decode,
        Architecture::PowerPc64 => powerpc64::decode,
        _ => return None,
    })
}

/// The addresses that instructions have as operands, or make. `never_returns`: whether a called function does
/// not.
pub fn instructions(
    architecture: Architecture,
    bytes: &[u8],
    at: u64,
    toc: u64,
    never_returns: &dyn Fn(u64) -> bool,
    found: &mut Vec<(u64, u64)>,
) -> Result<()> {
    let pairs = match architecture {
        Architecture::X86_64 => {
            x86_64(bytes, at, found);
            return Ok(());
        }
        Architecture::Aarch64 => Pairs::Arm64,
        Architecture::Arm => Pairs::Arm,
        _ => Pairs::Powerpc64(toc),
    };
    let Some(decode) = decoder(architecture) else {
        bail!("no decoder for {architecture:?}");
    };
    let mut halves = Halves::new(pairs);
    for (n, four) in bytes.chunks_exact(4).enumerate() {
        let (offset, address) = (n * 4, at + n as u64 * 4);
        let word = u32::from_le_bytes(four.try_into().expect("four bytes"));
        let step = decode(&bytes[offset..], address);
        let made = halves.step(word, address, step.flow);
        if let Flow::Call(target) = step.flow
            && never_returns(target)
        {
            halves.end();
        }
        found.extend(made.map(|target| (address, target)));
    }
    Ok(())
}

fn x86_64(bytes: &[u8], at: u64, found: &mut Vec<(u64, u64)>) {
    use iced_x86::{Decoder, DecoderOptions, OpKind};
    for i in &mut Decoder::with_ip(64, bytes, at, DecoderOptions::NONE) {
        for n in 0..i.op_count() {
            let target = match i.op_kind(n) {
                OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 => i.near_branch_target(),
                OpKind::Memory => i.memory_displacement64(),
                OpKind::Immediate32to64 | OpKind::Immediate64 => i.immediate(n),
                _ => continue,
            };
            found.push((i.ip(), target));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(architecture: Architecture, words: &[u32]) -> Vec<u64> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut found = Vec::new();
        let never_returns = |to| to == 0x9000;
        instructions(architecture, &bytes, 0x1000, 0x1_8000, &never_returns, &mut found).unwrap();
        found.into_iter().map(|(_, target)| target).collect()
    }

    #[test]
    fn calls_that_never_return_end_what_registers_hold() {
        // addis r30, r2, 1; bl 0x9000 or 0x9004; ld r3, 16(r30): that is reached from elsewhere, or not.
        let call = |to: u32| 0x4800_0001 | (to - 0x1004);
        let found = |to| targets(Architecture::PowerPc64, &[0x3fc2_0001, call(to), 0xe87e_0010]);
        assert_eq!(found(0x9000), [0x9000]);
        assert_eq!(found(0x9004), [0x9004, 0x2_8010]);
    }

    #[test]
    fn addresses_in_instructions() {
        // bl +0x1000; adr x1, -4; adrp x0, +1 page; add x2, x0, 0x10; ldr x3, [x0, 0x18]; ldr q3, [x0, 0x20]
        let arm64 = [
            0x9400_0400,
            0x10ff_ffe1,
            0xb000_0000,
            0x9100_4002,
            0xf940_0c03,
            0x3dc0_0803,
        ];
        assert_eq!(
            targets(Architecture::Aarch64, &arm64),
            [0x2000, 0x1000, 0x2010, 0x2018, 0x2020]
        );
        // movw r1, #0x2010; movw r2, #1; movt r1, #0xc000
        let arm = [0xe302_1010, 0xe300_2001, 0xe34c_1000];
        assert_eq!(targets(Architecture::Arm, &arm), [0xc000_2010]);
        // addis r2, r12, 5; addi r2, r2, 8; addis r3, r2, 1; addi r3, r3, -16; ld r4, 8(r3); addi r5, r2, 4
        // addis r3, r2, 1; blr; lwz r3, 4(r3)
        let power = [
            0x3c4c_0005,
            0x3842_0008,
            0x3c62_0001,
            0x3863_fff0,
            0xe883_0008,
            0x38a2_0004,
            0x3c62_0001,
            0x4e80_0020,
            0x8063_0004,
        ];
        assert_eq!(targets(Architecture::PowerPc64, &power), [0x2_7ff0, 0x1_8004]);
        let mut found = Vec::new();
        // call +0; lea rax, [rip + 0x10]; mov rdi, -0x7fffe000
        let code = [
            0xe8, 0, 0, 0, 0, 0x48, 0x8d, 0x05, 0x10, 0, 0, 0, 0x48, 0xc7, 0xc7, 0, 0x20, 0, 0x80,
        ];
        x86_64(&code, 0x1000, &mut found);
        let found: Vec<u64> = found.into_iter().map(|(_, target)| target).collect();
        assert_eq!(found, [0x1005, 0x101c, 0xffff_ffff_8000_2000]);
    }

    #[test]
    fn halves_outlive_branches_and_where_it_may_be_calls() {
        // adrp x0, +1 page; adrp x19, +2 pages; cbz x1, +0x1008; ldr x2, [x0, 8]; bl 0x1010; add x3, x0, 8
        // (x0 is another now); add x20, x19, 0x10
        let arm64 = [
            0xb000_0000,
            0xd000_0013,
            0xb400_8001,
            0xf940_0402,
            0x9400_0000,
            0x9100_2003,
            0x9100_4274,
        ];
        assert_eq!(
            targets(Architecture::Aarch64, &arm64),
            [0x2008, 0x2008, 0x1010, 0x3010]
        );
        // movw r1, #0x10; movw r4, #0x20; bne 0x1010; movt r1, #0xc000; blx r3; movw r1, #1; bl 0x1018;
        // movt r1, #0xc000; movt r4, #0xc000
        let arm = [
            0xe300_1010,
            0xe300_4020,
            0x1a00_0000,
            0xe34c_1000,
            0xe12f_ff33,
            0xe300_1001,
            0xebff_fffe,
            0xe34c_1000,
            0xe34c_4000,
        ];
        assert_eq!(
            targets(Architecture::Arm, &arm),
            [0x1010, 0xc000_0010, 0x1018, 0xc000_0020]
        );
        // addis 3, 2, 1; addis 30, 2, 2; beq 0x1010; addi 4, 3, 8; bl 0x1010; addi 4, 3, 8; ld 5, 8(30)
        let power = [
            0x3c62_0001,
            0x3fc2_0002,
            0x4182_0008,
            0x3883_0008,
            0x4800_0001,
            0x3883_0008,
            0xe8be_0008,
        ];
        assert_eq!(
            targets(Architecture::PowerPc64, &power),
            [0x1010, 0x2_8008, 0x1010, 0x3_8008]
        );
    }

    #[test]
    fn halves_reach_targets_behind_jumps_and_nothing_else() {
        // adrp x0, +1 page; cbz x1, 0x1014; add x2, x0, 8; ret; add x2, x0, 0x10; add x2, x0, 0x18
        let arm64 = [
            0xb000_0000,
            0xb400_0081,
            0x9100_2002,
            0xd65f_03c0,
            0x9100_4002,
            0x9100_6002,
        ];
        assert_eq!(targets(Architecture::Aarch64, &arm64), [0x1014, 0x2008, 0x2018]);
        // adrp x0, +1 page; mov x0, x4; ldr x2, [x0, 8]: that is another address.
        let written = [0xb000_0000, 0xaa04_03e0, 0xf940_0402];
        assert!(targets(Architecture::Aarch64, &written).is_empty());
    }
}
