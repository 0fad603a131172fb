//! The PVH start info (`hvm_start_info`, Xen's public ABI): memory map, modules, command line. Everything is
//! copied out, so that the memory it lies in need not be reserved.

use crate::mm::PhysAddr;
use crate::mm::PhysRange;
use core::cell::UnsafeCell;

/// Ranges of RAM a firmware may report.
const MAX_RANGES: usize = 128;
const MAGIC: u32 = 0x336e_c578;
const TYPE_RAM: u32 = 1;
const PAGE: u64 = 4096;
/// The page the other CPUs start in (see `smp`), below 1 MiB.
pub const TRAMPOLINE: u64 = 0x8000;

#[derive(Clone, Copy)]
#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    module_list: u64,
    command_line: u64,
    rsdp: u64,
    memory_map: u64,
    memory_map_entries: u32,
    _reserved: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Module {
    address: u64,
    size: u64,
    command_line: u64,
    _reserved: u64,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct MapEntry {
    address: u64,
    size: u64,
    kind: u32,
    _reserved: u32,
}

/// What the start info says.
pub struct Info {
    memory: [PhysRange; MAX_RANGES],
    memory_len: usize,
    reserved: [PhysRange; 8],
    reserved_len: usize,
    /// The first module.
    pub initrd: Option<PhysRange>,
    /// Physical address of ACPI's root pointer, 0 if there is none.
    pub rsdp: u64,
}

impl Info {
    /// RAM, ascending, whole pages.
    pub fn memory(&self) -> &[PhysRange] {
        &self.memory[..self.memory_len]
    }
    /// What of it is in use.
    pub fn reserved(&self) -> &[PhysRange] {
        &self.reserved[..self.reserved_len]
    }
    /// Marks a range as in use.
    pub fn reserve(&mut self, start: u64, size: u64) {
        if size != 0 {
            self.reserved[self.reserved_len] = PhysRange {
                start: PhysAddr::new(start),
                size,
            };
            self.reserved_len += 1;
        }
    }
    /// Adds RAM, keeping the list sorted and joined.
    fn add_memory(&mut self, start: u64, end: u64) {
        let (start, end) = (start.next_multiple_of(PAGE), end & !(PAGE - 1));
        if start >= end || self.memory_len == MAX_RANGES {
            return;
        }
        let at = self.memory().partition_point(|r| r.start.as_u64() < start);
        if at > 0 {
            let before = &mut self.memory[at - 1];
            if before.start.as_u64() + before.size == start {
                before.size += end - start;
                return;
            }
        }
        self.memory.copy_within(at..self.memory_len, at + 1);
        self.memory[at] = PhysRange {
            start: PhysAddr::new(start),
            size: end - start,
        };
        self.memory_len += 1;
    }
}

struct Line(UnsafeCell<([u8; 4096], usize)>);

// SAFETY: written once, by `parse` on the boot CPU; read afterwards.
unsafe impl Sync for Line {}

#[unsafe(link_section = ".init.data")]
static COMMAND_LINE: Line = Line(UnsafeCell::new(([0; 4096], 0)));

/// The command line, as given (up to its first byte that is not UTF-8).
#[unsafe(link_section = ".init.text")]
pub fn command_line() -> &'static str {
    // SAFETY: written before, never again.
    let (bytes, len) = unsafe { &*COMMAND_LINE.0.get() };
    match core::str::from_utf8(&bytes[..*len]) {
        Ok(line) => line,
        Err(e) => core::str::from_utf8(&bytes[..e.valid_up_to()]).unwrap_or(""),
    }
}

/// Reads the start info at physical `address`.
///
/// # Safety
/// The first 4 GiB are mapped at 0; boot CPU, once.
#[unsafe(link_section = ".init.text")]
pub unsafe fn parse(address: usize) -> Info {
    let mut info = Info {
        memory: [PhysRange {
            start: PhysAddr::new(0),
            size: 0,
        }; MAX_RANGES],
        memory_len: 0,
        reserved: [PhysRange {
            start: PhysAddr::new(0),
            size: 0,
        }; 8],
        reserved_len: 0,
        initrd: None,
        rsdp: 0,
    };
    // SAFETY: the boot protocol put it there.
    let start = unsafe { (address as *const StartInfo).read_unaligned() };
    if start.magic != MAGIC {
        panic!("not started by the PVH boot protocol");
    }
    // The memory map came with version 1.
    if start.version < 1 || start.memory_map_entries == 0 {
        panic!("the boot protocol gave no memory map");
    }
    info.rsdp = start.rsdp;
    for i in 0..start.memory_map_entries as usize {
        // SAFETY: the protocol promises this many entries.
        let entry = unsafe { (start.memory_map as *const MapEntry).add(i).read_unaligned() };
        if entry.kind == TYPE_RAM {
            info.add_memory(entry.address, entry.address.saturating_add(entry.size));
        }
    }
    if start.modules > 0 {
        // SAFETY: the list has an entry, as the protocol promises.
        let module = unsafe { (start.module_list as *const Module).read_unaligned() };
        if module.size > 0 {
            info.initrd = Some(PhysRange {
                start: PhysAddr::new(module.address),
                size: module.size,
            });
            info.reserve(module.address, module.size);
        }
    }
    if start.command_line != 0 {
        // SAFETY: the line is NUL-terminated; the copy is bounded; nobody reads it yet.
        unsafe {
            let (bytes, len) = &mut *COMMAND_LINE.0.get();
            while *len < bytes.len() {
                let byte = (start.command_line as *const u8).add(*len).read();
                if byte == 0 {
                    break;
                }
                bytes[*len] = byte;
                *len += 1;
            }
        }
    }
    // A frame at address 0 would look like null through the boot map, and firmware keeps its interrupt
    // vectors there.
    info.reserve(0, PAGE);
    info.reserve(TRAMPOLINE, PAGE);
    info
}
