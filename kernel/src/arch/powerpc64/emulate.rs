//! Instructions that user mode may use because the kernel does them: those that read registers only the kernel may read, and loads and stores that the
//! processor leaves to it (alignment interrupts: multiple words in little-endian order).

use super::frame::Frame;
use super::spr;
use crate::mm::user::{read_bytes, write_bytes};
use limen_linux_abi::Errno;

/// A word of the program's memory, in its byte order, as a number; or the other way round.
fn order(frame: &Frame, word: [u8; 4]) -> [u8; 4] {
    let number = u32::from_le_bytes(word);
    if frame.msr & spr::MSR_LE != 0 {
        word
    } else {
        number.to_be_bytes()
    }
}

/// The instruction at the frame's program counter.
fn fetch(frame: &Frame) -> Option<u32> {
    let mut word = [0u8; 4];
    read_bytes(&mut word, frame.nip).ok()?;
    Some(u32::from_le_bytes(order(frame, word)))
}

/// Emulates a privileged or illegal instruction. `false` if it is none of ours.
pub fn instruction(frame: &mut Frame) -> bool {
    const MFSPR_PVR: u32 = 0x7c1f_42a6;
    const MFSPR_DSCR: u32 = 0x7c11_02a6;
    let Some(word) = fetch(frame) else { return false };
    let value = match word & 0xfc1f_ffff {
        MFSPR_PVR => spr::read!(spr::PVR),
        MFSPR_DSCR => spr::read!(spr::DSCR),
        _ => return false,
    };
    frame.gpr[(word >> 21 & 31) as usize] = value;
    frame.nip += 4;
    true
}

/// Does a load or store that raised an alignment interrupt. `None`: not ours; an error: the memory is not there.
pub fn unaligned(frame: &mut Frame) -> Option<Result<(), Errno>> {
    let word = fetch(frame)?;
    let (op, rt, ra) = (word >> 26, (word >> 21 & 31) as usize, (word >> 16 & 31) as usize);
    let base = if ra == 0 { 0 } else { frame.gpr[ra] };
    let at = base.wrapping_add(word as u16 as i16 as usize);
    // lmw, stmw
    let load = match op {
        46 if ra < rt || ra == 0 => true,
        47 => false,
        _ => return None,
    };
    for (n, register) in (rt..32).enumerate() {
        let mut word = order(frame, (frame.gpr[register] as u32).to_le_bytes());
        let done = if load {
            read_bytes(&mut word, at.wrapping_add(4 * n))
        } else {
            write_bytes(at.wrapping_add(4 * n), &word)
        };
        if let Err(e) = done {
            return Some(Err(e));
        }
        if load {
            frame.gpr[register] = u32::from_le_bytes(order(frame, word)) as usize;
        }
    }
    frame.nip += 4;
    Some(Ok(()))
}
