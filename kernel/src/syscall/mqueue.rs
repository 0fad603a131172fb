//! System calls on POSIX message queues.

use super::SysResult;
use super::time::{TimeWord, timespec_ns};
use crate::fs::file::{File, FileMode};
use crate::fs::inode::FileType;
use crate::fs::mqueue;
use crate::ipc::mqueue::notice::{How, Listener};
use crate::ipc::mqueue::{Message, PRIORITIES, Wait};
use crate::mm::copy::{read_path, zeroed};
use crate::mm::user::{Long, UserPtr, Word, read_bytes, write_bytes};
use crate::net::netlink;
use crate::sched::Deadline;
use crate::task::audit::details::{self, QueueCall, Special};
use crate::task::audit::{names as audit, wants_details};
use crate::task::current;
use alloc::boxed::Box;
use limen_linux_abi::{Errno, raw::general as abi};

/// `struct mq_attr`: `mq_flags`, `mq_maxmsg`, `mq_msgsize`, `mq_curmsgs`, and four unused words.
type Attributes = [isize; 8];
/// How long the text is that a socket gets (`NOTIFY_COOKIE_LEN`). Its last byte says what has happened.
const COOKIE: usize = 32;

/// Audit is to tell of the call, if it tells of any.
fn tell(call: impl FnOnce() -> QueueCall) {
    if wants_details() {
        details::special(Special::Queue(call()));
    }
}

fn told(attributes: &Attributes) -> [isize; 4] {
    core::array::from_fn(|n| attributes[n])
}

/// The attributes at `at`, if there are any. `EFAULT`.
#[inline(always)]
fn attributes_at<W: Long>(at: UserPtr<[W; 8]>) -> Result<Option<Attributes>, Errno> {
    Ok(at
        .non_null()
        .map(UserPtr::read)
        .transpose()?
        .map(|words| words.map(W::wide)))
}

/// `mq_open`. Attributes have words of `W`, as in the calls below.
#[inline(always)]
pub(super) fn open<W: Long>(name: usize, flags: u32, mode: u16, at: UserPtr<[W; 8]>) -> SysResult {
    do_open(name, flags, mode, attributes_at(at)?)
}

fn do_open(name: usize, flags: u32, mode: u16, attributes: Option<Attributes>) -> SysResult {
    tell(|| QueueCall::Open {
        flags,
        mode,
        attributes: attributes.as_ref().map(told).unwrap_or_default(),
    });
    let name = read_path(name)?;
    if name.as_bytes().is_empty() {
        return Err(Errno::ENOENT);
    }
    if audit::is_noted() {
        audit::begins(name.as_bytes());
    }
    // Reserved before the queue is made, which cannot be undone.
    let files = current().files();
    let fd = files.reserve(true)?;
    let asked = attributes.map(|attributes| [attributes[1], attributes[2]]);
    match mqueue::open(name.as_bytes(), flags, mode.into(), asked) {
        Ok(file) => {
            files.fill(fd, file);
            Ok(fd as usize)
        }
        Err(errno) => {
            files.give_back(fd);
            Err(errno)
        }
    }
}

fn unlink(name: usize) -> SysResult {
    let name = read_path(name)?;
    if name.as_bytes().is_empty() {
        return Err(Errno::ENOENT);
    }
    if audit::is_noted() {
        audit::begins(name.as_bytes());
    }
    mqueue::unlink(name.as_bytes())?;
    Ok(0)
}

/// How long a call waits: the time as a program passed it, and as a deadline.
struct Until {
    passed: [i64; 2],
    wait: Wait,
}

impl Until {
    /// `EFAULT`; `EINVAL`: it is no time.
    fn read<T: TimeWord>(at: UserPtr<[T; 2]>) -> Result<Self, Errno> {
        let Some(at) = at.non_null() else {
            return Ok(Self {
                passed: [0; 2],
                wait: Wait::Until(None),
            });
        };
        let time = at.read()?;
        let ns = timespec_ns(time)?;
        Ok(Self {
            passed: [time[0].get(), time[1].fraction()],
            wait: Wait::Until(Some(Deadline::Realtime(ns))),
        })
    }
}

/// Calls `f` with the queue's file behind a descriptor that was opened for `mode`, of which records of the
/// call tell. `EBADF`.
fn with_queue(fd: i32, mode: FileMode, f: impl FnOnce(&File) -> SysResult) -> SysResult {
    current().with_file(fd, |file| {
        mqueue::of(file)?;
        if wants_details() {
            audit::used(&file.path.dentry);
        }
        file.check(mode)?;
        f(file)
    })
}

fn send(fd: i32, at: usize, len: usize, priority: u32, until: &Until) -> SysResult {
    if priority >= PRIORITIES {
        return Err(Errno::EINVAL);
    }
    tell(|| QueueCall::Transfer {
        fd,
        len,
        priority,
        until: until.passed,
    });
    with_queue(fd, FileMode::WRITE, |file| {
        mqueue::of(file)?.check_sent(len)?;
        let mut text = zeroed(len)?;
        // An empty message has no address, so none is wrong.
        if !text.is_empty() {
            read_bytes(&mut text, at)?;
        }
        mqueue::send(file, Message { text, priority }, until.wait)?;
        Ok(0)
    })
}

