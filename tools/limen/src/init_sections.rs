//! Checks the linked image: what only boot needs (`.init.text`, `.init.data`) is given back before the first
//! program starts, so nothing that stays may refer to it but the few functions that run it.
//!
//! References are found in the instructions (calls, jumps, addresses that are made of constants) and as
//! pointers in data. A closure of a function of `.init.text` counts as part of it: it need not be inlined. So
//! does its table of jumps: pointers in data that lead into its midst. Nothing lies at the first address of a
//! section (the linker scripts see to it): it is only a bound.

use anyhow::{Context, Result, bail};
use object::{Architecture, Object, ObjectSection, ObjectSymbol, SectionFlags, SectionKind, SymbolKind};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use crate::noinstr::{Flow, Step, arm, arm64, powerpc64};

/// Who may: the way from the first instruction to boot's Rust code, and what calls boot's parts.
const CALLERS: [&str; 5] = [
    // x86_64: a pointer in data, powerpc64: the first instructions.
    "limen_kernel::arch::imp::head::START",
    "_start",
    // arm64, arm.
    "limen_kernel::arch::imp::head::primary",
    "<limen_kernel::boot::Limen as limen_kernel::arch::above::Above>::start",
    // The compressed table of symbols has no pointers, but may look like it.
    "__kallsyms_start",
];

/// So many errors are said: one mistake may be one for each of its callers.
const MOST_ERRORS: usize = 20;

/// What was checked.
#[derive(Debug)]
pub struct Report {
    /// Functions in `.init.text`.
    pub functions: usize,
    /// Bytes of both sections.
    pub bytes: u64,
}

/// Checks the linked kernel at `path`.
pub fn check(path: &Path) -> Result<Report> {
    let data = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    check_image(&data).with_context(|| format!("{}", path.display()))
}

/// Checks the linked kernel whose file this is.
pub fn check_image(data: &[u8]) -> Result<Report> {
    let file = object::File::parse(data)?;
    let mut init = Init::default();
    for name in [".init.text", ".init.data"] {
        let section = file
            .section_by_name(name)
            .with_context(|| format!("the image has no section {name}"))?;
        init.ranges
            .push(section.address()..section.address() + section.size());
    }
    for symbol in file.symbols() {
        let name = symbol.name().unwrap_or("");
        let kind = symbol.kind();
        if name.is_empty() || name.starts_with('$') || matches!(kind, SymbolKind::Section | SymbolKind::File)
        {
            continue;
        }
        let sized = matches!(kind, SymbolKind::Text | SymbolKind::Data);
        let name = format!("{:#}", rustc_demangle::demangle(name));
        if sized || !init.names.contains_key(&symbol.address()) {
            init.names.insert(symbol.address(), name);
        }
    }
    let got = file
        .section_by_name(".got")
        .filter(|_| file.architecture() == Architecture::PowerPc64);
    let toc = file.symbol_by_name(".TOC.").map_or(0, |symbol| symbol.address());
    let mut found = Vec::new();
    for section in file.sections() {
        let name = section.name().unwrap_or("");
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else {
            continue;
        };
        let loaded = sh_flags.contains(object::elf::SHF_ALLOC);
        if !loaded || section.kind() == SectionKind::UninitializedData || init.contains(section.address()) {
            continue;
        }
        let (bytes, at) = (section.data()?, section.address());
        let executable = sh_flags.contains(object::elf::SHF_EXECINSTR);
        // Of entries of this table only those count that are used.
        let is_got = name == ".got" && got.is_some();
        if !is_got && (!executable || file.architecture() != Architecture::X86_64) {
            let mut pointers = Vec::new();
            words(bytes, at, file.is_64(), &mut pointers);
            found.extend(pointers.into_iter().filter(|&(_, to)| !init.is_midst(to)));
        }
        if executable {
            instructions(file.architecture(), bytes, at, toc, &mut found)?;
        }
    }
    if let Some(got) = got {
        let (at, bytes) = (got.address(), got.data()?);
        for (_, target) in &mut found {
            let entry = target
                .checked_sub(at)
                .and_then(|n| bytes.get(n as usize..)?.get(..8));
            if let Some(entry) = entry {
                *target = u64::from_le_bytes(entry.try_into().expect("eight bytes"));
            }
        }
    }
    let errors = init.errors(&found);
    if !errors.is_empty() {
        let mut list: Vec<String> = errors.into_iter().collect();
        let more = list.len().saturating_sub(MOST_ERRORS);
        list.truncate(MOST_ERRORS);
        if more > 0 {
            list.push(format!("and {more} more"));
        }
        bail!("{}", list.join("\n  "));
    }
    Ok(Report {
        functions: init.names.range(init.ranges[0].clone()).count(),
        bytes: init.ranges.iter().map(|range| range.end - range.start).sum(),
    })
}

