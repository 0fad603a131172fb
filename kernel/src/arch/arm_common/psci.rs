//! The firmware's power interface (Arm DEN 0022, PSCI): starting CPUs, power-off, reset.

use super::sysreg;
use core::sync::atomic::{AtomicU8, Ordering};
use limen_linux_abi::Errno;

const NONE: u8 = 0;
const HVC: u8 = 1;
const SMC: u8 = 2;

/// How the firmware is called.
static METHOD: AtomicU8 = AtomicU8::new(NONE);

/// Function numbers. Bit 30 says that arguments are 64 bits wide.
const CPU_ON: usize = 0x8400_0003 | ((usize::BITS as usize) & 64) << 24;
const SYSTEM_OFF: usize = 0x8400_0008;
const SYSTEM_RESET: usize = 0x8400_0009;

/// What the firmware answers.
const SUCCESS: i32 = 0;
const NOT_SUPPORTED: i32 = -1;
const INVALID_PARAMETERS: i32 = -2;
const ALREADY_ON: i32 = -4;

/// Reads the calling method from the devicetree.
pub fn init() {
    let node = super::devicetree::compatible(&["arm,psci-1.0", "arm,psci-0.2"]).next();
    let method = match node.as_ref().and_then(|node| node.property("method")?.as_str()) {
        Some("hvc") => HVC,
        Some("smc") => SMC,
        _ => NONE,
    };
    METHOD.store(method, Ordering::Release);
}

fn call(function: usize, a: usize, b: usize, c: usize) -> i32 {
    // SAFETY: the functions used here start a CPU or end the machine, as asked.
    let result = unsafe {
        match METHOD.load(Ordering::Acquire) {
            HVC => sysreg::hvc(function, a, b, c),
            SMC => sysreg::smc(function, a, b, c),
            _ => return NOT_SUPPORTED,
        }
    };
    result as i32
}

/// Starts the CPU with affinity `mpidr` at physical `entry`, with `context` in the first register.
pub fn cpu_on(mpidr: u64, entry: u64, context: usize) -> Result<(), Errno> {
    match call(CPU_ON, mpidr as usize, entry as usize, context) {
        SUCCESS => Ok(()),
        ALREADY_ON => Err(Errno::EBUSY),
        INVALID_PARAMETERS => Err(Errno::EINVAL),
        _ => Err(Errno::ENODEV),
    }
}

/// Turns the machine off; returns only if the firmware can't.
pub fn system_off() {
    call(SYSTEM_OFF, 0, 0, 0);
}

/// Restarts the machine; returns only if the firmware can't.
pub fn system_reset() {
    call(SYSTEM_RESET, 0, 0, 0);
}
