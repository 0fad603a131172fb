//! Instructions that user mode may use because the kernel does them: those that need registers only the
//! kernel may touch, and loads and stores that the processor leaves to it (alignment interrupts). What they
//! mean is `crates/power-emulate`.

use super::frame::Frame;
use super::spr;
use crate::mm::user::UserPtr;
use limen_power_emulate::{Memory, Special};

/// The instruction at the frame's program counter, which is in the program's byte order.
fn fetch(frame: &Frame) -> Option<u32> {
    let word = UserPtr::<u32>::new(frame.nip).read().ok()?;
    Some([word.swap_bytes(), word][frame.msr & spr::MSR_LE])
}

/// Emulates a privileged or illegal instruction. `false` if it is none of ours.
pub fn instruction(frame: &mut Frame) -> bool {
    let Some((what, register)) = fetch(frame).and_then(limen_power_emulate::special) else {
        return false;
    };
    let register = &mut frame.gpr[register];
    match what {
        Special::Version => *register = spr::read!(spr::PVR),
        Special::ReadStreamControl => *register = spr::read!(spr::DSCR),
        // SAFETY: it says how far to load ahead, and is the thread's own.
        Special::WriteStreamControl => unsafe { spr::write!(spr::DSCR, *register) },
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

/// Does a load or store that raised an alignment interrupt. `None`: not ours; an error: the address where
/// memory is not there.
pub fn unaligned(frame: &mut Frame) -> Option<Result<(), usize>> {
    let access = limen_power_emulate::decode(fetch(frame)?, &frame.gpr, frame.xer)?;
    let little_endian = frame.msr & spr::MSR_LE != 0;
    let done = limen_power_emulate::perform(&access, &mut frame.gpr, &mut User, little_endian);
    frame.nip += 4 * usize::from(done.is_ok());
    Some(done)
}
