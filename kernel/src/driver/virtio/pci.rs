//! As much of PCI as virtio needs: finds the devices of bus 0, gives them addresses if the firmware did not,
//! and routes their interrupts as messages.

use super::{Attention, Device, Memory};
use crate::arch::devices::{PciCalls, PciConfig};
use crate::arch::interrupt;
use crate::arch::platform;
use core::sync::atomic::{AtomicU64, Ordering};
use virtio_drivers::transport::pci::bus::{
    BarInfo, Command, ConfigurationAccess, DeviceFunction, MemoryBarType, PciRoot,
};
use virtio_drivers::transport::pci::{PciTransport, virtio_device_type};

/// What to add to bus addresses below 4 GiB to get the physical address.
static OFFSET32: AtomicU64 = AtomicU64::new(0);

/// The physical address of a bus address.
pub fn to_phys(bus: u64) -> u64 {
    if bus >> 32 == 0 {
        bus + OFFSET32.load(Ordering::Relaxed)
    } else {
        bus
    }
}

/// The configuration space of bus 0.
#[derive(Clone, Copy)]
enum Bus0 {
    Memory(*mut u8),
    Firmware(PciCalls),
}

/// The size in bytes of one bus's configuration space.
const BUS_SIZE: usize = 1 << 20;

fn number(f: DeviceFunction) -> u8 {
    f.device << 3 | f.function & 7
}

fn register(base: *mut u8, f: DeviceFunction, offset: u8) -> *mut u32 {
    let at = usize::from(number(f)) << 12 | usize::from(offset & 0xfc);
    base.wrapping_add(at).cast()
}

impl ConfigurationAccess for Bus0 {
    fn read_word(&self, f: DeviceFunction, offset: u8) -> u32 {
        match self {
            _ if f.bus != 0 => u32::MAX,
            // SAFETY: the whole bus is mapped, and reads are aligned.
            Bus0::Memory(base) => unsafe { register(*base, f, offset).read_volatile() },
            Bus0::Firmware(calls) => (calls.read)(number(f), offset & 0xfc),
        }
    }
    fn write_word(&mut self, f: DeviceFunction, offset: u8, data: u32) {
        match self {
            _ if f.bus != 0 => {}
            // SAFETY: the whole bus is mapped, and writes are aligned.
            Bus0::Memory(base) => unsafe { register(*base, f, offset).write_volatile(data) },
            Bus0::Firmware(calls) => (calls.write)(number(f), offset & 0xfc, data),
        }
    }
    unsafe fn unsafe_clone(&self) -> Self {
        *self
    }
}

/// A window of bus addresses for BARs.
struct Window {
    next: u64,
    end: u64,
}

impl Window {
    fn new((start, size): (u64, u64)) -> Self {
        Self {
            next: start,
            end: start + size,
        }
    }
    fn take(&mut self, size: u64) -> Option<u64> {
        let at = self.next.next_multiple_of(size.max(16));
        if at + size > self.end {
            return None;
        }
        self.next = at + size;
        Some(at)
    }
}

/// Starts the virtio devices of bus 0.
pub fn init() {
    let Some(machine) = platform::pci() else { return };
    let (bus, window32, window64) = match machine {
        PciConfig::Ecam {
            base,
            window32,
            window64,
        } => {
            let base = crate::mm::map_device(base, BUS_SIZE);
            if base.is_null() {
                warning!("pci: no room to map the configuration space");
                return;
            }
            (Bus0::Memory(base), window32, window64)
        }
        PciConfig::Firmware {
            calls,
            window32,
            window64,
            offset32,
        } => {
            OFFSET32.store(offset32, Ordering::Relaxed);
            (Bus0::Firmware(calls), window32, window64)
        }
    };
    let mut root = PciRoot::new(bus);
    // `root` has a handle of its own. The two are never used at the same time.
    let mut config = bus;
    let (mut low, mut high) = (Window::new(window32), Window::new(window64));
    // Addresses that the firmware has assigned are kept; new ones follow them.
    let devices: alloc::vec::Vec<_> = root.enumerate_bus(0).collect();
    for (function, _) in &devices {
        for bar in root.bars(*function).into_iter().flatten().flatten() {
            if let Some((address, size)) = bar.memory_address_size()
                && address != 0
            {
                for window in [&mut low, &mut high] {
                    if address >= window.next && address < window.end {
                        window.next = address + size;
                    }
                }
            }
        }
    }
    for (function, info) in devices {
        if virtio_device_type(&info).is_none() {
            continue;
        }
        if place(&mut root, function, &mut low, &mut high).is_none() {
            warning!("pci {function}: no room for its registers");
            continue;
        }
        root.set_command(
            function,
            Command::MEMORY_SPACE | Command::BUS_MASTER | Command::INTERRUPT_DISABLE,
        );
        match PciTransport::new::<Memory, _>(&mut root, function) {
            Ok(transport) => {
                let attention = route(&mut root, &mut config, function).unwrap_or(Attention::None);
                super::start(Device {
                    transport: transport.into(),
                    attention,
                });
            }
            Err(e) => warning!("pci {function}: {e}"),
        }
    }
}

