//! Which programs run, what they are made of, and what is expected of them.

use super::Expect::{Lacks, Passes, Skips};
use super::{Folder, OF_6_1, Program};
use crate::arch::Arch;

/// Limen has no namespaces.
pub(super) const NO_NAMESPACES: &str = "needs namespaces";

/// Limen has no POSIX message queues.
const NO_QUEUES: &str = "needs POSIX message queues";

/// What is the same everywhere. Left out: `pidfd_test`, which fails on Linux, too, without a `sleep` that is
/// a file of its own; `pidfd_poll_test`, which starts ten thousand processes. Of `timers` those that take
/// minutes (`adjtick`, `change_skew`, `freq-step`, `leap-a-day`, `leapcrash`, `nsleep-lat`, `raw_skew`,
/// `set-2038`, `set-timer-lat`, `skew_consistency`), `alarmtimer-suspend`, which suspends the machine,
/// `clocksource-switch`, which wants a choice of clocks, `rtcpie`, which fails on Linux, too, and
/// `valid-adjtimex`, which has functions of the C library's names.
pub const EVERYWHERE: [Folder; 3] = [
    Folder {
        name: "selftests-clone3",
        path: "clone3",
        tests: &[
            (("clone3", &["clone3.c"], &[]), Lacks(3, 0, NO_NAMESPACES)),
            (("clone3_clear_sighand", &["clone3_clear_sighand.c"], &[]), Passes),
            (
                ("clone3_set_tid", &["clone3_set_tid.c"], &[]),
                Lacks(2, 0, NO_NAMESPACES),
            ),
            (
                (
                    "clone3_cap_checkpoint_restore",
                    &["clone3_cap_checkpoint_restore.c"],
                    &[],
                ),
                Passes,
            ),
        ],
        ..OF_6_1
    },
    Folder {
        name: "selftests-pidfd",
        path: "pidfd",
        tests: &[
            (
                ("pidfd_fdinfo_test", &["pidfd_fdinfo_test.c"], &[]),
                Lacks(1, 0, NO_NAMESPACES),
            ),
            (("pidfd_getfd_test", &["pidfd_getfd_test.c"], &[]), Passes),
            (("pidfd_open_test", &["pidfd_open_test.c"], &[]), Passes),
            (
                ("pidfd_setns_test", &["pidfd_setns_test.c"], &[]),
                Lacks(6, 0, NO_NAMESPACES),
            ),
            (("pidfd_wait", &["pidfd_wait.c"], &[]), Passes),
        ],
        ..OF_6_1
    },
    Folder {
        name: "selftests-timers",
        path: "timers",
        options: &[("inconsistency-check", "-t 2"), ("threadtest", "-t 5")],
        tests: &[
            (("posix_timers", &["posix_timers.c"], &[]), Passes),
            (("nanosleep", &["nanosleep.c"], &[]), Skips(6)),
            (("mqueue-lat", &["mqueue-lat.c"], &[]), Lacks(1, 0, NO_QUEUES)),
            (("inconsistency-check", &["inconsistency-check.c"], &[]), Skips(1)),
            (("threadtest", &["threadtest.c"], &[]), Passes),
            (("set-tai", &["set-tai.c"], &[]), Passes),
            (("set-tz", &["set-tz.c"], &[]), Passes),
        ],
        // The C library clears the zone itself.
        not_on: &[("set-tz", Arch::Arm)],
        ..OF_6_1
    },
];

/// Tests of x86 that `selftests-ptrace` does not run. Left out: what needs segments of its own or 32-bit
/// calls (`fsgsbase`, `fsgsbase_restore`, `ldt_gdt`, `ptrace_syscall`, `sigreturn`); what fails on Linux in
/// QEMU, too (`amx`, `mov_ss_trap`, `syscall_numbering`); and `sysret_ss_attrs`, which does not end there.
pub const X86: [Folder; 1] = [Folder {
    name: "selftests-x86",
    path: "x86",
    tests: &[
        (
            (
                "check_initial_reg_state",
                &["check_initial_reg_state.c"],
                &["-Wl,-ereal_start"],
            ),
            Passes,
        ),
        (("sigtrap_loop", &["sigtrap_loop.c"], &[]), Passes),
        (
            ("corrupt_xstate_header", &["corrupt_xstate_header.c"], &[]),
            Passes,
        ),
        (("test_vsyscall", &["test_vsyscall.c"], &[]), Passes),
    ],
    ..OF_6_1
}];

