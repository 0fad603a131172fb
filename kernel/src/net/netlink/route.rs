//! `NETLINK_ROUTE`. There are no network devices, so every question is one that nobody answers. C libraries
//! use such sockets to be told of POSIX message queues (`mq_notify`).

use super::{Protocol, Request};
use crate::task::creds::cap;
use limen_linux_abi::Errno;
use limen_netlink::{flag, kind};

/// `NETLINK_ROUTE`.
pub const NUMBER: u32 = 0;

/// The last kind of message that there is (`RTM_MAX`).
const LAST: u16 = 123;
/// Every fourth kind asks, and changes nothing (`RTNL_KIND_GET`).
const GET: u16 = 2;

pub struct Route;

impl Protocol for Route {
    fn groups(&self) -> u32 {
        32
    }
    fn anyone_hears(&self) -> bool {
        true
    }
    fn receive(&self, request: &mut Request<'_>) -> Result<u32, Errno> {
        let header = &request.message.header;
        let asked = header.kind;
        if header.flags & flag::REQUEST == 0 || asked < kind::MIN {
            return Ok(0);
        }
        if asked <= LAST {
            // Without the family there is no question.
            if request.message.payload.is_empty() {
                return Ok(0);
            }
            if asked % 4 != GET && !request.net_capable(cap::NET_ADMIN) {
                return Err(Errno::EPERM);
            }
        }
        Err(Errno::EOPNOTSUPP)
    }
}
