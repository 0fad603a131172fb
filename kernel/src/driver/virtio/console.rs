//! The virtio console device: numbered ports, some of them terminals (`hvc0`, ...), the others character devices (`/dev/vport0p1`, ...). This
//! file has the device and its queues; `port` has what a character port does, `hvc` what a terminal does with its port.
//!
//! One lock guards the device and all its queues. It is taken in interrupts and held only while buffers change hands; wake-ups happen after it
//! is released, and nobody logs while holding it. Queues of a port are made when the port appears, its buffers when it is first used.

use super::{Device, Memory, hvc, port};
use crate::mm::DmaBuffer;
use crate::sched::WaitQueue;
use crate::sync::{IrqSpinGuard, IrqSpinLock, Mutex, Once};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bitflags::bitflags;
use core::sync::atomic::{AtomicUsize, Ordering};
use limen_linux_abi::Errno;
use virtio_drivers::Error;
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::Transport;

/// Slots of a queue.
const QUEUE: usize = 16;
/// Receive buffers of a port: QEMU sends at most 4 KiB at a time.
pub const RX_BUFFERS: usize = 8;
/// Bytes of one.
pub const RX_SIZE: usize = 4096;
/// Transmit buffers of a port.
pub const TX_BUFFERS: usize = 8;
/// Bytes of one.
pub const TX_SIZE: usize = 8192;
/// Bytes of a control message, name included.
const CONTROL_SIZE: usize = 256;

bitflags! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    struct Features: u64 {
        const SIZE = 1 << 0;
        const MULTIPORT = 1 << 1;
        const EMERGENCY_WRITE = 1 << 2;
        const VERSION_1 = 1 << 32;
    }
}

/// Control messages (virtio 1.2, 5.3.6.2).
mod event {
    pub const DEVICE_READY: u16 = 0;
    pub const PORT_ADD: u16 = 1;
    pub const PORT_REMOVE: u16 = 2;
    pub const PORT_READY: u16 = 3;
    pub const CONSOLE_PORT: u16 = 4;
    pub const RESIZE: u16 = 5;
    pub const PORT_OPEN: u16 = 6;
    pub const PORT_NAME: u16 = 7;
}

type Queue = Box<VirtQueue<Memory, QUEUE>>;

/// A piece of received data: which buffer, and which of its bytes are left.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    buffer: usize,
    from: usize,
    to: usize,
}

/// A port's queues and buffers.
pub struct Queues {
    id: u32,
    rx: Queue,
    tx: Queue,
    memory: Option<DmaBuffer>,
    /// Which buffer a token stands for.
    rx_tokens: [u8; QUEUE],
    tx_tokens: [u8; QUEUE],
    tx_lengths: [u16; TX_BUFFERS],
    /// Transmit buffers not at the device.
    tx_free: u16,
    /// Received, oldest first.
    ready: VecDeque<Piece>,
    /// The other end is open; ours is.
    pub host_open: bool,
    pub guest_open: bool,
    /// Unplugged.
    pub gone: bool,
    /// Somebody is handing input to the terminal, and shall look again.
    pub feeding: bool,
    pub feed_again: bool,
    /// Something was received, or room to send came free, and nobody was told yet.
    received: bool,
    room: bool,
}

impl Queues {
    /// Whether there is received data.
    pub fn has_data(&self) -> bool {
        !self.ready.is_empty()
    }
    /// Whether there is room to send.
    pub fn has_room(&self) -> bool {
        self.tx_free != 0
    }

    /// Whether the device has taken everything.
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

