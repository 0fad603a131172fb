//! The system calls of the architecture's old ABI (`docs/oabi.md`): the native table, but for the calls whose
//! 64-bit arguments begin in any register, whose structures have no padding, or which only that ABI has.

use super::ipc::Operations;
use super::socket::{CALLS, one_of};
use super::table::{self, LEN, NATIVE};
use super::{Call, Handler, Pair, SysResult};
use crate::arch::frame::Frame;
use crate::arch::syscalls::OLD_ABI;
use crate::arch::{NATIVE_ABI, index, regset};
use crate::fs::epoll;
use crate::fs::lookup::AT_FDCWD;
use crate::mm::user::UserPtr;
use crate::net::AF_UNIX;
use crate::signal::mask::with_mask;
use crate::task::{calls, current};
use limen_entry::Frame as _;
use limen_linux_abi::abi::old::{EpollEvent, Stat64};
use limen_linux_abi::{Errno, raw::general as abi, sysno};

/// The handler of a name: of this file's calls, else of any.
const fn by_name(name: &str) -> Handler {
    let mut i = 0;
    while i < HANDLERS.len() {
        if sysno::same(HANDLERS[i].0, name) {
            return HANDLERS[i].1;
        }
        i += 1;
    }
    i = 0;
    while i < table::HANDLERS.len() {
        if sysno::same(table::HANDLERS[i].0, name) {
            return table::HANDLERS[i].1;
        }
        i += 1;
    }
    panic!("no such call")
}

/// The table.
static TABLE: [Handler; LEN] = {
    let mut all = NATIVE;
    let mut i = 0;
    while i < sysno::OABI.len() {
        let (number, name) = sysno::OABI[i];
        all[number] = by_name(name);
        i += 1;
    }
    all
};

/// The handler of the running thread's call, if that is one of the old ABI.
#[inline(always)]
pub(super) fn handler(frame: &Frame) -> Option<Handler> {
    match OLD_ABI {
        Some(old) if frame.syscall_number() as usize >= old.first => in_table(frame, old.first),
        _ => None,
    }
}

#[cold]
fn in_table(frame: &Frame, first: usize) -> Option<Handler> {
    if !calls::is_old(&current(), frame) {
        return None;
    }
    at(frame.syscall_number() as usize - first)
}

/// The handler of a number without the ABI's first one.
fn at(number: usize) -> Option<Handler> {
    let handler = *index::get(&TABLE, number)?;
    (!core::ptr::fn_addr_eq(handler, table::unknown as Handler)).then_some(handler)
}

/// The calls of `socketcall`.
const SOCKET_CALLS: [(Handler, usize); CALLS.len()] = {
    let mut all = CALLS;
    all[BIND].0 = bind;
    all[CONNECT].0 = connect;
    all[SENDTO].0 = sendto;
    all[SENDMSG].0 = sendmsg;
    all
};

/// Places in the list of socket calls.
const BIND: usize = 1;
const CONNECT: usize = 2;
const SENDTO: usize = 10;
const SENDMSG: usize = 15;

/// The size of `struct sockaddr_un`, and what it was when its end was padding, too.
const ADDRESS: usize = 110;
const PADDED: usize = 112;

/// Whether that is an address in a padded `struct sockaddr_un`.
fn is_padded(addr: usize, len: usize) -> bool {
    len == PADDED
        && UserPtr::<u16>::new(addr)
            .read()
            .is_ok_and(|family| u32::from(family) == AF_UNIX)
}

/// Makes the call `which` of the socket calls with argument `n` as the length of the address `addr`.
fn with_address(call: &Call<'_>, which: usize, addr: usize, (n, len): (usize, usize)) -> SysResult {
    let mut frame = call.frame.clone();
    if is_padded(addr, len) {
        frame.set_arg(n, ADDRESS);
    }
    told(CALLS[which].0(&mut frame))
}

/// What a handler returned, as a result.
pub(super) fn told(result: usize) -> SysResult {
    Errno::from_return_value(result).map_or(Ok(result), Err)
}

/// The arguments behind the first, as a call without it has them.
fn moved(frame: &Frame) -> [usize; 6] {
    core::array::from_fn(|n| frame.arg(n + 1))
}

fn set_args(frame: &mut Frame, args: [usize; 6]) {
    for (n, arg) in args.into_iter().enumerate() {
        frame.set_arg(n, arg);
    }
}

/// `syscall`: the call `number`, whose arguments follow.
fn indirect(call: &mut Call<'_>, number: usize) -> SysResult {
    let first = OLD_ABI.map_or(0, |old| old.first);
    let number = number & !first;
    let name = (NATIVE_ABI.name_of)(number);
    let handler = at(number).ok_or(Errno::ENOSYS)?;
    // Not itself.
    if core::ptr::fn_addr_eq(handler, syscall as Handler) {
        return Err(Errno::ENOSYS);
    }
    let args = moved(call.frame);
    match name {
        // The child begins with the caller's registers.
        Some("fork" | "vfork") => told(handler(call.frame)),
        Some("clone") => {
            let [a, b, c, d, e, _] = args;
            super::task::clone_from_registers(call, [a, b, c, d, e])
        }
        Some("clone3") => super::task::clone_from_memory(call, args[0], args[1]),
        // The number says which kind of frame it is.
        Some("sigreturn" | "rt_sigreturn") => {
            regset::set_number(call.frame, (first + number) as i32);
            told(handler(call.frame))
        }
        // The new program's registers come into the frame, where a tracer looks at them before this returns.
        Some("execve" | "execveat") => {
            let own = core::array::from_fn(|n| call.frame.arg(n));
            set_args(call.frame, args);
            let result = told(handler(call.frame));
            if result.is_err() {
                set_args(call.frame, own);
            }
            result
        }
        // A restarted call needs the registers as they are.
        _ => {
            let mut frame = call.frame.clone();
            set_args(&mut frame, args);
            told(handler(&mut frame))
        }
    }
}

