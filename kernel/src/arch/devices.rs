//! What the architecture tells of the machine's devices, whose drivers are portable.

use super::{interrupt, serial};
use alloc::boxed::Box;
use limen_tty::Fault;

/// What kind of port the architecture has found.
pub enum SerialKind {
    /// A 16550, byte-wide registers.
    #[allow(dead_code, reason = "machines differ")]
    Uart16550(serial::SerialRegisters),
    /// An Arm PL011, 32-bit registers.
    #[allow(dead_code, reason = "machines differ")]
    Pl011(serial::SerialRegisters),
    /// The hypervisor's terminal, whose driver is the architecture's.
    #[allow(dead_code, reason = "machines differ")]
    Hypervisor(Box<dyn Uart>),
}

/// A byte, or the error with which it was received.
pub type Received = Result<u8, Fault>;

/// A port's registers. All methods are called with the port locked.
pub trait Uart: Send {
    /// Sets the port up: 8 bits, interrupts on receiving.
    fn init(&mut self);
    /// The next received byte. `None`: there is none.
    fn receive(&mut self) -> Option<Received>;
    /// Whether [`Uart::transmit`] may be called.
    fn can_transmit(&mut self) -> bool;
    /// Sends a byte.
    fn transmit(&mut self, byte: u8);
    /// Turns the interrupt for "room to send" on or off.
    fn transmit_interrupt(&mut self, on: bool);
    /// Whether all bytes have been sent.
    fn idle(&mut self) -> bool;
    /// Acknowledges interrupts.
    fn acknowledge(&mut self);
    /// No byte follows now: sends bytes that were collected.
    fn flush(&mut self) {}
    /// Whether bytes that are not taken stay in the port, without another interrupt. A line cannot wait: its
    /// bytes are lost.
    fn waits(&self) -> bool {
        false
    }
}

/// Where a virtio-over-MMIO device may be.
#[derive(Clone, Copy, Debug)]
pub struct VirtioMmio {
    /// Physical address of its registers.
    pub base: u64,
    /// The size of the register window in bytes.
    pub size: usize,
    /// Its interrupt.
    pub irq: interrupt::Irq,
}

/// How PCI configuration space is accessed. The architecture knows.
#[derive(Clone, Copy, Debug)]
pub enum PciConfig {
    /// Memory-mapped (ECAM).
    #[allow(dead_code, reason = "machines differ")]
    Ecam {
        /// Physical base.
        base: u64,
        /// The 32-bit memory window for BARs without an address: physical start and size.
        window32: (u64, u64),
        /// The 64-bit memory window: physical start and size. Size 0: there is none.
        window64: (u64, u64),
    },
    /// By calls of the firmware, which also hands out messages.
    #[allow(dead_code, reason = "machines differ")]
    Firmware {
        /// The firmware's functions.
        calls: PciCalls,
        /// The 32-bit memory window: bus address and size.
        window32: (u64, u64),
        /// The 64-bit memory window: bus address (also the physical one) and size.
        window64: (u64, u64),
        /// What to add to a 32-bit bus address to get the physical address.
        offset32: u64,
    },
}

/// The firmware's functions for bus 0. A function of a device is given as `device << 3 | function`.
#[derive(Clone, Copy, Debug)]
pub struct PciCalls {
    /// Reads the aligned word at an offset of the configuration space.
    pub read: fn(u8, u8) -> u32,
    /// Writes that word.
    pub write: fn(u8, u8, u32),
    /// Makes the device send messages and returns the first one. The firmware fills in the message table.
    pub message: fn(u8) -> Option<interrupt::Irq>,
}
