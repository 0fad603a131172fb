//! Which programs run, what they are made of, and what is expected of them.

use super::Expect::{Passes, Skips};
use super::{Folder, OF_6_1, Program};
use crate::arch::Arch;

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
            (("clone3", &["clone3.c"], &[]), Passes),
            (("clone3_clear_sighand", &["clone3_clear_sighand.c"], &[]), Passes),
            (("clone3_set_tid", &["clone3_set_tid.c"], &[]), Passes),
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
            (("pidfd_fdinfo_test", &["pidfd_fdinfo_test.c"], &[]), Passes),
            (("pidfd_getfd_test", &["pidfd_getfd_test.c"], &[]), Passes),
            (("pidfd_open_test", &["pidfd_open_test.c"], &[]), Passes),
            (("pidfd_setns_test", &["pidfd_setns_test.c"], &[]), Passes),
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
            (("mqueue-lat", &["mqueue-lat.c"], &[]), Passes),
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

/// Tests of x86 that `selftests-ptrace` does not run. Left out: what fails on Linux in QEMU, too (`amx`,
/// `mov_ss_trap`, `syscall_numbering`); and `sysret_ss_attrs`, which does not end there.
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
        (("fsgsbase", &["fsgsbase.c"], &[]), Passes),
        (("fsgsbase_restore", &["fsgsbase_restore.c"], &[]), Passes),
        // Its code must lie where 32-bit addresses reach.
        (("sigreturn", &["sigreturn.c"], &["-no-pie"]), Passes),
        // By `int 0x80`.
        (("ptrace_syscall", &["ptrace_syscall.c"], &[]), Passes),
        (("ldt_gdt", &["ldt_gdt.c"], &[]), Passes),
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

/// QEMU's `max` has SVE with all lengths of vectors up to the longest, and SME only in newer versions. Cases
/// of lengths that the architecture does not have are skipped. Left out: of `abi` and `tags` nothing; of `fp`
/// those that only other programs start and are not needed, and `za-fork`, whose headers are meant for C but
/// are given to the assembler, too; of `signal` nothing.
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
            signal!("fake_sigreturn_sve_change_vl", Passes),
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
            signal!("sve_regs", Passes),
            signal!("sve_vl", Passes),
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
            (("hwcap", &["hwcap.c"], &[]), Skips(1)),
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
        // 68 programs that compute take a minute and more to begin and to end, on Linux, too.
        longest: 300,
        tests: &[
            (("fp-stress", &["fp-stress.c"], &[]), Passes),
            (("sve-ptrace", &["sve-ptrace.c"], &[]), Skips(3540)),
            (("sve-probe-vls", &["sve-probe-vls.c", "rdvl.S"], &[]), Passes),
            (("vec-syscfg", &["vec-syscfg.c", "rdvl.S"], &[]), Skips(10)),
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

/// Left out: all that need transactional memory, which no processor has on which Linux still turns it on; and
/// `sigfuz`, which takes more than two minutes on Linux.
pub const POWERPC: [Folder; 4] = [
    Folder {
        name: "selftests-powerpc-ptrace",
        path: "powerpc/ptrace",
        include: &["../include"],
        tests: &[
            power!("core-pkey", ["../lib/reg.S"], [], Skips(1)),
            power!("perf-hwbreak", ["../lib/reg.S"], [], Skips(1)),
            power!("ptrace-hwbreak", ["../lib/reg.S"], [], Skips(1)),
            power!("ptrace-perf-hwbreak", ["../lib/reg.S"], [], Skips(1)),
            power!("ptrace-gpr", ["ptrace-gpr.S", "../lib/reg.S"], [], Passes),
            power!("ptrace-pkey", ["../lib/reg.S"], [], Skips(1)),
            power!("ptrace-syscall", ["../lib/reg.S"], [], Passes),
            power!("ptrace-tar", ["../lib/reg.S"], [], Passes),
            power!("ptrace-vsx", ["../lib/reg.S"], [], Passes),
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
            power!("ipc_unmuxed", [], [], Passes),
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
