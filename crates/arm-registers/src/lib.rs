//! What registers of a 32-bit Arm processor say: what programs may use ([`Features`]), what it is
//! ([`Processor`]), and why a memory access failed ([`abort`]). Their fields are in the Arm Architecture
//! Reference Manual, ARMv7-A and ARMv7-R edition, B4.1, and for what came later in ARMv8's, G8.2. Reading
//! them is the caller's.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

use core::fmt;

/// Names of the bits of `AT_HWCAP` and `AT_HWCAP2`, as Linux spells them in `/proc/cpuinfo`.
const NAMES: [&str; 2] = [
    "swp half thumb 26bit fastmult fpa vfp edsp java iwmmxt crunch thumbee neon vfpv3 vfpv3d16 tls vfpv4 \
     idiva idivt vfpd32 lpae evtstrm fphp asimdhp asimddp asimdfhm asimdbf16 i8mm",
    "aes pmull sha1 sha2 crc32 sb ssbs",
];

/// half, thumb, fastmult, vfp, edsp, vfpv3, tls, lpae, evtstrm: what every processor that Limen runs on has.
const ALWAYS: usize = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 13 | 1 << 15 | 1 << 20 | 1 << 21;

/// Registers that say what programs may use.
#[derive(Clone, Copy, Debug)]
pub struct Features {
    /// Floating point and vectors (`MVFR0`).
    pub mvfr0: u32,
    /// The same (`MVFR1`).
    pub mvfr1: u32,
    /// Instructions (`ID_ISAR0`).
    pub isar0: u32,
    /// Instructions (`ID_ISAR5`).
    pub isar5: u32,
}

impl Features {
    /// `AT_HWCAP` and `AT_HWCAP2` (their bits are Linux's, `uapi/asm/hwcap.h`).
    pub fn hwcap(&self) -> [usize; 2] {
        let (mvfr0, mvfr1, isar0, isar5) = (self.mvfr0, self.mvfr1, self.isar0, self.isar5);
        // Register, field, least value, word and bit.
        let features = [
            (mvfr1, 8, 1, 0, 12),  // NEON
            (mvfr1, 28, 1, 0, 16), // VFPv4
            (isar0, 24, 2, 0, 17), // IDIVA
            (isar0, 24, 1, 0, 18), // IDIVT
            (mvfr0, 0, 2, 0, 19),  // VFPD32
            (mvfr1, 24, 3, 0, 22), // FPHP
            (mvfr1, 20, 2, 0, 23), // ASIMDHP
            (isar5, 4, 1, 1, 0),   // AES
            (isar5, 4, 2, 1, 1),   // PMULL
            (isar5, 8, 1, 1, 2),   // SHA1
            (isar5, 12, 1, 1, 3),  // SHA2
            (isar5, 16, 1, 1, 4),  // CRC32
        ];
        let mut words = [ALWAYS, 0];
        for (register, field, least, word, bit) in features {
            words[word] |= usize::from(register >> field & 0xf >= least) << bit;
        }
        words
    }
}

/// A processor as `/proc/cpuinfo` shows it.
#[derive(Clone, Copy, Debug)]
pub struct Processor {
    /// Its number.
    pub number: usize,
    /// Which it is (`MIDR`).
    pub midr: u32,
    /// [`Features::hwcap`].
    pub hwcap: [usize; 2],
}

impl fmt::Display for Processor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, midr) = (self.number, self.midr);
        write!(
            out,
            "processor\t: {number}\nmodel name\t: ARMv7 Processor rev {} (v7l)\nBogoMIPS\t: \
             125.00\nFeatures\t:",
            midr & 15
        )?;
        for (names, bits) in NAMES.into_iter().zip(self.hwcap) {
            for (i, name) in names.split(' ').enumerate() {
                if bits >> i & 1 != 0 {
                    write!(out, " {name}")?;
                }
            }
        }
        write!(
            out,
            " \nCPU implementer\t: {:#04x}\nCPU architecture: 7\nCPU variant\t: {:#x}\nCPU part\t: \
             {:#05x}\nCPU revision\t: {}\n\n",
            midr >> 24,
            midr >> 20 & 15,
            midr >> 4 & 0xfff,
            midr & 15
        )
    }
}

/// What is wrong with a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    /// Translation, access flag or permission: who keeps the tables may be able to resolve it.
    Page,
    /// An address that is no multiple of what the instruction needs.
    Alignment,
    /// A breakpoint or watchpoint.
    Debug,
    /// Memory or a bus says so.
    External,
    /// Anything else.
    Other,
}

