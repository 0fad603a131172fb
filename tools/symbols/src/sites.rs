//! Sites: the places at the beginning of functions where the kernel can call a tracer. The compiler lists
//! them by absolute address; [`embed`] checks each, makes the instructions ready that never change
//! afterwards, and puts the kernel's own table in the list's place: how many there are, then for each its
//! distance from the table in bytes, ascending, 32 bits each.
//!
//! A *slot* is an aligned word beside each site, which says what the tracer is. Sites of functions that must
//! not be traced are left out: those outside of `.text`, user code in it, the tracer itself and others of its
//! kind, and what of `core` these reach (`shared.rs`), which depends on how much of it is inlined.

use crate::image::{self, Image};
use crate::shared::{self, Function, Kind, Reference};
use anyhow::{Context, Result, bail, ensure};
use goblin::elf::Elf;
use goblin::elf::header::{EM_AARCH64, EM_ARM, EM_PPC64, EM_X86_64};
use std::collections::BTreeMap;

/// What must not be traced, because the tracer is made of it: paths of functions begin so. The last are the
/// compiler's own, between the allocator and its users, which it does not align.
const TRACER: [&str; 8] = [
    "limen_kernel::arch::imp::sites::",
    "limen_kernel::arch::imp::exits::",
    "limen_kernel::arch::site_table::",
    "limen_kernel::ftrace::",
    "limen_kernel::tracing::",
    "limen_ring_buffer::",
    "limen_trace_",
    "__rustc::",
];
/// What runs where its CPU is idle, as context tracking sees it: no grace period waits for a tracer there.
const IDLE: [&str; 4] = [
    "limen_kernel::arch::imp::irq::",
    "limen_kernel::arch::irq_calls::",
    "limen_kernel::sched::context::",
    "limen_kernel::sync::lockdep::",
];
/// What runs in NMIs by which CPUs of x86_64 ask each other. While its site is changed there is a breakpoint,
/// and the return from that lets the next NMI come, on the stack that this one still uses.
const NMI: [&str; 3] = [
    "limen_kernel::arch::imp::exception::emergency",
    "limen_kernel::arch::imp::exception::wake_idle",
    "limen_kernel::arch::imp::tlb::",
];
/// What runs while all other CPUs wait for a block of the kernel's map to get another size. Nobody may use
/// what lies in the block then, and a tracer's memory may lie there.
const ALONE: [&str; 12] = [
    "limen_linear_map::",
    "limen_kernel::mm::linear::",
    "limen_kernel::mm::kernel_map::",
    "limen_kernel::mm::table::",
    "limen_kernel::arch::imp::descriptor::",
    "limen_kernel::arch::imp::kernel_map::",
    "limen_kernel::arch::imp::long::",
    "limen_kernel::arch::imp::mmu::",
    "limen_kernel::arch::imp::radix::",
    "limen_kernel::arch::imp::short::",
    "limen_kernel::arch::imp::tlb::",
    "limen_kernel::arch::imp::kernel_tables::",
];
/// What copies and fills memory: the compiler makes calls of it anywhere. Names begin so.
const MEMORY: [&str; 3] = ["mem", "bcmp", "__aeabi_mem"];

/// The types that are the language's, whose methods are `core`'s.
const PRIMITIVES: [&str; 19] = [
    "bool", "char", "str", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128",
    "isize", "f32", "f64", "dyn", "fn",
];

/// The function that the instructions of a site call, where they are made ready here.
const TRAMPOLINE: &str = "trace_entry";

/// What [`embed`] found.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// Functions that can be traced.
    pub sites: usize,
    /// Functions that have room for it, but must not be.
    pub left_out: usize,
}

/// How a processor's sites look.
struct Form {
    /// Bytes of an address.
    word: u64,
    /// From the address that the compiler lists to the first instruction of the function.
    entry: u64,
    /// What the compiler puts there.
    made: &'static [u8],
    /// ... and into the slot, once or repeated.
    filler: &'static [u8],
}

