//! Where the machine's serial ports are: the hypervisor's terminals.

pub use super::devicetree_registers::{Serial, SerialRegisters};
use super::interrupt::Irq;
use super::{console, devicetree, hcall};
use crate::arch::devices::{Received, SerialKind, Uart};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A hypervisor's terminal: calls take and give up to 16 bytes.
struct Terminal {
    number: usize,
    received: [u8; 16],
    /// What of `received` is still to be taken.
    left: core::ops::Range<usize>,
    gathered: [u8; 16],
    count: usize,
}

/// How often a full terminal is asked before bytes are given up.
const PATIENCE: usize = 1_000_000;

impl Uart for Terminal {
    fn init(&mut self) {
        hcall::call(hcall::VIO_SIGNAL, self.number, 1, 0, 0);
    }
    fn receive(&mut self) -> Option<Received> {
        if self.left.is_empty() {
            let (_, [count, first, second]) = hcall::call(hcall::GET_TERM_CHAR, self.number, 0, 0, 0);
            self.received = ((first as u128) << 64 | second as u128).to_be_bytes();
            self.left = 0..count.min(16);
        }
        Some(Ok(self.received[self.left.next()?]))
    }
    fn can_transmit(&mut self) -> bool {
        true
    }
    fn transmit(&mut self, byte: u8) {
        self.gathered[self.count] = byte;
        self.count += 1;
        if self.count == self.gathered.len() {
            self.flush();
        }
    }
    fn transmit_interrupt(&mut self, _: bool) {}
    fn idle(&mut self) -> bool {
        true
    }
    fn acknowledge(&mut self) {}
    fn flush(&mut self) {
        if self.count > 0 {
            console::put(self.number, &self.gathered[..self.count], PATIENCE);
        }
        self.count = 0;
    }
    fn waits(&self) -> bool {
        true
    }
}

/// The machine's serial ports, the console first.
pub fn ports() -> Vec<Serial> {
    let terminal = |node: devicetree::Node| {
        let number = devicetree::property(&node, "reg")? as usize;
        let irq = devicetree::cell(node.property("interrupts")?.value, 0)?;
        Some(Serial {
            kind: SerialKind::Hypervisor(Box::new(Terminal {
                number,
                received: [0; 16],
                left: 0..0,
                gathered: [0; 16],
                count: 0,
            })),
            irq: Irq(irq),
        })
    };
    console::terminals().filter_map(terminal).collect()
}
