//! What the kernel needs of ACPI: CPUs, interrupt controllers, PCI configuration space, power-off, and where
//! virtio-mmio devices sit. Read once, early, while the boot tables still map everything at its physical
//! address; the result is plain data.

use crate::sync::MAX_CPUS;
use core::cell::UnsafeCell;

/// An I/O APIC.
#[derive(Clone, Copy, Debug)]
pub struct IoApic {
    /// Physical address of its registers.
    pub base: u64,
    /// The first global interrupt it serves.
    pub gsi_base: u32,
}

/// How an interrupt line signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trigger {
    /// Level-triggered (else edge).
    pub level: bool,
    /// Active low (else high).
    pub low: bool,
}

/// Where an ISA interrupt really arrives.
#[derive(Clone, Copy, Debug)]
pub struct Override {
    /// ISA interrupt.
    pub source: u8,
    /// Global interrupt.
    pub gsi: u32,
    /// How it signals.
    pub trigger: Trigger,
}

/// A virtio-mmio device named by the DSDT.
#[derive(Clone, Copy, Debug)]
pub struct VirtioSlot {
    /// Physical address of its registers.
    pub base: u64,
    /// Size of the window.
    pub size: u32,
    /// Global interrupt.
    pub gsi: u32,
    /// How it signals.
    pub trigger: Trigger,
}

/// A register in I/O or memory space.
#[derive(Clone, Copy, Debug)]
pub enum Register {
    /// I/O port.
    Port(u16),
    /// Physical address.
    Memory(u64),
}

/// A list of at most `N` entries.
#[derive(Clone, Copy, Debug)]
pub struct List<T, const N: usize> {
    items: [Option<T>; N],
    len: usize,
}

impl<T: Copy, const N: usize> List<T, N> {
    const fn new() -> Self {
        Self {
            items: [None; N],
            len: 0,
        }
    }
    fn push(&mut self, item: T) {
        if self.len < N {
            self.items[self.len] = Some(item);
            self.len += 1;
        }
    }
    /// The entries.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.items.iter().flatten().copied()
    }
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }
}

/// What was found.
#[derive(Debug)]
pub struct Machine {
    /// Local APIC identifiers of the usable CPUs, the boot CPU's among them.
    pub cpus: List<u32, MAX_CPUS>,
    /// Physical address of the local APIC.
    pub local_apic: u64,
    /// I/O APICs.
    pub io_apics: List<IoApic, 8>,
    /// ISA interrupts that do not arrive where they are called.
    pub overrides: List<Override, 16>,
    /// PCI configuration space: base, first and last bus.
    pub ecam: Option<(u64, u8, u8)>,
    /// Sleep control: `PM1a_CNT` (16 bits) or, if `hardware_reduced`, the sleep control register (8 bits).
    pub sleep: Option<Register>,
    /// No legacy ACPI hardware.
    pub hardware_reduced: bool,
    /// `SLP_TYP` of the soft-off state.
    pub s5_type: u8,
    /// Reset register and the value to write.
    pub reset: Option<(Register, u8)>,
    /// virtio-mmio devices.
    pub virtio: List<VirtioSlot, 32>,
}

struct Cell(UnsafeCell<Machine>);

// SAFETY: written once, by `parse` on the boot CPU before any other CPU runs; read afterwards.
unsafe impl Sync for Cell {}

static MACHINE: Cell = Cell(UnsafeCell::new(Machine {
    cpus: List::new(),
    local_apic: 0xfee0_0000,
    io_apics: List::new(),
    overrides: List::new(),
    ecam: None,
    sleep: None,
    hardware_reduced: false,
    s5_type: 0,
    reset: None,
    virtio: List::new(),
}));

/// What [`parse`] found.
pub fn machine() -> &'static Machine {
    // SAFETY: written before any other reader exists.
    unsafe { &*MACHINE.0.get() }
}

fn u16_at(b: &[u8], at: usize) -> u16 {
    b.get(at..at + 2).map_or(0, |s| u16::from_le_bytes([s[0], s[1]]))
}
fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from(u16_at(b, at)) | u32::from(u16_at(b, at + 2)) << 16
}
fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from(u32_at(b, at)) | u64::from(u32_at(b, at + 4)) << 32
}

/// The table at a physical address, if it is reachable and its checksum is right.
///
/// # Safety
/// The first 4 GiB are mapped at 0.
unsafe fn table(address: u64) -> Option<&'static [u8]> {
    if address == 0 || address >= (1 << 32) - 4096 {
        return None;
    }
    // SAFETY: mapped by contract; the length is checked against the mapped range.
    let bytes = unsafe {
        let header = core::slice::from_raw_parts(address as *const u8, 36);
        let length = u32_at(header, 4) as u64;
        if length < 36 || address + length > 1 << 32 {
            return None;
        }
        core::slice::from_raw_parts(address as *const u8, length as usize)
    };
    let sum = bytes.iter().fold(0u8, |s, &b| s.wrapping_add(b));
    (sum == 0).then_some(bytes)
}