/// What a fault status (`DFSR`, `IFSR`) says, with short descriptors or with long ones (B3.13.3).
#[inline]
pub fn abort(status: u32, short: bool) -> Abort {
    if short {
        // Five bits, in two places: access flag, translation, domain, permission; others.
        return match status & 0xf | status >> 6 & 0x10 {
            0x03 | 0x05..=0x07 | 0x09 | 0x0b | 0x0d | 0x0f => Abort::Page,
            0x01 => Abort::Alignment,
            0x02 => Abort::Debug,
            0x08 | 0x0c | 0x0e | 0x16 | 0x18..=0x1e => Abort::External,
            _ => Abort::Other,
        };
    }
    match status & 0x3f {
        0x04..=0x0f => Abort::Page,
        0x21 => Abort::Alignment,
        0x22 => Abort::Debug,
        0x10 | 0x14..=0x17 => Abort::External,
        _ => Abort::Other,
    }
}

/// Whether the access was a write (`DFSR.WnR`), which cache maintenance (`DFSR.CM`) is not.
#[inline]
pub fn is_write(status: u32) -> bool {
    const WRITE: u32 = 1 << 11;
    const MAINTENANCE: u32 = 1 << 13;
    status & (WRITE | MAINTENANCE) == WRITE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a Cortex-A15 says (its Technical Reference Manual, 4.2 and 10.2).
    const CORTEX_A15: Features = Features {
        mvfr0: 0x1011_0222,
        mvfr1: 0x1111_1111,
        isar0: 0x0210_1110,
        isar5: 0,
    };

    #[test]
    fn features() {
        // half thumb fastmult vfp edsp neon vfpv3 tls vfpv4 idiva idivt vfpd32 lpae evtstrm
        assert_eq!(CORTEX_A15.hwcap(), [0x003f_b0d6, 0]);
        let least = Features {
            mvfr0: 0x1011_0221,
            mvfr1: 0,
            isar0: 0x0110_1110,
            isar5: 0x0001_0110,
        };
        // Division in Thumb only; AES, SHA1, CRC32.
        assert_eq!(least.hwcap(), [ALWAYS | 1 << 18, 0b10101]);
        let most = Features {
            mvfr1: 0x1321_1111,
            isar5: 0x0001_1120,
            ..CORTEX_A15
        };
        assert_eq!(most.hwcap(), [0x00ff_b0d6, 0b11111]);
    }

    #[test]
    fn cpuinfo() {
        let processor = Processor {
            number: 3,
            midr: 0x412f_c0f1,
            hwcap: CORTEX_A15.hwcap(),
        };
        let expected = "processor\t: 3
model name\t: ARMv7 Processor rev 1 (v7l)
BogoMIPS\t: 125.00
Features\t: half thumb fastmult vfp edsp neon vfpv3 tls vfpv4 idiva idivt vfpd32 lpae evtstrm\x20
CPU implementer\t: 0x41
CPU architecture: 7
CPU variant\t: 0x2
CPU part\t: 0xc0f
CPU revision\t: 1

";
        assert_eq!(processor.to_string(), expected);
    }

    /// All codes of a format, in order, as the first letters of what they mean.
    fn letters(codes: impl Iterator<Item = u32>, short: bool) -> String {
        let letter = |code| match abort(code, short) {
            Abort::Page => 'P',
            Abort::Alignment => 'A',
            Abort::Debug => 'D',
            Abort::External => 'E',
            Abort::Other => '-',
        };
        codes.map(letter).collect()
    }

    #[test]
    fn aborts() {
        let short = letters((0..32).map(|n| n & 15 | (n & 16) << 6), true);
        assert_eq!(short, "-ADP-PPPEP-PEPEP------E-EEEEEEE-");
        let long = letters(0..64, false);
        let (translation, external, rest) = ("----PPPPPPPPPPPP", "E---EEEE--------", "----------------");
        assert_eq!(long, format!("{translation}{external}-AD-------------{rest}"));
        // Other bits say other things.
        assert_eq!(abort(0x2a07, false), Abort::Page);
        assert_eq!(abort(0x2807, true), Abort::Page);
    }

    #[test]
    fn writes() {
        assert_eq!(
            [0x007, 0x807, 0x2807, 0x2007].map(is_write),
            [false, true, false, false]
        );
    }
}
