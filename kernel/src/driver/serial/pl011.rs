//! The PL011 register driver (Arm DDI 0183).

use crate::arch::devices::{Received, Uart};
use crate::arch::serial::SerialRegisters;
use limen_tty::Fault;

/// Register offsets.
mod register {
    pub const DATA: usize = 0x00;
    pub const FLAGS: usize = 0x18;
    pub const LINE_CONTROL: usize = 0x2c;
    pub const CONTROL: usize = 0x30;
    pub const FIFO_LEVELS: usize = 0x34;
    pub const INTERRUPT_MASK: usize = 0x38;
    pub const INTERRUPT_CLEAR: usize = 0x44;
}

const FLAG_BUSY: u32 = 1 << 3;
const FLAG_RX_EMPTY: u32 = 1 << 4;
const FLAG_TX_FULL: u32 = 1 << 5;
const INT_RX: u32 = 1 << 4;
const INT_TX: u32 = 1 << 5;
const INT_RX_TIMEOUT: u32 = 1 << 6;

/// A PL011.
pub struct Pl011 {
    registers: SerialRegisters,
    enabled: u32,
}

impl Pl011 {
    /// A port with these registers.
    pub fn new(registers: SerialRegisters) -> Self {
        Self {
            registers,
            enabled: 0,
        }
    }
}

impl Uart for Pl011 {
    fn init(&mut self) {
        let r = &self.registers;
        r.write32(register::INTERRUPT_MASK, 0);
        r.write32(register::INTERRUPT_CLEAR, 0x7ff);
        // 8 bits, FIFOs on, both directions enabled; an interrupt at an eighth of a FIFO
        r.write32(register::LINE_CONTROL, 3 << 5 | 1 << 4);
        r.write32(register::FIFO_LEVELS, 0);
        r.write32(register::CONTROL, 1 | 1 << 8 | 1 << 9);
        self.enabled = INT_RX | INT_RX_TIMEOUT;
        r.write32(register::INTERRUPT_MASK, self.enabled);
    }
    fn receive(&mut self) -> Option<Received> {
        if self.registers.read32(register::FLAGS) & FLAG_RX_EMPTY != 0 {
            return None;
        }
        let data = self.registers.read32(register::DATA);
        Some(match data >> 8 & 0xf {
            e if e & 4 != 0 => Err(Fault::Break),
            e if e & 3 != 0 => Err(Fault::Parity(data as u8)),
            _ => Ok(data as u8),
        })
    }
    fn can_transmit(&mut self) -> bool {
        self.registers.read32(register::FLAGS) & FLAG_TX_FULL == 0
    }
    fn transmit(&mut self, byte: u8) {
        self.registers.write32(register::DATA, u32::from(byte));
    }
    fn transmit_interrupt(&mut self, on: bool) {
        let enabled = if on {
            self.enabled | INT_TX
        } else {
            self.enabled & !INT_TX
        };
        if enabled != self.enabled {
            self.enabled = enabled;
            self.registers.write32(register::INTERRUPT_MASK, enabled);
        }
    }
    fn idle(&mut self) -> bool {
        self.registers.read32(register::FLAGS) & FLAG_BUSY == 0
    }
    fn acknowledge(&mut self) {
        self.registers.write32(register::INTERRUPT_CLEAR, 0x7ff);
    }
}
