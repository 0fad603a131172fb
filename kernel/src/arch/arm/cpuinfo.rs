//! `/proc/cpuinfo`.

use super::sysreg;
use alloc::string::String;
use core::fmt::Write;
use limen_arm_registers::Processor;

/// Appends the paragraph of CPU `cpu`, and after the last one that of the machine. All CPUs are alike.
pub fn show(cpu: usize, out: &mut String) {
    let processor = Processor {
        number: cpu,
        midr: sysreg::read!(MIDR),
        hwcap: super::hwcap().into(),
    };
    let _ = write!(out, "{processor}");
    if cpu + 1 == super::cpus::count() {
        out.push_str("Hardware\t: Generic DT based system\nRevision\t: 0000\nSerial\t\t: 0000000000000000\n");
    }
}
