//! `ioctl` of terminals: settings, window size, job control, flow control. Numbers that differ between
//! architectures come from `limen_linux_abi`; the others are named here.

use super::{State, Tty, pty};
use crate::mm::user::UserPtr;
use crate::task::{creds::cap, current, pid};
use limen_linux_abi::native::ioc;
use limen_linux_abi::native::ioctl::*;
use limen_linux_abi::native::termios::{CHARS_AT, LINE_AT, OLD_CHARS, OLD_SIZE};
use limen_linux_abi::native::termios2::*;
use limen_linux_abi::{Errno, SysResult};
use limen_tty::{Termios, cc};

const TIOCEXCL: u32 = 0x540c;
const TIOCNXCL: u32 = 0x540d;
pub(super) const TIOCSCTTY: u32 = 0x540e;
const TIOCSTI: u32 = 0x5412;
const TIOCMGET: u32 = 0x5415;
const TIOCMBIS: u32 = 0x5416;
const TIOCMSET: u32 = 0x5418;
const TIOCGSOFTCAR: u32 = 0x5419;
const TIOCSSOFTCAR: u32 = 0x541a;
const TIOCCONS: u32 = 0x541d;
pub(super) const TIOCNOTTY: u32 = 0x5422;
const TIOCSETD: u32 = 0x5423;
const TIOCGETD: u32 = 0x5424;
const TCSBRKP: u32 = 0x5425;
const TIOCSBRK: u32 = 0x5427;
const TIOCCBRK: u32 = 0x5428;
const TIOCGSID: u32 = 0x5429;
const TIOCVHANGUP: u32 = 0x5437;
const TIOCGDEV: u32 = ioc::read(b'T', 0x32, 4);
const TIOCGEXCL: u32 = ioc::read(b'T', 0x40, 4);

/// When new settings take effect.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum When {
    /// At once.
    Now,
    /// When all output has been sent.
    Drained,
    /// When all output has been sent; unread input is dropped.
    Flush,
}

impl When {
    /// For a group of commands: which of the three `cmd` means. `drained` and `flush` are the commands of the
    /// latter two.
    fn of(cmd: u32, drained: u32, flush: u32) -> Self {
        match cmd {
            _ if cmd == drained => Self::Drained,
            _ if cmd == flush => Self::Flush,
            _ => Self::Now,
        }
    }
}

/// A session's or group's number in the caller's PID namespace.
fn seen_here(number: i32) -> i32 {
    pid::seen_from(current().pid_ns(), number)
}

