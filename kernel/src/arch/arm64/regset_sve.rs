//! SVE's register set for tracers (`NT_ARM_SVE`): a header, then all registers, or those of floating point if
//! the thread has no others.

use super::float::FpState;
use super::sve;
use super::switch::Context;
use super::vectors;
use crate::arch::register_set::{Room, VaryingSet};
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// Bytes of the header: size and largest size (32 bits each); length of vectors, the longest, flags, 0 (16
/// bits each).
const HEADER: usize = 16;
/// Flags: all registers follow; the length outlives exec.
const ALL: u16 = 1;
const INHERITS: u16 = 1 << 1;
/// Bytes of `user_fpsimd_state`.
const FLOAT: usize = 528;

/// The set.
pub const SET: VaryingSet = VaryingSet {
    note: 0x405,
    most: || if sve::is_there() { size(sve::LONGEST) } else { 0 },
    unit: sve::QUADWORD,
    len,
    get,
    room: |from| match Header::read(from) {
        // For any length: the header's may be for the next program only.
        Some(header) if header.flags & ALL != 0 => Ok([vectors::room(sve::longest())?, Vec::new()]),
        _ => Ok(Room::default()),
    },
    set,
};

/// Where status and control are if all registers are there, for vectors of this length, bytes.
const fn status_at(length: usize) -> usize {
    (HEADER + sve::registers_size(length)).next_multiple_of(16)
}

/// Bytes of the set then.
const fn size(length: usize) -> usize {
    status_at(length) + 16
}

struct Header {
    length: usize,
    flags: u16,
}

impl Header {
    /// That of what a tracer gave. `None`: it is not whole.
    fn read(from: &[u8]) -> Option<Self> {
        let (length, flags) = (from.get(8..10)?, from.get(12..14)?);
        from.get(..HEADER)?;
        Some(Self {
            length: u16::from_ne_bytes(*length.first_chunk()?).into(),
            flags: u16::from_ne_bytes(*flags.first_chunk()?),
        })
    }
}

fn len(context: &Context) -> usize {
    let scalable = context.float.kept().scalable();
    if scalable.is_live() {
        size(scalable.length())
    } else {
        HEADER + FLOAT
    }
}

/// Stores bytes as far as they fit.
fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(to) = out.get_mut(at..at + bytes.len()) {
        to.copy_from_slice(bytes);
    }
}

fn get(context: &Context, out: &mut [u8]) {
    out.fill(0);
    let vectors = context.float.kept();
    let scalable = vectors.scalable();
    let (length, live) = (scalable.length(), scalable.is_live());
    let flags = if live { ALL } else { 0 } | if scalable.inherits() { INHERITS } else { 0 };
    put(out, 0, &(len(context) as u32).to_ne_bytes());
    put(out, 4, &(size(sve::longest()) as u32).to_ne_bytes());
    put(out, 8, &(length as u16).to_ne_bytes());
    put(out, 10, &(sve::longest() as u16).to_ne_bytes());
    put(out, 12, &flags.to_ne_bytes());
    let status = if live {
        put(out, HEADER, vectors.registers());
        status_at(length)
    } else {
        for (n, v) in vectors.fp().v.iter().enumerate() {
            put(out, HEADER + 16 * n, &v.to_ne_bytes());
        }
        HEADER + 512
    };
    put(out, status, &vectors.fp().fpsr.to_ne_bytes());
    put(out, status + 4, &vectors.fp().fpcr.to_ne_bytes());
}

/// The 32 bits at `at`, if they are there; else `or`.
fn half(from: &[u8], at: usize, or: u32) -> u32 {
    let bytes = from.get(at..).and_then(|from| from.first_chunk());
    bytes.map_or(or, |bytes| u32::from_ne_bytes(*bytes))
}

fn set(context: &mut Context, from: &[u8], [room, old]: &mut Room) -> Result<(), Errno> {
    let Header { length, flags } = Header::read(from).ok_or(Errno::EINVAL)?;
    // What the processor still has of it is not what the thread goes on with.
    let vectors = context.float.replace();
    let more = usize::from(flags & !ALL) << 16;
    vectors.scalable_mut().set_length(length, more, old)?;
    if flags & ALL == 0 {
        vectors.end_live();
        vectors.set_fp(overlaid(vectors.fp(), from.get(HEADER..).unwrap_or(&[])));
        return Ok(());
    }
    let actual = vectors.scalable().length();
    if from.len() > HEADER && actual != length {
        return Err(Errno::EIO);
    }
    vectors.make_live(room)?;
    let registers = vectors.registers_mut();
    let given = from.get(HEADER..).unwrap_or(&[]);
    let len = given.len().min(registers.len());
    registers[..len].copy_from_slice(&given[..len]);
    vectors.take_lower_parts();
    let (at, fp) = (status_at(actual), vectors.fp());
    let (fpsr, fpcr) = (half(from, at, fp.fpsr), half(from, at + 4, fp.fpcr));
    vectors.set_status(fpsr, fpcr);
    Ok(())
}

/// The state as `user_fpsimd_state` says, as far as it goes.
fn overlaid(fp: &FpState, from: &[u8]) -> FpState {
    let mut new = *fp;
    for (v, from) in new.v.iter_mut().zip(from.chunks_exact(16)) {
        *v = from.first_chunk().map_or(0, |bytes| u128::from_ne_bytes(*bytes));
    }
    (new.fpsr, new.fpcr) = (half(from, 512, fp.fpsr), half(from, 516, fp.fpcr));
    new
}