/// What only boot has, and the names of everything.
#[derive(Default)]
struct Init {
    ranges: Vec<Range<u64>>,
    names: BTreeMap<u64, String>,
}

impl Init {
    fn contains(&self, address: u64) -> bool {
        self.ranges.iter().any(|range| range.contains(&address))
    }

    /// Whether it is in a function, but not its first instruction.
    fn is_midst(&self, address: u64) -> bool {
        self.ranges[0].contains(&address) && !self.names.contains_key(&address)
    }

    fn is_bound(&self, address: u64) -> bool {
        self.ranges.iter().any(|range| range.start == address)
    }

    fn name(&self, address: u64) -> &str {
        self.names
            .range(..=address)
            .next_back()
            .map_or("?", |(_, name)| name)
    }

    /// A line for each pair of names between which a reference must not be.
    fn errors(&self, found: &[(u64, u64)]) -> BTreeSet<String> {
        let mut errors = BTreeSet::new();
        for &(from, to) in found {
            if !self.contains(to) || self.is_bound(to) || self.contains(from) {
                continue;
            }
            let (from, to) = (self.name(from), self.name(to));
            if !self.may(from) {
                errors.insert(format!(
                    "{from} stays after boot, but refers to {to}, which does not (.init.text, .init.data)"
                ));
            }
        }
        errors
    }

    fn may(&self, from: &str) -> bool {
        let inside = |name: &str| {
            from.match_indices(name)
                .any(|(at, _)| from[at + name.len()..].starts_with("::{"))
        };
        let mut names = CALLERS.iter().copied().chain(
            self.ranges
                .iter()
                .flat_map(|range| self.names.range(range.clone()).map(|(_, name)| name.as_str())),
        );
        CALLERS.contains(&from) || names.any(inside)
    }
}

/// Pointers in data, and in what lies between functions.
fn words(bytes: &[u8], at: u64, is_64: bool, found: &mut Vec<(u64, u64)>) {
    let size = if is_64 { 8 } else { 4 };
    for n in (0..bytes.len().saturating_sub(size - 1)).step_by(4) {
        let word = &bytes[n..n + size];
        let value = word.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
        found.push((at + n as u64, value));
    }
}

