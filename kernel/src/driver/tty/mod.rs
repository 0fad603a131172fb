//! Terminals: the line discipline of `limen-tty` with locks, sleeping, job control and a driver (serial port,
//! virtio console, pseudo-terminal). Drivers call [`Tty::receive`] and [`Tty::pull`]; programs use
//! [`file::TtyFile`].

pub mod console;
pub mod file;
mod ioctl;
mod job;
pub mod pty;
mod transfer;

use crate::fs::fasync::{Async, Band};
use crate::fs::poll::PollEvents;
use crate::sched::WaitQueue;
use crate::signal::{SIGINT, SIGQUIT, SIGTSTP, SIGWINCH};
use crate::sync::{IrqSpinGuard, IrqSpinLock, Mutex};
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use limen_linux_abi::Errno;
use limen_tty::{Discipline, Line, Signal, Termios};

/// How many bytes of output writers may queue.
const OUTPUT_SIZE: usize = 4096;
/// How many more bytes there is room for, for echo.
const ECHO_SIZE: usize = 1024;

/// What a terminal needs of its device. Called without the terminal's lock, in any context.
pub trait Driver: Send + Sync {
    /// There is output. The driver takes it with [`Tty::pull`] as long as the device has room, and again when
    /// it has room later.
    fn start(&self, tty: &Tty);
    /// There is room for input again, which the device may have held back.
    fn unthrottle(&self, tty: &Tty) {
        let _ = tty;
    }
    /// Whether all pulled output has left the device.
    fn drained(&self) -> bool {
        true
    }
    /// The settings changed.
    fn set_termios(&self, termios: &Termios) {
        let _ = termios;
    }
    /// Drops output that the device has not sent yet.
    fn flush(&self) {}
    /// The state of the modem lines (`TIOCMGET`). `None`: the device has none.
    fn modem(&self) -> Option<u32> {
        None
    }
    /// The terminal is opened.
    fn open(&self, tty: &Arc<Tty>) -> Result<(), Errno> {
        let _ = tty;
        Ok(())
    }
    /// The terminal was closed for the last time.
    fn close(&self, tty: &Tty) {
        let _ = tty;
    }
    /// For a pseudo-terminal: its pair.
    fn as_pty(&self) -> Option<&pty::Pair> {
        None
    }
}

/// The part of a terminal's state that the line discipline uses.
pub(crate) struct LineState {
    /// Output on its way to the device.
    pub out: VecDeque<u8>,
    /// `^S` was typed, or `TCOOFF` used.
    pub stopped: bool,
    /// Signals to be sent when the lock is released.
    signals: [Option<Signal>; 4],
    /// Events for the master in packet mode.
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
    /// The line (for a pseudo-terminal: the master) is gone: reads end and writes fail. Opening it again
    /// clears this.
    pub hung_up: bool,
}

/// To which session and group a terminal belongs.
#[derive(Clone, Copy, Default)]
pub(crate) struct Job {
    /// The session whose controlling terminal it is. 0: none.
    pub session: i32,
    /// The foreground process group. 0: none.
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
    /// Readers, writers and pollers sleep here.
    pub(crate) input: WaitQueue,
    pub(crate) output: WaitQueue,
    /// Owners of its files that want signals about input, and about room that a write did not find.
    pub(crate) owners: Async,
    pub(crate) wants_room: AtomicBool,
    /// How often it is open. Locked while the driver is told of an open or close, so that it is told in the
    /// right order.
    opens: Mutex<usize>,
    pub(crate) exclusive: AtomicBool,
}

/// All terminals with a name, for `/proc/tty` and others.
static ALL: IrqSpinLock<Vec<Weak<Tty>>> = IrqSpinLock::new(Vec::new());

/// All terminals with a name.
pub fn all() -> Vec<Arc<Tty>> {
    ALL.lock().iter().filter_map(Weak::upgrade).collect()
}

impl Tty {
    /// Makes a terminal with driver `driver`.
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
            owners: Async::new(),
            wants_room: AtomicBool::new(false),
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
    /// Its driver.
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

    /// The device received bytes. Returns how many were taken. The driver must offer the rest again at
    /// [`Driver::unthrottle`], or it is lost.
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

    /// The device received something that is not a good byte.
    pub fn receive_fault(&self, fault: limen_tty::Fault) {
        let mut state = self.state.lock();
        let State { disc, line, .. } = &mut *state;
        disc.receive_fault(fault, line);
        self.after_input(state);
    }

    /// Sends the signals and wake-ups that input has caused.
    fn after_input(&self, mut state: IrqSpinGuard<'_, State>) {
        let signals = core::mem::take(&mut state.line.signals);
        let ready = state.disc.ready(1) || state.hung_up;
        let output = !state.line.out.is_empty() || state.line.packet != 0;
        drop(state);
        for signal in signals.into_iter().flatten() {
            self.signal_foreground(match signal {
                Signal::Interrupt => SIGINT,
                Signal::Quit => SIGQUIT,
                Signal::Suspend => SIGTSTP,
            });
            // The output queue was flushed, so writers may go on.
            self.output.wake_all();
        }
        if ready {
            self.input.wake_one_key(PollEvents::READABLE.bits());
            self.owners.tell(Band::In);
        }
        if output {
            self.driver.start(self);
        }
    }

    /// Takes output, for the device. Also wakes writers that wait for room.
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
            self.output.wake_one_key(PollEvents::WRITABLE.bits());
            if self.wants_room.swap(false, Ordering::Relaxed) {
                self.owners.tell(Band::Out);
            }
        }
        n
    }

    /// Whether there is output to [`Tty::pull`].
    pub fn has_output(&self) -> bool {
        let state = self.state.lock();
        !state.line.stopped && !state.line.out.is_empty()
    }

    /// Changes the window size. If it is another one, the foreground group gets `SIGWINCH`.
    pub fn resize(&self, size: [u16; 4]) {
        let mut state = self.state.lock();
        if core::mem::replace(&mut state.size, size) != size {
            drop(state);
            self.signal_foreground(SIGWINCH);
        }
    }

    /// The line is gone: readers see the end of the file, writers an error, and the session is signalled.
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
