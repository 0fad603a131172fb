//! `ioctl` of terminals: settings, window size, job control, flow control. Numbers are those shared by all architectures but powerpc, mips, sparc.

use super::{State, Tty, pty};
use crate::mm::user::UserPtr;
use crate::syscall::SysResult;
use crate::task::current;
use limen_linux_abi::Errno;
use limen_tty::{Termios, cc};

/// `CAP_SYS_ADMIN`.
const CAP_SYS_ADMIN: u32 = 21;

impl Tty {
    /// `master`: asked through the other end of a pseudo-terminal.
    pub(super) fn ioctl(&self, master: bool, cmd: u32, arg: usize) -> SysResult {
        match cmd {
            // TCGETS, TCGETS2, TCGETA
            0x5401 => UserPtr::new(arg).write(self.termios().to_bytes()).map(|()| 0),
            0x802c_542a => UserPtr::new(arg).write(self.termios().to_bytes2()).map(|()| 0),
            0x5405 => UserPtr::new(arg).write(to_termio(&self.termios())).map(|()| 0),
            // TCSETS, TCSETSW, TCSETSF, then the variants with speeds, then the old ones
            0x5402..=0x5404 => {
                self.set_termios(Termios::from_bytes(&UserPtr::new(arg).read()?), cmd - 0x5402)
            }
            0x402c_542b..=0x402c_542d => self.set_termios(
                Termios::from_bytes2(&UserPtr::new(arg).read()?),
                cmd - 0x402c_542b,
            ),
            0x5406..=0x5408 => {
                let old = self.termios();
                self.set_termios(from_termio(&UserPtr::new(arg).read()?, old), cmd - 0x5406)
            }
            // TCSBRK, TCSBRKP: no line here can send a break, so only the waiting for output is left.
            0x5409 | 0x5425 => {
                self.check_background_change()?;
                self.drain().map(|()| 0)
            }
            // TIOCSBRK, TIOCCBRK
            0x5427 | 0x5428 => Ok(0),
            0x540a => self.flow(arg),
            0x540b => self.flush(arg),
            // TIOCEXCL, TIOCNXCL, TIOCGEXCL
            0x540c | 0x540d => {
                self.exclusive
                    .store(cmd == 0x540c, core::sync::atomic::Ordering::Relaxed);
                Ok(0)
            }
            0x8004_5440 => {
                let on = self.exclusive.load(core::sync::atomic::Ordering::Relaxed);
                UserPtr::new(arg).write(i32::from(on)).map(|()| 0)
            }
            // TIOCSCTTY, TIOCNOTTY
            0x540e => {
                let steal = arg == 1 && current().creds().capable(CAP_SYS_ADMIN);
                self.make_controlling(steal).map(|()| 0)
            }
            0x5422 => self.give_up().map(|()| 0),
            // TIOCGPGRP, TIOCSPGRP, TIOCGSID
            0x540f => {
                self.owned(master)?;
                UserPtr::new(arg).write(self.job.lock().foreground).map(|()| 0)
            }
            0x5410 => {
                let group: i32 = UserPtr::new(arg).read()?;
                self.set_foreground(group).map(|()| 0)
            }
            0x5429 => {
                self.owned(master)?;
                match self.job.lock().session {
                    0 => Err(Errno::ENOTTY),
                    session => UserPtr::new(arg).write(session).map(|()| 0),
                }
            }
            // TIOCOUTQ, FIONREAD
            0x5411 => {
                let n = self.state.lock().line.out.len();
                UserPtr::new(arg).write(n as i32).map(|()| 0)
            }
            0x541b => {
                let n = self.state.lock().disc.readable();
                UserPtr::new(arg).write(n as i32).map(|()| 0)
            }
            // TIOCSTI
            0x5412 => {
                if !self.is_mine() && !current().creds().capable(CAP_SYS_ADMIN) {
                    return Err(Errno::EPERM);
                }
                let byte: u8 = UserPtr::new(arg).read()?;
                self.receive(&[byte]);
                Ok(0)
            }
            // TIOCGWINSZ, TIOCSWINSZ
            0x5413 => {
                let size = self.state.lock().size;
                UserPtr::new(arg).write(size).map(|()| 0)
            }
            0x5414 => {
                self.resize(UserPtr::new(arg).read()?);
                Ok(0)
            }
            // TIOCMGET; setting the lines changes nothing on lines that have none to set.
            0x5415 => {
                let lines = self.driver.modem().ok_or(Errno::EINVAL)?;
                UserPtr::new(arg).write(lines).map(|()| 0)
            }
            0x5416..=0x5418 => self.driver.modem().map(|_| 0).ok_or(Errno::EINVAL),
            // TIOCGSOFTCAR, TIOCSSOFTCAR
            0x5419 => {
                let local = self.termios().control.contains(limen_tty::ControlFlags::CLOCAL);
                UserPtr::new(arg).write(i32::from(local)).map(|()| 0)
            }
            0x541a => {
                let on: i32 = UserPtr::new(arg).read()?;
                self.state
                    .lock()
                    .change(|t| t.control.set(limen_tty::ControlFlags::CLOCAL, on != 0));
                Ok(0)
            }
            // TIOCCONS
            0x541d => {
                if !current().creds().capable(CAP_SYS_ADMIN) {
                    return Err(Errno::EPERM);
                }
                super::console::redirect(self.arc().ok_or(Errno::EIO)?)?;
                Ok(0)
            }
            // TIOCSETD, TIOCGETD: only N_TTY
            0x5423 => match UserPtr::<i32>::new(arg).read()? {
                0 => Ok(0),
                _ => Err(Errno::EINVAL),
            },
            0x5424 => UserPtr::new(arg).write(0i32).map(|()| 0),
            // TIOCGDEV
            0x8004_5432 => {
                let (major, minor) = self.dev();
                UserPtr::new(arg)
                    .write(crate::fs::inode::Dev::new(major, minor).encode())
                    .map(|()| 0)
            }
            // TIOCVHANGUP
            0x5437 => {
                if !current().creds().capable(CAP_SYS_ADMIN) {
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

    /// For the commands that only the terminal's own session may use.
    fn owned(&self, master: bool) -> Result<(), Errno> {
        if master || self.is_mine() {
            Ok(())
        } else {
            Err(Errno::ENOTTY)
        }
    }

    /// `how`: 0 now, 1 after output has gone, 2 also dropping input.
    pub(super) fn set_termios(&self, new: Termios, how: u32) -> SysResult {
        self.check_background_change()?;
        if how >= 1 {
            self.drain()?;
        }
        let mut state = self.state.lock();
        if how == 2 {
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
            // Nothing could restart it any more.
            state.line.stopped = false;
        }
        drop(state);
        self.driver.set_termios(&new);
        self.driver.start(self);
        // Readers may wait for something else now.
        self.input.wake_all();
        if how == 2 {
            self.driver.unthrottle(self);
        }
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
            // TCIOFF, TCION: tell the other end
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

/// `struct termio` (18 bytes): the low halves of the flags and eight characters.
fn to_termio(t: &Termios) -> [u8; 18] {
    let mut out = [0; 18];
    let flags = [t.input.bits(), t.output.bits(), t.control.bits(), t.local.bits()];
    for (i, word) in flags.into_iter().enumerate() {
        out[2 * i..2 * i + 2].copy_from_slice(&(word as u16).to_ne_bytes());
    }
    out[8] = t.discipline;
    out[9..17].copy_from_slice(&t.chars[..8]);
    out
}

fn from_termio(bytes: &[u8; 18], old: Termios) -> Termios {
    let mut full = old.to_bytes();
    for i in 0..4 {
        full[4 * i..4 * i + 2].copy_from_slice(&bytes[2 * i..2 * i + 2]);
    }
    full[16] = bytes[8];
    full[17..25].copy_from_slice(&bytes[9..17]);
    Termios::from_bytes(&full)
}
