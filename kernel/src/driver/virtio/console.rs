//! The virtio console device: numbered ports. Some are terminals (`hvc0`, ...), others character devices
//! (`/dev/vport0p1`, ...). This file has the device, `queues` the queues and buffers of a port, `control` the
//! messages of host and guest about ports, `port` the character devices, `hvc` the terminals.
//!
//! One lock protects the device and all its queues. Interrupt handlers take it, too. It is held only while
//! buffers change hands: sleepers are woken after it is released, and nothing is logged while it is held. The
//! queues of a port are made when the port appears, its buffers when it is first used.

mod control;
mod queues;

use self::control::{Control, Message, event};
pub use self::queues::{Piece, Queues, TX_SIZE};
use self::queues::{RX_SIZE, queue_index};
use super::{Device, Memory, hvc, port};
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

/// How many slots a queue has.
const SLOTS: usize = 16;

type Queue = Box<VirtQueue<Memory, SLOTS>>;

bitflags! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    struct Features: u64 {
        const SIZE = 1 << 0;
        const MULTIPORT = 1 << 1;
        const EMERGENCY_WRITE = 1 << 2;
        const VERSION_1 = 1 << 32;
    }
}

/// The device, and all that its lock protects.
pub struct Inner {
    device: Device,
    control: Option<Control>,
    /// By port number.
    pub ports: Vec<Option<Queues>>,
    /// Messages of the host that have not been handled.
    events: VecDeque<Message>,
}

/// A port, which exists longer than its queues.
pub struct Port {
    /// Its device.
    pub console: &'static Console,
    /// Its number.
    pub id: u32,
    /// Readers, writers and pollers sleep here.
    pub wait: WaitQueue,
    /// Held by the one reader at a time.
    pub reader: Mutex<()>,
    /// Its name, if the host gave one.
    pub name: IrqSpinLock<String>,
    /// Its terminal, if it is a console.
    pub terminal: Once<Arc<hvc::Hvc>>,
}

/// A console device.
pub struct Console {
    /// Its number among virtio devices.
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
        control = Some(Control::new(&mut device.transport)?);
        device.bind(Some(control::RECEIVES));
        device.bind(Some(control::SENDS));
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
        // The first ports should exist when the first program looks for them. QEMU reports them at once, or
        // nearly so.
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
        let queues = Queues::new(&mut self.device.transport, id)?;
        let index = queue_index(id);
        self.device.bind(Some(index));
        self.device.bind(Some(index + 1));
        self.ports[id as usize] = Some(queues);
        Ok(())
    }

    /// Gives the buffers for control messages to the device.
    fn offer_control(&mut self) {
        let Some(control) = &mut self.control else { return };
        control.offer_all();
        self.device.transport.notify(control::RECEIVES);
    }

    /// Sends a control message and waits until the device has taken it.
    fn send_control(&mut self, id: u32, event: u16, value: u16) {
        if let Some(control) = &mut self.control {
            control.send(&mut self.device.transport, id, event, value);
        }
    }

    /// Takes control messages from the device. Returns whether there were any.
    fn reap_control(&mut self) -> bool {
        let Some(control) = &mut self.control else {
            return false;
        };
        let before = self.events.len();
        let any = control.reap(|message| self.events.push_back(message));
        if any {
            self.device.transport.notify(control::RECEIVES);
        }
        self.events.len() > before
    }

    /// The queues of port `id`.
    pub fn port(&mut self, id: u32) -> Option<&mut Queues> {
        self.ports.get_mut(id as usize)?.as_mut()
    }

    /// Lets `fill` write into a free transmit buffer and sends the bytes. `None`: there is no free buffer, or
    /// `fill` wrote nothing.
    pub fn send(&mut self, id: u32, fill: impl FnOnce(&mut [u8]) -> usize) -> Option<usize> {
        let (n, notify) = self.port(id)?.send(fill)?;
        if notify {
            self.device.transport.notify(queue_index(id) + 1);
        }
        Some(n)
    }

    /// Takes finished buffers of a port back without waiting for the interrupt, which still comes and wakes
    /// sleepers.
    pub fn reap(&mut self, id: u32) {
        if let Some(queues) = self.port(id) {
            queues.reap();
        }
    }

    /// Takes the oldest received data out of the queue. The caller alone has it until it calls
    /// [`Inner::finish_piece`].
    pub fn take_piece(&mut self, id: u32) -> Option<Piece> {
        self.port(id)?.take()
    }

    /// The bytes of a piece.
    pub fn piece_bytes(&mut self, id: u32, piece: Piece) -> &[u8] {
        self.port(id).map_or(&[], |queues| queues.bytes(piece))
    }

    /// The caller has used `used` bytes of `piece`. If bytes are left, they are the next to be taken; else
    /// their buffer goes back to the device.
    pub fn finish_piece(&mut self, id: u32, piece: Piece, used: usize) {
        let Some(queues) = self.port(id) else { return };
        if queues.finish(piece, used) {
            self.device.transport.notify(queue_index(id));
        }
    }
}

impl Console {
    /// Locks the device's state.
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
            // The list is locked only to find the next port.
            let Some(port) = self.ports.lock().get(i).cloned() else {
                break;
            };
            i += 1;
            let (received, room) = match self.inner.lock().port(port.id) {
                Some(queues) => queues.take_news(),
                None => continue,
            };
            port.changed(received, room);
        }
    }

    /// Handles control messages. Returns whether there was one.
    fn work(&'static self) -> bool {
        self.pending.store(0, Ordering::Release);
        let mut any = false;
        loop {
            let mut inner = self.inner.lock();
            inner.reap_control();
            let Some(message) = inner.events.pop_front() else {
                return any;
            };
            drop(inner);
            any = true;
            self.handle(&message);
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

    fn handle(&'static self, message: &Message) {
        let &Message {
            id,
            event,
            value,
            ref payload,
        } = message;
        // No device has more ports (virtio 1.2: `max_nr_ports`; Linux allows 511).
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
                // It is plugged in again.
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
                if let (Some(hvc), [r0, r1, c0, c1, ..]) = (port.terminal.get(), &payload[..]) {
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

    /// Allocates the buffers of a port.
    fn prepare(&self, id: u32) -> Result<(), Errno> {
        let mut guard = self.inner.lock();
        let Inner { device, ports, .. } = &mut *guard;
        let queues = ports
            .get_mut(id as usize)
            .and_then(Option::as_mut)
            .ok_or(Errno::ENODEV)?;
        queues.fill(device)
    }

    /// Opens the guest's end of a character port. `EBUSY`: it is open.
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

    /// Closes the guest's end. Received data that was not read is dropped.
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
    /// Wakes sleepers that wait for data or for room.
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
