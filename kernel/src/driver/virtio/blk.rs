//! virtio-blk: disks as block devices `/dev/vda`, `/dev/vdb`, ... Data goes through a buffer, one transfer at
//! a time per disk; there is no page cache.

use super::{Device, Memory};
use crate::fs::devices;
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::inode::Dev;
use crate::fs::io::{IoDst, IoSrc};
use crate::mm::DmaBuffer;
use crate::mm::user::UserPtr;
use crate::sched::WaitQueue;
use crate::sync::{IrqSpinLock, Mutex};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bitflags::bitflags;
use core::sync::atomic::{AtomicU64, Ordering};
use limen_linux_abi::SysResult;
use limen_linux_abi::{Errno, native::ioc};
use virtio_drivers::Error;
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::Transport;

const QUEUE: usize = 16;
/// The size in bytes of a sector, in which addresses are counted.
pub const SECTOR: usize = 512;
/// How many bytes a request has at most.
const CHUNK: usize = 32 << 10;
/// The offset of header and status, behind the data.
const HEADER: usize = CHUNK;
const STATUS: usize = CHUNK + 16;
/// The major number of virtio disks. Each disk has 16 minor numbers (partitions).
const MAJOR: u32 = 254;

bitflags! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Features: u64 {
        const RO = 1 << 5;
        const FLUSH = 1 << 9;
        const VERSION_1 = 1 << 32;
    }
}

/// What a disk is asked to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Request {
    Read = 0,
    Write = 1,
    Flush = 4,
}

struct Inner {
    device: Device,
    queue: VirtQueue<Memory, QUEUE>,
}

/// A disk.
pub struct Disk {
    /// The name: `vda`, ...
    pub name: String,
    /// Its device number.
    pub dev: Dev,
    /// The size in sectors.
    pub sectors: u64,
    /// Whether it cannot be written.
    pub read_only: bool,
    can_flush: bool,
    inner: IrqSpinLock<Inner>,
    done: WaitQueue,
    /// Locked for one transfer at a time.
    buffer: Mutex<DmaBuffer>,
    /// Counts of reads, sectors read, writes, sectors written.
    pub statistics: [AtomicU64; 4],
}

static DISKS: IrqSpinLock<Vec<Arc<Disk>>> = IrqSpinLock::new(Vec::new());

/// All disks.
pub fn all() -> Vec<Arc<Disk>> {
    DISKS.lock().clone()
}

impl Disk {
    /// Moves `len` bytes between the front of `buffer` and the disk.
    fn transfer(
        &self,
        buffer: &mut DmaBuffer,
        request: Request,
        sector: u64,
        len: usize,
    ) -> Result<(), Errno> {
        let at = buffer.as_ptr();
        // SAFETY: three disjoint parts of the buffer, which nothing else uses until the transfer has ended.
        let (data, header, status) = unsafe {
            (
                core::slice::from_raw_parts_mut(at, len),
                core::slice::from_raw_parts_mut(at.add(HEADER), 16),
                core::slice::from_raw_parts_mut(at.add(STATUS), 1),
            )
        };
        header.fill(0);
        header[..4].copy_from_slice(&(request as u32).to_le_bytes());
        header[8..].copy_from_slice(&sector.to_le_bytes());
        status[0] = 0xff;
        let header = &*header;
        let mut inner = self.inner.lock();
        // SAFETY: nothing uses the parts until the token is popped below.
        let token = unsafe {
            match request {
                Request::Read => inner.queue.add(&[header], &mut [&mut *data, &mut *status]),
                Request::Write => inner.queue.add(&[header, data], &mut [&mut *status]),
                Request::Flush => inner.queue.add(&[header], &mut [&mut *status]),
            }
        };
        let token = token.map_err(|_| Errno::EIO)?;
        inner.device.transport.notify(0);
        drop(inner);
        self.done
            .wait_until_uninterruptible(|| self.inner.lock().queue.peek_used() == Some(token));
        let mut inner = self.inner.lock();
        // SAFETY: the same parts as were added.
        let popped = unsafe {
            match request {
                Request::Read => inner.queue.pop_used(token, &[header], &mut [data, &mut *status]),
                Request::Write => inner.queue.pop_used(token, &[header, data], &mut [&mut *status]),
                Request::Flush => inner.queue.pop_used(token, &[header], &mut [&mut *status]),
            }
        };
        drop(inner);
        match (popped, buffer.bytes()[STATUS]) {
            (Ok(_), 0) => {}
            (Ok(_), 2) => return Err(Errno::EOPNOTSUPP),
            _ => return Err(Errno::EIO),
        }
        let which = match request {
            Request::Read => 0,
            Request::Write => 2,
            Request::Flush => return Ok(()),
        };
        self.statistics[which].fetch_add(1, Ordering::Relaxed);
        self.statistics[which + 1].fetch_add((len / SECTOR) as u64, Ordering::Relaxed);
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.sectors * SECTOR as u64
    }