fn receive(fd: i32, at: usize, room: usize, priority: UserPtr<u32>, until: &Until) -> SysResult {
    tell(|| QueueCall::Transfer {
        fd,
        len: room,
        priority: 0,
        until: until.passed,
    });
    with_queue(fd, FileMode::READ, |file| {
        mqueue::of(file)?.check_received(room)?;
        let message = mqueue::receive(file, until.wait)?;
        if let Some(priority) = priority.non_null() {
            priority.write(message.priority)?;
        }
        if !message.text.is_empty() {
            write_bytes(at, &message.text)?;
        }
        Ok(message.text.len())
    })
}

/// A socket that is told of a queue, by the text that a program has passed.
struct Socket(netlink::Held);

impl Listener for Socket {
    fn tell(self: Box<Self>, word: u8) {
        self.0.send(|cookie| cookie[COOKIE - 1] = word);
    }
}

impl Socket {
    /// Keeps room in the netlink socket behind a descriptor for the text at `cookie`. `ENOMEM`, `EFAULT`;
    /// `EBADF`; `ENOTSOCK`, `EINVAL`: it is no such socket; `ERESTARTSYS`. May sleep.
    fn new(fd: i32, cookie: usize) -> Result<Self, Errno> {
        let mut text = zeroed(COOKIE)?;
        read_bytes(&mut text, cookie)?;
        let mut datagram = netlink::Datagram::of_kernel(text, 0);
        loop {
            let file = current().file(fd)?;
            let socket = match netlink::file::of(&file) {
                Ok(socket) => socket.clone(),
                Err(_) if file.inode().kind == FileType::Socket => return Err(Errno::EINVAL),
                Err(errno) => return Err(errno),
            };
            // It may be closed while this thread waits for room; the descriptor may be another file's then.
            drop(file);
            datagram = match socket.hold(datagram)? {
                Ok(held) => return Ok(Self(held)),
                Err(datagram) => datagram,
            };
        }
    }
}

/// `mq_notify`. Pointers have words of `W`.
pub(super) fn notify<W: Word>(fd: i32, at: usize) -> SysResult {
    const SIGEV_SIGNAL: i32 = 0;
    const SIGEV_NONE: i32 = 1;
    const SIGEV_THREAD: i32 = 2;
    // struct sigevent: value (a word), signo, notify, and what other calls need.
    let event = match at {
        0 => None,
        at => {
            let bytes = UserPtr::<[u8; 64]>::new(at).read()?;
            let value = W::start_of(&bytes);
            let number = |at: usize| i32::from_ne_bytes(core::array::from_fn(|n| bytes[at + n]));
            Some((value, number(size_of::<W>()), number(size_of::<W>() + 4)))
        }
    };
    tell(|| QueueCall::Notify {
        fd,
        signal: event.map_or(0, |(_, signal, _)| signal),
    });
    let how = match event {
        None => None,
        Some((value, number, SIGEV_SIGNAL)) => match number {
            0..=64 => Some(How::Signal {
                number: number as u32,
                value,
            }),
            _ => return Err(Errno::EINVAL),
        },
        Some((_, _, SIGEV_NONE)) => Some(How::Nothing),
        Some((value, socket, SIGEV_THREAD)) => Some(How::Socket(Box::new(Socket::new(socket, value)?))),
        Some(_) => return Err(Errno::EINVAL),
    };
    current().with_file(fd, |file| mqueue::notify(file, how).map(|()| 0))
}

/// `mq_getsetattr`.
pub(super) fn get_and_set<W: Long>(fd: i32, new: UserPtr<[W; 8]>, old: UserPtr<[W; 8]>) -> SysResult {
    const O_NONBLOCK: isize = abi::O_NONBLOCK as isize;
    let new = attributes_at(new)?;
    if new.is_some_and(|new| new[0] & !O_NONBLOCK != 0) {
        return Err(Errno::EINVAL);
    }
    let before = current().with_file(fd, |file| {
        let queue = mqueue::of(file)?;
        let mut before: Attributes = [0; 8];
        before[0] = file.flags() as isize & O_NONBLOCK;
        before[1] = queue.shape.messages as isize;
        before[2] = queue.shape.size as isize;
        before[3] = queue.len() as isize;
        if let Some(new) = &new {
            tell(|| QueueCall::Set {
                fd,
                attributes: told(new),
            });
            mqueue::set_nonblocking(file, new[0] != 0)?;
        }
        Ok(before)
    })?;
    if let Some(old) = old.non_null() {
        old.write(before.map(W::cut))?;
    }
    Ok(0)
}

crate::syscalls! {
    fn mq_open(name: usize, flags: u32, mode: u16, attributes: UserPtr<Attributes>) {
        open(name, flags, mode, attributes)
    }
    fn mq_unlink(name: usize) {
        unlink(name)
    }
    fn mq_timedsend/mq_timedsend_time64(fd: i32, at: usize, len: usize, priority: u32,
        until: UserPtr<[Time; 2]>) {
        send(fd, at, len, priority, &Until::read(until)?)
    }
    fn mq_timedreceive/mq_timedreceive_time64(fd: i32, at: usize, room: usize, priority: UserPtr<u32>,
        until: UserPtr<[Time; 2]>) {
        receive(fd, at, room, priority, &Until::read(until)?)
    }
    fn mq_notify(fd: i32, at: usize) {
        notify::<usize>(fd, at)
    }
    fn mq_getsetattr(fd: i32, new: UserPtr<Attributes>, old: UserPtr<Attributes>) {
        get_and_set(fd, new, old)
    }
}
