//! Virtio: finds devices behind memory-mapped windows and on PCI, and starts their drivers. Transports and
//! queues are those of the `virtio-drivers` crate; interrupts, PCI set-up and drivers are here.

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

/// How a device interrupts.
enum Attention {
    /// By a line, which other devices may share. It must be acknowledged at the device.
    Line(interrupt::Irq),
    /// By a message. Each queue must be told its number.
    Message(interrupt::Irq, pci::CommonConfig),
    /// It cannot: a kernel thread looks at it regularly.
    None,
}

/// A device: its transport and its interrupt.
pub struct Device {
    /// The transport.
    pub transport: SomeTransport<'static>,
    attention: Attention,
}

/// After how many nanoseconds a device without interrupts is looked at again.
const POLL_NS: u64 = 1_000_000;

impl Device {
    /// To be called first by the interrupt handler. `false`: another device has interrupted.
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

    /// Lets a queue interrupt; `None`: changes of the configuration. To be called after the queue was set up.
    pub fn bind(&mut self, queue: Option<u16>) {
        if let Attention::Message(_, common) = &mut self.attention {
            common.bind(queue);
        }
    }

    /// From now on calls `handler` at every interrupt. To be called once, without a lock that the handler
    /// takes.
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

    /// The argument for [`Device::connect`].
    pub fn connection(&self) -> Connection {
        Connection(match &self.attention {
            Attention::Line(irq) | Attention::Message(irq, _) => Some(*irq),
            Attention::None => None,
        })
    }
}

/// How a device's interrupts arrive.
#[derive(Clone, Copy)]
pub struct Connection(Option<interrupt::Irq>);

fn poll(handler: Arc<dyn Fn() + Send + Sync>) {
    crate::sched::spawn_kthread("virtio-poll", move || {
        loop {
            handler();
            // A kernel thread has no signals that could end the sleep early.
            let _ = crate::time::sleep_until(crate::time::now_ns() + POLL_NS);
        }
    });
}

/// How many devices were found; they are numbered as on Linux.
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

/// Finds and starts all devices. Once, at boot.
pub fn init() {
    for slot in platform::virtio_mmio() {
        let registers = crate::mm::map_device(slot.base, slot.size);
        // SAFETY: the device identifier is in the first registers of the window. It is 0 if there is no
        // device.
        if registers.is_null() || unsafe { registers.add(8).cast::<u32>().read_volatile() } == 0 {
            continue;
        }
        let Some(header) = NonNull::new(registers.cast::<VirtIOHeader>()) else {
            warning!("virtio-mmio: no room to map {:#x}", slot.base);
            continue;
        };
        // SAFETY: the platform says that virtio registers of this size are here, and the mapping is never
        // removed.
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