impl Tty {
    /// `master`: called through the master of a pseudo-terminal.
    #[allow(
        unreachable_patterns,
        reason = "where there is only one kind of settings its numbers have both names"
    )]
    pub(super) fn ioctl(&self, master: bool, cmd: u32, arg: usize) -> SysResult {
        match cmd {
            TCGETS => UserPtr::new(arg).write(self.termios().to_bytes()).map(|()| 0),
            TCGETS2 => UserPtr::new(arg).write(self.termios().to_bytes2()).map(|()| 0),
            TCGETA => UserPtr::new(arg).write(to_termio(&self.termios())).map(|()| 0),
            TCSETS | TCSETSW | TCSETSF => {
                let new = Termios::from_bytes(&UserPtr::new(arg).read()?);
                self.set_termios(new, When::of(cmd, TCSETSW, TCSETSF))
            }
            TCSETS2 | TCSETSW2 | TCSETSF2 => {
                let new = Termios::from_bytes2(&UserPtr::new(arg).read()?);
                self.set_termios(new, When::of(cmd, TCSETSW2, TCSETSF2))
            }
            TCSETA | TCSETAW | TCSETAF => {
                let new = from_termio(&UserPtr::new(arg).read()?, self.termios());
                self.set_termios(new, When::of(cmd, TCSETAW, TCSETAF))
            }
            // No device here can send a break, so the call only waits for output.
            TCSBRK | TCSBRKP => {
                self.check_background_change()?;
                self.drain().map(|()| 0)
            }
            TIOCSBRK | TIOCCBRK => Ok(0),
            TCXONC => self.flow(arg),
            TCFLSH => self.flush(arg),
            TIOCEXCL | TIOCNXCL => {
                self.exclusive
                    .store(cmd == TIOCEXCL, core::sync::atomic::Ordering::Relaxed);
                Ok(0)
            }
            TIOCGEXCL => {
                let on = self.exclusive.load(core::sync::atomic::Ordering::Relaxed);
                UserPtr::new(arg).write(i32::from(on)).map(|()| 0)
            }
            TIOCSCTTY => {
                let steal = arg == 1 && current().creds().capable(cap::SYS_ADMIN);
                self.make_controlling(steal).map(|()| 0)
            }
            TIOCNOTTY => self.give_up().map(|()| 0),
            TIOCGPGRP => {
                self.owned(master)?;
                // Written without the lock, as that may sleep.
                let foreground = self.job.lock().foreground;
                UserPtr::new(arg).write(seen_here(foreground)).map(|()| 0)
            }
            TIOCSPGRP => {
                let group: i32 = UserPtr::new(arg).read()?;
                self.set_foreground(group).map(|()| 0)
            }
            TIOCGSID => {
                self.owned(master)?;
                let session = self.job.lock().session;
                match session {
                    0 => Err(Errno::ENOTTY),
                    session => UserPtr::new(arg).write(seen_here(session)).map(|()| 0),
                }
            }
            TIOCOUTQ => UserPtr::new(arg).write(self.unsent() as i32).map(|()| 0),
            FIONREAD => {
                let n = self.state.lock().disc.readable();
                UserPtr::new(arg).write(n as i32).map(|()| 0)
            }
            TIOCSTI => {
                if !self.is_mine() && !current().creds().capable(cap::SYS_ADMIN) {
                    return Err(Errno::EPERM);
                }
                let byte: u8 = UserPtr::new(arg).read()?;
                self.receive(&[byte]);
                Ok(0)
            }
            TIOCGWINSZ => {
                let size = self.state.lock().size;
                UserPtr::new(arg).write(size).map(|()| 0)
            }
            TIOCSWINSZ => {
                self.resize(UserPtr::new(arg).read()?);
                Ok(0)
            }
            TIOCMGET => {
                let lines = self.driver.modem().ok_or(Errno::EINVAL)?;
                UserPtr::new(arg).write(lines).map(|()| 0)
            }
            // Devices with modem lines accept changes without effect.
            TIOCMBIS..=TIOCMSET => self.driver.modem().map(|_| 0).ok_or(Errno::EINVAL),
            TIOCGSOFTCAR => {
                let local = self.termios().control.contains(limen_tty::ControlFlags::CLOCAL);
                UserPtr::new(arg).write(i32::from(local)).map(|()| 0)
            }
            TIOCSSOFTCAR => {
                let on: i32 = UserPtr::new(arg).read()?;
                self.state
                    .lock()
                    .change(|t| t.control.set(limen_tty::ControlFlags::CLOCAL, on != 0));
                Ok(0)
            }
            TIOCCONS => {
                if !current().creds().capable(cap::SYS_ADMIN) {
                    return Err(Errno::EPERM);
                }
                super::console::redirect(self.arc().ok_or(Errno::EIO)?)?;
                Ok(0)
            }
            // There is only N_TTY.
            TIOCSETD => match UserPtr::<i32>::new(arg).read()? {
                0 => Ok(0),
                _ => Err(Errno::EINVAL),
            },
            TIOCGETD => UserPtr::new(arg).write(0i32).map(|()| 0),
            TIOCGDEV => {
                let (major, minor) = self.dev();
                UserPtr::new(arg)
                    .write(crate::fs::inode::Dev::new(major, minor).encode())
                    .map(|()| 0)
            }
            TIOCVHANGUP => {
                if !current().creds().capable(cap::SYS_ADMIN) {
                    return Err(Errno::EPERM);
                }
                self.hang_up();
                Ok(0)
            }
            _ => Err(Errno::ENOTTY),
        }
    }

    /// The settings.
    pub(super) fn termios(&self) -> Termios {
        *self.state.lock().disc.termios()
    }

    /// For commands that only the terminal's own session may use.
    fn owned(&self, master: bool) -> Result<(), Errno> {
        if master || self.is_mine() {
            Ok(())
        } else {
            Err(Errno::ENOTTY)
        }
    }

    pub(super) fn set_termios(&self, new: Termios, when: When) -> SysResult {
        self.check_background_change()?;
        if when != When::Now {
            self.drain()?;
        }
        let mut state = self.state.lock();
        if when == When::Flush {
            state.disc.flush_input();
        }
        let old = *state.disc.termios();
        state.change(|t| *t = new);
        if old.local.contains(limen_tty::LocalFlags::EXTPROC)
            || new.local.contains(limen_tty::LocalFlags::EXTPROC)
        {
            state.line.packet |= pty::IOCTL;
        }
        let had = old.input.contains(limen_tty::InputFlags::IXON);
        let has = new.input.contains(limen_tty::InputFlags::IXON)
            && (new.chars[cc::VSTART], new.chars[cc::VSTOP]) == (0o21, 0o23);
        if had != has {
            state.line.packet &= !(pty::DOSTOP | pty::NOSTOP);
            state.line.packet |= if has { pty::DOSTOP } else { pty::NOSTOP };
        }
        if had && !new.input.contains(limen_tty::InputFlags::IXON) {
            // No character could start the output again.
            state.line.stopped = false;
        }
        drop(state);
        self.driver.set_termios(&new);
        self.driver.start(self);
        // Readers may have another condition to wait for now.
        self.input.wake_all();
        // There may be room for another line, or for any input.
        self.driver.unthrottle(self);
        Ok(0)
    }

    /// `TCXONC`.
    fn flow(&self, how: usize) -> SysResult {
        self.check_background_change()?;
        match how {
            // TCOOFF, TCOON
            0 | 1 => {
                use limen_tty::Line;
                self.state.lock().line.set_stopped(how == 0);
            }
            // TCIOFF, TCION: send the stop or start character.
            2 | 3 => {
                let mut state = self.state.lock();
                let byte = state.disc.termios().chars[if how == 2 { cc::VSTOP } else { cc::VSTART }];
                if byte != 0 {
                    use limen_tty::Line;
                    state.line.output(&[byte]);
                }
            }
            _ => return Err(Errno::EINVAL),
        }
        self.driver.start(self);
        Ok(0)
    }

    /// `TCFLSH`.
    fn flush(&self, which: usize) -> SysResult {
        self.check_background_change()?;
        if which > 2 {
            return Err(Errno::EINVAL);
        }
        let mut state = self.state.lock();
        if which == 0 || which == 2 {
            state.disc.flush_input();
            state.line.packet |= pty::FLUSHREAD;
        }
        if which == 1 || which == 2 {
            use limen_tty::Line;
            state.line.flush_output();
        }
        drop(state);
        if which != 0 {
            self.driver.flush();
            self.output.wake_all();
        }
        self.driver.unthrottle(self);
        self.driver.start(self);
        Ok(0)
    }
}

