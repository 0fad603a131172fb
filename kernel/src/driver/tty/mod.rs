//! Terminals: the line discipline of `limen-tty` with locks, waiting, job control and a driver underneath (serial port, virtio
//! console, pseudo-terminal). Drivers call [`Tty::receive`] and [`Tty::pull`]; user space comes through [`file::TtyFile`].

pub mod console;
pub mod file;
mod ioctl;
mod job;
pub mod pty;
mod transfer;

use crate::sched::WaitQueue;
use crate::sync::{IrqSpinGuard, IrqSpinLock, Mutex};
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::AtomicBool;
use limen_linux_abi::Errno;
use limen_tty::{Discipline, Line, Signal, Termios};

/// Bytes of output a writer may queue.
const OUTPUT_SIZE: usize = 4096;
/// Room beyond that, for echo.
const ECHO_SIZE: usize = 1024;

/// What a terminal needs from the device below it. Called without the terminal's lock, from any context.
pub trait Driver: Send + Sync {
    /// There is output: take it with [`Tty::pull`] while the device has room, and come back when it has room again.
    fn start(&self, tty: &Tty);
    /// There is room for input again that the device may have held back.
    fn unthrottle(&self, tty: &Tty) {
        let _ = tty;
    }
    /// Whether everything pulled has left the device.
    fn drained(&self) -> bool {
        true
    }
    /// The settings changed.
    fn set_termios(&self, termios: &Termios) {
        let _ = termios;
    }
    /// The device loses what it has not sent yet.
    fn flush(&self) {}
    /// Modem lines (`TIOCMGET`), if the device has any.
    fn modem(&self) -> Option<u32> {
        None
    }
    /// An open.
    fn open(&self, tty: &Arc<Tty>) -> Result<(), Errno> {
        let _ = tty;
        Ok(())
    }
    /// The last close.
    fn close(&self, tty: &Tty) {
        let _ = tty;
    }
    /// Pseudo-terminals: the master's side of things.
    fn as_pty(&self) -> Option<&pty::Pair> {
        None
    }
}

/// The driver-facing half of a terminal's state.
pub(crate) struct LineState {
    /// Output on its way to the device.
    pub out: VecDeque<u8>,
    /// `^S` was typed, or `TCOOFF` called.
    pub stopped: bool,
    /// Signals to send once the lock is released.
    signals: [Option<Signal>; 4],
    /// Packet mode's news for the master.
    pub packet: u8,
}

impl Line for LineState {
    fn output(&mut self, bytes: &[u8]) {
        let room = (OUTPUT_SIZE + ECHO_SIZE).saturating_sub(self.out.len());
        self.out.extend(&bytes[..bytes.len().min(room)]);
    }
    fn signal(&mut self, signal: Signal) {
        if let Some(free) = self.signals.iter_mut().find(|s| s.is_none()) {
            *free = Some(signal);
        }
    }
    fn flush_output(&mut self) {
        self.out.clear();
        self.packet |= pty::FLUSHWRITE;
    }
    fn set_stopped(&mut self, stopped: bool) {
        if self.stopped != stopped {
            self.stopped = stopped;
            self.packet &= !(pty::STOP | pty::START);
            self.packet |= if stopped { pty::STOP } else { pty::START };
        }
    }
    fn stopped(&self) -> bool {
        self.stopped
    }
    fn input_flushed(&mut self) {
        self.packet |= pty::FLUSHREAD;
    }
}

/// A terminal's state.
pub(crate) struct State {
    pub disc: Discipline,
    pub line: LineState,
    /// Rows, columns, pixels wide, pixels high.
    pub size: [u16; 4],
    /// The line is gone (or, for a pseudo-terminal, its other end): reads end, writes fail. An open makes it new.
    pub hung_up: bool,
}

/// Who a terminal belongs to.
#[derive(Clone, Copy, Default)]
pub(crate) struct Job {
    /// The session whose controlling terminal it is, or 0.
    pub session: i32,
    /// The foreground process group, or 0.
    pub foreground: i32,
}

/// A terminal.
pub struct Tty {
    name: String,
    dev: (u32, u32),
    me: Weak<Tty>,
    driver: Arc<dyn Driver>,
    pub(crate) state: IrqSpinLock<State>,
    pub(crate) job: IrqSpinLock<Job>,
    /// Readers, writers and pollers.
    pub(crate) input: WaitQueue,
    pub(crate) output: WaitQueue,
    /// How often it is open. Held while the driver is told, so that it hears of opens and closes in their order.
    opens: Mutex<usize>,
    pub(crate) exclusive: AtomicBool,
}

/// All terminals that have a name, for `/proc/tty` and the like.
static ALL: IrqSpinLock<Vec<Weak<Tty>>> = IrqSpinLock::new(Vec::new());

