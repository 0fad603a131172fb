//! Pseudo-terminals: opening `/dev/ptmx` makes a pair. The slave is an ordinary terminal whose device is the
//! master, an open file. Slaves appear in devpts (`fs/devpts`).

use super::ioctl::{TIOCNOTTY, TIOCSCTTY};
use super::{Driver, Tty};
use crate::fs::devices;
use crate::fs::fasync::{Async, Band, Kind, Target};
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::inode::Dev;
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::poll::{PollEvents, PollTable};
use crate::fs::pseudo::Text;
use crate::mm::user::UserPtr;
use crate::sched::WaitQueue;
use crate::sync::IrqSpinLock;
use crate::task::current;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, Ordering};
use limen_linux_abi::native::ioc;
use limen_linux_abi::native::ioctl::{FIONREAD, TIOCOUTQ};
use limen_linux_abi::{Errno, SysResult};
use limen_tty::Termios;

/// Events that packet mode reports to the master (`TIOCPKT_*`). Input was dropped.
pub const FLUSHREAD: u8 = 1;
/// Output was dropped.
pub const FLUSHWRITE: u8 = 2;
/// Output was stopped.
pub const STOP: u8 = 4;
/// Output goes on.
pub const START: u8 = 8;
/// `^S` and `^Q` no longer stop and start.
pub const NOSTOP: u8 = 16;
/// `^S` and `^Q` stop and start the output.
pub const DOSTOP: u8 = 32;
/// The settings changed while `EXTPROC` was set.
pub const IOCTL: u8 = 64;

/// Major number of slaves.
const MAJOR: u32 = 136;
/// How many bytes are moved at a time, through the kernel stack.
const CHUNK: usize = 1024;

/// What the two ends share, apart from the terminal.
pub struct Pair {
    index: u32,
    /// User and group of the process that opened the master; they own the slave's node.
    owner: (u32, u32),
    /// The slave cannot be opened yet (`TIOCSPTLCK`).
    locked: AtomicBool,
    packet: AtomicBool,
    /// The slave was open and is closed now.
    slave_gone: AtomicBool,
    /// The master's readers, writers and pollers sleep here.
    wait: WaitQueue,
    /// Owners of the master's files that want signals about the slave's output.
    owners: Async,
}

/// The owner of a terminal's file if the terminal has no foreground group: the running process.
pub(super) fn maker() -> Option<(Kind, Target)> {
    let me = Target::find(Kind::Process, current().process.own_tgid).ok()?;
    Some((Kind::Process, me))
}

/// All pairs by index. The flag: the master is open, so the slave has a name.
static PAIRS: IrqSpinLock<BTreeMap<u32, (Weak<Tty>, bool)>> = IrqSpinLock::new(BTreeMap::new());

impl Drop for Pair {
    fn drop(&mut self) {
        PAIRS.lock().remove(&self.index);
    }
}

impl Pair {
    /// User and group that own the slave.
    pub fn owner(&self) -> (u32, u32) {
        self.owner
    }
    /// Whether the slave can be opened (`TIOCSPTLCK`).
    pub fn unlocked(&self) -> bool {
        !self.locked.load(Ordering::Relaxed)
    }
}

impl Driver for Pair {
    fn start(&self, tty: &Tty) {
        self.wait.wake_all();
        if self.owners.any() && tty.has_output() {
            self.owners.tell(Band::In);
        }
    }
    fn unthrottle(&self, _: &Tty) {
        self.wait.wake_all();
    }
    fn open(&self, tty: &Arc<Tty>) -> Result<(), Errno> {
        let there = PAIRS.lock().get(&self.index).is_some_and(|p| p.1);
        if self.locked.load(Ordering::Relaxed) || !there {
            return Err(Errno::EIO);
        }
        let _ = tty;
        self.slave_gone.store(false, Ordering::Relaxed);
        Ok(())
    }
    fn close(&self, _: &Tty) {
        self.slave_gone.store(true, Ordering::Release);
        self.wait.wake_all();
    }
    fn as_pty(&self) -> Option<&Pair> {
        Some(self)
    }
}

/// The slave with number `index`, as long as its master is open.
pub fn slave(index: u32) -> Option<Arc<Tty>> {
    let (tty, open) = PAIRS.lock().get(&index).cloned()?;
    tty.upgrade().filter(|_| open)
}

/// The numbers, from `index` on, of slaves with a name.
pub fn slaves(index: u32) -> Vec<u32> {
    PAIRS
        .lock()
        .range(index..)
        .filter(|(_, p)| p.1)
        .map(|(i, _)| *i)
        .collect()
}

