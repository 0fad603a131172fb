//! Instructions that user mode may use because the kernel does them: those that need registers only the kernel may touch, and loads and stores that the
//! processor leaves to it (alignment interrupts; what they mean is `crates/power-storage`).

use super::frame::Frame;
use super::spr;
use crate::mm::user::{UserPtr, read_bytes};
use limen_power_storage::Memory;

/// The instruction at the frame's program counter, which is in the program's byte order.
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
    // By the number for everybody, which not every processor has, and by the kernel's own.
    const MFSPR_DSCR: [u32; 2] = [0x7c03_02a6, 0x7c11_02a6];
    const MTSPR_DSCR: [u32; 2] = [0x7c03_03a6, 0x7c11_03a6];
    let Some(word) = fetch(frame) else { return false };
    let register = &mut frame.gpr[(word >> 21 & 31) as usize];
    match word & 0xfc1f_ffff {
        MFSPR_PVR => *register = spr::read!(spr::PVR),
        read if MFSPR_DSCR.contains(&read) => *register = spr::read!(spr::DSCR),
        // SAFETY: it says how far to load ahead, and is the thread's own.
        write if MTSPR_DSCR.contains(&write) => unsafe { spr::write!(spr::DSCR, *register) },
        _ => return false,
    }
    frame.nip += 4;
    true
}

/// User memory.
struct User;

impl Memory for User {
    fn load(&self, at: usize) -> Option<u8> {
        UserPtr::new(at).read().ok()
    }
    fn store(&mut self, at: usize, byte: u8) -> Option<()> {
        UserPtr::new(at).write(byte).ok()
    }
}

/// Does a load or store that raised an alignment interrupt. `None`: not ours; an error: the address where memory is not there.
pub fn unaligned(frame: &mut Frame) -> Option<Result<(), usize>> {
    let access = limen_power_storage::decode(fetch(frame)?, &frame.gpr, frame.xer)?;
    let little_endian = frame.msr & spr::MSR_LE != 0;
    let done = limen_power_storage::perform(&access, &mut frame.gpr, &mut User, little_endian);
    if done.is_ok() {
        frame.nip += 4;
    }
    Some(done)
}
