//! The file of a seccomp listener (`SECCOMP_FILTER_FLAG_NEW_LISTENER`): with it a supervisor receives and
//! answers the calls of threads that have the filter.

use crate::fs::anon;
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::poll::{PollEvents, PollTable};
use crate::mm::user::{UserPtr, read_bytes, write_bytes};
use crate::task::current;
use crate::task::seccomp::{Adding, Listener, Received, Reply};
use alloc::sync::Arc;
use limen_bpf::program::DATA_SIZE;
use limen_linux_abi::native::ioc;
use limen_linux_abi::{Errno, SysResult, raw::general as abi};

/// The sizes in bytes of `struct seccomp_notif`, `struct seccomp_notif_resp`, `struct seccomp_data` and
/// `struct seccomp_notif_addfd`.
const NOTIF: usize = 80;
const RESP: usize = 24;
const ADDFD: usize = 24;
/// What `SECCOMP_GET_NOTIF_SIZES` says.
pub const SIZES: [u16; 3] = [NOTIF as u16, RESP as u16, DATA_SIZE as u16];

const _: () = assert!(NOTIF == 16 + DATA_SIZE as usize);

const TYPE: u8 = b'!';
const RECV: u32 = read_write(0, NOTIF);
const SEND: u32 = read_write(1, RESP);
const ID_VALID: u32 = ioc::write(TYPE, 2, 8);
/// The same, with the direction that Linux gave it first.
const ID_VALID_WRONG: u32 = ioc::read(TYPE, 2, 8);
const ADD: u32 = ioc::write(TYPE, 3, 0) & !ANY;
const SET_FLAGS: u32 = ioc::write(TYPE, 4, 8);

/// `_IOWR`.
const fn read_write(number: u8, size: usize) -> u32 {
    ioc::write(TYPE, number, size) | ioc::read(TYPE, number, size)
}

/// The bits of a command that say how large its argument is (on each ABI only so many are used).
const SIZE_MASK: u32 = ioc::write(0, 0, 0x1fff) & !ioc::write(0, 0, 0);
/// The bits of a command that do not matter where the argument may grow: its size, and where it goes.
const ANY: u32 = SIZE_MASK | ioc::write(0, 0, 0) | ioc::read(0, 0, 0) & !ioc::none(0, 0);

/// `SECCOMP_USER_NOTIF_FLAG_CONTINUE`.
const CONTINUE: u32 = 1;
/// `SECCOMP_ADDFD_FLAG_SETFD`.
const SETFD: u32 = 1;
/// `SECCOMP_ADDFD_FLAG_SEND`.
const ADD_AND_SEND: u32 = 2;
/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`: a hint for the scheduler that has no effect here.
const SYNC_WAKE_UP: usize = 1;

struct ListenerFile(Arc<Listener>);

/// The file of a new listener. `ENFILE`.
pub fn file(listener: Arc<Listener>) -> Result<Arc<File>, Errno> {
    anon::file(
        "seccomp notify",
        Arc::new(ListenerFile(listener)),
        abi::O_RDWR,
        FileMode::STREAM | FileMode::NO_READ | FileMode::NO_WRITE,
    )
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let (words, _) = bytes.as_chunks::<4>();
    words.get(at / 4).map_or(0, |word| u32::from_ne_bytes(*word))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    let (longs, _) = bytes.as_chunks::<8>();
    longs.get(at / 8).map_or(0, |long| u64::from_ne_bytes(*long))
}

impl ListenerFile {
    fn receive(&self, at: usize) -> SysResult {
        let mut bytes = [0; NOTIF];
        read_bytes(&mut bytes, at)?;
        // What Linux may give a meaning later.
        if bytes.iter().any(|byte| *byte != 0) {
            return Err(Errno::EINVAL);
        }
        let Received { id, tid, data } = self.0.receive()?;
        bytes[..8].copy_from_slice(&id.to_ne_bytes());
        bytes[8..12].copy_from_slice(&tid.to_ne_bytes());
        bytes[16..].copy_from_slice(&data.to_bytes());
        if let Err(errno) = write_bytes(at, &bytes) {
            self.0.put_back(id);
            return Err(errno);
        }
        Ok(0)
    }

    fn send(&self, at: usize) -> SysResult {
        let mut bytes = [0; RESP];
        read_bytes(&mut bytes, at)?;
        let (id, value, error, flags) = (
            long(&bytes, 0),
            long(&bytes, 8).cast_signed(),
            word(&bytes, 16).cast_signed(),
            word(&bytes, 20),
        );
        let runs = flags & CONTINUE != 0;
        if flags & !CONTINUE != 0 || runs && (error, value) != (0, 0) {
            return Err(Errno::EINVAL);
        }
        self.0.reply(id, Reply { value, error, runs })?;
        Ok(0)
    }

    fn add(&self, at: usize, size: usize) -> SysResult {
        if !(ADDFD..crate::mm::PAGE_SIZE).contains(&size) {
            return Err(Errno::EINVAL);
        }
        let mut bytes = [0; ADDFD];
        // What the program knows and this kernel does not must be zero.
        let mut more = [0; 64];
        let mut from = ADDFD;
        while from < size {
            let part = (size - from).min(more.len());
            read_bytes(&mut more[..part], at.wrapping_add(from))?;
            if more[..part].iter().any(|byte| *byte != 0) {
                return Err(Errno::E2BIG);
            }
            from += part;
        }
        read_bytes(&mut bytes, at)?;
        let id = long(&bytes, 0);
        let [flags, source, target, descriptor_flags] = [8, 12, 16, 20].map(|at| word(&bytes, at));
        if descriptor_flags & !abi::O_CLOEXEC != 0
            || flags & !(SETFD | ADD_AND_SEND) != 0
            || target != 0 && flags & SETFD == 0
        {
            return Err(Errno::EINVAL);
        }
        let file = current().file(source.cast_signed())?;
        let adding = Adding::new(
            file,
            (flags & SETFD != 0).then_some(target.cast_signed()),
            descriptor_flags & abi::O_CLOEXEC != 0,
            flags & ADD_AND_SEND != 0,
        );
        self.0.add(id, &adding).map(|fd| fd as usize)
    }
}

impl FileOps for ListenerFile {
    fn ioctl(&self, _: &File, cmd: u32, arg: usize) -> SysResult {
        match cmd {
            RECV => self.receive(arg),
            SEND => self.send(arg),
            ID_VALID | ID_VALID_WRONG => {
                let id = UserPtr::<u64>::new(arg).read()?;
                self.0.check(id).map(|()| 0)
            }
            SET_FLAGS if arg & !SYNC_WAKE_UP != 0 => Err(Errno::EINVAL),
            SET_FLAGS => Ok(0),
            _ if cmd & !ANY == ADD => self.add(arg, ((cmd & SIZE_MASK) >> 16) as usize),
            _ => Err(Errno::EINVAL),
        }
    }
    fn poll(&self, _: &File, table: Option<&mut PollTable<'_>>) -> PollEvents {
        if let Some(table) = table {
            table.register(self.0.queue());
        }
        let now = self.0.events();
        let mut events = PollEvents::empty();
        events.set(PollEvents::READABLE, now.receive);
        events.set(PollEvents::WRITABLE, now.reply);
        events.set(PollEvents::HUP, now.hung_up);
        events
    }
    fn release(&self, _: &File) {
        self.0.close();
    }
}