/// A test of arm64's signals: its case, and what all share.
macro_rules! signal {
    ($name:literal, $expect:expr) => {
        (
            (
                $name,
                &[
                    concat!("testcases/", $name, ".c"),
                    "test_signals.c",
                    "test_signals_utils.c",
                    "testcases/testcases.c",
                    "signals.S",
                    "sve_helpers.c",
                ],
                &["-std=gnu99"],
            ),
            $expect,
        )
    };
}

pub(super) use signal;

/// Limen does not show SVE, which QEMU's `max` has. (It has SME only with newer versions of QEMU.)
pub(super) const NO_SVE: &str = "needs SVE";

/// It has a C library of its own.
pub(super) const TPIDR2: Program = (
    "tpidr2",
    &["tpidr2.c"],
    &[
        "-Os",
        "-nostdlib",
        "-ffreestanding",
        "-fno-asynchronous-unwind-tables",
        "-include",
        "../../../../include/nolibc/nolibc.h",
        "-lgcc",
    ],
);

/// Left out: of `abi` and `tags` nothing; of `fp` those that only other programs start and are not needed,
/// and `za-fork`, whose headers are meant for C but are given to the assembler, too; of `signal` nothing.
pub const ARM64: [Folder; 4] = [
    Folder {
        name: "selftests-tags",
        path: "arm64/tags",
        include: &["../.."],
        tests: &[(("tags_test", &["tags_test.c"], &[]), Passes)],
        ..OF_6_1
    },
    Folder {
        name: "selftests-signal",
        path: "arm64/signal",
        include: &["../.."],
        tests: &[
            signal!("fake_sigreturn_bad_magic", Passes),
            signal!("fake_sigreturn_bad_size", Passes),
            signal!("fake_sigreturn_bad_size_for_magic0", Passes),
            signal!("fake_sigreturn_duplicated_fpsimd", Passes),
            signal!("fake_sigreturn_misaligned_sp", Passes),
            signal!("fake_sigreturn_missing_fpsimd", Passes),
            signal!("fake_sigreturn_sme_change_vl", Skips(1)),
            signal!("fake_sigreturn_sve_change_vl", Lacks(0, 1, NO_SVE)),
            signal!("mangle_pstate_invalid_compat_toggle", Passes),
            signal!("mangle_pstate_invalid_daif_bits", Passes),
            signal!("mangle_pstate_invalid_mode_el1h", Passes),
            signal!("mangle_pstate_invalid_mode_el1t", Passes),
            signal!("mangle_pstate_invalid_mode_el2h", Passes),
            signal!("mangle_pstate_invalid_mode_el2t", Passes),
            signal!("mangle_pstate_invalid_mode_el3h", Passes),
            signal!("mangle_pstate_invalid_mode_el3t", Passes),
            signal!("sme_trap_no_sm", Skips(1)),
            signal!("sme_trap_non_streaming", Skips(1)),
            signal!("sme_trap_za", Passes),
            signal!("sme_vl", Skips(1)),
            signal!("ssve_regs", Skips(1)),
            signal!("ssve_za_regs", Skips(1)),
            signal!("sve_regs", Lacks(0, 1, NO_SVE)),
            signal!("sve_vl", Lacks(0, 1, NO_SVE)),
            signal!("za_no_regs", Skips(1)),
            signal!("za_regs", Skips(1)),
        ],
        ..OF_6_1
    },
    Folder {
        name: "selftests-abi",
        path: "arm64/abi",
        include: &["../.."],
        tests: &[
            (("hwcap", &["hwcap.c"], &[]), Lacks(0, 11, NO_SVE)),
            (("ptrace", &["ptrace.c"], &[]), Passes),
            (
                ("syscall-abi", &["syscall-abi.c", "syscall-abi-asm.S"], &[]),
                Passes,
            ),
            (TPIDR2, Passes),
        ],
        ..OF_6_1
    },
    Folder {
        name: "selftests-fp",
        path: "arm64/fp",
        include: &["../.."],
        helpers: &[
            ("fpsimd-test", &["fpsimd-test.S", "asm-utils.S"], &["-nostdlib"]),
            ("sve-test", &["sve-test.S", "asm-utils.S"], &["-nostdlib"]),
            (
                "ssve-test",
                &["sve-test.S", "asm-utils.S"],
                &["-nostdlib", "-DSSVE"],
            ),
            ("za-test", &["za-test.S", "asm-utils.S"], &["-nostdlib"]),
            ("rdvl-sve", &["rdvl-sve.c", "rdvl.S"], &[]),
            ("rdvl-sme", &["rdvl-sme.c", "rdvl.S"], &[]),
        ],
        tests: &[
            (("fp-stress", &["fp-stress.c"], &[]), Passes),
            (("sve-ptrace", &["sve-ptrace.c"], &[]), Lacks(0, 1, NO_SVE)),
            (
                ("sve-probe-vls", &["sve-probe-vls.c", "rdvl.S"], &[]),
                Lacks(0, 1, NO_SVE),
            ),
            (
                ("vec-syscfg", &["vec-syscfg.c", "rdvl.S"], &[]),
                Lacks(0, 20, NO_SVE),
            ),
            (("za-ptrace", &["za-ptrace.c"], &[]), Skips(1)),
        ],
        ..OF_6_1
    },
];

