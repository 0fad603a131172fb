//! `/proc/cpuinfo`.

use alloc::string::String;
use core::fmt::Write;

/// Names of the bits of `AT_HWCAP` and `AT_HWCAP2`, as Linux spells them.
const HWCAP: &str = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt \
    fcma lrcpc dcpop sha3 sm3 sm4 asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm ssbs sb paca pacg";
const HWCAP2: &str = "dcpodp sve2 sveaes svepmull svebitperm svesha3 svesm4 flagm2 frint svei8mm svef32mm \
    svef64mm svebf16 i8mm bf16 dgh rng bti mte ecv afp rpres mte3 sme smei16i64 smef64f64 smei8i32 smef16f32 \
    smeb16f32 smef32f32 smefa64 wfxt ebf16 sveebf16";

/// Appends the paragraph of CPU `cpu`. All CPUs are alike.
pub fn show(cpu: usize, out: &mut String) {
    let midr: u64;
    // SAFETY: reads an identification register.
    unsafe { core::arch::asm!("mrs {}, midr_el1", out(reg) midr, options(nomem, nostack, preserves_flags)) };
    let _ = write!(out, "processor\t: {cpu}\nBogoMIPS\t: 125.00\nFeatures\t:");
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
        "\nCPU implementer\t: {:#04x}\nCPU architecture: 8\nCPU variant\t: {:#x}\nCPU part\t: {:#05x}\nCPU \
         revision\t: {}\n\n",
        midr >> 24 & 0xff,
        midr >> 20 & 15,
        midr >> 4 & 0xfff,
        midr & 15
    );
}
