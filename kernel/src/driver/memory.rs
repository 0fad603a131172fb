//! `/dev/null`, `zero`, `full`, `random` and `urandom`.

use crate::fs::devices;
use crate::fs::fasync::Async;
use crate::fs::file::{File, FileMode, FileOps, MapBacking};
use crate::fs::inode::Dev;
use crate::fs::io::{IoDst, IoSrc};
use crate::mm::PAGE_SIZE;
use crate::mm::user::UserPtr;
use alloc::sync::Arc;
use limen_linux_abi::{Errno, SysResult, native::ioc};

/// The kinds of [`Memory`].
const NULL: u8 = 0;
const ZERO: u8 = 1;
const FULL: u8 = 2;
const RANDOM: u8 = 3;

/// A device of a kind. Each kind is a type of its own, since reading and writing some of them takes no longer
/// than asking for the kind would.
struct Memory<const KIND: u8>;

impl<const KIND: u8> FileOps for Memory<KIND> {
    fn mode(&self) -> FileMode {
        FileMode::STREAM
            | match KIND {
                RANDOM => FileMode::POLLS | FileMode::SENDS | FileMode::RECEIVES,
                FULL | ZERO => FileMode::empty(),
                _ => FileMode::RECEIVES,
            }
    }
    fn read(&self, _: &File, dst: &mut IoDst<'_>, _: Option<u64>) -> SysResult {
        match KIND {
            NULL => Ok(0),
            RANDOM => random(dst),
            _ => zeros(dst),
        }
    }
    fn write(&self, _: &File, src: &mut IoSrc<'_>, _: Option<u64>) -> SysResult {
        match KIND {
            FULL => Err(Errno::ENOSPC),
            RANDOM => stir(src),
            _ => Ok(src.discard()),
        }
    }
    fn asyncs(&self, with: &mut dyn FnMut(&Async)) -> bool {
        /// Its members get no signals: there is always something to read and always room.
        static OWNERS: Async = Async::new();
        if KIND == RANDOM {
            with(&OWNERS);
        }
        KIND == RANDOM
    }
    fn seek(&self, _: &File, _: i64, _: u32) -> Result<u64, Errno> {
        // All positions are equal, and reported as 0.
        Ok(0)
    }
    fn mmap(&self, _: &File) -> Result<MapBacking, Errno> {
        if KIND == ZERO {
            Ok(MapBacking::Anonymous)
        } else {
            Err(Errno::ENODEV)
        }
    }
    fn ioctl(&self, _: &File, cmd: u32, arg: usize) -> SysResult {
        let admin = || {
            let creds = crate::task::current().creds();
            if creds.capable(crate::task::creds::cap::SYS_ADMIN) {
                Ok(())
            } else {
                Err(Errno::EPERM)
            }
        };
        const RNDGETENTCNT: u32 = ioc::read(b'R', 0, 4);
        const RNDADDTOENTCNT: u32 = ioc::write(b'R', 1, 4);
        const RNDADDENTROPY: u32 = ioc::write(b'R', 3, 8);
        const RNDZAPENTCNT: u32 = ioc::none(b'R', 4);
        const RNDCLEARPOOL: u32 = ioc::none(b'R', 6);
        const RNDRESEEDCRNG: u32 = ioc::none(b'R', 7);
        if KIND != RANDOM {
            return Err(Errno::ENOTTY);
        }
        match cmd {
            RNDGETENTCNT => UserPtr::new(arg).write(256i32).map(|()| 0),
            // The pool does not count its entropy down, so there is nothing to add.
            RNDADDTOENTCNT => admin().map(|()| 0),
            RNDADDENTROPY => {
                admin()?;
                let [bits, len]: [i32; 2] = UserPtr::new(arg).read()?;
                let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
                let mut bytes = [0; 256];
                for at in (0..len).step_by(bytes.len()) {
                    let n = bytes.len().min(len - at);
                    crate::mm::user::read_bytes(&mut bytes[..n], arg + 8 + at)?;
                    crate::random::add_entropy(&bytes[..n], (bits.max(0) as usize).min(n * 8));
                    if crate::task::current().fatal_signal_pending() {
                        break;
                    }
                }
                Ok(0)
            }
            RNDZAPENTCNT | RNDCLEARPOOL | RNDRESEEDCRNG => admin().map(|()| 0),
            _ => Err(Errno::EINVAL),
        }
    }
}

/// How many bytes are read at a time, so that long reads can be interrupted.
const STEP: usize = 1 << 20;

#[inline]
fn zeros(dst: &mut IoDst<'_>) -> SysResult {
    match dst.zero_few(STEP) {
        Some(result) => result,
        None => many_zeros(dst),
    }
}

/// Zeros for a long read, or for one into several buffers.
#[cold]
fn many_zeros(dst: &mut IoDst<'_>) -> SysResult {
    let mut total = dst.put_zeros(STEP)?;
    while dst.remaining() > 0 && !crate::task::current().signal_pending() {
        // Bytes have been read before, so a fault only ends the read.
        let n = dst.put_zeros(STEP).unwrap_or(0);
        total += n;
        if n < STEP {
            break;
        }
    }
    Ok(total)
}

// Not inlined: only these functions need the buffer on the stack.

/// Mixes what is written into the entropy. It is not counted, since the writer may know it.
#[inline(never)]
fn stir(src: &mut IoSrc<'_>) -> SysResult {
    let mut bytes = [0; 256];
    let mut total = 0;
    while src.remaining() > 0 {
        let n = match src.take(&mut bytes) {
            Ok(n) => n,
            Err(e) => return if total > 0 { Ok(total) } else { Err(e) },
        };
        crate::random::add_entropy(&bytes[..n], 0);
        total += n;
        if total % PAGE_SIZE == 0 && crate::task::current().signal_pending() {
            break;
        }
    }
    Ok(total)
}

#[inline(never)]
fn random(dst: &mut IoDst<'_>) -> SysResult {
    let mut bytes = [0; 256];
    let mut total = 0;
    while dst.remaining() > 0 {
        let n = bytes.len().min(dst.remaining());
        crate::random::fill(&mut bytes[..n]);
        match dst.put(&bytes[..n]) {
            Ok(put) => {
                total += put;
                if put < n {
                    break;
                }
            }
            Err(e) => return if total > 0 { Ok(total) } else { Err(e) },
        }
        if total % PAGE_SIZE == 0 && crate::task::current().signal_pending() {
            break;
        }
    }
    Ok(total)
}

/// Makes the device nodes.
pub fn init() {
    device::<NULL>("null", 3);
    device::<ZERO>("zero", 5);
    device::<FULL>("full", 7);
    device::<RANDOM>("random", 8);
    device::<RANDOM>("urandom", 9);
}

fn device<const KIND: u8>(name: &'static str, minor: u32) {
    devices::register_char_device(name, Dev::new(1, minor), 0o666, |_, _| {
        Ok(Arc::new(Memory::<KIND>))
    });
}
