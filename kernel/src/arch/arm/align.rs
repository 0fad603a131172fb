//! Unaligned accesses of user mode that the processor refuses: load and store multiple and double, done here piece by piece, as Linux does by
//! default (`/proc/cpu/alignment`). Single words and halves the processor does itself; exclusive and floating-point accesses end in SIGBUS.

use super::frame::Frame;
use crate::mm::user::UserPtr;
use limen_linux_abi::Errno;

/// What became of an attempt.
pub enum Outcome {
    /// Done; the program goes on behind the instruction.
    Done,
    /// Memory is not there, at this address.
    Fault(usize),
    /// Not an instruction that is fixed up.
    Unknown,
}

/// A load or store of several registers: which, from where on, in ascending order.
struct Access {
    load: bool,
    /// Bit n: register n.
    registers: u32,
    /// Pairs go by number, lists by bit; a pair's second register need not be the next.
    pair: Option<(usize, usize)>,
    start: usize,
    /// Base register and its new value.
    write_back: Option<(usize, usize)>,
}

fn register(frame: &Frame, n: usize) -> usize {
    match n {
        13 => frame.sp,
        14 => frame.lr,
        15 => frame.pc.wrapping_add(if frame.thumb() { 4 } else { 8 }),
        _ => frame.regs[n],
    }
}

fn set_register(frame: &mut Frame, n: usize, value: usize) {
    match n {
        13 => frame.sp = value,
        14 => frame.lr = value,
        15 => {
            // Interworking.
            frame.cpsr = frame.cpsr & !super::frame::PSR_T | (value & 1) << 5;
            frame.pc = value & !1;
        }
        _ => frame.regs[n] = value,
    }
}

/// Does what the instruction at the frame's program counter wanted at the unaligned address `addr`.
#[cold]
pub fn fix(frame: &mut Frame, addr: usize) -> Outcome {
    let (decoded, length) = if frame.thumb() {
        let Ok(first) = UserPtr::<u16>::new(frame.pc).read() else {
            return Outcome::Fault(frame.pc);
        };
        if first >> 11 < 0x1d {
            (thumb16(frame, u32::from(first)), 2)
        } else {
            let Ok(second) = UserPtr::<u16>::new(frame.pc.wrapping_add(2)).read() else {
                return Outcome::Fault(frame.pc);
            };
            (thumb32(frame, u32::from(first), u32::from(second)), 4)
        }
    } else {
        let Ok(word) = UserPtr::<u32>::new(frame.pc).read() else {
            return Outcome::Fault(frame.pc);
        };
        (arm(frame, word), 4)
    };
    let Some(access) = decoded else {
        return Outcome::Unknown;
    };
    // The list may begin on an earlier page than the address the processor names, but never far from it.
    if access.start.abs_diff(addr) > 64 {
        return Outcome::Unknown;
    }
    let pc = frame.pc;
    match run(frame, &access) {
        Ok(()) => {
            if frame.pc == pc {
                frame.pc = pc.wrapping_add(length);
                advance_it(frame);
            }
            Outcome::Done
        }
        Err(at) => Outcome::Fault(at),
    }
}

/// The instruction is done: the state of an `it` block moves on.
fn advance_it(frame: &mut Frame) {
    let it = frame.cpsr >> 8 & 0xfc | frame.cpsr >> 25 & 3;
    let next = if it & 7 == 0 {
        0
    } else {
        it & 0xe0 | it << 1 & 0x1f
    };
    frame.cpsr = frame.cpsr & !super::frame::PSR_IT | (next & 0xfc) << 8 | (next & 3) << 25;
}

fn run(frame: &mut Frame, access: &Access) -> Result<(), usize> {
    let mut at = access.start;
    let mut values = [0u32; 16];
    let list = |n: usize| match access.pair {
        Some((first, second)) => [first, second].get(n).copied(),
        None => (0..16usize).filter(|r| access.registers >> r & 1 != 0).nth(n),
    };
    let mut count = 0;
    while let Some(r) = list(count) {
        let place = UserPtr::<[u8; 4]>::new(at);
        let result: Result<(), Errno> = if access.load {
            place
                .read()
                .map(|bytes| values[count] = u32::from_le_bytes(bytes))
        } else {
            place.write((register(frame, r) as u32).to_le_bytes())
        };
        result.map_err(|_| at)?;
        at = at.wrapping_add(4);
        count += 1;
    }
    if let Some((base, value)) = access.write_back {
        set_register(frame, base, value);
    }
    if access.load {
        for (n, value) in values.iter().enumerate().take(count) {
            if let Some(r) = list(n) {
                set_register(frame, r, *value as usize);
            }
        }
    }
    Ok(())
}