/// The terminals there are.
pub fn all() -> Vec<Arc<Tty>> {
    ALL.lock().iter().filter_map(Weak::upgrade).collect()
}

impl Tty {
    /// A terminal on `driver`.
    pub fn new(name: &str, dev: (u32, u32), termios: Termios, driver: Arc<dyn Driver>) -> Arc<Self> {
        let state = State {
            disc: Discipline::new(termios),
            line: LineState {
                out: VecDeque::with_capacity(OUTPUT_SIZE + ECHO_SIZE),
                stopped: false,
                signals: [None; 4],
                packet: 0,
            },
            size: [0; 4],
            hung_up: false,
        };
        let tty = Arc::new_cyclic(|me| Self {
            name: name.into(),
            dev,
            me: me.clone(),
            driver,
            state: IrqSpinLock::new(state),
            job: IrqSpinLock::new(Job::default()),
            input: WaitQueue::new(),
            output: WaitQueue::new(),
            opens: Mutex::new(0),
            exclusive: AtomicBool::new(false),
        });
        let mut all = ALL.lock();
        all.retain(|t| t.strong_count() > 0);
        all.push(Arc::downgrade(&tty));
        drop(all);
        tty
    }

    /// Its name in `/dev`.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Its device number.
    pub fn dev(&self) -> (u32, u32) {
        self.dev
    }
    /// The driver below.
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }
    fn arc(&self) -> Option<Arc<Tty>> {
        self.me.upgrade()
    }

    /// How many bytes [`Tty::receive`] would take now.
    pub fn room(&self) -> usize {
        self.state.lock().disc.room()
    }

    /// Bytes came from the device; returns how many were taken. The rest must be offered again at [`Driver::unthrottle`] (or is lost).
    pub fn receive(&self, bytes: &[u8]) -> usize {
        let mut done = 0;
        let mut state = self.state.lock();
        while done < bytes.len() {
            let room = state.disc.room();
            if room == 0 {
                break;
            }
            let n = room.min(bytes.len() - done);
            let State { disc, line, .. } = &mut *state;
            disc.receive(&bytes[done..done + n], line);
            done += n;
        }
        self.after_input(state);
        done
    }

    /// Something other than a good byte came from the device.
    pub fn receive_fault(&self, fault: limen_tty::Fault) {
        let mut state = self.state.lock();
        let State { disc, line, .. } = &mut *state;
        disc.receive_fault(fault, line);
        self.after_input(state);
    }

    /// Sends the signals and wake-ups that input made.
    fn after_input(&self, mut state: IrqSpinGuard<'_, State>) {
        let signals = core::mem::take(&mut state.line.signals);
        let ready = state.disc.ready(1) || state.hung_up;
        let output = !state.line.out.is_empty() || state.line.packet != 0;
        drop(state);
        for signal in signals.into_iter().flatten() {
            self.signal_foreground(match signal {
                Signal::Interrupt => 2,
                Signal::Quit => 3,
                Signal::Suspend => 20,
            });
            // Writers blocked on a full queue may go on: it was flushed.
            self.output.wake_all();
        }
        if ready {
            self.input.wake_all();
        }
        if output {
            self.driver.start(self);
        }
    }

    /// Takes output for the device. Also wakes writers that wait for room.
    pub fn pull(&self, to: &mut [u8]) -> usize {
        let mut state = self.state.lock();
        if state.line.stopped {
            return 0;
        }
        let out = &mut state.line.out;
        let n = to.len().min(out.len());
        let (a, b) = out.as_slices();
        let first = n.min(a.len());
        to[..first].copy_from_slice(&a[..first]);
        to[first..n].copy_from_slice(&b[..n - first]);
        out.drain(..n);
        let wake = n > 0 && out.len() < OUTPUT_SIZE / 2;
        drop(state);
        if wake {
            self.output.wake_all();
        }
        n
    }

    /// Whether there is output to [`Tty::pull`].
    pub fn has_output(&self) -> bool {
        let state = self.state.lock();
        !state.line.stopped && !state.line.out.is_empty()
    }

    /// Changes the window size and tells the foreground group, if it is another one.
    pub fn resize(&self, size: [u16; 4]) {
        let mut state = self.state.lock();
        if core::mem::replace(&mut state.size, size) != size {
            drop(state);
            self.signal_foreground(28);
        }
    }

    /// The line is gone: readers see end of file, writers errors, and the session is told.
    pub fn hang_up(&self) {
        let mut state = self.state.lock();
        state.hung_up = true;
        state.line.out.clear();
        drop(state);
        self.hang_up_session();
        self.input.wake_all();
        self.output.wake_all();
    }
}
