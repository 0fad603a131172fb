//! Checks the linked image: before the threshold has established the kernel's state, no instrumented code may
//! run.
//!
//! Code that runs before that point lives in the section `.noinstr.text`. Where the state becomes
//! established, the kernel emits a *begin* mark (an address in the section `.noinstr.begin`), and where it
//! ends an *end* mark (`.noinstr.end`); neither is an instruction. This check follows every path through
//! every function of the section, starting with "not established", and fails if a path calls or jumps out of
//! the section, or through a pointer, while the state is not established, or if RCU is read there: each place
//! where a reader begins has a mark as well (`.noinstr.reader`), since readers are inlined. It also fails if
//! a function of the section is in the table of those that can be traced. An instruction in the jump table is
//! followed both ways: as what it is, and as the jump that it becomes with its key.

pub(crate) mod arm;
pub(crate) mod arm64;
pub(crate) mod powerpc64;
mod x86_64;

use crate::linked;
use anyhow::{Context, Result, bail};
use limen_embed_symbols::jumps::{ENTRY, resolve};
use object::{Object, ObjectSection};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

/// What one instruction does to the flow of control. `length` is in bytes.
pub(crate) struct Step {
    pub length: u64,
    pub flow: Flow,
}

/// Flow of control after an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// The next instruction.
    Next,
    /// A jump that is always taken.
    Jump(u64),
    /// The next instruction or the target.
    Branch(u64),
    /// A call to a known address; continues with the next instruction.
    Call(u64),
    /// A jump through a register or memory.
    IndirectJump,
    /// A call through a register or memory.
    IndirectCall,
    /// A return to the caller.
    Return,
    /// A return to the caller, or the next instruction.
    ReturnIf,
    /// An exception return, a trap, or what is no instruction: the path ends.
    End,
}

/// What was checked.
#[derive(Debug)]
pub struct Report {
    /// Functions in the section.
    pub functions: usize,
    /// Bytes of code in the section.
    pub bytes: u64,
    /// Begin marks found.
    pub marks: usize,
}

struct Image<'a> {
    /// The section's address range and its bytes.
    range: Range<u64>,
    code: &'a [u8],
    begin: BTreeSet<u64>,
    end: BTreeSet<u64>,
    /// Where readers of RCU begin, in the whole image.
    readers: BTreeSet<u64>,
    /// Targets of the places that static keys change, by place.
    jumps: BTreeMap<u64, u64>,
    /// Functions of the whole image by address.
    names: BTreeMap<u64, String>,
}

impl Image<'_> {
    fn name(&self, address: u64) -> String {
        match self.names.range(..=address).next_back() {
            Some((&start, name)) => format!("{name}+{:#x}", address - start),
            None => format!("{address:#x}"),
        }
    }
}

/// What reads a processor's instructions: the one at the beginning of these bytes, which are at this address.
pub(crate) fn decoder(architecture: object::Architecture) -> Result<fn(&[u8], u64) -> Step> {
    Ok(match architecture {
        object::Architecture::X86_64 => x86_64::decode,
        object::Architecture::Aarch64 => arm64::decode,
        object::Architecture::Arm => arm::decode,
        object::Architecture::PowerPc64 => powerpc64::decode,
        other => bail!("no decoder for {other:?}"),
    })
}

/// Checks the linked kernel whose file this is.
pub fn check_image(data: &[u8]) -> Result<Report> {
    let file = object::File::parse(data)?;
    let decode = decoder(file.architecture())?;
    let section = file.section_by_name(".noinstr.text").context(
        "the image has no .noinstr.text section: the linker script must keep it as a section of its own",
    )?;
    let range = section.address()..section.address() + section.size();
    let names = linked::functions(&file);
    let image = Image {
        code: section.data()?,
        begin: marks(&file, ".noinstr.begin")?,
        end: marks(&file, ".noinstr.end")?,
        readers: marks(&file, ".noinstr.reader")?,
        jumps: jumps(&file)?,
        names,
        range: range.clone(),
    };
    if image.readers.is_empty() {
        bail!("the image has no marks of readers (.noinstr.reader)");
    }
    if image.begin.is_empty() {
        bail!("the image has no begin marks (.noinstr.begin): nothing would ever be established");
    }
    for address in sites(&file)? {
        if range.contains(&address) {
            bail!(
                "{} may not be traced but is in the table of sites",
                image.name(address)
            );
        }
    }
    let starts: Vec<u64> = image
        .names
        .range(range.clone())
        .map(|(&address, _)| address)
        .collect();
    if starts.is_empty() {
        bail!(".noinstr.text holds no function");
    }
    let mut errors = BTreeSet::new();
    for &start in &starts {
        walk(&image, decode, start, &mut errors);
    }
    if !errors.is_empty() {
        let list: Vec<String> = errors.into_iter().collect();
        bail!(
            "reachable before the kernel's state is established:\n  {}",
            list.join("\n  ")
        );
    }
    Ok(Report {
        functions: starts.len(),
        bytes: range.end - range.start,
        marks: image.begin.len(),
    })
}

