//! Messages.

use alloc::vec::Vec;

/// The size of a message's header in bytes.
pub const HEADER: usize = 16;
/// Messages begin at multiples of this.
const ALIGN: usize = 4;

/// Flags of messages (`NLM_F_*`).
#[allow(missing_docs, reason = "the names are Linux's")]
pub mod flag {
    pub const REQUEST: u16 = 1;
    pub const MULTI: u16 = 2;
    pub const ACK: u16 = 4;
    pub const ECHO: u16 = 8;
    pub const DUMP: u16 = 0x300;
    pub const CAPPED: u16 = 0x100;
}

/// Kinds of messages that all protocols have (`NLMSG_*`).
#[allow(missing_docs, reason = "the names are Linux's")]
pub mod kind {
    pub const NOOP: u16 = 1;
    pub const ERROR: u16 = 2;
    pub const DONE: u16 = 3;
    pub const OVERRUN: u16 = 4;
    /// The first that a protocol can give a meaning.
    pub const MIN: u16 = 16;
}

/// There is no memory for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMemory;

/// A message's header (`struct nlmsghdr`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// How many bytes it says that the message has, with the header.
    pub len: u32,
    /// What it is.
    pub kind: u16,
    /// See [`flag`].
    pub flags: u16,
    /// The number by which the sender knows the answer.
    pub seq: u32,
    /// The number of a socket.
    pub port: u32,
}

impl Header {
    /// Reads one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let &[l0, l1, l2, l3, k0, k1, f0, f1, s0, s1, s2, s3, p0, p1, p2, p3] = bytes.first_chunk()?;
        Some(Self {
            len: u32::from_ne_bytes([l0, l1, l2, l3]),
            kind: u16::from_ne_bytes([k0, k1]),
            flags: u16::from_ne_bytes([f0, f1]),
            seq: u32::from_ne_bytes([s0, s1, s2, s3]),
            port: u32::from_ne_bytes([p0, p1, p2, p3]),
        })
    }

    /// The opposite.
    pub fn to_bytes(self) -> [u8; HEADER] {
        let [l0, l1, l2, l3] = self.len.to_ne_bytes();
        let [k0, k1] = self.kind.to_ne_bytes();
        let [f0, f1] = self.flags.to_ne_bytes();
        let [s0, s1, s2, s3] = self.seq.to_ne_bytes();
        let [p0, p1, p2, p3] = self.port.to_ne_bytes();
        [l0, l1, l2, l3, k0, k1, f0, f1, s0, s1, s2, s3, p0, p1, p2, p3]
    }
}

/// A message that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Its header.
    pub header: Header,
    /// All of it, with the header.
    pub whole: &'a [u8],
    /// What follows the header.
    pub payload: &'a [u8],
}

/// The messages in what was sent, up to the first whose length cannot be.
pub fn messages(sent: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut rest = sent;
    core::iter::from_fn(move || {
        let header = Header::from_bytes(rest)?;
        let whole = rest.get(..header.len as usize)?;
        let payload = whole.get(HEADER..)?;
        let next = whole.len().checked_next_multiple_of(ALIGN)?;
        rest = rest.get(next..).unwrap_or(&[]);
        Some(Message {
            header,
            whole,
            payload,
        })
    })
}

/// A message with this header, whose length is made to fit, and these parts behind it; zeros fill it up.
///
/// # Errors
///
/// There is no memory.
pub fn packed(header: Header, parts: &[&[u8]]) -> Result<Vec<u8>, NoMemory> {
    let len = HEADER + parts.iter().map(|part| part.len()).sum::<usize>();
    let size = len.next_multiple_of(ALIGN);
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size).map_err(|_| NoMemory)?;
    let header = Header {
        len: u32::try_from(len).map_err(|_| NoMemory)?,
        ..header
    };
    bytes.extend_from_slice(&header.to_bytes());
    for part in parts {
        bytes.extend_from_slice(part);
    }
    bytes.resize(size, 0);
    Ok(bytes)
}

