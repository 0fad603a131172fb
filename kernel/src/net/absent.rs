//! Socket families that Linux has in distributions and this kernel does not. They also report the errors that
//! Linux gives for unknown types and protocols, by which programs see what they got wrong.

use crate::task::creds::cap;
use crate::task::current;
use crate::task::ns::net::NetRef;
use limen_linux_abi::Errno;

const INET: u32 = 2;
const INET6: u32 = 10;
const PACKET: u32 = 17;
const XDP: u32 = 44;

const STREAM: u32 = 1;
const DATAGRAM: u32 = 2;
const RAW: u32 = 3;
/// `SOCK_PACKET`: with family `INET` it means family `PACKET`.
const OLD_PACKET: u32 = 10;

/// Whether the family is one of these.
pub fn is_known(family: u32) -> bool {
    matches!(family, INET | INET6 | PACKET | XDP)
}

/// The error for a type and protocol of such a family.
pub fn check(family: u32, kind: u32, protocol: u32) -> Result<(), Errno> {
    match family {
        INET if kind == OLD_PACKET => packet(kind),
        INET | INET6 => internet(family, kind, protocol),
        PACKET => packet(kind),
        XDP => {
            raw_allowed()?;
            if kind == RAW {
                Ok(())
            } else {
                Err(Errno::ESOCKTNOSUPPORT)
            }
        }
        _ => Ok(()),
    }
}

fn raw_allowed() -> Result<(), Errno> {
    if current()
        .creds()
        .capable_in(NetRef::of_current().owner(), cap::NET_RAW)
    {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

fn internet(family: u32, kind: u32, protocol: u32) -> Result<(), Errno> {
    const TCP: u32 = 6;
    const UDP: u32 = 17;
    const UDPLITE: u32 = 136;
    const MPTCP: u32 = 262;
    /// One more than the last protocol.
    const END: u32 = 263;
    let echo = if family == INET { 1 } else { 58 };
    match (kind, protocol) {
        (_, END..) => Err(Errno::EINVAL),
        (STREAM, 0 | TCP | MPTCP) | (DATAGRAM, 0 | UDP | UDPLITE) => Ok(()),
        // As long as `ping_group_range` is empty, no group may send echo requests.
        (DATAGRAM, _) if protocol == echo => Err(Errno::EACCES),
        (RAW, 1..) => raw_allowed(),
        (STREAM | DATAGRAM | RAW, _) => Err(Errno::EPROTONOSUPPORT),
        _ => Err(Errno::ESOCKTNOSUPPORT),
    }
}

fn packet(kind: u32) -> Result<(), Errno> {
    raw_allowed()?;
    match kind {
        DATAGRAM | RAW | OLD_PACKET => Ok(()),
        _ => Err(Errno::ESOCKTNOSUPPORT),
    }
}
