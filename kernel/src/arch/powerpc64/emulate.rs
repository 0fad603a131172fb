//! Instructions that user mode may use because the kernel does them: those that read registers only the kernel may read, and loads and stores that the
//! processor leaves to it (alignment interrupts: multiple words in little-endian order).

use super::frame::Frame;
use super::spr;
use crate::mm::user::{read_bytes, write_bytes};
use limen_linux_abi::Errno;

/// The instruction at the frame's program counter, in the program's byte order.
fn fetch(frame: &Frame) -> Option<u32> {
    let mut word = [0u8; 4];
    read_bytes(&mut word, frame.nip).ok()?;
    Some(if frame.msr & spr::MSR_LE != 0 {
        u32::from_le_bytes(word)
    } else {
        u32::from_be_bytes(word)
    })
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
    let little = frame.msr & spr::MSR_LE != 0;
    match op {
        // lmw
        46 if ra < rt || ra == 0 => {
            for (n, register) in (rt..32).enumerate() {
                let mut bytes = [0; 4];
                if let Err(e) = read_bytes(&mut bytes, at.wrapping_add(4 * n)) {
                    return Some(Err(e));
                }
                let value = if little {
                    u32::from_le_bytes(bytes)
                } else {
                    u32::from_be_bytes(bytes)
                };
                frame.gpr[register] = value as usize;
            }
        }
        // stmw
        47 => {
            for (n, register) in (rt..32).enumerate() {
                let value = frame.gpr[register] as u32;
                let bytes = if little {
                    value.to_le_bytes()
                } else {
                    value.to_be_bytes()
                };
                if let Err(e) = write_bytes(at.wrapping_add(4 * n), &bytes) {
                    return Some(Err(e));
                }
            }
        }
        _ => return None,
    }
    frame.nip += 4;
    Some(Ok(()))
}
