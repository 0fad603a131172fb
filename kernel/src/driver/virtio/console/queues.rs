//! The queues of a port and their buffers.

use super::super::Device;
use super::{Queue, SLOTS};
use crate::mm::DmaBuffer;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use limen_linux_abi::Errno;
use virtio_drivers::Error;
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::{SomeTransport, Transport};

/// How many receive buffers a port has. QEMU sends at most 4 KiB at a time.
pub const RX_BUFFERS: usize = 8;
/// The size of a receive buffer in bytes.
pub const RX_SIZE: usize = 4096;
/// How many transmit buffers a port has.
pub const TX_BUFFERS: usize = 8;
/// The size of a transmit buffer in bytes.
pub const TX_SIZE: usize = 8192;

/// Received data: in which buffer, and which of its bytes are left.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    buffer: usize,
    from: usize,
    to: usize,
}

/// The queues and buffers of a port.
pub struct Queues {
    id: u32,
    rx: Queue,
    tx: Queue,
    memory: Option<DmaBuffer>,
    /// The buffer for which each token stands.
    rx_tokens: [u8; SLOTS],
    tx_tokens: [u8; SLOTS],
    tx_lengths: [u16; TX_BUFFERS],
    /// The transmit buffers that the device does not have, a bit each.
    tx_free: u16,
    /// Received data, the oldest first.
    ready: VecDeque<Piece>,
    /// The host has opened its end.
    pub host_open: bool,
    pub guest_open: bool,
    /// The port was unplugged.
    pub gone: bool,
    /// A thread is giving input to the terminal, and has to look again afterwards.
    pub feeding: bool,
    pub feed_again: bool,
    /// Data was received, or room to send was made, and nobody has been told yet.
    received: bool,
    room: bool,
}

impl Queues {
    /// Sets up the queues of port `id`, still without buffers.
    pub fn new(transport: &mut SomeTransport<'static>, id: u32) -> Result<Self, Error> {
        let index = queue_index(id);
        Ok(Self {
            id,
            rx: Box::new(VirtQueue::new(transport, index, false, false)?),
            tx: Box::new(VirtQueue::new(transport, index + 1, false, false)?),
            memory: None,
            rx_tokens: [0; SLOTS],
            tx_tokens: [0; SLOTS],
            tx_lengths: [0; TX_BUFFERS],
            tx_free: 0,
            ready: VecDeque::with_capacity(RX_BUFFERS),
            host_open: false,
            guest_open: false,
            gone: false,
            feeding: false,
            feed_again: false,
            received: false,
            room: false,
        })
    }

    /// Whether there is received data.
    pub fn has_data(&self) -> bool {
        !self.ready.is_empty()
    }
    /// Whether there is room to send.
    pub fn has_room(&self) -> bool {
        self.tx_free != 0
    }

    /// Whether the device has taken all data.
    pub fn all_sent(&self) -> bool {
        self.memory.is_none() || self.tx_free == (1 << TX_BUFFERS) - 1
    }

    fn rx_bytes(&mut self, buffer: usize) -> *mut u8 {
        let memory = self
            .memory
            .as_ref()
            .map_or(core::ptr::null_mut(), DmaBuffer::as_ptr);
        memory.wrapping_add(buffer * RX_SIZE)
    }

    fn tx_bytes(&mut self, buffer: usize) -> *mut u8 {
        let memory = self
            .memory
            .as_ref()
            .map_or(core::ptr::null_mut(), DmaBuffer::as_ptr);
        memory.wrapping_add(RX_BUFFERS * RX_SIZE + buffer * TX_SIZE)
    }

    /// Allocates the buffers and gives the receive buffers to the device. `ENOMEM`.
    pub fn fill(&mut self, device: &mut Device) -> Result<(), Errno> {
        if self.memory.is_some() {
            return Ok(());
        }
        self.memory = Some(DmaBuffer::new(RX_BUFFERS * RX_SIZE + TX_BUFFERS * TX_SIZE).ok_or(Errno::ENOMEM)?);
        self.tx_free = (1 << TX_BUFFERS) - 1;
        for buffer in 0..RX_BUFFERS {
            self.offer(buffer);
        }
        device.transport.notify(queue_index(self.id));
        Ok(())
    }

