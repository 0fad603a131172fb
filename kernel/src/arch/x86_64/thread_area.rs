//! Threads' own segments (`set_thread_area`): three entries of the global table, which have the running
//! thread's descriptors. Calls of 32-bit programs set them, and tracers.

use super::segments::{Wanted, descriptor};
use super::switch::Context;
use super::tables::{self, OWN_COUNT, OWN_FIRST};
use crate::mm::user::UserPtr;
use crate::sched::entity::with_current_context;
use limen_linux_abi::{Errno, SysResult};

/// A segment for a new thread: its place among the entries, the descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Segment(usize, u64);

/// An entry's number as its place among the three. `EINVAL`.
pub fn place(number: usize) -> Result<usize, Errno> {
    let place = number.wrapping_sub(OWN_FIRST);
    if place < OWN_COUNT {
        Ok(place)
    } else {
        Err(Errno::EINVAL)
    }
}

/// The descriptor that `wanted` means, 0 if none. `EINVAL`: it is not 32-bit data that is present. (A
/// 16-bit stack would need `espfix`, which knows those of local tables.)
pub fn checked(wanted: Wanted) -> Result<u64, Errno> {
    let [_, base, limit, bits] = wanted;
    /// Of the bits: 32-bit; two of what is in it; not present. Read-only and not present: an empty entry.
    const IS_32: u32 = 1;
    const CODE: u32 = 1 << 2;
    const ABSENT: u32 = 1 << 5;
    const EMPTY: u32 = 1 << 3 | ABSENT;
    /// All of them, and without the one for 64-bit code, which an entry of zeros may have.
    const ALL: u32 = 0xff;
    const ALL_BUT_LONG: u32 = 0x7f;
    if base == 0 && limit == 0 && (bits & ALL == EMPTY || bits & ALL_BUT_LONG == 0) {
        return Ok(0);
    }
    if bits & IS_32 == 0 || bits & (CODE | ABSENT) != 0 {
        return Err(Errno::EINVAL);
    }
    descriptor(wanted, false)
}

/// The entry `number` with this descriptor, as `struct user_desc` has it.
pub fn described(number: usize, descriptor: u64) -> Wanted {
    let field = |first: u32| (descriptor >> first) as u32 & 1;
    let base = tables::base(descriptor);
    let limit = descriptor & 0xffff | (descriptor >> 48 & 0xf) << 16;
    let bits = field(54)
        | ((descriptor >> 42) as u32 & 3) << 1
        | (field(41) ^ 1) << 3
        | field(55) << 4
        | (field(47) ^ 1) << 5
        | field(52) << 6
        | field(53) << 7;
    [number as u32, base as u32, limit as u32, bits]
}

/// The running thread gets the segment of the `struct user_desc` at `at`; for entry -1 the first free one,
/// whose number is written there. `ESRCH`: none is free. `EINVAL`, `EFAULT`.
pub fn set_thread_area(at: usize) -> SysResult {
    let wanted: Wanted = UserPtr::new(at).read()?;
    let descriptor = checked(wanted)?;
    let mut number = wanted[0] as usize;
    if wanted[0] == u32::MAX {
        let free = with_current_context(|context| context.own_segments().iter().position(|own| *own == 0));
        number = OWN_FIRST + free.ok_or(Errno::ESRCH)?;
        UserPtr::new(at).write(number as u32)?;
    }
    let place = place(number)?;
    with_current_context(|context| context.change_own_segment(place, descriptor));
    Ok(0)
}

/// Describes the entry that the `struct user_desc` at `at` names. `EINVAL`, `EFAULT`.
pub fn get_thread_area(at: usize) -> SysResult {
    let number = UserPtr::<u32>::new(at).read()? as usize;
    let place = place(number)?;
    let descriptor = with_current_context(|context| context.own_segments()[place]);
    UserPtr::new(at).write(described(number, descriptor))?;
    Ok(0)
}

/// What `clone` is to give the child, by the `struct user_desc` at `at`. `EINVAL`: it has no such place, -1
/// is none. `EFAULT`.
pub fn read_segment(at: usize) -> Result<Segment, Errno> {
    let wanted: Wanted = UserPtr::new(at).read()?;
    let descriptor = checked(wanted)?;
    Ok(Segment(place(wanted[0] as usize)?, descriptor))
}

/// The new thread whose context it is gets that.
pub fn give_segment(context: &mut Context, segment: &Segment) {
    context.give_own_segment(segment.0, segment.1);
}
