//! Mapping an ELF program and its interpreter into a new address space.

use super::{AT_FDCWD, Program};
use crate::arch::mmu::USER_END;
use crate::arch::syscalls::program_is_old;
use crate::fs::file::File;
use crate::fs::open;
use crate::mm::{AddressSpace, MapFlags, PAGE_SHIFT, PAGE_SIZE, Prot, layout};
use crate::random;
use crate::task::current;
use crate::task::rlimit::which;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI32, Ordering};
use limen_elf::{self as elf, Class, Header, Kind, Segment};
use limen_linux_abi::Errno;

/// `kernel.randomize_va_space`. 0: nothing is randomised; 1: all but the heap; 2: all.
pub static RANDOMIZE: AtomicI32 = AtomicI32::new(2);
/// `ADDR_NO_RANDOMIZE` of `personality`.
const ADDR_NO_RANDOMIZE: u32 = 0x004_0000;
/// `READ_IMPLIES_EXEC` of `personality`.
pub(super) const READ_IMPLIES_EXEC: u32 = 0x040_0000;
/// How many bytes of the stack are mapped at first, in addition to the strings. Faults extend it.
const STACK_START: usize = 128 << 10;
/// How many bits of randomness the address of a relocatable program has, in pages.
const PROGRAM_RANDOM_BITS: u32 = if usize::BITS == 64 { 40 } else { 20 } - PAGE_SHIFT as u32;

/// A program, mapped into an address space in which no thread runs yet.
pub(super) struct Image {
    /// The address space.
    pub mm: Arc<AddressSpace>,
    /// The caller may not read the program or its interpreter.
    pub hidden: bool,
    /// Owner and group of those of both that it may not read: whoever looks at the memory sees their
    /// contents.
    pub hidden_from: [Option<(u32, u32)>; 2],
    /// It is of the architecture's old ABI.
    pub old_abi: bool,
    /// What it can read it can execute, as when no program said whether it wanted that.
    pub reads_execute: bool,
    /// The address at which execution starts: the interpreter's entry, if there is an interpreter.
    pub start: usize,
    /// The program's entry (`AT_ENTRY`).
    pub entry: usize,
    /// The address of the interpreter (`AT_BASE`), 0 without one.
    pub base: usize,
    /// The address of the program headers in memory, and their number.
    pub program_headers: (usize, usize),
    /// Ranges behind the contents of the file that must be zeroed when the address space is in use. Each ends
    /// with its page.
    pub tails: Vec<(usize, usize)>,
    /// The stack's top.
    pub stack_top: usize,
    /// How many bytes are left free below the strings: random and a multiple of 16, so that the stack begins
    /// anywhere in cache lines and pages.
    pub stack_gap: usize,
    /// The first and last address of code and data, for `/proc`.
    pub layout: crate::mm::Layout,
}

/// The result of mapping one file.
struct Mapped {
    bias: usize,
    entry: usize,
    start: usize,
    end: usize,
    program_headers: usize,
    code: (usize, usize),
    data: (usize, usize),
}

fn no_exec(_: elf::Error) -> Errno {
    Errno::ENOEXEC
}

/// Whether a file is of the architecture's old ABI. `ENOEXEC`: no processor of the kernel's can execute it.
fn is_old(header: &Header) -> Result<bool, Errno> {
    program_is_old(header.flags, header.entry as usize).ok_or(Errno::ENOEXEC)
}

fn read_table(file: &File, header: &Header) -> Result<Vec<u8>, Errno> {
    let mut table = crate::mm::copy::zeroed(header.table_size())?;
    if file.read_at(&mut table, header.program_headers)? != table.len() {
        return Err(Errno::ENOEXEC);
    }
    Ok(table)
}

/// Reads the path of the program's interpreter.
fn read_interpreter_path(file: &File, segment: &Segment) -> Result<Vec<u8>, Errno> {
    let size = segment.file_size as usize;
    if !(2..=4096).contains(&size) {
        return Err(Errno::ENOEXEC);
    }
    let mut path = crate::mm::copy::zeroed(size)?;
    if file.read_at(&mut path, segment.offset)? != size || path.pop() != Some(0) {
        return Err(Errno::ENOEXEC);
    }
    let end = path.iter().position(|&b| b == 0).unwrap_or(path.len());
    path.truncate(end);
    Ok(path)
}

