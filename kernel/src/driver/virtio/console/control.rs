//! What host and guest tell each other about ports (virtio 1.2, 5.3.6.2).

use super::{Queue, SLOTS};
use crate::mm::DmaBuffer;
use alloc::boxed::Box;
use alloc::vec::Vec;
use virtio_drivers::Error;
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::SomeTransport;

/// The queue on which control messages come.
pub const RECEIVES: u16 = 2;
/// The queue on which they are sent.
pub const SENDS: u16 = 3;
/// The size of a control message in bytes, name included.
const CONTROL_SIZE: usize = 256;

/// What a message says.
pub mod event {
    pub const DEVICE_READY: u16 = 0;
    pub const PORT_ADD: u16 = 1;
    pub const PORT_REMOVE: u16 = 2;
    pub const PORT_READY: u16 = 3;
    pub const CONSOLE_PORT: u16 = 4;
    pub const RESIZE: u16 = 5;
    pub const PORT_OPEN: u16 = 6;
    pub const PORT_NAME: u16 = 7;
}

/// A message of the host.
pub struct Message {
    /// The port.
    pub id: u32,
    /// One of [`event`].
    pub event: u16,
    /// What some events need.
    pub value: u16,
    /// A size, or a name.
    pub payload: Vec<u8>,
}

/// The queues for messages, and their buffers.
pub struct Control {
    rx: Queue,
    tx: Queue,
    /// A buffer for each slot in which a message can come, and one to send from.
    memory: DmaBuffer,
    /// The buffer for which each token stands.
    tokens: [u8; SLOTS],
}

impl Control {
    /// Sets the queues up.
    pub fn new(transport: &mut SomeTransport<'static>) -> Result<Self, Error> {
        Ok(Self {
            rx: Box::new(VirtQueue::new(transport, RECEIVES, false, false)?),
            tx: Box::new(VirtQueue::new(transport, SENDS, false, false)?),
            memory: DmaBuffer::new((SLOTS + 1) * CONTROL_SIZE).ok_or(Error::DmaError)?,
            tokens: [0; SLOTS],
        })
    }

    /// Gives all buffers to the device. The caller notifies it.
    pub fn offer_all(&mut self) {
        (0..SLOTS).for_each(|buffer| self.offer(buffer));
    }

    /// Sends a message and waits until the device has taken it, which it does at once.
    pub fn send(&mut self, transport: &mut SomeTransport<'static>, id: u32, event: u16, value: u16) {
        let at = self.memory.as_ptr().wrapping_add(SLOTS * CONTROL_SIZE);
        // SAFETY: the last buffer is used only for sending, under the device's lock.
        let bytes = unsafe { core::slice::from_raw_parts_mut(at, 8) };
        bytes[..4].copy_from_slice(&id.to_le_bytes());
        bytes[4..6].copy_from_slice(&event.to_le_bytes());
        bytes[6..].copy_from_slice(&value.to_le_bytes());
        let bytes = &*bytes;
        let _ = self.tx.add_notify_wait_pop(&[bytes], &mut [], transport);
    }

    /// Takes the messages that have come, and gives their buffers back. Returns whether there were any
    /// buffers: then the caller notifies the device.
    pub fn reap(&mut self, mut take: impl FnMut(Message)) -> bool {
        let mut any = false;
        while let Some((buffer, n)) = self.pop() {
            let bytes = &self.slice(buffer)[..n.min(CONTROL_SIZE)];
            if let Some((head, payload)) = bytes.split_at_checked(8) {
                take(Message {
                    id: u32::from_le_bytes([head[0], head[1], head[2], head[3]]),
                    event: u16::from_le_bytes([head[4], head[5]]),
                    value: u16::from_le_bytes([head[6], head[7]]),
                    payload: payload.to_vec(),
                });
            }
            self.offer(buffer);
            any = true;
        }
        any
    }

    fn slice(&mut self, buffer: usize) -> &'static mut [u8] {
        let at = self.memory.as_ptr().wrapping_add(buffer * CONTROL_SIZE);
        // SAFETY: inside the control memory, which lives as long as the device. Used only between `pop` and
        // `offer`.
        unsafe { core::slice::from_raw_parts_mut(at, CONTROL_SIZE) }
    }
    fn offer(&mut self, buffer: usize) {
        let bytes = self.slice(buffer);
        // SAFETY: nothing uses the buffer until its token is popped.
        if let Ok(token) = unsafe { self.rx.add(&[], &mut [bytes]) } {
            self.tokens[usize::from(token) % SLOTS] = buffer as u8;
        }
    }
    fn pop(&mut self) -> Option<(usize, usize)> {
        let token = self.rx.peek_used()?;
        let buffer = usize::from(self.tokens[usize::from(token) % SLOTS]);
        let bytes = self.slice(buffer);
        // SAFETY: the slice that was added under this token.
        let n = unsafe { self.rx.pop_used(token, &[], &mut [bytes]) }.ok()?;
        Some((buffer, n as usize))
    }
}