    /// Makes the buffers and gives the receiving ones to the device.
    fn fill(&mut self, device: &mut Device) -> Result<(), Errno> {
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

    /// Gives receive buffer `buffer` to the device; the caller notifies.
    fn offer(&mut self, buffer: usize) {
        // SAFETY: the buffer is inside the port's memory, and nobody uses it until its token is popped.
        let bytes = unsafe { core::slice::from_raw_parts_mut(self.rx_bytes(buffer), RX_SIZE) };
        // SAFETY: as above. There are more slots than buffers.
        if let Ok(token) = unsafe { self.rx.add(&[], &mut [bytes]) } {
            self.rx_tokens[usize::from(token) % QUEUE] = buffer as u8;
        }
    }

    /// Takes what the device has finished with; what that changed is remembered until the interrupt tells the port's users.
    fn reap(&mut self) {
        while let Some(token) = self.rx.peek_used() {
            let buffer = usize::from(self.rx_tokens[usize::from(token) % QUEUE]);
            // SAFETY: the slice that was added under this token.
            let bytes = unsafe { core::slice::from_raw_parts_mut(self.rx_bytes(buffer), RX_SIZE) };
            // SAFETY: as above.
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
            let buffer = usize::from(self.tx_tokens[usize::from(token) % QUEUE]);
            let n = usize::from(self.tx_lengths[buffer]);
            // SAFETY: the slice that was added under this token.
            let bytes = unsafe { core::slice::from_raw_parts(self.tx_bytes(buffer), n) };
            // SAFETY: as above.
            if unsafe { self.tx.pop_used(token, &[bytes], &mut []) }.is_err() {
                break;
            }
            self.tx_free |= 1 << buffer;
            self.room = true;
        }
    }
}

/// The queue a port receives on; it sends on the next one. Port 0 has the first two, then come those of control.
fn queue_index(id: u32) -> u16 {
    if id == 0 { 0 } else { (id * 2 + 2) as u16 }
}

struct Control {
    rx: Queue,
    tx: Queue,
    memory: DmaBuffer,
    tokens: [u8; QUEUE],
}

/// The device and everything under its lock.
pub struct Inner {
    device: Device,
    control: Option<Control>,
    /// By port number.
    pub ports: Vec<Option<Queues>>,
    /// Messages from the host not worked on yet: port, event, value, payload.
    events: VecDeque<(u32, u16, u16, Vec<u8>)>,
}

/// A port: what outlives its queues.
pub struct Port {
    /// Its device.
    pub console: &'static Console,
    /// Its number.
    pub id: u32,
    /// Readers, writers, pollers.
    pub wait: WaitQueue,
    /// One reader at a time.
    pub reader: Mutex<()>,
    /// Its name, if the host gave one.
    pub name: IrqSpinLock<String>,
    /// The terminal on it, if it is a console.
    pub terminal: Once<Arc<hvc::Hvc>>,
}

/// A console device.
pub struct Console {
    /// Its virtio number.
    pub index: u32,
    pub(super) inner: IrqSpinLock<Inner>,
    ports: IrqSpinLock<Vec<Arc<Port>>>,
    worker: WaitQueue,
    pending: AtomicUsize,
}

/// All devices.
static CONSOLES: IrqSpinLock<Vec<&'static Console>> = IrqSpinLock::new(Vec::new());

/// All ports of all devices.
pub fn all_ports() -> Vec<Arc<Port>> {
    let consoles = CONSOLES.lock().clone();
    consoles.iter().flat_map(|c| c.ports.lock().clone()).collect()
}

/// Starts a device.
pub fn start(mut device: Device, index: u32) -> Result<(), Error> {
    let features = device
        .transport
        .begin_init(Features::MULTIPORT | Features::VERSION_1);
    let multiport = features.contains(Features::MULTIPORT);
    device.bind(None);
    let mut control = None;
    if multiport {
        let rx = Box::new(VirtQueue::new(&mut device.transport, 2, false, false)?);
        let tx = Box::new(VirtQueue::new(&mut device.transport, 3, false, false)?);
        device.bind(Some(2));
        device.bind(Some(3));
        let memory = DmaBuffer::new((QUEUE + 1) * CONTROL_SIZE).ok_or(Error::DmaError)?;
        control = Some(Control {
            rx,
            tx,
            memory,
            tokens: [0; QUEUE],
        });
    }
    let connection = device.connection();
    let console: &'static Console = Box::leak(Box::new(Console {
        index,
        inner: IrqSpinLock::new(Inner {
            device,
            control,
            ports: Vec::new(),
            events: VecDeque::with_capacity(64),
        }),
        ports: IrqSpinLock::new(Vec::new()),
        worker: WaitQueue::new(),
        pending: AtomicUsize::new(0),
    }));
    if !multiport {
        console.inner.lock().add_queues(0)?;
    }
    console.inner.lock().device.transport.finish_init();
    if Device::connect(
        connection,
        "virtio-console",
        Box::new(move || console.interrupt()),
    )
    .is_err()
    {
        return Err(Error::Unsupported);
    }
    CONSOLES.lock().push(console);
    if multiport {
        let mut inner = console.inner.lock();
        inner.offer_control();
        inner.send_control(u32::MAX, event::DEVICE_READY, 1);
        drop(inner);
        // The ports there are from the start should be there when the first program looks: QEMU answers at once or nearly so.
        let until = crate::time::now_ns() + 20_000_000;
        while !console.work() && crate::time::now_ns() < until {
            crate::arch::irq::spin_hint();
        }
        while console.work() {}
        crate::sched::spawn_kthread("virtio-console", move || {
            loop {
                console
                    .worker
                    .wait_until_uninterruptible(|| console.pending.load(Ordering::Acquire) > 0);
                console.work();
            }
        });
    } else {
        let port = console.add_port(0);
        console.make_terminal(&port);
    }
    Ok(())
}