/// A list of registers at a base: before or after, up or down.
fn multiple(
    frame: &Frame,
    base: usize,
    registers: u32,
    load: bool,
    up: bool,
    before: bool,
    back: bool,
) -> Access {
    let bytes = registers.count_ones() as usize * 4;
    let at = register(frame, base);
    let end = if up {
        at.wrapping_add(bytes)
    } else {
        at.wrapping_sub(bytes)
    };
    let low = if up { at } else { end };
    Access {
        load,
        registers,
        pair: None,
        start: if before == up { low.wrapping_add(4) } else { low },
        write_back: back.then_some((base, end)),
    }
}

fn arm(frame: &Frame, word: u32) -> Option<Access> {
    let bit = |n: u32| word >> n & 1 != 0;
    let (base, up, before, back) = ((word >> 16 & 15) as usize, bit(23), bit(24), bit(21));
    if word >> 28 == 15 {
        return None;
    }
    if word & 0x0e40_0000 == 0x0800_0000 {
        // ldm, stm
        return Some(multiple(frame, base, word & 0xffff, bit(20), up, before, back));
    }
    if word & 0x0e10_00d0 == 0x0000_00d0 {
        // ldrd (bit 5 clear), strd
        let first = (word >> 12 & 15) as usize;
        let offset = if bit(22) {
            (word >> 4 & 0xf0 | word & 15) as usize
        } else {
            register(frame, (word & 15) as usize)
        };
        return double(
            frame,
            base,
            (first, first + 1),
            !bit(5),
            (offset, up, before, !before || back),
        );
    }
    None
}

/// A pair of registers: offset, up, before, written back.
fn double(
    frame: &Frame,
    base: usize,
    pair: (usize, usize),
    load: bool,
    (offset, up, before, back): (usize, bool, bool, bool),
) -> Option<Access> {
    if pair.1 > 15 {
        return None;
    }
    let at = register(frame, base) & if base == 15 { !3 } else { !0 };
    let end = if up {
        at.wrapping_add(offset)
    } else {
        at.wrapping_sub(offset)
    };
    Some(Access {
        load,
        registers: 0,
        pair: Some(pair),
        start: if before { end } else { at },
        write_back: back.then_some((base, end)),
    })
}

fn thumb16(frame: &Frame, half: u32) -> Option<Access> {
    let load = half >> 11 & 1 != 0;
    let low = half & 0xff;
    match half >> 12 {
        // stmia, ldmia: a load of the base leaves it as loaded.
        0xc => {
            let base = (half >> 8 & 7) as usize;
            let back = !load || low >> base & 1 == 0;
            Some(multiple(frame, base, low, load, true, false, back))
        }
        // push with lr, pop with pc
        0xb if half >> 9 & 3 == 2 => {
            let extra = half >> 8 & 1;
            let registers = low | extra << if load { 15 } else { 14 };
            Some(multiple(frame, 13, registers, load, load, !load, true))
        }
        _ => None,
    }
}

fn thumb32(frame: &Frame, first: u32, second: u32) -> Option<Access> {
    let bit = |n: u32| first >> n & 1 != 0;
    let base = (first & 15) as usize;
    match first >> 6 {
        // ldmia, stmia, ldmdb, stmdb
        0b11_1010_0010 | 0b11_1010_0100 => {
            let down = bit(8);
            Some(multiple(frame, base, second, bit(4), !down, down, bit(5)))
        }
        _ if first >> 9 == 0b111_0100 && bit(6) && (bit(8) || bit(5)) => {
            let pair = ((second >> 12 & 15) as usize, (second >> 8 & 15) as usize);
            let offset = ((second & 0xff) << 2) as usize;
            double(frame, base, pair, bit(4), (offset, bit(7), bit(8), bit(5)))
        }
        _ => None,
    }
}
