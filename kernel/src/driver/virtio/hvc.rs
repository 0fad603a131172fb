//! A console port as a terminal: `/dev/hvc0`, and the kernel's log if the command line says `console=hvc0`.

use super::console::{Port, TX_SIZE};
use crate::driver::tty::{self, Driver, Tty};
use crate::log;
use crate::sync::{IrqSpinLock, Once};
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicU32, Ordering};
use limen_tty::Termios;

/// Major number of `hvc` terminals.
pub const MAJOR: u32 = 229;
/// How many bytes of a line of the log are collected before they are sent.
const LINE: usize = 1200;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// The next terminal's number. Terminals of the machine have the first ones.
pub fn number() -> u32 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The terminal of a port.
pub struct Hvc {
    port: Weak<Port>,
    tty: Once<Weak<Tty>>,
    keep: IrqSpinLock<Option<Arc<Tty>>>,
}

/// The driver that the terminal calls. The terminal must not have the only reference to the port.
struct Line(Arc<Hvc>);

impl Driver for Line {
    fn start(&self, _: &Tty) {
        self.0.send();
    }
    fn unthrottle(&self, _: &Tty) {
        self.0.feed();
    }
    fn drained(&self) -> bool {
        let Some(port) = self.0.port.upgrade() else {
            return true;
        };
        let mut inner = port.console.lock();
        inner.port(port.id).is_none_or(|q| q.all_sent())
    }
}

/// Makes the terminal of a console port.
pub fn make(port: &Arc<Port>) {
    let number = number();
    let hvc = Arc::new(Hvc {
        port: Arc::downgrade(port),
        tty: Once::new(),
        keep: IrqSpinLock::new(None),
    });
    let tty = Tty::new(
        &format!("hvc{number}"),
        (MAJOR, number),
        Termios::standard(),
        Arc::new(Line(hvc.clone())),
    );
    let _ = hvc.tty.set(Arc::downgrade(&tty));
    *hvc.keep.lock() = Some(tty.clone());
    let _ = port.terminal.set(hvc.clone());
    tty::file::register(&tty, 0o600);
    let log: &'static Log = Box::leak(Box::new(Log {
        hvc: hvc.clone(),
        line: IrqSpinLock::new(([0; LINE], 0)),
    }));
    tty::console::offer(&tty, log, false);
    // Data that arrived before the terminal existed.
    hvc.feed();
}

impl Hvc {
    /// The terminal.
    pub fn tty(&self) -> Arc<Tty> {
        self.tty
            .get()
            .and_then(Weak::upgrade)
            .expect("a console port keeps its terminal")
    }

    /// Gives received bytes to the terminal, in order, as long as it takes them.
    pub fn feed(&self) {
        let (Some(port), Some(tty)) = (self.port.upgrade(), self.tty.get().and_then(Weak::upgrade)) else {
            return;
        };
        let mut inner = port.console.lock();
        let Some(queues) = inner.port(port.id) else { return };
        if core::mem::replace(&mut queues.feeding, true) {
            queues.feed_again = true;
            return;
        }
        let mut bytes = [0; 256];
        loop {
            let Some(piece) = inner.take_piece(port.id) else {
                let Some(queues) = inner.port(port.id) else { return };
                queues.feeding = false;
                queues.feed_again = false;
                return;
            };
            let from = inner.piece_bytes(port.id, piece);
            let n = from.len().min(bytes.len());
            bytes[..n].copy_from_slice(&from[..n]);
            if let Some(queues) = inner.port(port.id) {
                queues.feed_again = false;
            }
            drop(inner);
            let used = tty.receive(&bytes[..n]);
            inner = port.console.lock();
            inner.finish_piece(port.id, piece, used);
            if used == 0 && n > 0 {
                // The terminal is full. It calls this again when there is room, unless it has done so
                // meanwhile.
                let Some(queues) = inner.port(port.id) else { return };
                if !queues.feed_again {
                    queues.feeding = false;
                    return;
                }
            }
        }
    }

    /// Sends output of the terminal as long as there is room.
    pub fn send(&self) {
        let (Some(port), Some(tty)) = (self.port.upgrade(), self.tty.get().and_then(Weak::upgrade)) else {
            return;
        };
        let mut inner = port.console.lock();
        while inner.send(port.id, |to| tty.pull(to)).is_some() {}
    }
}

/// The kernel's log on this port. Lines go to the device at once, waiting for room if necessary.
struct Log {
    hvc: Arc<Hvc>,
    line: IrqSpinLock<([u8; LINE], usize)>,
}

impl log::Console for Log {
    fn write(&self, bytes: &[u8]) {
        let Some(mut line) = self.line.lock_patiently() else {
            return;
        };
        let (text, len) = &mut *line;
        for byte in bytes {
            if *byte == b'\n' && *len < LINE {
                text[*len] = b'\r';
                *len += 1;
            }
            if *len < LINE {
                text[*len] = *byte;
                *len += 1;
            }
            if *byte == b'\n' || *len == LINE {
                self.send(&text[..*len]);
                *len = 0;
            }
        }
    }
}

impl Log {
    fn send(&self, text: &[u8]) {
        const { assert!(LINE <= TX_SIZE) };
        let Some(port) = self.hvc.port.upgrade() else {
            return;
        };
        // The host may have stopped reading: give up after a while.
        for _ in 0..1_000_000 {
            let Some(mut inner) = port.console.inner.lock_patiently() else {
                return;
            };
            inner.reap(port.id);
            let put = |to: &mut [u8]| {
                to[..text.len()].copy_from_slice(text);
                text.len()
            };
            if inner.send(port.id, put).is_some() {
                return;
            }
            drop(inner);
            crate::arch::irq::spin_hint();
        }
    }
}
