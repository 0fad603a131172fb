//! The kernel's random number generator. (The task room's; this is only what its callers rely on.)

use crate::sync::IrqSpinLock;

static STATE: IrqSpinLock<u64> = IrqSpinLock::new(0x9e37_79b9_7f4a_7c15);

/// Mixes `bytes` in; `bits` says how many bits of them nobody can guess.
pub fn add_entropy(bytes: &[u8], bits: usize) {
    let _ = bits;
    let mut state = STATE.lock();
    for byte in bytes {
        *state = (state.rotate_left(7) ^ u64::from(*byte)).wrapping_mul(0x2545_f491_4f6c_dd1d);
    }
}

/// Fills `out` with random bytes.
pub fn fill(out: &mut [u8]) {
    let mut state = STATE.lock();
    for byte in out {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state = state.wrapping_add(crate::arch::time::now_ns());
        *byte = (*state >> 32) as u8;
    }
}
