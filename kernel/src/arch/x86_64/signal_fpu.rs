//! The floating-point state in signal frames, of either ABI.

use super::fpu;
use crate::mm::user::{self, UserBlock, UserPtr};
use crate::sync::Once;
use limen_linux_abi::Errno;

/// Marks extended state, at its start (in the legacy area's unused bytes) and at its end.
const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
const FP_XSTATE_MAGIC2: u32 = 0x4650_5845;
/// Where the legacy area has room for software: `struct _fpx_sw_bytes`.
pub const SW_BYTES: usize = 464;
const _: () = assert!(SW_BYTES + 48 == fpu::LEGACY);

/// Bytes of it in a frame.
pub fn fpu_size() -> usize {
    if fpu::components() != 0 {
        fpu::state_size() + 4
    } else {
        fpu::LEGACY
    }
}

/// What the processor leaves alone of a saved state, which depends on the machine only: the bytes for
/// software, and behind them the header.
static SOFTWARE: Once<[u32; 12 + 16]> = Once::new();

fn software() -> &'static [u32; 12 + 16] {
    SOFTWARE.get_or_init(|| {
        let mut software = [0; 12 + 16];
        if fpu::components() != 0 {
            software[0] = FP_XSTATE_MAGIC1;
            software[1] = fpu_size() as u32;
            software[2] = fpu::components() as u32;
            software[4] = fpu::state_size() as u32;
        }
        software
    })
}

/// Writes the floating-point state, of `size` bytes ([`fpu_size`]), to the user stack at `at`, 64-byte
/// aligned.
pub fn save_fpu(at: usize, size: usize) -> Result<(), Errno> {
    user::check(at, size)?;
    if size != fpu::LEGACY {
        UserPtr::new(at + SW_BYTES).write_from(software())?;
        UserPtr::new(at + size - 4).write(FP_XSTATE_MAGIC2)?;
    } else {
        UserPtr::new(at + SW_BYTES).write([0u32; 12])?;
    }
    if fpu::save_to_user(at) {
        Ok(())
    } else {
        Err(Errno::EFAULT)
    }
}

/// Loads the floating-point state from the user's frame.
pub fn restore_fpu(at: usize) -> Result<(), Errno> {
    if at == 0 {
        fpu::load_initial();
        return Ok(());
    }
    let legacy = UserBlock::<{ fpu::LEGACY }>::new(at)?;
    let components = fpu::components();
    if components != 0 && at.is_multiple_of(64) {
        let marks: u64 = legacy.read(SW_BYTES)?;
        let size = fpu::state_size();
        let extended = marks as u32 == FP_XSTATE_MAGIC1
            && (marks >> 32) as usize >= size + 4
            && legacy.read::<u32>(SW_BYTES + 16)? as usize == size
            && user::check(at, size + 4).is_ok()
            && UserPtr::<u32>::new(at + size).read()? == FP_XSTATE_MAGIC2;
        if extended {
            let wanted = components & legacy.read::<u64>(SW_BYTES + 8)?;
            fpu::load_initial_components(components & !wanted);
            return if fpu::load_from_user(at, wanted) {
                Ok(())
            } else {
                Err(Errno::EFAULT)
            };
        }
    }
    if !at.is_multiple_of(16) {
        return Err(Errno::EFAULT);
    }
    fpu::load_initial();
    if fpu::load_legacy_from_user(at) {
        Ok(())
    } else {
        Err(Errno::EFAULT)
    }
}
