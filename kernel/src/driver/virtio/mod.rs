//! Virtio: finds devices behind memory-mapped windows and on PCI and hands them to their drivers. Transports and queues are the
//! `virtio-drivers` crate's; interrupts, PCI set-up and the drivers themselves are here.

pub mod blk;
pub mod console;
mod hal;
pub mod hvc;
pub mod pci;
mod port;
mod rng;

use crate::arch::{interrupt, platform};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
pub use hal::Memory;
use limen_linux_abi::Errno;
pub use port::{dev as port_dev, name as port_name};
use virtio_drivers::transport::mmio::{MmioTransport, VirtIOHeader};
use virtio_drivers::transport::{DeviceType, SomeTransport, Transport};

/// Where a virtio-over-MMIO device may sit.
#[derive(Clone, Copy, Debug)]
pub struct VirtioMmio {
    /// Physical address of its registers.
    pub base: u64,
    /// Size of the register window, bytes.
    pub size: usize,
    /// Its interrupt.
    pub irq: interrupt::Irq,
}

/// How a device tells that it wants attention.
enum Attention {
    /// A line, shared or not; must be acknowledged at the device.
    Line(interrupt::Irq),
    /// A message; every queue must be told its number.
    Message(interrupt::Irq, pci::CommonConfig),
    /// Not at all: a timer looks after it.
    None,
}

/// A device: its transport and its interrupt.
pub struct Device {
    /// The transport.
    pub transport: SomeTransport<'static>,
    attention: Attention,
}

/// How often a device without interrupts is looked at.
const POLL_NS: u64 = 1_000_000;

impl Device {
    /// Interrupts: to be called by the handler first. False if it was not this device's.
    pub fn acknowledge(&mut self) -> bool {
        match self.attention {
            Attention::Line(_) => !self.transport.ack_interrupt().is_empty(),
            Attention::Message(..) => true,
            Attention::None => {
                self.transport.ack_interrupt();
                true
            }
        }
    }

    /// After a queue was set up (and once with `None` for the configuration): lets it interrupt.
    pub fn bind(&mut self, queue: Option<u16>) {
        if let Attention::Message(_, common) = &mut self.attention {
            common.bind(queue);
        }
    }

    /// Calls `handler` at every interrupt from now on. To be called once, without holding a lock the handler takes.
    pub fn connect(
        attention: Connection,
        name: &'static str,
        handler: Box<dyn Fn() + Send + Sync>,
    ) -> Result<(), Errno> {
        match attention.0 {
            Some(irq) => interrupt::request(irq, name, handler),
            None => {
                poll(Arc::from(handler));
                Ok(())
            }
        }
    }

    /// What [`Device::connect`] needs to know.
    pub fn connection(&self) -> Connection {
        Connection(match &self.attention {
            Attention::Line(irq) | Attention::Message(irq, _) => Some(*irq),
            Attention::None => None,
        })
    }
}

/// Where a device's interrupts arrive.
#[derive(Clone, Copy)]
pub struct Connection(Option<interrupt::Irq>);

fn poll(handler: Arc<dyn Fn() + Send + Sync>) {
    crate::sched::spawn_kthread("virtio-poll", move || {
        loop {
            handler();
            // A kernel thread has no signals that could end this early.
            let _ = crate::time::sleep_until(crate::time::now_ns() + POLL_NS);
        }
    });
}

/// Devices found, numbered as Linux numbers them.
static FOUND: AtomicU32 = AtomicU32::new(0);

fn start(device: Device) {
    let index = FOUND.fetch_add(1, Ordering::Relaxed);
    let kind = device.transport.device_type();
    let result = match kind {
        DeviceType::Console => console::start(device, index),
        DeviceType::EntropySource => rng::start(device),
        DeviceType::Block => blk::start(device),
        _ => return,
    };
    if let Err(e) = result {
        warning!("virtio{index}: {kind:?}: {e:?}");
    }
}

/// Finds and starts all devices.
pub fn init() {
    for slot in platform::virtio_mmio() {
        let registers = crate::mm::map_device(slot.base, slot.size);
        // SAFETY: the device identifier is in the first registers of the window; 0 means that nothing is behind it.
        if registers.is_null() || unsafe { registers.add(8).cast::<u32>().read_volatile() } == 0 {
            continue;
        }
        let Some(header) = NonNull::new(registers.cast::<VirtIOHeader>()) else {
            warning!("virtio-mmio: no room to map {:#x}", slot.base);
            continue;
        };
        // SAFETY: the platform says that there are virtio registers of that size, and they stay mapped.
        match unsafe { MmioTransport::new(header, slot.size) } {
            Ok(transport) => {
                start(Device {
                    transport: transport.into(),
                    attention: Attention::Line(slot.irq),
                });
            }
            Err(e) => warning!("virtio-mmio: {:#x}: {e}", slot.base),
        }
    }
    pci::init();
}