/// A test of powerpc: its source, what all have, what it has besides, and flags of its own.
macro_rules! power {
    ($name:literal, [$($more:literal),*], [$($flag:literal),*], $expect:expr) => {
        (
            (
                $name,
                &[concat!($name, ".c"), "../harness.c", "../utils.c", $($more),*],
                &["-std=gnu99", "-DGIT_VERSION=\"6.1\"", $($flag),*],
            ),
            $expect,
        )
    };
}

pub(super) use power;

/// Limen has no System V shared memory, with which the tests of this folder tell their child what they found.
const NO_SHM: &str = "needs System V shared memory";
/// Limen has no calls of System V IPC.
const NO_IPC: &str = "needs System V IPC";

/// Left out: all that need transactional memory, which no processor has on which Linux still turns it on; and
/// `sigfuz`, which takes more than two minutes on Linux.
pub const POWERPC: [Folder; 4] = [
    Folder {
        name: "selftests-powerpc-ptrace",
        path: "powerpc/ptrace",
        include: &["../include"],
        tests: &[
            power!("core-pkey", ["../lib/reg.S"], [], Lacks(1, 0, NO_SHM)),
            power!("perf-hwbreak", ["../lib/reg.S"], [], Skips(1)),
            power!("ptrace-hwbreak", ["../lib/reg.S"], [], Skips(1)),
            power!("ptrace-perf-hwbreak", ["../lib/reg.S"], [], Skips(1)),
            power!(
                "ptrace-gpr",
                ["ptrace-gpr.S", "../lib/reg.S"],
                [],
                Lacks(1, 0, NO_SHM)
            ),
            power!("ptrace-pkey", ["../lib/reg.S"], [], Lacks(1, 0, NO_SHM)),
            power!("ptrace-syscall", ["../lib/reg.S"], [], Passes),
            power!("ptrace-tar", ["../lib/reg.S"], [], Lacks(1, 0, NO_SHM)),
            power!("ptrace-vsx", ["../lib/reg.S"], [], Lacks(1, 0, NO_SHM)),
        ],
        ..OF_6_1
    },
    Folder {
        name: "selftests-powerpc-signal",
        path: "powerpc/signal",
        include: &["../include"],
        tests: &[
            power!("signal", ["signal.S"], ["-maltivec"], Passes),
            power!("signal_tm", ["signal.S"], ["-maltivec", "-mhtm"], Skips(1)),
            power!("sigreturn_vdso", ["signal.S"], ["-maltivec"], Passes),
            power!("sig_sc_double_restart", ["signal.S"], ["-maltivec"], Passes),
            power!("sigreturn_kernel", ["signal.S"], ["-maltivec"], Passes),
            power!("sigreturn_unaligned", ["signal.S"], ["-maltivec"], Passes),
        ],
        ..OF_6_1
    },
    Folder {
        name: "selftests-powerpc-syscalls",
        path: "powerpc/syscalls",
        include: &["../include"],
        tests: &[
            power!("ipc_unmuxed", [], [], Lacks(1, 0, NO_IPC)),
            power!("rtas_filter", [], [], Passes),
        ],
        ..OF_6_1
    },
    Folder {
        name: "selftests-powerpc-math",
        path: "powerpc/math",
        include: &["../include"],
        tests: &[
            power!("fpu_syscall", ["fpu_asm.S"], ["-maltivec"], Passes),
            power!("fpu_preempt", ["fpu_asm.S"], ["-maltivec"], Passes),
            power!("fpu_signal", ["fpu_asm.S"], ["-maltivec"], Passes),
            power!("fpu_denormal", [], ["-maltivec"], Passes),
            power!("vmx_syscall", ["vmx_asm.S"], ["-maltivec"], Passes),
            power!("vmx_preempt", ["vmx_asm.S"], ["-maltivec"], Passes),
            power!("vmx_signal", ["vmx_asm.S"], ["-maltivec"], Passes),
            power!("vsx_preempt", ["vsx_asm.S"], ["-maltivec", "-mvsx"], Passes),
            power!("mma", ["mma.S"], ["-maltivec", "-mvsx"], Skips(1)),
        ],
        ..OF_6_1
    },
];