/// The answer (`NLMSG_ERROR`) to a message of the socket `port`. `told`: a negative error, 0 for success, or
/// a number that the request asked for. `capped`: it comes with the message's header only, as success always
/// does.
///
/// # Errors
///
/// There is no memory.
pub fn acknowledgement(of: &Message<'_>, told: i32, port: u32, capped: bool) -> Result<Vec<u8>, NoMemory> {
    let cut = told == 0 || capped;
    let header = Header {
        kind: kind::ERROR,
        flags: if cut { flag::CAPPED } else { 0 },
        seq: of.header.seq,
        port,
        len: 0,
    };
    let behind = if cut { &of.whole[..HEADER] } else { of.whole };
    packed(header, &[&told.to_ne_bytes(), behind])
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::Address;
    use proptest::prelude::*;
    use std::{format, vec::Vec};

    fn header(kind: u16, flags: u16) -> Header {
        Header {
            len: 0,
            kind,
            flags,
            seq: 7,
            port: 9,
        }
    }

    #[test]
    fn several_messages_are_found() {
        let mut sent = packed(header(1000, flag::REQUEST), &[b"abc"]).unwrap();
        assert_eq!(sent.len(), 20);
        sent.extend(packed(header(1001, 0), &[]).unwrap());
        let found: Vec<_> = messages(&sent).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].payload, b"abc");
        assert_eq!(found[0].header.len, 19);
        assert_eq!(found[1].header.kind, 1001);
    }

    #[test]
    fn the_last_need_not_be_filled_up() {
        let sent = packed(header(1000, 0), &[b"abc"]).unwrap();
        assert_eq!(messages(&sent[..19]).count(), 1);
        assert_eq!(messages(&sent[..18]).count(), 0);
    }

    #[test]
    fn acknowledgements() {
        let sent = packed(header(1000, flag::ACK), &[b"abcd"]).unwrap();
        let message = messages(&sent).next().unwrap();
        let told = acknowledgement(&message, 0, 5, false).unwrap();
        let answer = messages(&told).next().unwrap();
        assert_eq!(
            (answer.header.kind, answer.header.flags),
            (kind::ERROR, flag::CAPPED)
        );
        assert_eq!(
            (answer.header.seq, answer.header.port, answer.header.len),
            (7, 5, 36)
        );
        assert_eq!(answer.payload[..4], [0; 4]);
        let told = acknowledgement(&message, -22, 5, false).unwrap();
        let answer = messages(&told).next().unwrap();
        assert_eq!(answer.payload[..4], (-22i32).to_ne_bytes());
        assert_eq!(answer.payload[4..], *message.whole);
        let told = acknowledgement(&message, -22, 5, true).unwrap();
        assert_eq!(told.len(), 36);
    }

    #[test]
    fn addresses() {
        let address = Address { port: 3, groups: 6 };
        assert_eq!(Address::from_bytes(&address.to_bytes()), Some(address));
        assert_eq!(Address::from_bytes(&address.to_bytes()[..11]), None);
        assert_eq!(Address::from_bytes(&[0; 12]), None);
        assert_eq!(address.group(), 2);
        assert_eq!(Address::of_group(2).groups, 2);
        assert_eq!(Address::of_group(0), Address::default());
        assert_eq!(Address::of_group(33), Address::default());
    }

    proptest! {
        #[test]
        fn anything_can_be_sent(sent: Vec<u8>) {
            for message in messages(&sent) {
                prop_assert_eq!(message.whole.len(), message.header.len as usize);
                prop_assert_eq!(message.payload.len() + HEADER, message.whole.len());
            }
        }

        #[test]
        fn what_is_packed_is_found(payload: Vec<u8>, kind: u16, flags: u16) {
            let sent = packed(header(kind, flags), &[&payload]).unwrap();
            let message = messages(&sent).next().unwrap();
            prop_assert_eq!(message.payload, &payload[..]);
            prop_assert_eq!(sent.len() % 4, 0);
        }
    }
}