/// Maps the program, its interpreter and a stack. `ENOEXEC`: it is no program for this machine.
#[inline(never)]
pub(super) fn load(program: &Program) -> Result<Image, Errno> {
    let header = Header::parse(program.head(), crate::arch::ELF_MACHINE, Class::NATIVE).map_err(no_exec)?;
    let old_abi = is_old(&header)?;
    let table = read_table(&program.file, &header)?;
    let interpreter = match elf::segments(&table, header.class).find(|s| s.kind == elf::INTERP) {
        None => None,
        Some(segment) => {
            let path = read_interpreter_path(&program.file, &segment)?;
            Some(open::open_exec(AT_FDCWD, &path, false, false)?)
        }
    };
    let persona = current().personality.load(Ordering::Relaxed);
    let randomize = match RANDOMIZE.load(Ordering::Relaxed) {
        _ if persona & ADDR_NO_RANDOMIZE != 0 || crate::cmdline::flag("norandmaps") => 0,
        setting => setting,
    };
    let random = || if randomize != 0 { random::word() } else { 0 };

    let mm = AddressSpace::new()?;
    let stack_limit = crate::task::rlimit(which::STACK);
    mm.set_mmap_base(layout::mmap_base(stack_limit, random()));
    let mut tails = Vec::new();
    // Relocatable programs go to two thirds of the address space: far below other mappings and far above
    // programs with fixed addresses.
    let place = USER_END / 3 * 2 + ((random() as usize) & ((1 << PROGRAM_RANDOM_BITS) - 1)) * PAGE_SIZE;
    let main = map(&mm, &program.file, &header, &table, Some(place), &mut tails)?;
    let hidden = program.hidden || interpreter.as_deref().is_some_and(super::is_hidden);
    let mut image = Image {
        old_abi,
        reads_execute: false,
        hidden,
        hidden_from: match hidden {
            false => [None; 2],
            true => [Some(&program.file), interpreter.as_ref()]
                .map(|file| file.and_then(|file| super::owner_if_hidden(file))),
        },
        start: main.entry,
        entry: main.entry,
        base: 0,
        program_headers: (main.program_headers, header.count),
        tails,
        stack_top: layout::stack_top(random()),
        stack_gap: (random() as usize & 0x1ff) * 16,
        layout: crate::mm::Layout {
            start_code: main.code.0,
            end_code: main.code.1,
            start_data: main.data.0,
            end_data: main.data.1,
            ..Default::default()
        },
        mm,
    };
    if let Some(file) = &interpreter {
        let mut head = [0; elf::HEADER_SIZE];
        let bad = |_| Errno::ELIBBAD;
        if file.read_at(&mut head, 0)? != head.len() {
            return Err(Errno::ELIBBAD);
        }
        let header = Header::parse(&head, crate::arch::ELF_MACHINE, Class::NATIVE).map_err(bad)?;
        is_old(&header).map_err(|_| Errno::ELIBBAD)?;
        let table = read_table(file, &header)?;
        let mapped = map(&image.mm, file, &header, &table, None, &mut image.tails)?;
        image.start = mapped.entry;
        image.base = mapped.bias;
    }
    // The heap follows the program at a random distance (as on Linux up to 32 MiB on 64-bit processors).
    let heap_gap = if randomize > 1 {
        ((random() as usize) % (32 << 20)) & !(PAGE_SIZE - 1)
    } else {
        0
    };
    image.mm.set_brk(main.end + heap_gap);
    let exec_stack = match elf::segments(&table, header.class).find(|s| s.kind == elf::GNU_STACK) {
        Some(segment) => segment.flags & 1 != 0,
        None => {
            image.reads_execute = old_abi;
            old_abi
        }
    };
    let exec_stack = exec_stack || persona & READ_IMPLIES_EXEC != 0;
    let pointers = (program.strings.argc + program.strings.envc + 64) * size_of::<usize>();
    let needed = program.strings.bytes.len() + program.filename.len() + pointers + 2 * PAGE_SIZE;
    let size = (needed + STACK_START).next_multiple_of(PAGE_SIZE);
    image.mm.map_stack(image.stack_top, size, exec_stack)?;
    let _ = main.start;
    Ok(image)
}