    /// How many bytes there are from `at`, which is on the disk, to its end; no more than can be addressed.
    fn left(&self, at: u64) -> usize {
        usize::try_from(self.bytes() - at).unwrap_or(usize::MAX)
    }

    fn read(&self, dst: &mut IoDst<'_>, pos: u64) -> SysResult {
        let mut buffer = self.buffer.lock();
        let mut total = 0;
        while dst.remaining() > 0 && pos + (total as u64) < self.bytes() {
            let at = pos + total as u64;
            let inside = (at % SECTOR as u64) as usize;
            let want = dst.remaining().min(CHUNK - inside).min(self.left(at));
            let len = (inside + want).next_multiple_of(SECTOR);
            if let Err(e) = self.transfer(&mut buffer, Request::Read, at / SECTOR as u64, len) {
                return if total > 0 { Ok(total) } else { Err(e) };
            }
            match dst.put(&buffer.bytes()[inside..inside + want]) {
                Ok(n) => total += n,
                Err(e) => return if total > 0 { Ok(total) } else { Err(e) },
            }
        }
        Ok(total)
    }

    fn write(&self, src: &mut IoSrc<'_>, pos: u64) -> SysResult {
        if self.read_only {
            return Err(Errno::EPERM);
        }
        if pos >= self.bytes() && src.remaining() > 0 {
            return Err(Errno::ENOSPC);
        }
        let mut buffer = self.buffer.lock();
        let mut total = 0;
        while src.remaining() > 0 && pos + (total as u64) < self.bytes() {
            let at = pos + total as u64;
            let sector = at / SECTOR as u64;
            let inside = (at % SECTOR as u64) as usize;
            let want = src.remaining().min(CHUNK - inside).min(self.left(at));
            let len = (inside + want).next_multiple_of(SECTOR);
            let whole = inside == 0 && want.is_multiple_of(SECTOR);
            let step = (|| {
                if !whole {
                    self.transfer(&mut buffer, Request::Read, sector, len)?;
                }
                let mut n = src.take(&mut buffer.bytes_mut()[inside..inside + want])?;
                if whole {
                    // Behind the new bytes the buffer has those of an earlier transfer, not the rest of the
                    // sector.
                    n -= n % SECTOR;
                }
                match (inside + n).next_multiple_of(SECTOR) {
                    0 => Err(Errno::EFAULT),
                    len => self
                        .transfer(&mut buffer, Request::Write, sector, len)
                        .map(|()| n),
                }
            })();
            match step {
                // The rest of the program's buffer cannot be read: the next call reports that.
                Ok(n) if n < want => return Ok(total + n),
                Ok(n) => total += n,
                Err(e) => return if total > 0 { Ok(total) } else { Err(e) },
            }
        }
        Ok(total)
    }
}

struct DiskFile(Arc<Disk>);