crate::syscalls! {
    fn pread64(fd: i32, buf: usize, len: usize, pos: Pair) {
        super::file::read_at(fd, (buf, len), pos)
    }
    fn pwrite64(fd: i32, buf: usize, len: usize, pos: Pair) {
        super::file::write_at(fd, (buf, len), pos)
    }
    fn truncate64(path: usize, size: Pair) {
        super::file::do_truncate(path, size)
    }
    fn ftruncate64(fd: i32, size: Pair) {
        super::file::do_ftruncate(fd, size)
    }
    fn readahead(fd: i32, _offset: Pair, _count: usize) {
        super::file::read_ahead(fd)
    }
    fn stat64(path: usize, to: usize) {
        super::stat::stat_at((AT_FDCWD, path, 0), to, Stat64::new)
    }
    fn lstat64(path: usize, to: usize) {
        super::stat::stat_at((AT_FDCWD, path, abi::AT_SYMLINK_NOFOLLOW), to, Stat64::new)
    }
    fn fstat64(fd: i32, to: usize) {
        super::stat::stat_of(fd, to, Stat64::new)
    }
    fn fstatat64(dirfd: i32, path: usize, to: usize, flags: u32) {
        super::stat::stat_at((dirfd, path, flags), to, Stat64::new)
    }
    fn fcntl64(fd: i32, cmd: u32, arg: usize) {
        super::fcntl::fcntl_packed(fd, cmd, arg)
    }
    fn epoll_ctl(epfd: i32, op: i32, fd: i32, event: usize) {
        let event = epoll::read_event::<EpollEvent>(op, event)?;
        super::poll::control(epfd, op, fd, event)
    }
    fn epoll_wait(epfd: i32, to: usize, max: i32, ms: i32) {
        super::poll::do_epoll_wait::<EpollEvent>(epfd, to, max, super::poll::millis(ms))
    }
    fn epoll_pwait(epfd: i32, to: usize, max: i32, ms: i32, mask: usize, size: usize) {
        let mask = super::poll::read_mask(mask, size)?;
        with_mask(mask, || {
            super::poll::do_epoll_wait::<EpollEvent>(epfd, to, max, super::poll::millis(ms))
        })
    }
    fn epoll_pwait2(epfd: i32, to: usize, max: i32, time: UserPtr<[i64; 2]>, mask: usize, size: usize) {
        let timeout = super::poll::until(time, 1)?;
        let mask = super::poll::read_mask(mask, size)?;
        with_mask(mask, || super::poll::do_epoll_wait::<EpollEvent>(epfd, to, max, timeout))
    }
    fn bind(call: &mut Call, _fd: i32, addr: usize, len: usize) {
        with_address(call, BIND, addr, (2, len))
    }
    fn connect(call: &mut Call, _fd: i32, addr: usize, len: usize) {
        with_address(call, CONNECT, addr, (2, len))
    }
    fn sendto(call: &mut Call, _fd: i32, _buf: usize, _len: usize, _flags: u32, addr: usize, len: usize) {
        with_address(call, SENDTO, addr, (5, len))
    }
    fn sendmsg(call: &mut Call, _fd: i32, message: UserPtr<usize>, _flags: u32) {
        let length = message.add(1);
        if let (Ok(addr), Ok(len)) = (message.read(), length.read())
            && is_padded(addr, len)
        {
            // As on Linux the program's own structure is changed, if it can be: else the call says what is
            // wrong with it.
            length.write(ADDRESS).ok();
        }
        told(CALLS[SENDMSG].0(call.frame))
    }
    fn socketcall(call: &mut Call, which: u32, at: UserPtr<usize>) {
        one_of(&SOCKET_CALLS, call, which, at)
    }
    // What does not fit is shown as unlimited, which is the largest number with a sign.
    fn old_getrlimit(which: u32, at: UserPtr<[i32; 2]>) {
        let limit = current().process.limits.get(super::task::limit_of(which)?);
        at.write([limit.soft, limit.hard].map(|n| i32::try_from(n).unwrap_or(i32::MAX)))?;
        Ok(0)
    }
    fn old_select(at: UserPtr<[usize; 5]>) {
        let [count, read, write, except, time] = at.read()?;
        super::poll::select_until::<usize, isize>(count as i32, [read, write, except], UserPtr::new(time))
    }
    fn old_readdir(fd: i32, to: usize) {
        super::dir::list_one(fd, to)
    }
    fn old_mmap(at: UserPtr<[usize; 6]>) {
        let [addr, len, prot, flags, fd, offset] = at.read()?;
        super::mm::mmap_bytes([addr, len, prot, flags], fd as i32, offset)
    }
    fn semop(id: i32, at: usize, count: u32) {
        let operations = Operations { at, count, padded: true };
        super::ipc::operate(id, operations, None::<UserPtr<[isize; 2]>>)
    }
    fn semtimedop(id: i32, at: usize, count: u32, timeout: UserPtr<[isize; 2]>) {
        super::ipc::operate(id, Operations { at, count, padded: true }, timeout.non_null())
    }
    fn ipc(call: &mut Call) {
        super::ipc::multiplexed(call, true)
    }
    fn syscall(call: &mut Call, number: usize) {
        indirect(call, number)
    }
}