impl Inner {
    fn add_queues(&mut self, id: u32) -> Result<(), Error> {
        while self.ports.len() <= id as usize {
            self.ports.push(None);
        }
        let index = queue_index(id);
        let rx = Box::new(VirtQueue::new(&mut self.device.transport, index, false, false)?);
        let tx = Box::new(VirtQueue::new(
            &mut self.device.transport,
            index + 1,
            false,
            false,
        )?);
        self.device.bind(Some(index));
        self.device.bind(Some(index + 1));
        self.ports[id as usize] = Some(Queues {
            id,
            rx,
            tx,
            memory: None,
            rx_tokens: [0; QUEUE],
            tx_tokens: [0; QUEUE],
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
        });
        Ok(())
    }

    /// Gives the control receive buffers to the device.
    fn offer_control(&mut self) {
        let Some(control) = &mut self.control else { return };
        for buffer in 0..QUEUE {
            control.offer(buffer);
        }
        self.device.transport.notify(2);
    }

    /// Sends a control message and waits until the device has it.
    fn send_control(&mut self, id: u32, event: u16, value: u16) {
        let Some(control) = &mut self.control else { return };
        let at = control.memory.as_ptr().wrapping_add(QUEUE * CONTROL_SIZE);
        // SAFETY: the last slot of the control memory is the sender's, under the device's lock.
        let bytes = unsafe { core::slice::from_raw_parts_mut(at, 8) };
        bytes[..4].copy_from_slice(&id.to_le_bytes());
        bytes[4..6].copy_from_slice(&event.to_le_bytes());
        bytes[6..].copy_from_slice(&value.to_le_bytes());
        let bytes = &*bytes;
        // The device always takes control messages at once.
        let _ = control
            .tx
            .add_notify_wait_pop(&[bytes], &mut [], &mut self.device.transport);
    }

    /// Takes control messages from the device.
    fn reap_control(&mut self) -> bool {
        let Some(control) = &mut self.control else {
            return false;
        };
        let mut any = false;
        while let Some((buffer, n)) = control.pop() {
            let at = control.memory.as_ptr().wrapping_add(buffer * CONTROL_SIZE);
            // SAFETY: the device has given the buffer back.
            let bytes = unsafe { core::slice::from_raw_parts(at, n.min(CONTROL_SIZE)) };
            if let Some((head, payload)) = bytes.split_at_checked(8) {
                let id = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
                let event = u16::from_le_bytes([head[4], head[5]]);
                let value = u16::from_le_bytes([head[6], head[7]]);
                self.events.push_back((id, event, value, payload.to_vec()));
                any = true;
            }
            control.offer(buffer);
        }
        if any {
            self.device.transport.notify(2);
        }
        any
    }

    /// The queues of port `id`.
    pub fn port(&mut self, id: u32) -> Option<&mut Queues> {
        self.ports.get_mut(id as usize)?.as_mut()
    }

    /// Puts `fill(buffer)` bytes into a free transmit buffer and sends it. `None` if there is no free one or nothing to send.
    pub fn send(&mut self, id: u32, fill: impl FnOnce(&mut [u8]) -> usize) -> Option<usize> {
        let queues = self.ports.get_mut(id as usize)?.as_mut()?;
        if queues.memory.is_none() || queues.tx_free == 0 {
            return None;
        }
        let buffer = queues.tx_free.trailing_zeros() as usize;
        // SAFETY: a free buffer is ours until it is added to the queue.
        let n = fill(unsafe { core::slice::from_raw_parts_mut(queues.tx_bytes(buffer), TX_SIZE) });
        if n == 0 {
            return None;
        }
        // SAFETY: the bytes just filled in stay untouched until the token is popped.
        let bytes = unsafe { core::slice::from_raw_parts(queues.tx_bytes(buffer), n) };
        // SAFETY: as above.
        let token = unsafe { queues.tx.add(&[bytes], &mut []) }.ok()?;
        queues.tx_tokens[usize::from(token) % QUEUE] = buffer as u8;
        queues.tx_lengths[buffer] = n as u16;
        queues.tx_free &= !(1 << buffer);
        let notify = queues.tx.should_notify();
        if notify {
            self.device.transport.notify(queue_index(id) + 1);
        }
        Some(n)
    }

