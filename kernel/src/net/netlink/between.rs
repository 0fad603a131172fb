//! `NETLINK_USERSOCK`: programs send to each other.

use super::{Protocol, Socket};
use limen_linux_abi::Errno;
use limen_netlink::Message;

/// `NETLINK_USERSOCK`.
pub const NUMBER: u32 = 2;

pub struct Between;

impl Protocol for Between {
    fn groups(&self) -> u32 {
        32
    }
    fn receive(&self, _: &Socket, _: &Message<'_>, _: &mut bool) -> Result<u32, Errno> {
        Err(Errno::ECONNREFUSED)
    }
    fn listens(&self) -> bool {
        false
    }
    fn anyone_sends(&self) -> bool {
        true
    }
}