    /// Gives receive buffer `buffer` to the device. The caller notifies the device.
    fn offer(&mut self, buffer: usize) {
        // SAFETY: the buffer is in the port's memory, and nothing uses it until its token is popped.
        let bytes = unsafe { core::slice::from_raw_parts_mut(self.rx_bytes(buffer), RX_SIZE) };
        // SAFETY: as for `bytes`. There are more slots than buffers.
        if let Ok(token) = unsafe { self.rx.add(&[], &mut [bytes]) } {
            self.rx_tokens[usize::from(token) % SLOTS] = buffer as u8;
        }
    }

    /// Takes buffers back that the device has finished. Notes whether data or room came; the interrupt
    /// handler tells the port's users.
    pub fn reap(&mut self) {
        while let Some(token) = self.rx.peek_used() {
            let buffer = usize::from(self.rx_tokens[usize::from(token) % SLOTS]);
            // SAFETY: the slice that was added under this token.
            let bytes = unsafe { core::slice::from_raw_parts_mut(self.rx_bytes(buffer), RX_SIZE) };
            // SAFETY: `bytes` is the slice of this token.
            let Ok(n) = (unsafe { self.rx.pop_used(token, &[], &mut [bytes]) }) else {
                break;
            };
            self.ready.push_back(Piece {
                buffer,
                from: 0,
                to: (n as usize).min(RX_SIZE),
            });
            self.received = true;
        }
        while let Some(token) = self.tx.peek_used() {
            let buffer = usize::from(self.tx_tokens[usize::from(token) % SLOTS]);
            let n = usize::from(self.tx_lengths[buffer]);
            // SAFETY: the slice that was added under this token.
            let bytes = unsafe { core::slice::from_raw_parts(self.tx_bytes(buffer), n) };
            // SAFETY: `bytes` is the slice of this token.
            if unsafe { self.tx.pop_used(token, &[bytes], &mut []) }.is_err() {
                break;
            }
            self.tx_free |= 1 << buffer;
            self.room = true;
        }
    }

    /// Takes buffers back that the device has finished. Whether data or room came that nobody was told of.
    pub fn take_news(&mut self) -> (bool, bool) {
        if self.memory.is_some() {
            self.reap();
        }
        (
            core::mem::take(&mut self.received),
            core::mem::take(&mut self.room),
        )
    }

    /// Lets `fill` write into a free transmit buffer and queues the bytes. `None`: no buffer is free, or
    /// `fill` wrote nothing. The second result: the caller has to notify the device.
    pub fn send(&mut self, fill: impl FnOnce(&mut [u8]) -> usize) -> Option<(usize, bool)> {
        if self.memory.is_none() || self.tx_free == 0 {
            return None;
        }
        let buffer = self.tx_free.trailing_zeros() as usize;
        // SAFETY: nothing uses a free buffer until it is added to the queue.
        let n = fill(unsafe { core::slice::from_raw_parts_mut(self.tx_bytes(buffer), TX_SIZE) });
        if n == 0 {
            return None;
        }
        // SAFETY: nothing uses these bytes until the token is popped.
        let bytes = unsafe { core::slice::from_raw_parts(self.tx_bytes(buffer), n) };
        // SAFETY: the buffer is no longer free, and `reap` pops its token.
        let token = unsafe { self.tx.add(&[bytes], &mut []) }.ok()?;
        self.tx_tokens[usize::from(token) % SLOTS] = buffer as u8;
        self.tx_lengths[buffer] = n as u16;
        self.tx_free &= !(1 << buffer);
        Some((n, self.tx.should_notify()))
    }

    /// Takes the oldest received data out of the queue. The caller alone has it until it calls
    /// [`Queues::finish`].
    pub fn take(&mut self) -> Option<Piece> {
        self.ready.pop_front()
    }

    /// The bytes of a piece.
    pub fn bytes(&mut self, piece: Piece) -> &[u8] {
        // SAFETY: a taken piece lies in a buffer the device has given back.
        unsafe {
            core::slice::from_raw_parts(self.rx_bytes(piece.buffer).add(piece.from), piece.to - piece.from)
        }
    }

    /// The caller has used `used` bytes of `piece`. If bytes are left, they are the next to be taken; else
    /// their buffer goes back to the device. Returns whether the caller has to notify the device.
    pub fn finish(&mut self, piece: Piece, used: usize) -> bool {
        if piece.from + used < piece.to {
            self.ready.push_front(Piece {
                from: piece.from + used,
                ..piece
            });
            return false;
        }
        self.offer(piece.buffer);
        self.rx.should_notify()
    }
}

/// The queue on which a port receives; it sends on the next one. Port 0 has the first two queues, then come
/// those for control.
pub fn queue_index(id: u32) -> u16 {
    if id == 0 { 0 } else { (id * 2 + 2) as u16 }
}