/// The addresses a section lists, a pointer's size each.
fn marks(file: &object::File<'_>, name: &str) -> Result<BTreeSet<u64>> {
    let Some(section) = file.section_by_name(name) else {
        return Ok(BTreeSet::new());
    };
    let data = section.data()?;
    let size = if file.is_64() { 8 } else { 4 };
    Ok(data
        .chunks_exact(size)
        .map(|c| c.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)))
        .collect())
}

/// The sites in the table that the build has made (`tools/symbols/src/sites.rs`).
fn sites(file: &object::File<'_>) -> Result<Vec<u64>> {
    let section = file
        .section_by_name(".sites")
        .context("the image has no section .sites")?;
    let data = section.data()?;
    let mut words = data
        .chunks_exact(4)
        .map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]));
    let count = words.next().context("the table of sites is empty")? as usize;
    let site = |word: u32| section.address().wrapping_add_signed(i64::from(word as i32));
    let found: Vec<u64> = words.take(count).map(site).collect();
    if found.len() != count {
        bail!("the table of sites is not what the build makes of it");
    }
    Ok(found)
}

/// The jump table (`tools/symbols/src/jumps.rs`): targets by place.
fn jumps(file: &object::File<'_>) -> Result<BTreeMap<u64, u64>> {
    let section = file
        .section_by_name(".jump_table")
        .context("the image has no section .jump_table")?;
    let entries = section.data()?.chunks_exact(ENTRY as usize);
    let at = (section.address()..).step_by(ENTRY as usize);
    Ok(at
        .zip(entries)
        .map(|(at, entry)| {
            let word = |n: usize| u32::from_le_bytes([entry[n], entry[n + 1], entry[n + 2], entry[n + 3]]);
            let (site, target, _) = resolve(at, [word(0), word(4), word(8)], file.is_64());
            (site, target)
        })
        .collect())
}

/// Whether nothing in the function around `address` returns to its caller or leaves it by a jump. What lies
/// behind a call of such a function belongs to another path.
fn never_returns(image: &Image<'_>, decode: fn(&[u8], u64) -> Step, address: u64) -> bool {
    let start = image
        .names
        .range(..=address)
        .next_back()
        .map_or(address, |(&start, _)| start);
    let end = image
        .names
        .range(address + 1..)
        .next()
        .map_or(image.range.end, |(&end, _)| end);
    let extent = start..end.min(image.range.end);
    let mut at = start;
    while extent.contains(&at) {
        let step = decode(&image.code[(at - image.range.start) as usize..], at);
        match step.flow {
            Flow::Return | Flow::ReturnIf | Flow::IndirectJump => return false,
            Flow::Jump(target) | Flow::Branch(target) if !extent.contains(&target) => return false,
            _ => at += step.length,
        }
    }
    true
}

