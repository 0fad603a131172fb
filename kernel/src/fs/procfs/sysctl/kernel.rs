//! `/proc/sys/kernel`.

use super::number::{Fixed, Hook, STRICT};
use super::{Kind, Number, Setting};
use crate::driver::kmsg;
use crate::ftrace::{ops, stack_tracer};
use crate::signal::fatal::PRINT as PRINT_FATAL_SIGNALS;
use crate::task::creds::cap;
use crate::task::seccomp::ACTIONS_LOGGED;
use crate::task::uts;
use crate::task::{coredump, creds, exec, fork, pid};
use crate::tracing::{console, oops, warned};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};
use limen_bpf::Logged;
use limen_linux_abi::Errno;
use limen_linux_abi::id::{OVERFLOW_GID, OVERFLOW_UID};

/// The length in bytes, NUL included, of the machine's name and of its domain.
const NAME: usize = 65;
/// The length in bytes of `core_pattern`, NUL included.
const PATTERN: usize = 128;

/// A version 4 UUID.
fn uuid() -> Vec<u8> {
    let mut b = [0u8; 16];
    crate::random::fill(&mut b);
    b[6] = b[6] & 0x0f | 0x40;
    b[8] = b[8] & 0x3f | 0x80;
    let mut s = String::new();
    for (i, byte) in b.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            s.push('-');
        }
        let _ = write!(s, "{byte:02x}");
    }
    s.into_bytes()
}

/// The UUID of this boot.
fn boot_id() -> Vec<u8> {
    static BOOT_ID: crate::sync::Once<Vec<u8>> = crate::sync::Once::new();
    BOOT_ID.get_or_init(uuid).clone()
}

/// Which SysRq keys are allowed. Nothing reads it: there is no keyboard, and `/proc/sysrq-trigger` allows
/// all, as on Linux.
static SYSRQ: AtomicI32 = AtomicI32::new(0x1b6);

/// Whether modules can neither be loaded nor unloaded any more. It can only be set to 1.
pub static MODULES_DISABLED: AtomicI32 = AtomicI32::new(0);

static PANIC: Hook = Hook(
    || crate::panic::timeout().unwrap_or(0),
    |seconds| crate::panic::set_timeout(seconds as i32),
);
fn may_choose_pid() -> bool {
    crate::task::ns::pid::may_choose(crate::task::current().pid_ns())
}

static LAST_PID: Hook = Hook(|| pid::last().into(), |last| pid::set_last(last as i32));
/// Whether functions are traced at all. Without memory that stays as it is.
static FTRACE: Hook = Hook(
    || ops::are_enabled().into(),
    |on| {
        let _ = ops::enable(on != 0);
    },
);
/// Without memory for it the stack tracer stays as it is.
static STACK_TRACER: Hook = Hook(
    || stack_tracer::is_on().into(),
    |on| {
        let _ = stack_tracer::turn(on != 0);
    },
);
static TRACEPOINT_PRINTK: Hook = Hook(|| console::setting().into(), |value| console::set(value as i32));
static MOST_THREADS: Hook = Hook(
    || fork::max_threads() as i64,
    |most| fork::set_max_threads(most as u64),
);

/// The slice of `SCHED_RR` in milliseconds. A value that is not positive sets the default.
static RR_SLICE: Hook = Hook(
    || i64::from(crate::sched::policy::rr_slice() / 1_000_000),
    |ms| {
        // The kernel keeps nanoseconds in 32 bits.
        const LONGEST: i64 = (u32::MAX / 1_000_000) as i64;
        let ns = if ms <= 0 {
            crate::sched::policy::RR_SLICE
        } else {
            ms.min(LONGEST) as u32 * 1_000_000
        };
        crate::sched::policy::set_rr_slice(ns);
    },
);

/// Bits can only be added.
static TAINTED: Hook = Hook(
    || crate::panic::tainted().into(),
    |marks| crate::panic::taint(marks as u32),
);