/// Maps all segments of one file. `place`: the address of a relocatable file; with `None` the address space
/// chooses.
fn map(
    mm: &Arc<AddressSpace>,
    file: &Arc<File>,
    header: &Header,
    table: &[u8],
    place: Option<usize>,
    tails: &mut Vec<(usize, usize)>,
) -> Result<Mapped, Errno> {
    let span = elf::span(table, header.class, PAGE_SIZE as u64, USER_END as u64).map_err(no_exec)?;
    let (start, end, align) = (span.start as usize, span.end as usize, span.align as usize);
    let size = end - start;
    let bias = match (header.kind, place) {
        (Kind::Fixed, _) => {
            if start != 0 {
                crate::mm::mmap::check_low(start)?;
            }
            0
        }
        (Kind::Relocatable, Some(place)) => {
            if size > USER_END / 4 || align > USER_END / 4 {
                return Err(Errno::ENOMEM);
            }
            (place & !(align - 1)).wrapping_sub(start)
        }
        (Kind::Relocatable, None) => {
            if size > USER_END / 4 || align > USER_END / 4 {
                return Err(Errno::ENOMEM);
            }
            // Finds room that is large enough for any alignment, and puts the segments into the middle of it.
            let at = mm.room_for(size + align - PAGE_SIZE)?;
            at.next_multiple_of(align).wrapping_sub(start)
        }
    };
    let mut mapped = Mapped {
        bias,
        entry: bias.wrapping_add(header.entry as usize),
        start: bias.wrapping_add(start),
        end: bias.wrapping_add(end),
        program_headers: 0,
        code: (usize::MAX, 0),
        data: (0, 0),
    };
    if mapped.entry >= USER_END {
        return Err(Errno::ENOEXEC);
    }
    for segment in elf::segments(table, header.class) {
        if segment.kind == elf::PHDR {
            mapped.program_headers = bias.wrapping_add(segment.address as usize);
        }
        if segment.kind != elf::LOAD {
            continue;
        }
        map_segment(mm, file, &segment, bias, tails)?;
        let from = bias.wrapping_add(segment.address as usize);
        let headers = header.program_headers;
        if mapped.program_headers == 0
            && (segment.offset..segment.offset + segment.file_size).contains(&headers)
        {
            mapped.program_headers = from + (headers - segment.offset) as usize;
        }
        if segment.flags & 1 != 0 {
            mapped.code = (
                mapped.code.0.min(from),
                mapped.code.1.max(from + segment.file_size as usize),
            );
        }
        mapped.data = (
            from.max(mapped.data.0),
            mapped.data.1.max(from + segment.file_size as usize),
        );
    }
    if mapped.code.0 == usize::MAX {
        mapped.code = (mapped.start, mapped.start);
    }
    Ok(mapped)
}

fn map_segment(
    mm: &Arc<AddressSpace>,
    file: &Arc<File>,
    segment: &Segment,
    bias: usize,
    tails: &mut Vec<(usize, usize)>,
) -> Result<(), Errno> {
    if segment.memory_size == 0 {
        return Ok(());
    }
    let mut prot = Prot::empty();
    for (bit, access) in [(4, Prot::READ), (2, Prot::WRITE), (1, Prot::EXEC)] {
        if segment.flags & bit != 0 {
            prot |= access;
        }
    }
    let from = bias.wrapping_add(segment.address as usize);
    let file_end = from + segment.file_size as usize;
    let end = (from + segment.memory_size as usize).next_multiple_of(PAGE_SIZE);
    let start = from & !(PAGE_SIZE - 1);
    let file_pages_end = if segment.file_size == 0 {
        start
    } else {
        file_end.next_multiple_of(PAGE_SIZE)
    };
    let fixed = MapFlags::PRIVATE | MapFlags::FIXED;
    if file_pages_end > start {
        let offset = segment.offset - (from - start) as u64;
        let backing = crate::fs::map::file_map(file, offset, false, prot)?;
        mm.mmap(start, file_pages_end - start, prot, fixed, Some(backing))?;
        if segment.memory_size > segment.file_size && !file_end.is_multiple_of(PAGE_SIZE) {
            // Only writable memory can be zeroed. A read-only segment keeps what the file has behind its
            // contents, as on Linux.
            if prot.contains(Prot::WRITE) {
                tails.push((file_end, file_pages_end));
            }
        }
    }
    if end > file_pages_end {
        mm.mmap(
            file_pages_end,
            end - file_pages_end,
            prot,
            fixed | MapFlags::ANONYMOUS,
            None,
        )?;
    }
    Ok(())
}