/// Follows every path from `start`, which begins with the state not established.
fn walk(image: &Image<'_>, decode: fn(&[u8], u64) -> Step, start: u64, errors: &mut BTreeSet<String>) {
    let mut seen = HashSet::new();
    let mut todo = vec![(start, false)];
    while let Some((mut at, mut established)) = todo.pop() {
        loop {
            if image.begin.contains(&at) {
                established = true;
            }
            if image.end.contains(&at) {
                established = false;
            }
            if !image.range.contains(&at) || !seen.insert((at, established)) {
                break;
            }
            let step = decode(&image.code[(at - image.range.start) as usize..], at);
            let mut complain = |what: String| {
                if !established {
                    errors.insert(format!("{}: {what}", image.name(at)));
                }
            };
            if image.readers.contains(&at) {
                complain("reads under RCU".into());
            }
            let flow = match image.jumps.get(&at) {
                Some(target) => Flow::Branch(*target),
                None => step.flow,
            };
            match flow {
                Flow::Next | Flow::ReturnIf => {}
                Flow::Return | Flow::End => break,
                Flow::Call(target) => {
                    if !image.range.contains(&target) {
                        complain(format!("calls {}", image.name(target)));
                    } else if never_returns(image, decode, target) {
                        break;
                    }
                }
                Flow::IndirectCall => complain("calls through a pointer".into()),
                Flow::IndirectJump => {
                    complain("jumps through a pointer".into());
                    break;
                }
                Flow::Jump(target) => {
                    if !image.range.contains(&target) {
                        complain(format!("jumps to {}", image.name(target)));
                        break;
                    }
                    at = target;
                    continue;
                }
                Flow::Branch(target) => {
                    if image.range.contains(&target) {
                        todo.push((target, established));
                    } else {
                        complain(format!("branches to {}", image.name(target)));
                    }
                }
            }
            at += step.length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A section of arm64 instructions at 0x1000; `outside` calls go to 0x8000.
    fn run(words: &[u32], begin: &[u64], end: &[u64]) -> Vec<String> {
        run_with_readers(words, begin, end, &[])
    }

    fn run_with_readers(words: &[u32], begin: &[u64], end: &[u64], readers: &[u64]) -> Vec<String> {
        run_with_all(words, begin, end, readers, &[])
    }

    fn run_with_all(
        words: &[u32],
        begin: &[u64],
        end: &[u64],
        readers: &[u64],
        jumps: &[(u64, u64)],
    ) -> Vec<String> {
        let code = bytes(words);
        let names = BTreeMap::from([(0x1000, "stub".to_string()), (0x8000, "outside".to_string())]);
        errors(&Image {
            begin: begin.iter().copied().collect(),
            end: end.iter().copied().collect(),
            readers: readers.iter().copied().collect(),
            jumps: jumps.iter().copied().collect(),
            ..image(&code, names)
        })
    }

    fn run_with_names(words: &[u32], names: BTreeMap<u64, String>) -> Vec<String> {
        errors(&image(&bytes(words), names))
    }

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    /// One without marks.
    fn image(code: &[u8], names: BTreeMap<u64, String>) -> Image<'_> {
        Image {
            range: 0x1000..0x1000 + code.len() as u64,
            code,
            begin: BTreeSet::new(),
            end: BTreeSet::new(),
            readers: BTreeSet::new(),
            jumps: BTreeMap::new(),
            names,
        }
    }

    fn errors(image: &Image<'_>) -> Vec<String> {
        let mut errors = BTreeSet::new();
        walk(image, arm64::decode, 0x1000, &mut errors);
        errors.into_iter().collect()
    }

    const RET: u32 = 0xd65f_03c0;
    const NOP: u32 = 0xd503_201f;
    const BLR_X0: u32 = 0xd63f_0000;

    fn bl(from: u64, to: u64) -> u32 {
        0x9400_0000 | ((((to as i64 - from as i64) >> 2) as u32) & 0x03ff_ffff)
    }

    #[test]
    fn a_call_before_the_mark_is_found() {
        assert_eq!(
            run(&[bl(0x1000, 0x8000), RET], &[], &[]),
            ["stub+0x0: calls outside+0x0"]
        );
    }

    #[test]
    fn a_call_between_the_marks_is_fine_and_one_after_is_not() {
        let code = [NOP, bl(0x1004, 0x8000), NOP, bl(0x100c, 0x8000), RET];
        assert_eq!(run(&code, &[0x1004], &[0x1008]), ["stub+0xc: calls outside+0x0"]);
    }

    #[test]
    fn pointers_and_every_path_count() {
        // cbz x0, +8 skips the begin mark.
        let code = [0xb400_0040, NOP, BLR_X0, RET];
        assert_eq!(run(&code, &[0x1004], &[]), ["stub+0x8: calls through a pointer"]);
    }

    #[test]
    fn a_reader_outside_of_the_marks_is_found() {
        let code = [NOP, NOP, NOP, RET];
        let found = run_with_readers(&code, &[0x1004], &[0x1008], &[0x1000, 0x1004, 0x1008]);
        assert_eq!(found, ["stub+0x0: reads under RCU", "stub+0x8: reads under RCU"]);
    }

    #[test]
    fn places_of_static_keys_are_followed_both_ways() {
        // A place whose target calls; it is established at the second only.
        let code = [NOP, NOP, RET, bl(0x100c, 0x8000), RET];
        let found = |at: u64| run_with_all(&code, &[0x1004], &[], &[], &[(at, 0x100c)]);
        assert_eq!(found(0x1000), ["stub+0xc: calls outside+0x0"]);
        assert!(found(0x1004).is_empty());
    }

    #[test]
    fn calls_that_never_return_end_a_path() {
        // The call goes to the function at 0x100c, which traps, jumps to itself, or returns.
        for (word, returns) in [(0xd420_0020, false), (0x1400_0000, false), (RET, true)] {
            let code = [bl(0x1000, 0x100c), bl(0x1004, 0x8000), RET, word];
            let names = BTreeMap::from([
                (0x1000, "stub".to_string()),
                (0x100c, "end".to_string()),
                (0x8000, "outside".to_string()),
            ]);
            assert_eq!(!run_with_names(&code, names).is_empty(), returns, "{word:#x}");
        }
    }

    #[test]
    fn loops_end() {
        assert!(run(&[NOP, 0x17ff_ffff], &[], &[]).is_empty());
    }
}
