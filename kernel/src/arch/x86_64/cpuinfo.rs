//! `/proc/cpuinfo`.

use alloc::string::String;
use core::arch::x86_64::__cpuid;
use core::fmt::Write;

/// Names of the feature bits of leaf 1 (EDX, ECX), leaf 7 (EBX) and leaf 0x80000001 (EDX, ECX), as Linux
/// spells them; empty ones are not shown.
const LEAF1_EDX: &str = "fpu vme de pse tsc msr pae mce cx8 apic - sep mtrr pge mca cmov pat pse36 pn \
    clflush - dts acpi mmx fxsr sse sse2 ss ht tm ia64 pbe";
const LEAF1_ECX: &str = "pni \
    pclmulqdq dtes64 monitor ds_cpl vmx smx est tm2 ssse3 cid sdbg fma cx16 xtpr pdcm - \
    pcid dca sse4_1 sse4_2 x2apic movbe popcnt tsc_deadline_timer aes xsave - avx f16c rdrand hypervisor";
const LEAF7_EBX: &str = "fsgsbase tsc_adjust sgx bmi1 hle avx2 fdp_excptn_only smep bmi2 erms invpcid rtm \
    cqm zero_fcs_fds mpx rdt_a avx512f avx512dq rdseed adx smap avx512ifma - clflushopt clwb intel_pt \
    avx512pf avx512er avx512cd sha_ni avx512bw avx512vl";
const EXTENDED_EDX: &str = "- - - - - - - - - - - syscall - - - - - - - mp nx - mmxext - - fxsr_opt pdpe1gb \
    rdtscp - lm 3dnowext 3dnow";
const EXTENDED_ECX: &str = "lahf_lm cmp_legacy svm extapic cr8_legacy abm sse4a misalignsse 3dnowprefetch \
    osvw ibs xop skinit wdt - lwp fma4 tce";

fn flags(out: &mut String, names: &str, bits: u32) {
    for (i, name) in names.split(' ').enumerate() {
        if name != "-" && bits >> i & 1 != 0 {
            let _ = write!(out, " {name}");
        }
    }
}

/// Appends the paragraph of CPU `cpu`.
pub fn show(cpu: usize, out: &mut String) {
    let (leaf0, leaf1) = (__cpuid(0), __cpuid(1));
    let mut vendor = [0; 12];
    for (i, word) in [leaf0.ebx, leaf0.edx, leaf0.ecx].into_iter().enumerate() {
        vendor[4 * i..4 * i + 4].copy_from_slice(&word.to_le_bytes());
    }
    let family = leaf1.eax >> 8 & 15;
    let family = if family == 15 {
        family + (leaf1.eax >> 20 & 0xff)
    } else {
        family
    };
    let model = leaf1.eax >> 4 & 15 | leaf1.eax >> 12 & 0xf0;
    let extended = __cpuid(0x8000_0000).eax;
    let mut name = [0u8; 48];
    if extended >= 0x8000_0004 {
        for leaf in 0..3u32 {
            let r = __cpuid(0x8000_0002 + leaf);
            for (i, word) in [r.eax, r.ebx, r.ecx, r.edx].into_iter().enumerate() {
                let at = leaf as usize * 16 + 4 * i;
                name[at..at + 4].copy_from_slice(&word.to_le_bytes());
            }
        }
    }
    let name = String::from_utf8_lossy(&name);
    let name = name.trim_matches(['\0', ' ']);
    let count = super::cpus::count();
    let _ = write!(
        out,
        "processor\t: {cpu}\nvendor_id\t: {}\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: \
         {name}\nstepping\t: {}\n",
        String::from_utf8_lossy(&vendor),
        leaf1.eax & 15
    );
    let _ = write!(
        out,
        "cpu MHz\t\t: 1000.000\ncache size\t: 512 KB\nphysical id\t: 0\nsiblings\t: {count}\ncore id\t\t: \
         {cpu}\ncpu cores\t: {count}\napicid\t\t: {cpu}\ninitial apicid\t: {cpu}\nfpu\t\t: yes\n\
         fpu_exception\t: yes\ncpuid level\t: {}\nwp\t\t: yes\nflags\t\t:",
        leaf0.eax
    );
    flags(out, LEAF1_EDX, leaf1.edx);
    if extended >= 0x8000_0001 {
        let r = __cpuid(0x8000_0001);
        flags(out, EXTENDED_EDX, r.edx);
        flags(out, EXTENDED_ECX, r.ecx);
    }
    flags(out, LEAF1_ECX, leaf1.ecx);
    if leaf0.eax >= 7 {
        flags(out, LEAF7_EBX, __cpuid(7).ebx);
    }
    let clflush = leaf1.ebx >> 8 & 0xff;
    let sizes = if extended >= 0x8000_0008 {
        __cpuid(0x8000_0008).eax
    } else {
        0x3024
    };
    let _ = write!(
        out,
        "\nbugs\t\t:\nbogomips\t: 2000.00\nclflush size\t: {}\ncache_alignment\t: 64\naddress sizes\t: {} \
         bits physical, {} bits virtual\npower management:\n\n",
        clflush * 8,
        sizes & 0xff,
        sizes >> 8 & 0xff
    );
}
