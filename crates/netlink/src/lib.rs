//! Netlink (`linux/netlink.h`): messages in what a process sends, the messages that answer them, and the
//! addresses of its sockets. All numbers are in the processor's byte order.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod address;
mod message;

pub use address::Address;
pub use message::{HEADER, Header, Message, NoMemory, acknowledgement, flag, kind, messages, packed};