/// Assigns an address to each memory region of the device that has none.
fn place(root: &mut PciRoot<Bus0>, f: DeviceFunction, low: &mut Window, high: &mut Window) -> Option<()> {
    let mut index = 0;
    while index < 6 {
        let bar = root.bar_info(f, index).ok()?;
        let wide = bar.as_ref().is_some_and(BarInfo::takes_two_entries);
        if let Some(BarInfo::Memory {
            address_type,
            address: 0,
            size,
            ..
        }) = bar
            && size > 0
        {
            if address_type == MemoryBarType::Width64 {
                let at = low.take(size).or_else(|| high.take(size))?;
                root.set_bar_64(f, index, at);
            } else {
                root.set_bar_32(f, index, u32::try_from(low.take(size)?).ok()?);
            }
        }
        index += if wide { 2 } else { 1 };
    }
    Some(())
}

/// Maps part of a memory region of the device.
fn map_bar(
    root: &mut PciRoot<Bus0>,
    f: DeviceFunction,
    bar: u8,
    offset: u32,
    size: usize,
) -> Option<*mut u8> {
    let (address, length) = root.bar_info(f, bar).ok()??.memory_address_size()?;
    if u64::from(offset) + size as u64 > length {
        return None;
    }
    let at = crate::mm::map_device(to_phys(address + u64::from(offset)), size);
    (!at.is_null()).then_some(at)
}

/// The device's common configuration structure, in which each queue has the number of its message.
pub struct CommonConfig {
    registers: *mut u8,
}

// SAFETY: any CPU may access device registers. The device's owner orders the accesses.
unsafe impl Send for CommonConfig {}
// SAFETY: as for `Send`.
unsafe impl Sync for CommonConfig {}

impl CommonConfig {
    /// Offsets of `config_msix_vector`, `queue_select` and `queue_msix_vector` (virtio 1.2, 4.1.4.3).
    const CONFIG_VECTOR: usize = 16;
    const QUEUE_SELECT: usize = 22;
    const QUEUE_VECTOR: usize = 26;

    /// Makes `queue`, or with `None` changes of the configuration, send message 0.
    pub fn bind(&mut self, queue: Option<u16>) {
        let write = |offset: usize, value: u16| {
            // SAFETY: the structure is mapped, and its fields are aligned.
            unsafe { self.registers.add(offset).cast::<u16>().write_volatile(value) }
        };
        match queue {
            None => write(Self::CONFIG_VECTOR, 0),
            Some(queue) => {
                write(Self::QUEUE_SELECT, queue);
                write(Self::QUEUE_VECTOR, 0);
            }
        }
    }
}

/// Makes the device send one message for all interrupts. `None`: the machine or the device cannot do that.
fn route(root: &mut PciRoot<Bus0>, config: &mut Bus0, f: DeviceFunction) -> Option<Attention> {
    let (mut msix, mut common) = (None, None);
    let capabilities: alloc::vec::Vec<_> = root.capabilities(f).collect();
    for capability in capabilities {
        match capability.id {
            0x11 => msix = Some(capability.offset),
            // Vendor-specific, type 1: the common configuration.
            0x09 if capability.private_header >> 8 & 0xff == 1 => common = Some(capability.offset),
            _ => {}
        }
    }
    let (msix, common) = (msix?, common?);
    let table = config.read_word(f, msix + 4);
    let bar = config.read_word(f, common + 4) as u8;
    let offset = config.read_word(f, common + 8);
    let registers = map_bar(root, f, bar, offset, 56)?;
    if let Bus0::Firmware(calls) = config {
        let irq = (calls.message)(number(f))?;
        // The firmware has filled in the table and left it to the kernel to enable messages.
        turn_on(config, f, msix);
        return Some(Attention::Message(irq, CommonConfig { registers }));
    }
    let table = map_bar(root, f, (table & 7) as u8, table & !7, 16)?;
    let (address, data, irq) = interrupt::allocate_msi()?;
    for (i, word) in [address as u32, (address >> 32) as u32, data, 0]
        .into_iter()
        .enumerate()
    {
        // SAFETY: the first entry of the device's message table, mapped above.
        unsafe { table.cast::<u32>().add(i).write_volatile(word) };
    }
    turn_on(config, f, msix);
    Some(Attention::Message(irq, CommonConfig { registers }))
}

/// Enables the device's messages: its capability at `msix` is turned on and unmasked.
fn turn_on(config: &mut Bus0, f: DeviceFunction, msix: u8) {
    let control = config.read_word(f, msix);
    config.write_word(f, msix, (control | 1 << 31) & !(1 << 30));
}