    /// Takes finished buffers of one port without waiting for the interrupt (which still comes, and wakes).
    pub fn reap(&mut self, id: u32) {
        if let Some(queues) = self.port(id) {
            queues.reap();
        }
    }

    /// The oldest received piece, taken out of the queue: nobody else sees it until it is put back or done with.
    pub fn take_piece(&mut self, id: u32) -> Option<Piece> {
        self.port(id)?.ready.pop_front()
    }

    /// The bytes of a piece.
    pub fn piece_bytes(&mut self, id: u32, piece: Piece) -> &[u8] {
        let Some(queues) = self.port(id) else { return &[] };
        // SAFETY: a taken piece lies in a buffer the device has given back.
        unsafe {
            core::slice::from_raw_parts(
                queues.rx_bytes(piece.buffer).add(piece.from),
                piece.to - piece.from,
            )
        }
    }

    /// Ends a turn with `piece`, of which `used` bytes were used: the rest is next in line, or its buffer goes back to the device.
    pub fn finish_piece(&mut self, id: u32, piece: Piece, used: usize) {
        let Some(queues) = self.port(id) else { return };
        if piece.from + used < piece.to {
            queues.ready.push_front(Piece {
                from: piece.from + used,
                ..piece
            });
            return;
        }
        queues.offer(piece.buffer);
        let notify = queues.rx.should_notify();
        if notify {
            self.device.transport.notify(queue_index(id));
        }
    }
}

impl Control {
    fn slice(&mut self, buffer: usize) -> &'static mut [u8] {
        let at = self.memory.as_ptr().wrapping_add(buffer * CONTROL_SIZE);
        // SAFETY: inside the control memory, which lives as long as the device; used only between `pop` and `offer`.
        unsafe { core::slice::from_raw_parts_mut(at, CONTROL_SIZE) }
    }
    fn offer(&mut self, buffer: usize) {
        let bytes = self.slice(buffer);
        // SAFETY: nobody touches the buffer until its token is popped.
        if let Ok(token) = unsafe { self.rx.add(&[], &mut [bytes]) } {
            self.tokens[usize::from(token) % QUEUE] = buffer as u8;
        }
    }
    fn pop(&mut self) -> Option<(usize, usize)> {
        let token = self.rx.peek_used()?;
        let buffer = usize::from(self.tokens[usize::from(token) % QUEUE]);
        let bytes = self.slice(buffer);
        // SAFETY: the slice that was added under this token.
        let n = unsafe { self.rx.pop_used(token, &[], &mut [bytes]) }.ok()?;
        Some((buffer, n as usize))
    }
}

