//! The firmware's power interface (Arm DEN 0022, PSCI): starting CPUs, power-off, reset.

use core::arch::asm;
use core::sync::atomic::{AtomicU8, Ordering};
use limen_linux_abi::Errno;

const NONE: u8 = 0;
const HVC: u8 = 1;
const SMC: u8 = 2;

/// How the firmware is called.
static METHOD: AtomicU8 = AtomicU8::new(NONE);

const CPU_ON: u64 = 0xc400_0003;
const SYSTEM_OFF: u64 = 0x8400_0008;
const SYSTEM_RESET: u64 = 0x8400_0009;

/// Reads the calling method from the devicetree.
pub fn init() {
    let tree = super::devicetree::tree();
    let node = tree.find_compatible(&["arm,psci-1.0", "arm,psci-0.2"]);
    let method = match node.as_ref().and_then(|node| node.property("method")?.as_str()) {
        Some("hvc") => HVC,
        Some("smc") => SMC,
        _ => NONE,
    };
    METHOD.store(method, Ordering::Release);
}

fn call(function: u64, a: u64, b: u64, c: u64) -> i64 {
    let result: u64;
    // SAFETY: the SMC calling convention: x0 to x3 in, x0 to x17 clobbered. The firmware does what the function says.
    unsafe {
        match METHOD.load(Ordering::Acquire) {
            HVC => {
                asm!("hvc #0", inout("x0") function => result, inout("x1") a => _, inout("x2") b => _, inout("x3") c => _,
                clobber_abi("C"), options(nostack))
            }
            SMC => {
                asm!("smc #0", inout("x0") function => result, inout("x1") a => _, inout("x2") b => _, inout("x3") c => _,
                clobber_abi("C"), options(nostack))
            }
            _ => return -1,
        }
    }
    result as i32 as i64
}

/// Starts the CPU with affinity `mpidr` at physical `entry`, with `context` in x0.
pub fn cpu_on(mpidr: u64, entry: u64, context: u64) -> Result<(), Errno> {
    match call(CPU_ON, mpidr, entry, context) {
        0 => Ok(()),
        -4 => Err(Errno::EBUSY),
        -2 => Err(Errno::EINVAL),
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
