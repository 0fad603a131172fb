//! Register sets as tracers and core dumps see them (`uapi/asm/ptrace.h`): general registers are `user_pt_regs`, floating point is
//! `user_fpsimd_state`.

use super::frame::Frame;
use super::signal::sanitize_pstate;
use super::switch::FpState;
use limen_linux_abi::Errno;

/// Words of `struct user_pt_regs`: x0 to x30, sp, pc, pstate.
pub const GENERAL_WORDS: usize = 34;
/// Bytes of `struct user_fpsimd_state`.
pub const FLOAT_BYTES: usize = 528;

/// The general registers (`NT_PRSTATUS`).
pub fn general(frame: &Frame) -> [usize; GENERAL_WORDS] {
    let mut words = [0; GENERAL_WORDS];
    words[..31].copy_from_slice(&frame.regs);
    words[31] = frame.sp;
    words[32] = frame.pc;
    words[33] = frame.pstate;
    words
}

/// Sets the general registers. `EINVAL` if the processor state is not one of user mode.
pub fn set_general(frame: &mut Frame, words: &[usize; GENERAL_WORDS]) -> Result<(), Errno> {
    let mut pstate = words[33];
    if !sanitize_pstate(&mut pstate) {
        return Err(Errno::EINVAL);
    }
    frame.regs.copy_from_slice(&words[..31]);
    frame.sp = words[31];
    frame.pc = words[32];
    frame.pstate = pstate;
    Ok(())
}

/// The floating-point registers (`NT_PRFPREG`).
pub fn float(state: &FpState) -> [u8; FLOAT_BYTES] {
    let mut bytes = [0; FLOAT_BYTES];
    for (chunk, v) in bytes.chunks_exact_mut(16).zip(state.v) {
        chunk.copy_from_slice(&v.to_le_bytes());
    }
    bytes[512..516].copy_from_slice(&state.fpsr.to_le_bytes());
    bytes[516..520].copy_from_slice(&state.fpcr.to_le_bytes());
    bytes
}

/// The inverse of [`float`].
pub fn set_float(state: &mut FpState, bytes: &[u8; FLOAT_BYTES]) {
    for (v, chunk) in state.v.iter_mut().zip(bytes.chunks_exact(16)) {
        let mut word = [0; 16];
        word.copy_from_slice(chunk);
        *v = u128::from_le_bytes(word);
    }
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    (state.fpsr, state.fpcr) = (word(512), word(516));
}