/// The device number of slave `index`.
pub fn slave_dev(index: u32) -> Dev {
    Dev::new(MAJOR + index / 256, index % 256)
}

fn open_master() -> Result<Arc<dyn FileOps>, Errno> {
    let creds = current().creds();
    let owner = (creds.fsuid, creds.fsgid);
    let pair = |index| Pair {
        index,
        owner,
        locked: AtomicBool::new(true),
        packet: AtomicBool::new(false),
        slave_gone: AtomicBool::new(false),
        wait: WaitQueue::new(),
        owners: Async::new(),
    };
    // Takes a number first; the pair is entered when it has been made.
    let index = {
        let mut pairs = PAIRS.lock();
        let free = (0..1 << 16)
            .find(|i| !pairs.contains_key(i))
            .ok_or(Errno::ENOSPC)?;
        pairs.insert(free, (Weak::new(), false));
        free
    };
    let dev = slave_dev(index);
    let tty = Tty::new(
        &format!("pts/{index}"),
        (dev.major(), dev.minor()),
        Termios::standard(),
        Arc::new(pair(index)),
    );
    PAIRS.lock().insert(index, (Arc::downgrade(&tty), true));
    crate::fs::devpts::slave_made(index);
    Ok(Arc::new(Master { tty }))
}

/// An open master.
struct Master {
    tty: Arc<Tty>,
}

impl Master {
    fn pair(&self) -> &Pair {
        self.tty
            .driver()
            .as_pty()
            .expect("a master's terminal is a pseudo-terminal")
    }

    /// Whether packet mode is on and there is an event to report.
    fn news(&self) -> bool {
        self.pair().packet.load(Ordering::Relaxed) && self.tty.state.lock().line.packet != 0
    }

    fn readable(&self) -> bool {
        self.news() || self.tty.has_output() || self.pair().slave_gone.load(Ordering::Relaxed)
    }

    fn room(&self) -> bool {
        let state = self.tty.state.lock();
        state.disc.room() > 0 || state.hung_up
    }
}

impl FileOps for Master {
    fn mode(&self) -> FileMode {
        FileMode::STREAM | FileMode::NO_PREAD | FileMode::POLLS | FileMode::SENDS | FileMode::RECEIVES
    }
    fn read(&self, file: &File, dst: &mut IoDst<'_>, _: Option<u64>) -> SysResult {
        let mut buf = [0; CHUNK];
        let mut total = 0;
        while dst.remaining() > 0 {
            // Read each time: packet mode may be turned on while a reader sleeps, who is then woken by an
            // event.
            let packet = total == 0 && self.pair().packet.load(Ordering::Relaxed);
            if packet {
                let news = core::mem::take(&mut self.tty.state.lock().line.packet);
                if news != 0 {
                    return dst.put(&[news]);
                }
            }
            // Read before the output: the slave may write and be closed in between.
            let gone = self.pair().slave_gone.load(Ordering::Acquire);
            // In packet mode a zero byte comes before data. There may be no room for more.
            let head = usize::from(packet);
            let want = (dst.remaining() - head).min(CHUNK);
            if want == 0 && self.tty.has_output() {
                return dst.put(&[0]);
            }
            let n = self.tty.pull(&mut buf[..want]);
            if n > 0 {
                if head == 1 {
                    total += dst.put(&[0])?;
                }
                match dst.put(&buf[..n]) {
                    Ok(n) => total += n,
                    Err(e) => return if total > 0 { Ok(total) } else { Err(e) },
                }
                continue;
            }
            if total > 0 {
                break;
            }
            if gone {
                return Err(Errno::EIO);
            }
            if file.nonblocking() {
                return Err(Errno::EAGAIN);
            }
            self.pair().wait.wait_until(|| self.readable())?;
        }
        Ok(total)
    }

    fn write(&self, file: &File, src: &mut IoSrc<'_>, _: Option<u64>) -> SysResult {
        let mut buf = [0; CHUNK];
        let mut total = 0;
        while src.remaining() > 0 {
            let n = match src.take_whole(&mut buf) {
                Ok(n) => n,
                Err(e) => return if total > 0 { Ok(total) } else { Err(e) },
            };
            let mut done = 0;
            while done < n {
                let taken = self.tty.receive(&buf[done..n]);
                done += taken;
                total += taken;
                if taken > 0 {
                    continue;
                }
                let step = if self.tty.state.lock().hung_up {
                    // Nothing will make room any more.
                    Err(Errno::EIO)
                } else if file.nonblocking() {
                    Err(Errno::EAGAIN)
                } else {
                    self.pair().wait.wait_until(|| self.room())
                };
                if let Err(e) = step {
                    return if total > 0 { Ok(total) } else { Err(e) };
                }
            }
        }
        Ok(total)
    }

