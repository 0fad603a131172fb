//! The Versatile Express board where it differs from machines with firmware: secondary CPUs wait for a flag
//! register of the system controller and a software-generated interrupt; the controller's configuration bus
//! turns the machine off.

use super::{devicetree, gic};
use crate::mm::map_device;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Where secondary CPUs go when interrupted: set and clear.
const SYS_FLAGSSET: usize = 0x30;
const SYS_FLAGSCLR: usize = 0x34;
const SYS_CFGDATA: usize = 0xa0;
const SYS_CFGCTRL: usize = 0xa4;
const SYS_CFGSTAT: usize = 0xa8;
/// Start, write; the function goes to bits 20 to 25.
const CFG_START_WRITE: u32 = 1 << 31 | 1 << 30;
const CFG_SHUTDOWN: u32 = 8 << 20;
const CFG_REBOOT: u32 = 9 << 20;

/// The system controller's registers; zero if this is another machine.
static REGISTERS: AtomicUsize = AtomicUsize::new(0);

/// Looks for the system controller.
pub fn init() {
    let tree = devicetree::tree();
    if let Some(node) = devicetree::compatible(&["arm,vexpress-sysreg"]).next()
        && let Some((base, size)) = devicetree::reg(tree, &node).next()
    {
        REGISTERS.store(map_device(base, size as usize) as usize, Ordering::Release);
    }
}

fn write(base: usize, offset: usize, value: u32) {
    // SAFETY: a register of the mapped controller.
    unsafe { ((base + offset) as *mut u32).write_volatile(value) }
}

/// Starts `cpu` at physical `entry`. `false` if this is another machine.
pub fn start(cpu: usize, entry: u64) -> bool {
    let base = REGISTERS.load(Ordering::Acquire);
    if base == 0 {
        return false;
    }
    write(base, SYS_FLAGSCLR, !0);
    write(base, SYS_FLAGSSET, entry as u32);
    gic::wake(super::cpus::mpidr(cpu) & 0xff);
    true
}

fn configure(function: u32) {
    let base = REGISTERS.load(Ordering::Acquire);
    if base != 0 {
        write(base, SYS_CFGDATA, 0);
        write(base, SYS_CFGSTAT, 0);
        write(base, SYS_CFGCTRL, CFG_START_WRITE | function);
    }
}

/// Turns the board off; returns on another machine.
pub fn power_off() {
    configure(CFG_SHUTDOWN);
}

/// Restarts the board; returns on another machine.
pub fn reset() {
    configure(CFG_REBOOT);
}
