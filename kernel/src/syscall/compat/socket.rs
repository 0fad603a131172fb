//! Sockets: messages with pointers and sizes of 32 bits.

use super::super::{Handler, socket};
use crate::mm::user::UserPtr;

/// The calls of `socketcall`.
const CALLS: [(Handler, usize); socket::CALLS.len()] = {
    let mut all = socket::CALLS;
    all[SENDMSG].0 = sendmsg;
    all[SENDMSG + 1].0 = recvmsg;
    all[RECVMMSG].0 = recvmmsg;
    all[RECVMMSG + 1].0 = sendmmsg;
    all
};

/// Places in the list of socket calls: `sendmsg`, and behind it `recvmsg`; `recvmmsg`, and behind it
/// `sendmmsg`.
const SENDMSG: usize = 15;
const RECVMMSG: usize = 18;

crate::syscalls! {
    fn socketcall(call: &mut Call, which: u32, at: UserPtr<u32>) {
        socket::one_of(&CALLS, call, which, at)
    }
    fn sendmsg(fd: i32, message: usize, flags: u32) {
        socket::send_one::<u32>(fd, message, flags)
    }
    fn recvmsg(fd: i32, message: usize, flags: u32) {
        socket::receive_one::<u32>(fd, message, flags)
    }
    fn sendmmsg(fd: i32, vector: usize, count: u32, flags: u32) {
        socket::send_many::<u32>(fd, (vector, count), flags)
    }
    fn recvmmsg(fd: i32, vector: usize, count: u32, flags: u32, timeout: UserPtr<[i32; 2]>) {
        socket::receive_several::<u32, i32>(fd, (vector, count), flags, timeout)
    }
    fn recvmmsg_time64(fd: i32, vector: usize, count: u32, flags: u32, timeout: UserPtr<[i64; 2]>) {
        socket::receive_several::<u32, i64>(fd, (vector, count), flags, timeout)
    }
}
