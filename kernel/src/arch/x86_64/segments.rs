//! `modify_ldt`: a program's own segments.

use super::ldt::{self, Replaced, Table};
use super::{espfix, tlb};
use crate::mm::copy;
use crate::mm::user::{self, UserPtr};
use crate::task::current;
use limen_linux_abi::{Errno, SysResult};

/// Bytes of an entry.
const ENTRY: usize = 8;
/// What is read of the default table, which is empty.
const DEFAULT: usize = 128;

/// Descriptor bits that all entries have: code or data that was used (so that the processor never writes to
/// the table), for user mode.
const ALWAYS: u64 = (1 | 1 << 4 | 3 << 5) << 40;

/// `struct user_desc`, whose last word is bits.
pub type Wanted = [u32; 4];

/// Its bit fields: the first bit of each.
const SEG_32BIT: u32 = 0;
const CONTENTS: u32 = 1;
const READ_EXEC_ONLY: u32 = 3;
const LIMIT_IN_PAGES: u32 = 4;
const SEG_NOT_PRESENT: u32 = 5;
const USEABLE: u32 = 6;
const LM: u32 = 7;

/// `contents` of code that less privileged code may call, which means nothing here but is looked at.
const CONFORMING: u64 = 3;

/// Reads (0, and 2 for the default table) or writes (1, and 0x11) segments. `ENOSYS`: none of these.
pub fn modify_ldt(func: i32, at: usize, len: usize) -> SysResult {
    match func {
        0 => read(at, len),
        1 => write(at, len, true),
        2 => clear(at, len.min(DEFAULT)),
        0x11 => write(at, len, false),
        _ => Err(Errno::ENOSYS),
    }
}

fn clear(at: usize, len: usize) -> SysResult {
    if copy::clear(at, len) == len {
        Ok(len)
    } else {
        Err(Errno::EFAULT)
    }
}

/// What is beyond the table's last entry reads as zeros; nothing is read where there is no table.
fn read(at: usize, len: usize) -> SysResult {
    let mm = current().mm().ok_or(Errno::EINVAL)?;
    let Some(table) = mm.processor().segments.get() else {
        return Ok(0);
    };
    let len = len.min(ldt::ENTRIES * ENTRY);
    let bytes = table.bytes();
    let have = bytes.len().min(len);
    if len == 0 {
        // To no address, so none is wrong.
        return Ok(0);
    }
    user::write_bytes(at, &bytes[..have])?;
    clear(at.wrapping_add(have), len - have)?;
    Ok(len)
}

/// The descriptor that `wanted` means; 0 takes an entry away. `EINVAL`.
pub fn descriptor(wanted: Wanted, old_mode: bool) -> Result<u64, Errno> {
    let [_, base, limit, bits] = wanted;
    let field = |first: u32| u64::from(bits >> first & 1);
    let contents = u64::from(bits >> CONTENTS & 3);
    if contents == CONFORMING && (old_mode || field(SEG_NOT_PRESENT) == 0) {
        return Err(Errno::EINVAL);
    }
    const NONE: u32 = 1 << READ_EXEC_ONLY | 1 << SEG_NOT_PRESENT;
    const ALL: u32 = (1 << (LM + 1)) - 1;
    if base == 0 && limit == 0 && (old_mode || bits & ALL == NONE) {
        return Ok(0);
    }
    let (base, limit) = (u64::from(base), u64::from(limit));
    let useable = if old_mode { 0 } else { field(USEABLE) };
    // The bit for 64-bit code (`LM`) is never set.
    Ok(ALWAYS
        | limit & 0xffff
        | (base & 0x00ff_ffff) << 16
        | (field(READ_EXEC_ONLY) ^ 1) << 41
        | contents << 42
        | (field(SEG_NOT_PRESENT) ^ 1) << 47
        | (limit >> 16 & 0xf) << 48
        | useable << 52
        | field(SEG_32BIT) << 54
        | field(LIMIT_IN_PAGES) << 55
        | (base >> 24) << 56)
}

fn write(at: usize, len: usize, old_mode: bool) -> SysResult {
    if len != size_of::<Wanted>() {
        return Err(Errno::EINVAL);
    }
    let wanted: Wanted = UserPtr::new(at).read()?;
    let index = wanted[0] as usize;
    if index >= ldt::ENTRIES {
        return Err(Errno::EINVAL);
    }
    let entry = descriptor(wanted, old_mode)?;
    espfix::init()?;
    let mm = current().mm().ok_or(Errno::EINVAL)?;
    let context = mm.processor();
    loop {
        let old = context.segments.get();
        let new = Table::changed(old.as_deref(), index, entry)?;
        if let Replaced::Old(replaced) = context.segments.replace(old.as_ref(), new) {
            tlb::segments_changed(context);
            drop(replaced);
            return Ok(0);
        }
    }
}
