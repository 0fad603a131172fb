//! `/proc/cpuinfo`.

use super::sysreg;
use alloc::string::String;
use core::fmt::Write;

/// Names of the bits of `AT_HWCAP` and `AT_HWCAP2`, as Linux spells them.
const HWCAP: &str = "swp half thumb 26bit fastmult fpa vfp edsp java iwmmxt crunch thumbee neon vfpv3 vfpv3d16 tls vfpv4 idiva idivt vfpd32 lpae evtstrm fphp asimdhp asimddp asimdfhm asimdbf16 i8mm";
const HWCAP2: &str = "aes pmull sha1 sha2 crc32 sb ssbs";

/// Appends the paragraph of CPU `cpu`, and after the last one that of the machine. All CPUs are alike.
pub fn show(cpu: usize, out: &mut String) {
    let midr = sysreg::read!("p15, 0, {}, c0, c0, 0");
    let _ = write!(
        out,
        "processor\t: {cpu}\nmodel name\t: ARMv7 Processor rev {} (v7l)\nBogoMIPS\t: 125.00\nFeatures\t:",
        midr & 15
    );
    let (low, high) = super::hwcap();
    for (names, bits) in [(HWCAP, low), (HWCAP2, high)] {
        for (i, name) in names.split(' ').enumerate() {
            if bits >> i & 1 != 0 {
                let _ = write!(out, " {name}");
            }
        }
    }
    let _ = write!(
        out,
        " \nCPU implementer\t: {:#04x}\nCPU architecture: 7\nCPU variant\t: {:#x}\nCPU part\t: {:#05x}\nCPU revision\t: {}\n\n",
        midr >> 24 & 0xff,
        midr >> 20 & 15,
        midr >> 4 & 0xfff,
        midr & 15
    );
    if cpu + 1 == super::smp::count() {
        out.push_str("Hardware\t: Generic DT based system\nRevision\t: 0000\nSerial\t\t: 0000000000000000\n");
    }
}
