//! A terminal as an open file, and the device nodes of terminals.

use super::{Tty, job, pty};
use crate::fs::devices::{self, OpenDevice};
use crate::fs::fasync::{Async, Kind, Target};
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::inode::Dev;
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::poll::{PollEvents, PollTable};
use crate::task::current;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use limen_linux_abi::{Errno, SysResult};

/// `O_NOCTTY`.
const O_NOCTTY: u32 = 0o400;
/// `O_ACCMODE`, `O_WRONLY`.
const O_ACCMODE: u32 = 3;
const O_WRONLY: u32 = 1;
const TIOCSPGRP: u32 = limen_linux_abi::native::ioctl::TIOCSPGRP;

/// An open terminal.
pub struct TtyFile {
    tty: Arc<Tty>,
    /// It was opened as `/dev/console`, so its output may go to another terminal.
    console: bool,
}

impl Tty {
    /// Opens the terminal. `flags` are those of `open`. Without `O_NOCTTY` it becomes the controlling
    /// terminal of a session leader that has none.
    pub fn open(self: &Arc<Self>, flags: u32) -> Result<Arc<dyn FileOps>, Errno> {
        if self.exclusive.load(Ordering::Relaxed) && !current().creds().capable(21) {
            return Err(Errno::EBUSY);
        }
        self.count_open()?;
        if flags & O_NOCTTY == 0 && flags & O_ACCMODE != O_WRONLY {
            // A process that may not have it just does not get it.
            if self.job.lock().session == 0 {
                let _ = self.make_controlling(false);
            }
        }
        Ok(Arc::new(TtyFile {
            tty: self.clone(),
            console: false,
        }))
    }

    /// Opens it as `/dev/console`, which does not become a controlling terminal by that.
    pub fn open_console(self: &Arc<Self>) -> Result<Arc<dyn FileOps>, Errno> {
        self.count_open()?;
        Ok(Arc::new(TtyFile {
            tty: self.clone(),
            console: true,
        }))
    }

    fn count_open(self: &Arc<Self>) -> Result<(), Errno> {
        let mut opens = self.opens.lock();
        self.driver.open(self)?;
        if *opens == 0 {
            self.state.lock().hung_up = false;
        }
        *opens += 1;
        Ok(())
    }

    fn close(&self) {
        let mut opens = self.opens.lock();
        *opens -= 1;
        if *opens == 0 {
            self.exclusive.store(false, Ordering::Relaxed);
            self.driver.close(self);
        }
    }

    pub(super) fn poll(&self, table: Option<&mut PollTable<'_>>) -> PollEvents {
        if let Some(table) = table {
            table.register(&self.input);
            table.register(&self.output);
        }
        let mut events = PollEvents::empty();
        let state = self.state.lock();
        let termios = state.disc.termios();
        let minimum = match (
            termios.chars[limen_tty::cc::VTIME],
            termios.chars[limen_tty::cc::VMIN],
        ) {
            (0, min) => usize::from(min),
            _ => 1,
        };
        if state.disc.ready(minimum) {
            events |= PollEvents::READABLE;
        }
        if state.hung_up {
            events |= PollEvents::READABLE | PollEvents::WRITABLE | PollEvents::HUP;
        }
        drop(state);
        if self.writable() {
            events |= PollEvents::WRITABLE;
        }
        events
    }
}

impl FileOps for TtyFile {
    fn mode(&self) -> FileMode {
        FileMode::STREAM | FileMode::NO_PREAD | FileMode::POLLS | FileMode::SENDS | FileMode::RECEIVES
    }
    fn read(&self, file: &File, dst: &mut IoDst<'_>, _: Option<u64>) -> SysResult {
        self.tty.read(file, dst)
    }
    fn write(&self, file: &File, src: &mut IoSrc<'_>, _: Option<u64>) -> SysResult {
        if self.console
            && let Some(other) = super::console::redirected()
        {
            return other.write(file, src);
        }
        self.tty.write(file, src)
    }
    fn poll(&self, _: &File, table: Option<&mut PollTable<'_>>) -> PollEvents {
        self.tty.poll(table)
    }
    fn ioctl(&self, _: &File, cmd: u32, arg: usize) -> SysResult {
        if self.tty.state.lock().hung_up {
            return Err(if cmd == TIOCSPGRP {
                Errno::ENOTTY
            } else {
                Errno::EIO
            });
        }
        self.tty.ioctl(false, cmd, arg)
    }
    fn asyncs(&self, with: &mut dyn FnMut(&Async)) -> bool {
        with(&self.tty.owners);
        true
    }
    fn first_owner(&self) -> Option<(Kind, Target)> {
        let foreground = self.tty.job.lock().foreground;
        if foreground != 0 {
            let group = crate::task::pid::find_group(foreground)?;
            Some((Kind::Group, Target::Group(Arc::downgrade(&group))))
        } else {
            pty::maker()
        }
    }
    fn release(&self, _: &File) {
        self.tty.close();
    }
}

/// The terminal with a device number.
pub fn find(dev: Dev) -> Option<Arc<Tty>> {
    super::all()
        .into_iter()
        .find(|t| t.dev() == (dev.major(), dev.minor()))
}

/// Makes a device node for `tty`, with permissions `mode`.
pub fn register(tty: &Arc<Tty>, mode: u32) {
    const OPEN: OpenDevice = |dev, flags| find(dev).ok_or(Errno::ENXIO)?.open(flags);
    let (major, minor) = tty.dev();
    devices::register_char_device(tty.name(), Dev::new(major, minor), mode, OPEN);
}

/// Makes `/dev/tty`: the running process's controlling terminal.
pub fn register_current() {
    devices::register_char_device("tty", Dev::new(5, 0), 0o666, |_, flags| {
        job::controlling().ok_or(Errno::ENXIO)?.open(flags | O_NOCTTY)
    });
}