impl State {
    /// Changes the settings.
    pub(super) fn change(&mut self, f: impl FnOnce(&mut Termios)) {
        let mut termios = *self.disc.termios();
        f(&mut termios);
        self.disc.set_termios(termios);
    }
}

/// `struct termio`: the low halves of the flags, the line discipline and the first control characters.
fn to_termio(t: &Termios) -> [u8; OLD_SIZE] {
    let mut out = [0; OLD_SIZE];
    let flags = [t.input.bits(), t.output.bits(), t.control.bits(), t.local.bits()];
    for (i, word) in flags.into_iter().enumerate() {
        out[2 * i..2 * i + 2].copy_from_slice(&(word as u16).to_ne_bytes());
    }
    out[8] = t.discipline;
    out[9..9 + OLD_CHARS].copy_from_slice(&t.chars[..OLD_CHARS]);
    out
}

fn from_termio(bytes: &[u8; OLD_SIZE], old: Termios) -> Termios {
    let mut full = old.to_bytes();
    for i in 0..4 {
        full[4 * i..4 * i + 2].copy_from_slice(&bytes[2 * i..2 * i + 2]);
    }
    full[LINE_AT] = bytes[8];
    full[CHARS_AT..CHARS_AT + OLD_CHARS].copy_from_slice(&bytes[9..9 + OLD_CHARS]);
    Termios::from_bytes(&full)
}