const X86_64: Form = Form {
    word: 8,
    entry: 8,
    made: &[0x0f, 0x1f, 0x44, 0, 8],
    filler: &[0x90],
};
const ARM64: Form = Form {
    word: 8,
    entry: 8,
    made: &[0x1f, 0x20, 0x03, 0xd5, 0x1f, 0x20, 0x03, 0xd5],
    filler: &[0x1f, 0x20, 0x03, 0xd5],
};
/// `b .+28`, `nop`.
const ARM: Form = Form {
    word: 4,
    entry: 0,
    made: &[0x05, 0, 0, 0xea, 0, 0xf0, 0x20, 0xe3],
    filler: &[0, 0xf0, 0x20, 0xe3],
};
const POWERPC64: Form = Form {
    word: 8,
    entry: 8,
    made: &[0, 0, 0, 0x60, 0, 0, 0, 0x60],
    filler: &[0, 0, 0, 0x60],
};

/// `mov x9, x30`.
const ARM64_KEEP: u32 = 0xaa1e_03e9;
/// `mov ip, lr`; `bl`, `b .+16` behind it, which passes over the slot.
const ARM_KEEP: u32 = 0xe1a0_c00e;
const ARM_CALL: u32 = 0xeb00_0000;
const ARM_PASS: u32 = 0xea00_0002;
/// `mflr r0`; the first half of `addis r2, r12, x`, with which a function begins that makes the address of
/// its table of contents; it has two such instructions.
const POWERPC64_KEEP: u32 = 0x7c08_02a6;
const POWERPC64_TOC: u16 = 0x3c4c;

