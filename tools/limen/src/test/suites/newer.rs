//! The same folders of Linux 6.12, with what they have more. By name only.

use super::Expect::{Lacks, Passes, Skips};
use super::folders::{self, TPIDR2, power, signal};
use super::{Folder, NEWER, OF_6_1, Test};

/// A folder of 6.1 as it is in 6.12; of programs that 6.1 does not have, or that ask for more, `more` says
/// what is expected.
const fn newer(name: &'static str, older: &Folder, more: &'static [Test]) -> Folder {
    Folder {
        name,
        suite: NEWER,
        more,
        ..*older
    }
}

/// What is the same everywhere. Of `ptrace` without `vmaccess`, which fails on Linux, too.
pub const EVERYWHERE: [Folder; 5] = [
    newer("selftests-newer-clone3", &folders::EVERYWHERE[0], &[]),
    newer("selftests-newer-pidfd", &folders::EVERYWHERE[1], &[]),
    newer("selftests-newer-timers", &folders::EVERYWHERE[2], &[]),
    Folder {
        name: "selftests-newer-ptrace",
        suite: NEWER,
        path: "ptrace",
        tests: &[
            (("get_set_sud", &["get_set_sud.c"], &[]), Passes),
            (("get_syscall_info", &["get_syscall_info.c"], &[]), Passes),
            (("peeksiginfo", &["peeksiginfo.c"], &[]), Passes),
        ],
        ..OF_6_1
    },
    Folder {
        name: "selftests-newer-sigaltstack",
        suite: NEWER,
        path: "sigaltstack",
        tests: &[(("sas", &["sas.c"], &[]), Passes)],
        ..OF_6_1
    },
];

/// Those of x86.
pub const X86: [Folder; 1] = [newer(
    "selftests-newer-x86",
    &folders::X86[0],
    &[
        (("test_vsyscall", &["test_vsyscall.c"], &[]), Skips(5)),
        (
            (
                "fsgsbase_restore",
                &["fsgsbase_restore.c", "clang_helpers_64.S"],
                &[],
            ),
            Passes,
        ),
    ],
)];

/// Limen has no sockets that encrypt.
const NO_CRYPTO: &str = "needs AF_ALG";

/// Cases of arm64's signals.
const SIGNALS: &[Test] = &[
    signal!("fpmr_siginfo", Passes),
    signal!("poe_siginfo", Passes),
    signal!("tpidr2_restore", Skips(1)),
    signal!("tpidr2_siginfo", Passes),
    signal!("zt_no_regs", Skips(1)),
    signal!("zt_regs", Skips(1)),
];

/// Those of arm64.
pub const ARM64: [Folder; 4] = [
    newer("selftests-newer-tags", &folders::ARM64[0], &[]),
    Folder {
        include: &["../..", "../../../../include"],
        ..newer("selftests-newer-signal", &folders::ARM64[1], SIGNALS)
    },
    newer(
        "selftests-newer-abi",
        &folders::ARM64[2],
        &[
            (
                (
                    "hwcap",
                    &["hwcap.c"],
                    &["-include", "linux/types.h", "-Du64=__u64"],
                ),
                Lacks(0, 82, "needs a newer QEMU"),
            ),
            (TPIDR2, Skips(5)),
        ],
    ),
    newer(
        "selftests-newer-fp",
        &folders::ARM64[3],
        &[
            (("fp-stress", &["fp-stress.c"], &[]), Lacks(4, 0, NO_CRYPTO)),
            (("vec-syscfg", &["vec-syscfg.c", "rdvl.S"], &[]), Skips(11)),
            (("sve-ptrace", &["sve-ptrace.c"], &[]), Skips(75)),
            (("fp-ptrace", &["fp-ptrace.c", "fp-ptrace-asm.S"], &[]), Skips(4)),
            (("zt-ptrace", &["zt-ptrace.c"], &[]), Skips(1)),
        ],
    ),
];

/// Those of powerpc.
pub const POWERPC: [Folder; 4] = [
    newer(
        "selftests-newer-powerpc-ptrace",
        &folders::POWERPC[0],
        &[power!("ptrace-perf-hwbreak", ["ptrace-perf-asm.S"], [], Skips(1))],
    ),
    newer("selftests-newer-powerpc-signal", &folders::POWERPC[1], &[]),
    newer("selftests-newer-powerpc-syscalls", &folders::POWERPC[2], &[]),
    newer("selftests-newer-powerpc-math", &folders::POWERPC[3], &[]),
];
