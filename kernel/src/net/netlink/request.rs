//! What a socket sends to the kernel, and the order in which it is answered: all acknowledgements of a
//! datagram come before all answers, as on Linux.

use super::queue::{Datagram, Dump};
use super::socket::{Flags, Socket};
use crate::mm::reserve::{handling, room};
use crate::task::current;
use alloc::boxed::Box;
use alloc::vec::Vec;
use limen_linux_abi::Errno;
use limen_netlink::{Message, flag};

/// What is sent after the acknowledgements.
enum Answer {
    One(Vec<u8>),
    Several(Box<dyn Dump>),
}

/// A message that the kernel is to answer.
pub struct Request<'a> {
    /// The message.
    pub message: Message<'a>,
    from: &'a Socket,
    /// Whether the sender said that it is for the kernel.
    addressed: bool,
    /// Whether it is to be told of success (still).
    acknowledges: bool,
    answers: &'a mut Vec<Answer>,
}

impl Request<'_> {
    /// The socket that sent it.
    pub fn from(&self) -> &Socket {
        self.from
    }

    /// Whether the running thread has a capability; and also who made the socket, unless the thread gave an
    /// address: else it may have been made to write to a descriptor of which it knows nothing.
    pub fn capable(&self, cap: u32) -> bool {
        current().creds().capable(cap) && (self.addressed || self.from.opener_capable(cap))
    }

    /// The same in the user namespace that owns the network namespace of the socket.
    pub fn net_capable(&self, cap: u32) -> bool {
        current().creds().capable_in(self.from.net.owner(), cap)
            && (self.addressed || self.from.opener_net_capable(cap))
    }

    /// An answer in one datagram. `ENOMEM`.
    pub fn answer(&mut self, bytes: Vec<u8>) -> Result<(), Errno> {
        room(self.answers, 1)?;
        self.answers.push(Answer::One(bytes));
        Ok(())
    }

    /// An answer in several datagrams. `EBUSY`: too many have begun that nobody has taken; `ENOMEM`.
    pub fn answer_in_parts(&mut self, dump: Box<dyn Dump>) -> Result<(), Errno> {
        let several = |answer: &&Answer| matches!(answer, Answer::Several(_));
        self.from.may_dump(self.answers.iter().filter(several).count())?;
        room(self.answers, 1)?;
        self.answers.push(Answer::Several(dump));
        Ok(())
    }

    /// Tells the sender of success now, if it wants that, and not once more. For what has effects that it
    /// sees. May sleep.
    pub fn acknowledge(&mut self) {
        if core::mem::take(&mut self.acknowledges) {
            acknowledge(self.from, &self.message, 0);
        }
    }
}

/// Tells a socket of a message's result. May sleep.
fn acknowledge(to: &Socket, message: &Message<'_>, told: i32) {
    let capped = to.has(Flags::CAP_ACK);
    // It may be as long as what was sent.
    match handling(|| limen_netlink::acknowledgement(message, told, to.port(), capped)) {
        Ok(bytes) => {
            let _ = to.deliver(Datagram::of_kernel(bytes, 0));
        }
        // As on Linux: it sees that something is missing.
        Err(limen_netlink::NoMemory) => to.fail(Errno::ENOBUFS),
    }
}

/// The kernel gets what a socket sent. `addressed`: the sender said that it is for the kernel.
pub(super) fn to_kernel(from: &Socket, sent: &[u8], addressed: bool) -> Result<(), Errno> {
    let protocol = super::protocol(from.protocol).filter(|protocol| protocol.listens());
    let protocol = protocol.ok_or(Errno::ECONNREFUSED)?;
    let mut answers = Vec::new();
    for message in limen_netlink::messages(sent) {
        let mut request = Request {
            acknowledges: message.header.flags & flag::ACK != 0,
            message,
            from,
            addressed,
            answers: &mut answers,
        };
        let told = match protocol.receive(&mut request) {
            Ok(number) => number.cast_signed(),
            Err(errno) => -i32::from(errno.get()),
        };
        if told != 0 || request.acknowledges {
            acknowledge(from, &request.message, told);
        }
    }
    for answer in answers {
        let done = match answer {
            // What does not fit is lost, and the program is told that.
            Answer::One(bytes) => from.deliver(Datagram::of_kernel(bytes, 0)),
            Answer::Several(dump) => from.dump(dump),
        };
        if let Err(Errno::ENOMEM | Errno::EBUSY) = done {
            from.fail(Errno::ENOBUFS);
        }
    }
    protocol.received();
    Ok(())
}