/// Makes the sites of the kernel ELF file `bytes` ready, and their table. `references`: all that refer to
/// functions. Errors: a site that is not what the kernel takes it for.
pub fn embed(bytes: &mut [u8], references: &[Reference]) -> Result<Summary> {
    let elf = Elf::parse(bytes).context("the kernel is not an ELF file")?;
    let form = match elf.header.e_machine {
        EM_X86_64 => X86_64,
        EM_AARCH64 => ARM64,
        EM_ARM => ARM,
        EM_PPC64 => POWERPC64,
        other => bail!("sites of processor {other} are not known"),
    };
    let machine = elf.header.e_machine;
    let symbols: BTreeMap<&str, u64> = elf
        .syms
        .iter()
        .filter_map(|symbol| Some((elf.strtab.get_at(symbol.st_name)?, symbol.st_value)))
        .collect();
    let symbol = |name: &str| {
        let found = symbols.get(name).copied();
        found.with_context(|| format!("the kernel has no {name}"))
    };
    let table = symbol("__sites_start")?..symbol("__sites_end")?;
    let user = symbol("__vdso_text_start")?..symbol("__vdso_text_end")?;
    let trampoline = symbol(TRAMPOLINE)?;
    let section = |name: &str| {
        let mut headers = elf.section_headers.iter();
        headers
            .find(|section| elf.shdr_strtab.get_at(section.sh_name) == Some(name))
            .map(|section| section.sh_addr..section.sh_addr + section.sh_size)
            .with_context(|| format!("the kernel has no section {name}"))
    };
    let text = section(".text")?;
    let functions = named(&elf);
    let boot = section(".init.text")?;
    let sections = image::sections(&elf);
    let mut image = Image { bytes, sections };
    let mut records = Vec::new();
    for at in table.clone().step_by(form.word as usize) {
        let record = image.at(at, form.word)?;
        records.push(
            record
                .iter()
                .rev()
                .fold(0, |all, byte| all << 8 | u64::from(*byte)),
        );
    }
    records.sort_unstable();
    let kind = |at: u64, (_, names): &Named| {
        if boot.contains(&at) || user.contains(&at) {
            // Nothing is traced when boot's run, and programs' do not call the kernel's.
            Kind::Own
        } else if !text.contains(&at) || records.binary_search(&(at - form.entry)).is_err() {
            Kind::Untraced
        } else {
            kind_of(names)
        }
    };
    let kinds: BTreeMap<u64, Function> = functions
        .iter()
        .map(|(&at, named)| {
            (
                at,
                Function {
                    end: named.0,
                    kind: kind(at, named),
                },
            )
        })
        .collect();
    let reached = shared::reached(&kinds, references);
    let mut words = vec![0];
    for record in &records {
        let entry = record + form.entry;
        let (_, names) = functions
            .get(&entry)
            .with_context(|| format!("the site at {entry:#x} is of no function"))?;
        let name = &names[0];
        let must_not = kinds[&entry].kind == Kind::Untraced || reached.contains(&entry);
        if !text.contains(&entry) || user.contains(&entry) || must_not {
            continue;
        }
        let site = prepare(&mut image, &form, machine, entry, trampoline)
            .with_context(|| format!("the site of {name}"))?;
        words.push(site.wrapping_sub(table.start) as u32);
    }
    words[0] = words.len() as u32 - 1;
    ensure!(words[0] > 0, "no function can be traced");
    let room = image.at(table.start, table.end - table.start)?;
    room.fill(0);
    for (place, word) in room.chunks_exact_mut(4).zip(&words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    ensure!(room.len() >= 4 * words.len(), "the table of sites has no room");
    Ok(Summary {
        sites: words.len() - 1,
        left_out: records.len() + 1 - words.len(),
    })
}

/// The address behind a function, and its names: the linker may give several to one.
type Named = (u64, Vec<String>);

/// All functions, by address.
fn named(elf: &Elf<'_>) -> BTreeMap<u64, Named> {
    let mut all: BTreeMap<u64, Named> = BTreeMap::new();
    for symbol in elf.syms.iter().filter(goblin::elf::Sym::is_function) {
        let name = elf.strtab.get_at(symbol.st_name).unwrap_or("");
        let (end, names) = all.entry(symbol.st_value).or_default();
        *end = (*end).max(symbol.st_value + symbol.st_size);
        names.push(format!("{:#}", rustc_demangle::demangle(name)));
    }
    all
}

/// What a function of `.text` is that has all these names.
fn kind_of(names: &[String]) -> Kind {
    if names.iter().any(|name| is_left_out(name)) {
        Kind::Untraced
    } else if names.iter().any(|name| is_core(name)) {
        Kind::Shared
    } else {
        Kind::Own
    }
}

/// Whether a function of this name must not be traced; `<A as B>::f` is of both.
fn is_left_out(full: &str) -> bool {
    let name = full.trim_start_matches(['<', '&']);
    if !name.contains("::") {
        return MEMORY.iter().any(|of| name.starts_with(of));
    }
    let of = name.split_once(" as ").map_or("", |(_, of)| of);
    TRACER
        .iter()
        .chain(&IDLE)
        .chain(&NMI)
        .chain(&ALONE)
        .any(|path| name.starts_with(path) || of.starts_with(path))
}

/// Whether a function of this name is `core`'s: by its path, or as a method of a type of its own or of the
/// language's.
fn is_core(name: &str) -> bool {
    let mut name = name.trim_start_matches('<');
    while let Some(of) = name.strip_prefix('&') {
        name = of.strip_prefix("mut ").unwrap_or(of);
    }
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
    let first = &name[..end.unwrap_or(name.len())];
    first == "core" || PRIMITIVES.contains(&first) || name.starts_with(['[', '(', '*'])
}

/// Checks the site of the function whose first instruction is at `entry` and writes what stays the same.
/// Returns the address of the site, that of its first instruction; one more on powerpc64 if the slot is as
/// much farther away as the function's table of contents needs.
fn prepare(image: &mut Image<'_>, form: &Form, machine: u16, entry: u64, trampoline: u64) -> Result<u64> {
    let toc = machine == EM_PPC64 && image.word(entry)? >> 16 == u32::from(POWERPC64_TOC);
    let site = if toc { entry + 8 } else { entry };
    let slot = match machine {
        EM_ARM => site + 16,
        _ => entry - 8,
    };
    ensure!(
        slot.is_multiple_of(form.word) && site.is_multiple_of(4),
        "it is misaligned: {site:#x}"
    );
    // Nothing but what the compiler put there.
    let found = image.at(slot, if machine == EM_ARM { 4 } else { 8 })?;
    ensure!(
        found
            .chunks(form.filler.len())
            .all(|piece| *piece == *form.filler),
        "its slot has other instructions: {found:02x?}"
    );
    let found = image.at(site, form.made.len() as u64)?;
    ensure!(*found == *form.made, "it has other instructions: {found:02x?}");
    match machine {
        EM_AARCH64 => image.write(site, ARM64_KEEP)?,
        EM_PPC64 => image.write(site, POWERPC64_KEEP)?,
        EM_ARM => {
            // The second of the pipeline's instructions behind the call is where distances begin.
            let distance = (trampoline.wrapping_sub(site + 16) as u32) >> 2 & 0xff_ffff;
            image.write(site + 4, ARM_KEEP)?;
            image.write(site + 8, ARM_CALL | distance)?;
            image.write(site + 12, ARM_PASS)?;
        }
        _ => {}
    }
    Ok(site | u64::from(toc))
}

#[cfg(test)]
mod tests {
    use super::{ARM64, EM_AARCH64, Kind, kind_of, prepare};
    use crate::image::Image;

    fn kind(name: &str) -> Kind {
        kind_of(&[name.to_string()])
    }

    #[test]
    fn a_misaligned_site_is_refused() {
        for entry in (0x1008..0x1020).step_by(4) {
            let mut bytes = ARM64.filler.repeat(16);
            let mut image = Image {
                bytes: &mut bytes,
                sections: vec![(0x1000..0x1040, 0)],
            };
            let done = prepare(&mut image, &ARM64, EM_AARCH64, entry, 0);
            assert_eq!(done.is_ok(), entry % 8 == 0, "{entry:#x}: {done:?}");
        }
    }

    #[test]
    fn functions_that_are_not_traced() {
        for name in [
            "limen_kernel::ftrace::graph::calls::entered",
            "<limen_kernel::mm::linear::Live as limen_linear_map::Tables>::read",
            "<limen_kernel::arch::imp::radix::Entry>::kernel",
            "memcpy",
        ] {
            assert_eq!(kind(name), Kind::Untraced, "{name}");
        }
        for name in [
            "<&mut core::ops::index_range::IndexRange as core::iter::ExactSizeIterator>::len",
            "<core::option::Option<limen_linear_map::map::Mapped> as core::cmp::PartialEq>::eq",
            "<[u32; 5] as core::default::Default>::default",
            "<[usize]>::binary_search",
            "<*const _>::offset_from_unsigned::runtime_ptr_ge",
            "<u64>::pow",
            "core::ptr::drop_in_place::<limen_kernel::task::thread::Task>",
        ] {
            assert_eq!(kind(name), Kind::Shared, "{name}");
        }
        for name in [
            "limen_kernel::sched::run::schedule",
            "<limen_kernel::fs::file::File>::read",
            "<limen_kernel::time::Moment as core::fmt::Display>::fmt",
            "<alloc::vec::Vec<u8>>::push",
            "<&limen_kernel::fs::file::File as core::fmt::Debug>::fmt",
            "core_pattern",
        ] {
            assert_eq!(kind(name), Kind::Own, "{name}");
        }
    }

    #[test]
    fn one_function_with_several_names_is_what_the_strictest_is() {
        let names = [
            "limen_kernel::fs::open",
            "<u64>::pow",
            "limen_kernel::ftrace::ops::add",
        ];
        let names = names.map(str::to_string);
        assert_eq!(kind_of(&names[..1]), Kind::Own);
        assert_eq!(kind_of(&names[..2]), Kind::Shared);
        assert_eq!(kind_of(&names), Kind::Untraced);
    }
}
