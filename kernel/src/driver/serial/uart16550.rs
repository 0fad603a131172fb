//! The 16550 register driver.

use crate::arch::devices::{Received, Uart};
use crate::arch::serial::SerialRegisters;
use limen_tty::Fault;

/// Register numbers. Which register a number means depends on the direction and the latch bit.
mod register {
    pub const DATA: usize = 0;
    pub const INTERRUPT_ENABLE: usize = 1;
    pub const FIFO_CONTROL: usize = 2;
    pub const INTERRUPT_ID: usize = 2;
    pub const LINE_CONTROL: usize = 3;
    pub const MODEM_CONTROL: usize = 4;
    pub const LINE_STATUS: usize = 5;
    pub const MODEM_STATUS: usize = 6;
}

/// Line status bits.
mod status {
    pub const DATA_READY: u8 = 1;
    pub const OVERRUN: u8 = 2;
    pub const PARITY: u8 = 4;
    pub const FRAMING: u8 = 8;
    pub const BREAK: u8 = 16;
    pub const HOLDING_EMPTY: u8 = 32;
    pub const ALL_EMPTY: u8 = 64;
}

/// The size of the transmit FIFO in bytes.
const FIFO: usize = 16;

/// A 16550.
pub struct Uart16550 {
    registers: SerialRegisters,
    enabled: u8,
    /// How many bytes certainly fit into the FIFO.
    room: usize,
}

impl Uart16550 {
    /// A port with these registers.
    pub fn new(registers: SerialRegisters) -> Self {
        Self {
            registers,
            enabled: 0,
            room: 0,
        }
    }
}

impl Uart for Uart16550 {
    fn init(&mut self) {
        let r = &self.registers;
        r.write(register::INTERRUPT_ENABLE, 0);
        // 8 bits, no parity, one stop bit; FIFOs on and empty, an interrupt for each byte; DTR, RTS and OUT2,
        // which lets interrupts through.
        r.write(register::LINE_CONTROL, 3);
        r.write(register::FIFO_CONTROL, 7);
        r.write(register::MODEM_CONTROL, 0x0b);
        self.enabled = 1 | 4;
        r.write(register::INTERRUPT_ENABLE, self.enabled);
    }
    fn receive(&mut self) -> Option<Received> {
        let line = self.registers.read(register::LINE_STATUS);
        if line & status::DATA_READY == 0 {
            return None;
        }
        let byte = self.registers.read(register::DATA);
        Some(if line & status::BREAK != 0 {
            Err(Fault::Break)
        } else if line & (status::PARITY | status::FRAMING) != 0 {
            Err(Fault::Parity(byte))
        } else {
            // An overrun lost earlier bytes; this one is good.
            let _ = line & status::OVERRUN;
            Ok(byte)
        })
    }
    fn can_transmit(&mut self) -> bool {
        if self.room == 0 && self.registers.read(register::LINE_STATUS) & status::HOLDING_EMPTY != 0 {
            self.room = FIFO;
        }
        self.room > 0
    }
    fn transmit(&mut self, byte: u8) {
        self.room = self.room.saturating_sub(1);
        self.registers.write(register::DATA, byte);
    }
    fn transmit_interrupt(&mut self, on: bool) {
        let enabled = if on { self.enabled | 2 } else { self.enabled & !2 };
        if enabled != self.enabled {
            self.enabled = enabled;
            self.registers.write(register::INTERRUPT_ENABLE, enabled);
        }
    }
    fn idle(&mut self) -> bool {
        self.registers.read(register::LINE_STATUS) & status::ALL_EMPTY != 0
    }
    fn acknowledge(&mut self) {
        // Reading it acknowledges the interrupt.
        self.registers.read(register::INTERRUPT_ID);
        self.registers.read(register::MODEM_STATUS);
    }
}