impl FileOps for DiskFile {
    fn mode(&self) -> FileMode {
        FileMode::SENDS | FileMode::RECEIVES
    }
    fn read(&self, file: &File, dst: &mut IoDst<'_>, pos: Option<u64>) -> SysResult {
        if let Some(pos) = pos {
            return self.0.read(dst, pos);
        }
        let mut pos = file.pos.lock();
        let n = self.0.read(dst, *pos)?;
        *pos += n as u64;
        Ok(n)
    }
    fn write(&self, file: &File, src: &mut IoSrc<'_>, pos: Option<u64>) -> SysResult {
        if let Some(pos) = pos {
            return self.0.write(src, pos);
        }
        let mut pos = file.pos.lock();
        let n = self.0.write(src, *pos)?;
        *pos += n as u64;
        Ok(n)
    }
    fn seek(&self, file: &File, offset: i64, whence: u32) -> Result<u64, Errno> {
        let mut pos = file.pos.lock();
        let base = match whence {
            0 => 0,
            1 => *pos,
            2 => self.0.bytes(),
            _ => return Err(Errno::EINVAL),
        };
        *pos = base.checked_add_signed(offset).ok_or(Errno::EINVAL)?;
        Ok(*pos)
    }
    fn fsync(&self, _: &File) -> Result<(), Errno> {
        if !self.0.can_flush {
            return Ok(());
        }
        let mut buffer = self.0.buffer.lock();
        self.0.transfer(&mut buffer, Request::Flush, 0, 0)
    }
    fn ioctl(&self, _: &File, cmd: u32, arg: usize) -> SysResult {
        const WORD: usize = size_of::<usize>();
        const BLKROGET: u32 = ioc::none(0x12, 94);
        const BLKGETSIZE: u32 = ioc::none(0x12, 96);
        const BLKFLSBUF: u32 = ioc::none(0x12, 97);
        const BLKSSZGET: u32 = ioc::none(0x12, 104);
        const BLKBSZGET: u32 = ioc::read(0x12, 112, WORD);
        const BLKGETSIZE64: u32 = ioc::read(0x12, 114, WORD);
        const BLKPBSZGET: u32 = ioc::none(0x12, 123);
        match cmd {
            BLKGETSIZE64 => UserPtr::new(arg).write(self.0.bytes()).map(|()| 0),
            BLKGETSIZE => {
                let sectors = usize::try_from(self.0.sectors).map_err(|_| Errno::EFBIG)?;
                UserPtr::new(arg).write(sectors).map(|()| 0)
            }
            BLKSSZGET | BLKBSZGET | BLKPBSZGET => UserPtr::new(arg).write(SECTOR as u32).map(|()| 0),
            BLKROGET => UserPtr::new(arg).write(i32::from(self.0.read_only)).map(|()| 0),
            // Nothing is cached, so there is nothing to flush.
            BLKFLSBUF => Ok(0),
            _ => Err(Errno::ENOTTY),
        }
    }
}

/// Starts a disk.
pub fn start(mut device: Device) -> Result<(), Error> {
    let features = device
        .transport
        .begin_init(Features::RO | Features::FLUSH | Features::VERSION_1);
    let queue = VirtQueue::new(&mut device.transport, 0, false, false)?;
    device.bind(Some(0));
    let low: u32 = device.transport.read_config_space(0)?;
    let high: u32 = device.transport.read_config_space(4)?;
    device.transport.finish_init();
    let connection = device.connection();
    let buffer = DmaBuffer::new(STATUS + 1).ok_or(Error::DmaError)?;
    let mut disks = DISKS.lock();
    let number = disks.len() as u32;
    let disk = Arc::new(Disk {
        name: name(number),
        dev: Dev::new(MAJOR, number * 16),
        sectors: u64::from(high) << 32 | u64::from(low),
        read_only: features.contains(Features::RO),
        can_flush: features.contains(Features::FLUSH),
        inner: IrqSpinLock::new(Inner { device, queue }),
        done: WaitQueue::new(),
        buffer: Mutex::new(buffer),
        statistics: Default::default(),
    });
    disks.push(disk.clone());
    drop(disks);
    let handler = disk.clone();
    let connected = Device::connect(
        connection,
        "virtio-blk",
        Box::new(move || {
            handler.inner.lock().device.acknowledge();
            handler.done.wake_all();
        }),
    );
    if connected.is_err() {
        return Err(Error::Unsupported);
    }
    info!("virtio-blk: {}: {} 512-byte sectors", disk.name, disk.sectors);
    devices::register_block_device(&disk.name, disk.dev, 0o660, |dev, flags| {
        let disk = all().into_iter().find(|d| d.dev == dev).ok_or(Errno::ENXIO)?;
        if disk.read_only && flags & 3 != 0 {
            return Err(Errno::EROFS);
        }
        Ok(Arc::new(DiskFile(disk)))
    });
    Ok(())
}

/// `vda` to `vdz`, then `vdaa`.
fn name(number: u32) -> String {
    let letter = |n: u32| char::from(b'a' + (n % 26) as u8);
    match number / 26 {
        0 => format!("vd{}", letter(number)),
        high => format!("vd{}{}", letter(high - 1), letter(number)),
    }
}