    fn poll(&self, _: &File, table: Option<&mut PollTable<'_>>) -> PollEvents {
        if let Some(table) = table {
            table.register(&self.pair().wait);
        }
        let mut events = PollEvents::empty();
        if self.pair().slave_gone.load(Ordering::Acquire) {
            events |= PollEvents::HUP;
        }
        if self.tty.has_output() {
            events |= PollEvents::READABLE;
        }
        if self.news() {
            events |= PollEvents::READABLE | PollEvents::PRI;
        }
        if self.room() {
            events |= PollEvents::WRITABLE;
        }
        events
    }

    fn ioctl(&self, _: &File, cmd: u32, arg: usize) -> SysResult {
        const TIOCPKT: u32 = 0x5420;
        const TIOCGPTN: u32 = ioc::read(b'T', 0x30, 4);
        const TIOCSPTLCK: u32 = ioc::write(b'T', 0x31, 4);
        const TIOCSIG: u32 = ioc::write(b'T', 0x36, 4);
        const TIOCGPKT: u32 = ioc::read(b'T', 0x38, 4);
        const TIOCGPTLCK: u32 = ioc::read(b'T', 0x39, 4);
        const TIOCGPTPEER: u32 = ioc::none(b'T', 0x41);
        let pair = self.pair();
        match cmd {
            TIOCGPTN => UserPtr::new(arg).write(pair.index).map(|()| 0),
            TIOCSPTLCK => {
                pair.locked
                    .store(UserPtr::<i32>::new(arg).read()? != 0, Ordering::Relaxed);
                Ok(0)
            }
            TIOCGPTLCK => UserPtr::new(arg).write(i32::from(!pair.unlocked())).map(|()| 0),
            TIOCPKT => {
                let on = UserPtr::<i32>::new(arg).read()? != 0;
                if !pair.packet.swap(on, Ordering::Relaxed) {
                    self.tty.state.lock().line.packet = 0;
                }
                Ok(0)
            }
            TIOCGPKT => {
                let on = pair.packet.load(Ordering::Relaxed);
                UserPtr::new(arg).write(i32::from(on)).map(|()| 0)
            }
            TIOCSIG => match arg {
                2 | 3 | 20 => {
                    self.tty.signal_foreground(arg as u32);
                    Ok(0)
                }
                _ => Err(Errno::EINVAL),
            },
            TIOCGPTPEER => {
                let file = crate::fs::open_path(&format!("/dev/{}", self.tty.name()), arg as u32, 0)?;
                let cloexec = arg as u32 & 0o2000000 != 0;
                current().files().install(file, cloexec).map(|fd| fd as usize)
            }
            // How many bytes wait in the direction.
            FIONREAD => {
                let n = self.tty.state.lock().line.out.len();
                UserPtr::new(arg).write(n as i32).map(|()| 0)
            }
            TIOCOUTQ => UserPtr::new(arg).write(0i32).map(|()| 0),
            // A master cannot be a controlling terminal.
            TIOCSCTTY | TIOCNOTTY => Err(Errno::ENOTTY),
            _ => self.tty.ioctl(true, cmd, arg),
        }
    }

    fn asyncs(&self, with: &mut dyn FnMut(&Async)) -> bool {
        with(&self.pair().owners);
        true
    }
    fn first_owner(&self) -> Option<(Kind, Target)> {
        maker()
    }
    fn show_fdinfo(&self, _: &File, out: &mut Text) {
        let _ = writeln!(out, "tty-index:\t{}", self.pair().index);
    }
    fn release(&self, _: &File) {
        let index = self.pair().index;
        if let Some(entry) = PAIRS.lock().get_mut(&index) {
            entry.1 = false;
        }
        crate::fs::devpts::slave_gone(index);
        self.tty.hang_up();
    }
}

/// Makes `/dev/ptmx`.
pub fn init() {
    devices::register_char_device("ptmx", Dev::new(5, 2), 0o666, |_, _| open_master());
}

/// Opens the master, for devpts' own `ptmx`.
pub fn open_ptmx() -> Result<Arc<dyn FileOps>, Errno> {
    open_master()
}