impl Console {
    /// The device's state.
    pub fn lock(&self) -> IrqSpinGuard<'_, Inner> {
        self.inner.lock()
    }

    fn interrupt(&self) {
        let mut inner = self.inner.lock();
        inner.device.acknowledge();
        let control = inner.reap_control();
        drop(inner);
        if control {
            self.pending.fetch_add(1, Ordering::Release);
            self.worker.wake_all();
        }
        let mut i = 0;
        loop {
            // One port at a time: the list is only locked to pick the next.
            let Some(port) = self.ports.lock().get(i).cloned() else {
                break;
            };
            i += 1;
            let (received, room) = match self.inner.lock().port(port.id) {
                Some(queues) if queues.memory.is_some() => {
                    queues.reap();
                    (
                        core::mem::take(&mut queues.received),
                        core::mem::take(&mut queues.room),
                    )
                }
                _ => continue,
            };
            port.changed(received, room);
        }
    }

    /// Works on control messages. Returns whether there was one.
    fn work(&'static self) -> bool {
        self.pending.store(0, Ordering::Release);
        let mut any = false;
        loop {
            let mut inner = self.inner.lock();
            inner.reap_control();
            let Some((id, event, value, payload)) = inner.events.pop_front() else {
                return any;
            };
            drop(inner);
            any = true;
            self.handle(id, event, value, &payload);
        }
    }

    fn find(&self, id: u32) -> Option<Arc<Port>> {
        self.ports.lock().iter().find(|p| p.id == id).cloned()
    }

    fn add_port(&'static self, id: u32) -> Arc<Port> {
        let port = Arc::new(Port {
            console: self,
            id,
            wait: WaitQueue::new(),
            reader: Mutex::new(()),
            name: IrqSpinLock::new(String::new()),
            terminal: Once::new(),
        });
        self.ports.lock().push(port.clone());
        port
    }

    fn handle(&'static self, id: u32, event: u16, value: u16, payload: &[u8]) {
        // As many ports as a device can have (virtio 1.2: `max_nr_ports` fits; Linux allows 511).
        if id > 511 {
            return;
        }
        let port = self.find(id);
        match (event, port) {
            (event::PORT_ADD, None) => {
                let mut inner = self.inner.lock();
                let made = inner.add_queues(id);
                drop(inner);
                if made.is_err() {
                    self.inner.lock().send_control(id, event::PORT_READY, 0);
                    return;
                }
                let port = self.add_port(id);
                port::register(&port);
                self.inner.lock().send_control(id, event::PORT_READY, 1);
            }
            (event::PORT_ADD, Some(port)) => {
                // Plugged in again.
                if let Some(queues) = self.inner.lock().port(id) {
                    queues.gone = false;
                }
                self.inner.lock().send_control(port.id, event::PORT_READY, 1);
            }
            (event::PORT_REMOVE, Some(port)) => {
                if let Some(queues) = self.inner.lock().port(id) {
                    queues.gone = true;
                    queues.host_open = false;
                }
                port.changed(true, true);
                if let Some(hvc) = port.terminal.get() {
                    hvc.tty().hang_up();
                }
            }
            (event::CONSOLE_PORT, Some(port)) => {
                self.make_terminal(&port);
                self.inner.lock().send_control(id, event::PORT_OPEN, 1);
            }
            (event::RESIZE, Some(port)) => {
                if let (Some(hvc), [r0, r1, c0, c1, ..]) = (port.terminal.get(), payload) {
                    let rows = u16::from_le_bytes([*r0, *r1]);
                    let columns = u16::from_le_bytes([*c0, *c1]);
                    hvc.tty().resize([rows, columns, 0, 0]);
                }
            }
            (event::PORT_OPEN, Some(port)) => {
                if let Some(queues) = self.inner.lock().port(id) {
                    queues.host_open = value != 0;
                }
                port.changed(true, true);
            }
            (event::PORT_NAME, Some(port)) => {
                let text = payload.split(|b| *b == 0).next().unwrap_or_default();
                *port.name.lock() = String::from_utf8_lossy(text).into_owned();
            }
            _ => {}
        }
    }

    fn make_terminal(&'static self, port: &Arc<Port>) {
        if port.terminal.get().is_some() {
            return;
        }
        if let Err(e) = self.prepare(port.id) {
            warning!("virtio{}: port {}: {e:?}", self.index, port.id);
            return;
        }
        if let Some(queues) = self.inner.lock().port(port.id) {
            queues.host_open = true;
            queues.guest_open = true;
        }
        hvc::make(port);
    }

    /// Makes the buffers of a port.
    fn prepare(&self, id: u32) -> Result<(), Errno> {
        let mut guard = self.inner.lock();
        let Inner { device, ports, .. } = &mut *guard;
        let queues = ports
            .get_mut(id as usize)
            .and_then(Option::as_mut)
            .ok_or(Errno::ENODEV)?;
        queues.fill(device)
    }

    /// Our end of a character port is opened. `EBUSY` if it is already.
    pub fn open(&self, id: u32) -> Result<(), Errno> {
        self.prepare(id)?;
        let mut inner = self.inner.lock();
        let queues = inner.port(id).ok_or(Errno::ENODEV)?;
        if queues.gone {
            return Err(Errno::ENODEV);
        }
        if core::mem::replace(&mut queues.guest_open, true) {
            return Err(Errno::EBUSY);
        }
        inner.send_control(id, event::PORT_OPEN, 1);
        Ok(())
    }

    /// Our end is closed: what was received and not read is dropped.
    pub fn close(&self, id: u32) {
        let mut inner = self.inner.lock();
        inner.send_control(id, event::PORT_OPEN, 0);
        while let Some(piece) = inner.take_piece(id) {
            inner.finish_piece(id, piece, RX_SIZE);
        }
        if let Some(queues) = inner.port(id) {
            queues.guest_open = false;
        }
    }
}

impl Port {
    /// Wakes whoever waits for what happened.
    fn changed(&self, received: bool, room: bool) {
        if let Some(hvc) = self.terminal.get() {
            if received {
                hvc.feed();
            }
            if room {
                hvc.send();
            }
        } else if received || room {
            self.wait.wake_all();
        }
    }
}
