//! Serial ports as terminals: `ttyS0` (16550), `ttyAMA0` (PL011) and `hvc0` (a hypervisor's terminal). The
//! drivers of the registers do not know where these are; the architecture does ([`crate::arch::serial`]).

mod pl011;
mod uart16550;

use crate::arch::devices::{SerialKind, Uart};
use crate::arch::{interrupt, serial};
use crate::driver::tty::{self, Driver, Tty};
use crate::driver::virtio::hvc;
use crate::log;
use crate::sync::IrqSpinLock;
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use limen_tty::{B9600, ControlFlags, Termios};

struct Port {
    uart: IrqSpinLock<Box<dyn Uart>>,
    /// Held while bytes are moved from the port to the terminal, so that they stay in order whichever CPU
    /// moves them.
    carrying: IrqSpinLock<()>,
    tty: crate::sync::Once<Weak<Tty>>,
}

/// How often to look whether a byte can be sent, before it is given up. QEMU's ports are always ready unless
/// the host does not read.
const PATIENCE: usize = 10_000_000;
/// How many bytes an interrupt handler collects before the terminal gets them.
const BATCH: usize = 64;

impl Port {
    fn tty(&self) -> Option<Arc<Tty>> {
        self.tty.get()?.upgrade()
    }

    fn interrupt(&self) {
        let Some(tty) = self.tty() else { return };
        self.receive(&tty);
        self.send(&tty);
    }

    /// Gives received bytes to the terminal.
    fn receive(&self, tty: &Tty) {
        loop {
            let mut bytes = [0; BATCH];
            let mut n = 0;
            let mut fault = None;
            let _carrying = self.carrying.lock();
            let mut uart = self.uart.lock();
            uart.acknowledge();
            // If the terminal is full, it asks again when there is room.
            let limit = if uart.waits() {
                tty.room().min(BATCH)
            } else {
                BATCH
            };
            while n < limit && fault.is_none() {
                match uart.receive() {
                    Some(Ok(byte)) => {
                        bytes[n] = byte;
                        n += 1;
                    }
                    Some(Err(e)) => fault = Some(e),
                    None => break,
                }
            }
            drop(uart);
            if n == 0 && fault.is_none() {
                break;
            }
            tty.receive(&bytes[..n]);
            if let Some(fault) = fault {
                tty.receive_fault(fault);
            }
        }
    }

    /// Sends what the device takes now. Its interrupt handler continues.
    fn send(&self, tty: &Tty) {
        let mut uart = self.uart.lock();
        loop {
            let mut bytes = [0; 16];
            let mut n = 0;
            while n < bytes.len() && uart.can_transmit() {
                if tty.pull(&mut bytes[n..=n]) == 0 {
                    uart.flush();
                    uart.transmit_interrupt(false);
                    return;
                }
                uart.transmit(bytes[n]);
                n += 1;
            }
            if n < bytes.len() {
                break;
            }
        }
        uart.transmit_interrupt(true);
    }
}

/// The port as the terminal's driver.
struct Line(Arc<Port>);

impl Driver for Line {
    fn start(&self, tty: &Tty) {
        self.0.send(tty);
    }
    fn unthrottle(&self, tty: &Tty) {
        if self.0.uart.lock().waits() {
            self.0.receive(tty);
        }
    }
    fn drained(&self) -> bool {
        self.0.uart.lock().idle()
    }
    fn modem(&self) -> Option<u32> {
        // DTR, RTS, CTS, CD, DSR: the line always looks connected.
        Some(0x2 | 0x4 | 0x20 | 0x40 | 0x100)
    }
}

impl log::Console for Port {
    fn write(&self, bytes: &[u8]) {
        let Some(mut uart) = self.uart.lock_patiently() else {
            return;
        };
        for byte in bytes {
            if *byte == b'\n' {
                put(&mut **uart, b'\r');
            }
            put(&mut **uart, *byte);
        }
        uart.flush();
    }
}

fn put(uart: &mut dyn Uart, byte: u8) {
    for _ in 0..PATIENCE {
        if uart.can_transmit() {
            uart.transmit(byte);
            return;
        }
        crate::arch::irq::spin_hint();
    }
}

/// Starts the machine's serial ports. Once, at boot.
pub fn init() {
    for (number, found) in serial::ports().into_iter().enumerate() {
        let number = number as u32;
        let (name, dev, uart): (_, _, Box<dyn Uart>) = match found.kind {
            SerialKind::Uart16550(registers) => (
                "ttyS",
                (4, 64 + number),
                Box::new(uart16550::Uart16550::new(registers)),
            ),
            SerialKind::Pl011(registers) => (
                "ttyAMA",
                (204, 64 + number),
                Box::new(pl011::Pl011::new(registers)),
            ),
            SerialKind::Hypervisor(uart) => ("hvc", (hvc::MAJOR, hvc::number()), uart),
        };
        let port = Arc::new(Port {
            uart: IrqSpinLock::new(uart),
            carrying: IrqSpinLock::new(()),
            tty: crate::sync::Once::new(),
        });
        let mut termios = Termios::standard();
        termios.control = ControlFlags::from_bits_retain(B9600)
            | ControlFlags::CS8
            | ControlFlags::CREAD
            | ControlFlags::HUPCL
            | ControlFlags::CLOCAL;
        termios.speed = (9600, 9600);
        let tty = Tty::new(
            &alloc::format!("{name}{number}"),
            dev,
            termios,
            Arc::new(Line(port.clone())),
        );
        let _ = port.tty.set(Arc::downgrade(&tty));
        port.uart.lock().init();
        let handler = port.clone();
        if let Err(e) = interrupt::request(found.irq, "serial", Box::new(move || handler.interrupt())) {
            warning!("{}: no interrupt: {e:?}", tty.name());
        }
        tty::file::register(&tty, 0o600);
        let log: &'static Arc<Port> = Box::leak(Box::new(port));
        tty::console::offer(&tty, &**log, true);
        // Terminals of the machine are never freed.
        core::mem::forget(tty);
    }
}
