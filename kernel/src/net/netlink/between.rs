//! `NETLINK_USERSOCK`: programs send to each other.

use super::{Protocol, Request};
use limen_linux_abi::Errno;

/// `NETLINK_USERSOCK`.
pub const NUMBER: u32 = 2;

pub struct Between;

impl Protocol for Between {
    fn groups(&self) -> u32 {
        32
    }
    fn receive(&self, _: &mut Request<'_>) -> Result<u32, Errno> {
        Err(Errno::ECONNREFUSED)
    }
    fn listens(&self) -> bool {
        false
    }
    fn anyone_sends(&self) -> bool {
        true
    }
}
