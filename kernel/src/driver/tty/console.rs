//! `/dev/console`, and which terminals show the kernel's log. `console=` on the command line names terminals;
//! the last one is `/dev/console`. Without it, `/dev/console` is the first terminal that a driver offers.

use super::Tty;
use crate::cmdline;
use crate::fs::devices;
use crate::fs::inode::Dev;
use crate::sync::IrqSpinLock;
use alloc::string::String;
use alloc::sync::Arc;
use limen_linux_abi::Errno;

static CONSOLE: IrqSpinLock<Option<Arc<Tty>>> = IrqSpinLock::new(None);
static REDIRECT: IrqSpinLock<Option<Arc<Tty>>> = IrqSpinLock::new(None);

/// Whether `console=` names the terminal `name`. Without any `console=`: whether it is a serial port.
fn wanted(name: &str, serial: bool) -> bool {
    let mut named = cmdline::words()
        .filter_map(|w| w.strip_prefix("console="))
        .peekable();
    if named.peek().is_none() {
        return serial;
    }
    named.any(|c| c.split(',').next() == Some(name))
}

/// A driver offers a terminal as console. `log` writes kernel messages to its device. The log's early console
/// ends when a driver takes over the serial port (`serial`).
pub fn offer(tty: &Arc<Tty>, log: &'static dyn crate::log::Console, serial: bool) {
    if serial {
        crate::log::drop_early();
    }
    if !wanted(tty.name(), serial) {
        return;
    }
    crate::log::register_console(log, !serial);
    let last = cmdline::words().filter_map(|w| w.strip_prefix("console=")).last();
    let preferred = last.is_none_or(|c| c.split(',').next() == Some(tty.name()));
    let mut console = CONSOLE.lock();
    if preferred || console.is_none() {
        *console = Some(tty.clone());
    }
}

/// The terminal behind `/dev/console`: the one that was asked for, else any.
pub fn console() -> Option<Arc<Tty>> {
    if let Some(tty) = CONSOLE.lock().as_ref() {
        return Some(tty.clone());
    }
    super::all().into_iter().find(|t| t.driver().as_pty().is_none())
}

/// The name of that terminal, for `/sys/class/tty/console/active` and `/proc/consoles`.
pub fn active() -> String {
    console().map_or_else(String::new, |t| t.name().into())
}

/// `TIOCCONS` on a terminal: what is written to `/dev/console` goes to that terminal. On the console itself:
/// ends that. `EBUSY`: another terminal gets it already.
pub(super) fn redirect(to: Arc<Tty>) -> Result<(), Errno> {
    let back = console().is_some_and(|c| Arc::ptr_eq(&c, &to));
    let mut redirect = REDIRECT.lock();
    let old = match (back, redirect.is_some()) {
        (true, _) => redirect.take(),
        (false, true) => return Err(Errno::EBUSY),
        (false, false) => redirect.replace(to),
    };
    drop(redirect);
    drop(old);
    Ok(())
}

/// The terminal that gets what is written to `/dev/console`.
pub(super) fn redirected() -> Option<Arc<Tty>> {
    let tty = REDIRECT.lock().clone()?;
    let gone = tty.state.lock().hung_up;
    (!gone).then_some(tty)
}

/// Makes `/dev/console`.
pub fn init() {
    devices::register_char_device("console", Dev::new(5, 1), 0o600, |_, _| {
        console().ok_or(Errno::ENODEV)?.open_console()
    });
}
