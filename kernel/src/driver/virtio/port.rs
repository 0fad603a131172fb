//! A character port: `/dev/vport0p1` and others. Only one process can have it open. A read returns data of
//! one message, and ends at once if the host's end is closed. A write waits until the host's end is open.

use super::console::{Port, TX_SIZE, all_ports};
use crate::fs::devices;
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::inode::Dev;
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::poll::{PollEvents, PollTable};
use alloc::format;
use alloc::sync::Arc;
use limen_linux_abi::{Errno, SysResult};

/// The major number of the first device's ports. Each further device has the next lower one.
const MAJOR: u32 = 247;
/// How many bytes are moved at a time through the kernel stack when reading.
const CHUNK: usize = 4096;

/// Makes the port's device node.
pub fn register(port: &Arc<Port>) {
    devices::register_char_device(&name(port), dev(port), 0o600, |dev, _| {
        let port = all_ports()
            .into_iter()
            .find(|p| self::dev(p) == dev)
            .ok_or(Errno::ENXIO)?;
        if port.terminal.get().is_some() {
            return Err(Errno::ENXIO);
        }
        port.console.open(port.id)?;
        Ok(Arc::new(PortFile { port }))
    });
}

/// The port's name in `/dev`.
pub fn name(port: &Port) -> alloc::string::String {
    format!("vport{}p{}", port.console.index, port.id)
}

/// The port's device number.
pub fn dev(port: &Port) -> Dev {
    Dev::new(MAJOR.saturating_sub(port.console.index), port.id)
}

/// An open port.
struct PortFile {
    port: Arc<Port>,
}

/// What a port's user can do at the moment.
struct Can {
    read: bool,
    write: bool,
    host_open: bool,
    gone: bool,
}

impl PortFile {
    fn can(&self) -> Can {
        let mut inner = self.port.console.lock();
        match inner.port(self.port.id) {
            Some(q) => Can {
                read: q.has_data() || !q.host_open || q.gone,
                write: q.host_open && q.has_room() || q.gone,
                host_open: q.host_open,
                gone: q.gone,
            },
            None => Can {
                read: true,
                write: true,
                host_open: false,
                gone: true,
            },
        }
    }
}

impl FileOps for PortFile {
    fn mode(&self) -> FileMode {
        FileMode::STREAM | FileMode::NO_PREAD | FileMode::POLLS | FileMode::RECEIVES
    }
    fn read(&self, file: &File, dst: &mut IoDst<'_>, _: Option<u64>) -> SysResult {
        if dst.remaining() == 0 {
            return Ok(0);
        }
        let id = self.port.id;
        // A sleeping reader holds the lock only until there is data, which only one reader gets.
        let _one = self.port.reader.lock_interruptible()?;
        let room = CHUNK.min(dst.remaining());
        let mut bytes = alloc::vec::Vec::new();
        crate::mm::reserve::room_exact(&mut bytes, room)?;
        loop {
            let mut inner = self.port.console.lock();
            if let Some(piece) = inner.take_piece(id) {
                // Copied out of the buffer first: user memory may fault, and then the lock must not be held.
                let from = inner.piece_bytes(id, piece);
                let n = from.len().min(room);
                bytes.extend_from_slice(&from[..n]);
                inner.finish_piece(id, piece, n);
                drop(inner);
                return if n == 0 { Ok(0) } else { dst.put(&bytes) };
            }
            drop(inner);
            let can = self.can();
            if can.gone {
                return Err(Errno::ENODEV);
            }
            if can.read {
                if self.port.console.lock().port(id).is_some_and(|q| q.has_data()) {
                    continue;
                }
                return Ok(0);
            }
            if file.nonblocking() {
                return Err(Errno::EAGAIN);
            }
            self.port.wait.wait_until(|| self.can().read)?;
        }
    }

    fn write(&self, file: &File, src: &mut IoSrc<'_>, _: Option<u64>) -> SysResult {
        let mut total = 0;
        // At most 32 KiB in one call, as on Linux.
        src.truncate(32 << 10);
        let mut bytes = alloc::vec::Vec::new();
        crate::mm::reserve::room_exact(&mut bytes, TX_SIZE.min(src.remaining()))?;
        while src.remaining() > 0 {
            let can = self.can();
            if can.gone {
                return if total > 0 { Ok(total) } else { Err(Errno::ENODEV) };
            }
            if !can.write {
                if total > 0 {
                    return Ok(total);
                }
                if file.nonblocking() {
                    return Err(Errno::EAGAIN);
                }
                self.port.wait.wait_until(|| self.can().write)?;
                continue;
            }
            bytes.resize(TX_SIZE.min(src.remaining()), 0);
            let n = match src.take(&mut bytes) {
                Ok(n) => n,
                Err(e) => return if total > 0 { Ok(total) } else { Err(e) },
            };
            let mut sent = 0;
            while sent < n {
                let rest = &bytes[sent..n];
                let put = |to: &mut [u8]| {
                    to[..rest.len()].copy_from_slice(rest);
                    rest.len()
                };
                let done = self.port.console.lock().send(self.port.id, put);
                match done {
                    Some(k) => sent += k,
                    // Another writer took the buffer. These bytes have been taken from the program already,
                    // so wait for room in any case.
                    None => {
                        self.port.wait.wait_until_killable(|| self.can().write)?;
                        if self.can().gone {
                            return Err(Errno::ENODEV);
                        }
                    }
                }
            }
            total += n;
        }
        Ok(total)
    }

    fn poll(&self, _: &File, table: Option<&mut PollTable<'_>>) -> PollEvents {
        if let Some(table) = table {
            table.register(&self.port.wait);
        }
        let can = self.can();
        if can.gone {
            return PollEvents::HUP;
        }
        let mut events = PollEvents::empty();
        if can.read {
            events |= PollEvents::READABLE;
        }
        if can.write {
            events |= PollEvents::OUT;
        }
        if !can.host_open {
            events |= PollEvents::HUP;
        }
        events
    }

    fn seek(&self, _: &File, _: i64, _: u32) -> Result<u64, Errno> {
        Err(Errno::ESPIPE)
    }

    fn release(&self, _: &File) {
        self.port.console.close(self.port.id);
    }
}