/// Reads the tables. Without them the machine has one CPU and what its command line says.
///
/// # Safety
/// Boot CPU, once, while the first 4 GiB are mapped at 0.
#[unsafe(link_section = ".init.text")]
pub unsafe fn parse(rsdp: u64) {
    // SAFETY: nobody else runs.
    let m = unsafe { &mut *MACHINE.0.get() };
    if rsdp != 0 && rsdp < (1 << 32) - 4096 {
        // SAFETY: the boot protocol's pointer, mapped.
        let root = unsafe { core::slice::from_raw_parts(rsdp as *const u8, 36) };
        if root.starts_with(b"RSD PTR ") {
            let (pointer, width) = if root[15] >= 2 && u64_at(root, 24) != 0 {
                (u64_at(root, 24), 8)
            } else {
                (u64::from(u32_at(root, 16)), 4)
            };
            // SAFETY: by contract.
            if let Some(list) = unsafe { table(pointer) } {
                for entry in list[36..].chunks_exact(width) {
                    let address = if width == 8 {
                        u64_at(entry, 0)
                    } else {
                        u64::from(u32_at(entry, 0))
                    };
                    // SAFETY: by contract.
                    if let Some(t) = unsafe { table(address) } {
                        match &t[..4] {
                            b"APIC" => madt(m, t),
                            b"MCFG" if t.len() >= 60 => m.ecam = Some((u64_at(t, 44), t[54], t[55])),
                            // SAFETY: by contract.
                            b"FACP" => unsafe { fadt(m, t) },
                            _ => {}
                        }
                    }
                }
            }
        }
    }
    if m.io_apics.len() == 0 {
        m.io_apics.push(IoApic {
            base: 0xfec0_0000,
            gsi_base: 0,
        });
    }
}

fn madt(m: &mut Machine, t: &[u8]) {
    m.local_apic = u64::from(u32_at(t, 36));
    let mut at = 44;
    while at + 2 <= t.len() && t[at + 1] >= 2 {
        let e = &t[at..(at + t[at + 1] as usize).min(t.len())];
        match (e[0], e.len()) {
            (0, 8..) if u32_at(e, 4) & 1 != 0 => m.cpus.push(u32::from(e[3])),
            (1, 12..) => m.io_apics.push(IoApic {
                base: u64::from(u32_at(e, 4)),
                gsi_base: u32_at(e, 8),
            }),
            (2, 10..) => {
                let flags = u16_at(e, 8);
                m.overrides.push(Override {
                    source: e[3],
                    gsi: u32_at(e, 4),
                    trigger: Trigger {
                        level: flags >> 2 & 3 == 3,
                        low: flags & 3 == 3,
                    },
                });
            }
            (5, 12..) => m.local_apic = u64_at(e, 4),
            (9, 16..) if u32_at(e, 8) & 1 != 0 => m.cpus.push(u32_at(e, 4)),
            _ => {}
        }
        at += e.len();
    }
}

/// A generic address structure.
fn register(t: &[u8], at: usize) -> Option<Register> {
    let address = u64_at(t, at + 4);
    match (t.get(at)?, address) {
        (_, 0) => None,
        (0, a) => Some(Register::Memory(a)),
        (1, a) => Some(Register::Port(a as u16)),
        _ => None,
    }
}

/// # Safety
/// The first 4 GiB are mapped at 0.
unsafe fn fadt(m: &mut Machine, t: &[u8]) {
    const HW_REDUCED: u32 = 1 << 20;
    const RESET_SUPPORTED: u32 = 1 << 10;
    let flags = u32_at(t, 112);
    m.hardware_reduced = flags & HW_REDUCED != 0;
    m.sleep = if m.hardware_reduced {
        register(t, 244)
    } else {
        match u32_at(t, 64) {
            0 => None,
            port => Some(Register::Port(port as u16)),
        }
    };
    if flags & RESET_SUPPORTED != 0 {
        m.reset = register(t, 116).map(|r| (r, t[128]));
    }
    let dsdt = match u64_at(t, 140) {
        0 => u64::from(u32_at(t, 40)),
        wide => wide,
    };
    // SAFETY: by contract.
    if let Some(d) = unsafe { table(dsdt) } {
        aml(m, &d[36..]);
    }
}

/// Looks for the few things of interest in the DSDT by their encoding; a full interpreter is not worth it.
fn aml(m: &mut Machine, code: &[u8]) {
    let find = |from: usize, what: &[u8]| {
        code[from..]
            .windows(what.len())
            .position(|w| w == what)
            .map(|p| from + p)
    };
    if let Some(at) = find(0, b"_S5_\x12") {
        // Name, PackageOp, PkgLength (1 byte), count, then the first element: a byte constant or Zero/One.
        m.s5_type = match code.get(at + 7..at + 9) {
            Some([0x0a, value]) => *value,
            Some([value @ (0 | 1), _]) => *value,
            _ => 0,
        };
    }
    let mut at = 0;
    while let Some(device) = find(at, b"LNRO0005") {
        at = device + 8;
        // Memory32Fixed (0x86, length 9), then ExtendedInterrupt (0x89, length 6 with one interrupt).
        let Some(memory) = find(at, &[0x86, 9, 0]) else {
            break;
        };
        let Some(interrupt) = find(memory, &[0x89, 6, 0]) else {
            break;
        };
        if interrupt + 9 > code.len() || memory + 12 > code.len() {
            break;
        }
        let flags = code[interrupt + 3];
        m.virtio.push(VirtioSlot {
            base: u64::from(u32_at(code, memory + 4)),
            size: u32_at(code, memory + 8),
            gsi: u32_at(code, interrupt + 5),
            trigger: Trigger {
                level: flags & 2 == 0,
                low: flags & 4 != 0,
            },
        });
    }
}
