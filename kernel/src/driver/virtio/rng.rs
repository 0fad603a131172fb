//! virtio-rng: entropy from the host, for the kernel's generator and `/dev/hwrng`.

use super::{Device, Memory};
use crate::fs::devices;
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::inode::Dev;
use crate::fs::io::IoDst;
use crate::mm::DmaBuffer;
use crate::sched::WaitQueue;
use crate::sync::{IrqSpinLock, Mutex, Once};
use alloc::boxed::Box;
use alloc::sync::Arc;
use limen_linux_abi::{Errno, SysResult};
use virtio_drivers::device::common::Feature;
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::Transport;

const QUEUE: usize = 8;
/// How many bytes are requested at a time.
const CHUNK: usize = 64;

struct Inner {
    device: Device,
    queue: VirtQueue<Memory, QUEUE>,
    buffer: DmaBuffer,
    /// The request that the device has, and how many bytes the last one brought.
    token: Option<u16>,
    got: usize,
}

struct Rng {
    inner: IrqSpinLock<Inner>,
    done: WaitQueue,
    /// Held by the one reader at a time.
    user: Mutex<()>,
}

static RNG: Once<Arc<Rng>> = Once::new();

impl Inner {
    fn ask(&mut self) {
        let bytes = &mut self.buffer.bytes_mut()[..CHUNK];
        // SAFETY: the buffer lives as long as the queue, and nothing uses it until the token is popped.
        let bytes = unsafe { core::slice::from_raw_parts_mut(bytes.as_mut_ptr(), CHUNK) };
        // SAFETY: the buffer is not touched before `reap` pops the token.
        if let Ok(token) = unsafe { self.queue.add(&[], &mut [bytes]) } {
            self.token = Some(token);
            self.got = 0;
            if self.queue.should_notify() {
                self.device.transport.notify(0);
            }
        }
    }

    fn reap(&mut self) {
        let Some(token) = self.token else { return };
        if self.queue.peek_used() != Some(token) {
            return;
        }
        let bytes = self.buffer.bytes_mut().as_mut_ptr();
        // SAFETY: the same buffer as was added.
        let bytes = unsafe { core::slice::from_raw_parts_mut(bytes, CHUNK) };
        // SAFETY: the same buffer as was added under this token.
        if let Ok(n) = unsafe { self.queue.pop_used(token, &[], &mut [bytes]) } {
            self.got = (n as usize).min(CHUNK);
        }
        self.token = None;
    }
}

impl Rng {
    fn interrupt(&self) {
        let mut inner = self.inner.lock();
        inner.device.acknowledge();
        inner.reap();
        drop(inner);
        self.done.wake_all();
    }

    /// Waits for new bytes.
    fn read(&self, out: &mut [u8]) -> Result<usize, Errno> {
        let _one = self.user.lock_interruptible()?;
        if self.inner.lock().token.is_none() {
            self.inner.lock().ask();
        }
        self.done.wait_until(|| {
            let mut inner = self.inner.lock();
            inner.reap();
            inner.token.is_none()
        })?;
        let inner = self.inner.lock();
        let n = inner.got.min(out.len());
        out[..n].copy_from_slice(&inner.buffer.bytes()[..n]);
        Ok(n)
    }
}

struct HwRng;

impl FileOps for HwRng {
    fn mode(&self) -> FileMode {
        FileMode::STREAM
    }
    fn read(&self, _: &File, dst: &mut IoDst<'_>, _: Option<u64>) -> SysResult {
        let rng = RNG.get().ok_or(Errno::ENODEV)?;
        let mut total = 0;
        let mut bytes = [0; CHUNK];
        while dst.remaining() > 0 {
            let n = match rng.read(&mut bytes) {
                Ok(0) => break,
                Ok(n) => n,
                Err(e) => return if total > 0 { Ok(total) } else { Err(e) },
            };
            total += dst.put(&bytes[..n])?;
        }
        Ok(total)
    }
}

/// Starts a device.
pub fn start(mut device: Device) -> Result<(), virtio_drivers::Error> {
    device.transport.begin_init(Feature::VERSION_1);
    let queue = VirtQueue::new(&mut device.transport, 0, false, false)?;
    device.bind(Some(0));
    device.transport.finish_init();
    let connection = device.connection();
    let buffer = DmaBuffer::new(CHUNK).ok_or(virtio_drivers::Error::DmaError)?;
    let inner = Inner {
        device,
        queue,
        buffer,
        token: None,
        got: 0,
    };
    let rng = Arc::new(Rng {
        inner: IrqSpinLock::new(inner),
        done: WaitQueue::new(),
        user: Mutex::new(()),
    });
    let first = rng.clone();
    if Device::connect(connection, "virtio-rng", Box::new(move || first.interrupt())).is_err() {
        return Err(virtio_drivers::Error::Unsupported);
    }
    if RNG.set(rng.clone()).is_ok() {
        devices::register_char_device("hwrng", Dev::new(10, 183), 0o600, |_, _| Ok(Arc::new(HwRng)));
    }
    seed(&rng);
    Ok(())
}

/// Gives the kernel's generator a first portion, at once if the host is quick. A thread adds the rest.
fn seed(rng: &Arc<Rng>) {
    let mut inner = rng.inner.lock();
    inner.ask();
    inner.reap();
    let n = if inner.token.is_none() { inner.got } else { 0 };
    let mut bytes = [0; CHUNK];
    bytes[..n].copy_from_slice(&inner.buffer.bytes()[..n]);
    drop(inner);
    if n > 0 {
        crate::random::add_entropy(&bytes[..n], n * 8);
        return;
    }
    let rng = rng.clone();
    crate::sched::spawn_kthread("hwrng", move || {
        let mut bytes = [0; CHUNK];
        if let Ok(n) = rng.read(&mut bytes) {
            crate::random::add_entropy(&bytes[..n], n * 8);
        }
    });
}