/// The addresses that instructions have as operands, or make.
fn instructions(
    architecture: Architecture,
    bytes: &[u8],
    at: u64,
    toc: u64,
    found: &mut Vec<(u64, u64)>,
) -> Result<()> {
    let decode: fn(&[u8], u64) -> Step = match architecture {
        Architecture::X86_64 => {
            x86_64(bytes, at, found);
            return Ok(());
        }
        Architecture::Aarch64 => arm64::decode,
        Architecture::Arm => arm::decode,
        Architecture::PowerPc64 => powerpc64::decode,
        other => bail!("no decoder for {other:?}"),
    };
    let mut parts = Parts::default();
    for (n, four) in bytes.chunks_exact(4).enumerate() {
        let (offset, address) = (n * 4, at + n as u64 * 4);
        let word = u32::from_le_bytes(four.try_into().expect("four bytes"));
        let step = decode(&bytes[offset..], address);
        let made = match step.flow {
            Flow::Next => match architecture {
                Architecture::Aarch64 => parts.adr(word, address),
                Architecture::Arm => parts.movw(word),
                _ => parts.addis(word, toc),
            },
            flow => {
                parts = Parts::default();
                match flow {
                    Flow::Jump(target) | Flow::Branch(target) | Flow::Call(target) => Some(target),
                    _ => None,
                }
            }
        };
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

/// Addresses of which one instruction has made one half, by register.
#[derive(Default)]
struct Parts([Option<u64>; 32]);

impl Parts {
    /// 64-bit Arm: ADR; ADRP, and what adds to it (ADD, loads and stores).
    fn adr(&mut self, word: u32, address: u64) -> Option<u64> {
        let (to, from) = ((word & 31) as usize, (word >> 5 & 31) as usize);
        let low = u64::from(word >> 10 & 0xfff);
        let immediate = (word >> 3 & 0x1f_fffc | word >> 29 & 3) << 11;
        let offset = i64::from(immediate as i32 >> 11);
        let page = self.0[from];
        match word & 0x9f00_0000 {
            0x1000_0000 => return Some(address.wrapping_add_signed(offset)),
            0x9000_0000 => {
                self.0[to] = Some((address & !0xfff).wrapping_add_signed(offset << 12));
                return None;
            }
            _ => {}
        }
        if word & 0xffc0_0000 == 0x9100_0000 {
            self.0[to] = None;
            return Some(page? + low);
        }
        // Loads and stores at a distance that is a number; of more than 8 bytes if it is of vectors.
        let is_access = word & 0x3b00_0000 == 0x3900_0000;
        let is_vector = word & 0x0480_0000 == 0x0480_0000 && word >> 30 == 0;
        let shift = if is_vector { 4 } else { word >> 30 };
        if is_access {
            Some(page? + (low << shift))
        } else {
            None
        }
    }

    /// 32-bit Arm: MOVW, MOVT.
    fn movw(&mut self, word: u32) -> Option<u64> {
        let register = (word >> 12 & 0xf) as usize;
        let immediate = u64::from(word >> 4 & 0xf000 | word & 0xfff);
        match word & 0x0ff0_0000 {
            0x0300_0000 => {
                self.0[register] = Some(immediate);
                None
            }
            0x0340_0000 => Some(immediate << 16 | self.0[register].take()?),
            _ => None,
        }
    }

    /// 64-bit Power: what is at a distance from the table of contents, whose address is in r2.
    fn addis(&mut self, word: u32, toc: u64) -> Option<u64> {
        let (to, from) = ((word >> 21 & 31) as usize, (word >> 16 & 31) as usize);
        let immediate = i64::from(word as i16);
        let base = if from == 2 { Some(toc) } else { self.0[from] };
        let (displacement, writes_base) = match word >> 26 {
            15 if from == 2 => {
                self.0[to] = Some(toc.wrapping_add_signed(immediate << 16));
                return None;
            }
            // The address of the table of contents itself, at the beginning of a function.
            14 if to == 2 => return None,
            14 | 32 | 34 | 36 | 38 | 40 | 42 | 44 | 48 | 50 | 52 | 54 => (immediate, false),
            58 | 62 => (immediate & !3, false),
            // Whatever else it is, one of these may be its result.
            _ => (0, true),
        };
        self.0[to] = None;
        if writes_base {
            self.0[from] = None;
            return None;
        }
        Some(base?.wrapping_add_signed(displacement))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn init() -> Init {
        Init {
            ranges: vec![0x2000..0x3000, 0x4000..0x5000],
            names: [
                (0x1000, "limen_kernel::arch::imp::head::primary"),
                (0x1100, "stays"),
                (0x1200, "core::call::<goes::{closure#0}>"),
                (0x1300, "goes_too"),
                (0x2010, "goes"),
                (0x4010, "TABLE"),
            ]
            .map(|(address, name)| (address, name.to_string()))
            .into(),
        }
    }

    fn errors(found: &[(u64, u64)]) -> Vec<String> {
        init().errors(found).into_iter().collect()
    }

    #[test]
    fn what_stays_may_not_refer_to_what_goes() {
        assert_eq!(
            errors(&[
                (0x1104, 0x2010),
                (0x1104, 0x2000),
                (0x1104, 0x3000),
                (0x1108, 0x2020)
            ]),
            ["stays stays after boot, but refers to goes, which does not (.init.text, .init.data)"]
        );
        assert_eq!(errors(&[(0x1304, 0x4ff8)]).len(), 1);
    }

    #[test]
    fn boot_itself_its_callers_and_its_closures_may() {
        assert!(
            errors(&[
                (0x1004, 0x2010),
                (0x2014, 0x4010),
                (0x1204, 0x2010),
                (0x2010, 0x1100)
            ])
            .is_empty()
        );
    }

    fn targets(architecture: Architecture, words: &[u32]) -> Vec<u64> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut found = Vec::new();
        instructions(architecture, &bytes, 0x1000, 0x1_8000, &mut found).unwrap();
        found.into_iter().map(|(_, target)| target).collect()
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
    fn pointers_in_data() {
        let mut found = Vec::new();
        words(
            &[0, 0, 0, 0, 0x10, 0x20, 0, 0, 0, 0, 0, 0],
            0x1100,
            true,
            &mut found,
        );
        assert_eq!(errors(&found).len(), 1);
        found.clear();
        words(&[0x10, 0x20, 0, 0, 1], 0x1100, false, &mut found);
        assert_eq!(found, [(0x1100, 0x2010)]);
        // A table of jumps.
        assert!(init().is_midst(0x2020) && !init().is_midst(0x2010) && !init().is_midst(0x4020));
    }
}