const fn text(path: &'static str, get: fn() -> Vec<u8>) -> Setting {
    Setting::new(path, 0o444, Kind::Text(256, get, None))
}

fn set_hostname(name: &[u8]) -> Result<(), Errno> {
    uts::set_hostname(name);
    Ok(())
}

fn set_domainname(name: &[u8]) -> Result<(), Errno> {
    uts::set_domainname(name);
    Ok(())
}

/// The length in bytes, NUL included, of the names of all actions of seccomp.
const ACTIONS: usize = limen_bpf::verdict::ACTIONS_AVAIL.len() + 1;

fn actions_logged() -> Vec<u8> {
    Logged::from_bits(ACTIONS_LOGGED.load(Relaxed))
        .to_string()
        .into_bytes()
}

fn set_actions_logged(names: &[u8]) -> Result<(), Errno> {
    let names = core::str::from_utf8(names).ok();
    let logged = names.and_then(|names| Logged::parse(names).ok());
    crate::task::seccomp::set_actions_logged(logged)
}

/// The settings.
pub static SETTINGS: &[Setting] = &[
    text("kernel/ostype", || b"Linux".to_vec()),
    text("kernel/osrelease", || uts::RELEASE.into()),
    text("kernel/version", || uts::VERSION.into()),
    text("kernel/arch", || crate::arch::UTS_MACHINE.into()),
    text("kernel/random/uuid", uuid),
    text("kernel/random/boot_id", boot_id),
    Setting::new(
        "kernel/hostname",
        0o644,
        Kind::Text(NAME, uts::hostname, Some(set_hostname)),
    ),
    Setting::new(
        "kernel/domainname",
        0o644,
        Kind::Text(NAME, uts::domainname, Some(set_domainname)),
    ),
    Setting::new(
        "kernel/seccomp/actions_avail",
        0o444,
        Kind::Text(ACTIONS, || limen_bpf::verdict::ACTIONS_AVAIL.into(), None),
    ),
    Setting::new(
        "kernel/seccomp/actions_logged",
        0o644,
        Kind::Text(ACTIONS, actions_logged, Some(set_actions_logged)),
    )
    .with_privilege(cap::SYS_ADMIN),
    Setting::new(
        "kernel/core_pattern",
        0o644,
        Kind::Text(
            PATTERN,
            coredump::pattern,
            Some(|new| {
                coredump::set_pattern(new);
                Ok(())
            }),
        ),
    ),
    Setting::new(
        "kernel/core_uses_pid",
        0o644,
        Kind::Ints(&[Number::any(&coredump::USES_PID)]),
    ),
    Setting::new(
        "kernel/core_pipe_limit",
        0o644,
        Kind::Ints(&[Number::any(&coredump::PIPE_LIMIT)]),
    ),
    Setting::new(
        "kernel/pid_max",
        0o644,
        Kind::Ints(&[Number::new(&pid::PID_MAX, 301, pid::PID_MAX_LIMIT as i64)]),
    ),
    Setting::new(
        "kernel/ns_last_pid",
        0o666,
        Kind::Ints(&[Number::new(&LAST_PID, 0, pid::PID_MAX_LIMIT as i64)]),
    )
    .with_right(may_choose_pid),
    Setting::new(
        "kernel/ftrace_enabled",
        0o644,
        Kind::Ints(&[Number::any(&FTRACE)]),
    ),
    Setting::new(
        "kernel/stack_tracer_enabled",
        0o644,
        Kind::Ints(&[Number::any(&STACK_TRACER)]),
    ),
    Setting::new(
        "kernel/ftrace_dump_on_oops",
        0o644,
        Kind::Text(oops::LENGTH, oops::value, Some(oops::set_value)),
    ),
    Setting::new(
        "kernel/traceoff_on_warning",
        0o644,
        Kind::Ints(&[Number::any(&warned::SETTING)]),
    ),
    Setting::new(
        "kernel/tracepoint_printk",
        0o644,
        Kind::Ints(&[Number::any(&TRACEPOINT_PRINTK)]),
    ),
    Setting::new(
        "kernel/threads-max",
        0o644,
        Kind::Ints(&[Number::new(&MOST_THREADS, 1, 0x3fff_ffff)]),
    ),
    Setting::new(
        "kernel/printk",
        0o644,
        Kind::Ints(&[
            Number::any(&crate::log::CONSOLE_LEVEL),
            Number::any(&crate::log::DEFAULT_MESSAGE_LEVEL),
            Number::any(&crate::log::LEAST_CONSOLE_LEVEL),
            Number::any(&crate::log::DEFAULT_CONSOLE_LEVEL),
        ]),
    ),
    Setting::new(
        "kernel/dmesg_restrict",
        0o644,
        Kind::Ints(&[Number::new(&kmsg::RESTRICT, 0, 1)]),
    )
    .with_privilege(cap::SYS_ADMIN),
    Setting::new(
        "kernel/kptr_restrict",
        0o644,
        Kind::Ints(&[Number::new(&kmsg::HIDE_ADDRESSES, 0, 2)]),
    )
    .with_privilege(cap::SYS_ADMIN),
    Setting::new(
        "kernel/print-fatal-signals",
        0o644,
        Kind::Ints(&[Number::any(&PRINT_FATAL_SIGNALS)]),
    ),
    Setting::new(
        "kernel/randomize_va_space",
        0o644,
        Kind::Ints(&[Number::any(&exec::RANDOMIZE)]),
    ),
    Setting::new(
        "kernel/modules_disabled",
        0o644,
        Kind::Ints(&[Number::new(&MODULES_DISABLED, 1, 1)]),
    ),
    Setting::new("kernel/panic", 0o644, Kind::Ints(&[Number::any(&PANIC)])),
    // An oops always ends in a panic here.
    Setting::new(
        "kernel/panic_on_oops",
        0o644,
        Kind::Ints(&[Number::new(&Fixed(1), 1, 1)]),
    ),
    Setting::new(
        "kernel/sched_rr_timeslice_ms",
        0o644,
        Kind::Ints(&[Number::any(&RR_SLICE)]),
    ),
    Setting::new(
        "kernel/sysctl_writes_strict",
        0o644,
        Kind::Ints(&[Number::new(&STRICT, -1, 1)]),
    ),
    Setting::new("kernel/sysrq", 0o644, Kind::Ints(&[Number::any(&SYSRQ)])),
    Setting::new(
        "kernel/overflowuid",
        0o644,
        Kind::Ints(&[Number::new(&OVERFLOW_UID, 0, 65535)]),
    ),
    Setting::new(
        "kernel/overflowgid",
        0o644,
        Kind::Ints(&[Number::new(&OVERFLOW_GID, 0, 65535)]),
    ),
    Setting::new(
        "kernel/cap_last_cap",
        0o444,
        Kind::Ints(&[Number::any(&Fixed(creds::CAP_COUNT as i64 - 1))]),
    ),
    Setting::new(
        "kernel/ngroups_max",
        0o444,
        Kind::Ints(&[Number::any(&Fixed(65536))]),
    ),
    Setting::new("kernel/tainted", 0o644, Kind::Longs(&[Number::long(&TAINTED)]))
        .with_privilege(cap::SYS_ADMIN),
    Setting::new(
        "kernel/random/entropy_avail",
        0o444,
        Kind::Ints(&[Number::any(&Fixed(256))]),
    ),
    Setting::new(
        "kernel/random/poolsize",
        0o444,
        Kind::Ints(&[Number::any(&Fixed(256))]),
    ),
    Setting::new("kernel/random/write_wakeup_threshold", 0o644, Kind::Ignored(256)),
    Setting::new("kernel/random/urandom_min_reseed_secs", 0o644, Kind::Ignored(60)),
];
