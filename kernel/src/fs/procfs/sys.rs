//! `/proc/sys`: settings. Those that change something say what; the others tell a fixed truth about this kernel.

use super::TREE;
use crate::driver::kmsg;
use crate::fs::perm;
use crate::fs::pseudo::{Node, Text, parse};
use crate::mm::MMAP_MIN_ADDR;
use crate::signal::fatal::PRINT as PRINT_FATAL_SIGNALS;
use crate::syscall::misc;
use crate::task::{exec, pid};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering::Relaxed};
use limen_linux_abi::Errno;

fn fixed(path: &str, text: &'static str) {
    let show = move |out: &mut Text| {
        let _ = writeln!(out, "{text}");
        Ok(())
    };
    TREE.add(&format!("sys/{path}"), Node::text(show));
}

/// A number that can be read and written but that only programs look at.
fn remembered(path: &str, initial: i64, range: core::ops::RangeInclusive<i64>) {
    let value = Arc::new(AtomicI64::new(initial));
    let reader = value.clone();
    let node = Node::setting(
        move |out| {
            let _ = writeln!(out, "{}", reader.load(Relaxed));
            Ok(())
        },
        move |text| {
            let new: i64 = parse(text)?;
            if !range.contains(&new) {
                return Err(Errno::EINVAL);
            }
            value.store(new, Relaxed);
            Ok(())
        },
    );
    TREE.add(&format!("sys/{path}"), node);
}

/// Something that is off (0) or on (1).
fn switch(path: &str, on: &'static AtomicBool) {
    let node = Node::setting(
        |out| {
            let _ = writeln!(out, "{}", u8::from(on.load(Relaxed)));
            Ok(())
        },
        |text| {
            on.store(
                match parse(text)? {
                    0u8 => false,
                    1 => true,
                    _ => return Err(Errno::EINVAL),
                },
                Relaxed,
            );
            Ok(())
        },
    );
    TREE.add(&format!("sys/{path}"), node);
}

/// Something between 0 and `max`.
fn level(path: &str, value: &'static AtomicU8, max: u8) {
    let node = Node::setting(
        |out| {
            let _ = writeln!(out, "{}", value.load(Relaxed));
            Ok(())
        },
        move |text| {
            let new: u8 = parse(text)?;
            if new > max {
                return Err(Errno::EINVAL);
            }
            value.store(new, Relaxed);
            Ok(())
        },
    );
    TREE.add(&format!("sys/{path}"), node);
}

/// A version 4 UUID.
fn uuid() -> String {
    let mut b = [0u8; 16];
    crate::driver::random::fill(&mut b);
    b[6] = b[6] & 0x0f | 0x40;
    b[8] = b[8] & 0x3f | 0x80;
    let mut s = String::new();
    for (i, byte) in b.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            s.push('-');
        }
        let _ = write!(s, "{byte:02x}");
    }
    s
}

/// Registers the settings.
pub fn init() {
    static BOOT_ID: crate::sync::Once<String> = crate::sync::Once::new();
    let line = |path: &str, show: fn() -> String| {
        TREE.add(
            &format!("sys/{path}"),
            Node::text(move |out| {
                let _ = writeln!(out, "{}", show());
                Ok(())
            }),
        );
    };
    fixed("kernel/ostype", "Linux");
    fixed("kernel/osrelease", misc::RELEASE);
    fixed("kernel/version", misc::VERSION);
    fixed("kernel/arch", crate::arch::UTS_MACHINE);
    TREE.add(
        "sys/kernel/hostname",
        Node::setting(
            |out| {
                out.add(misc::hostname());
                out.add(b"\n");
                Ok(())
            },
            |text| {
                let name = text.strip_suffix(b"\n").unwrap_or(text);
                if name.len() > 64 {
                    return Err(Errno::EINVAL);
                }
                misc::set_hostname(name);
                Ok(())
            },
        ),
    );
    TREE.add(
        "sys/kernel/domainname",
        Node::text(|out| {
            out.add(misc::domainname());
            out.add(b"\n");
            Ok(())
        }),
    );
    TREE.add(
        "sys/kernel/pid_max",
        Node::setting(
            |out| {
                let _ = writeln!(out, "{}", pid::PID_MAX.load(Relaxed));
                Ok(())
            },
            |text| {
                let new: i32 = parse(text)?;
                if !(301..=pid::PID_MAX_LIMIT).contains(&new) {
                    return Err(Errno::EINVAL);
                }
                pid::PID_MAX.store(new, Relaxed);
                Ok(())
            },
        ),
    );
    TREE.add(
        "sys/kernel/printk",
        Node::setting(
            |out| {
                let _ = writeln!(out, "{}\t4\t1\t7", crate::log::console_level());
                Ok(())
            },
            |text| {
                let text = core::str::from_utf8(text).map_err(|_| Errno::EINVAL)?;
                let level = text.split_ascii_whitespace().next().and_then(|w| w.parse().ok());
                crate::log::set_console_level(level.ok_or(Errno::EINVAL)?);
                Ok(())
            },
        ),
    );
    line("kernel/random/uuid", uuid);
    line("kernel/random/boot_id", || BOOT_ID.get_or_init(uuid).clone());
    fixed("kernel/random/entropy_avail", "256");
    fixed("kernel/random/poolsize", "256");
    line("kernel/threads-max", || {
        format!(
            "{}",
            crate::task::kernel_process()
                .limits
                .soft(crate::task::rlimit::which::NPROC)
                .min(1 << 30)
        )
    });
    level("kernel/randomize_va_space", &exec::RANDOMIZE, 2);
    remembered("kernel/panic", 0, i64::from(i32::MIN)..=i64::from(i32::MAX));
    remembered("kernel/panic_on_oops", 1, 0..=1);
    switch("kernel/dmesg_restrict", &kmsg::RESTRICT);
    remembered("kernel/kptr_restrict", 0, 0..=2);
    remembered("kernel/perf_event_paranoid", 2, -1..=4);
    switch("kernel/print-fatal-signals", &PRINT_FATAL_SIGNALS);
    remembered("kernel/sched_child_runs_first", 0, 0..=1);
    remembered("kernel/core_uses_pid", 0, 0..=1);
    remembered("kernel/sysrq", 0, 0..=511);
    fixed("kernel/core_pattern", "core");
    fixed("kernel/cap_last_cap", "40");
    fixed("kernel/ngroups_max", "65536");
    fixed("kernel/overflowuid", "65534");
    fixed("kernel/overflowgid", "65534");
    fixed("kernel/tainted", "0");
    fixed("kernel/shmmax", "18446744073692774399");
    fixed("kernel/shmall", "18446744073692774399");
    fixed("kernel/shmmni", "4096");
    fixed("kernel/msgmax", "8192");
    fixed("kernel/msgmnb", "16384");
    fixed("kernel/msgmni", "32000");
    fixed("kernel/sem", "32000\t1024000000\t500\t32000");

    TREE.add(
        "sys/vm/mmap_min_addr",
        Node::text(|out: &mut Text| {
            let _ = writeln!(out, "{MMAP_MIN_ADDR}");
            Ok(())
        }),
    );
    fixed("vm/max_map_count", "65530");
    remembered("vm/overcommit_memory", 0, 0..=2);
    remembered("vm/overcommit_ratio", 50, 0..=100);
    remembered("vm/swappiness", 60, 0..=200);
    remembered("vm/drop_caches", 0, 1..=4);
    remembered("vm/dirty_ratio", 20, 0..=100);
    remembered("vm/dirty_background_ratio", 10, 0..=100);
    remembered("vm/vfs_cache_pressure", 100, 0..=10000);
    remembered("vm/panic_on_oom", 0, 0..=2);
    remembered("vm/min_free_kbytes", 1024, 0..=i64::MAX);
    fixed("vm/nr_hugepages", "0");

    line("fs/file-max", || format!("{}", i64::MAX));
    fixed("fs/file-nr", "0\t0\t9223372036854775807");
    fixed("fs/nr_open", "1048576");
    fixed("fs/inode-nr", "0\t0");
    fixed("fs/inode-state", "0\t0\t0\t0\t0\t0\t0");
    fixed("fs/dentry-state", "0\t0\t45\t0\t0\t0");
    fixed("fs/overflowuid", "65534");
    fixed("fs/overflowgid", "65534");
    fixed("fs/pipe-max-size", "1048576");
    fixed("fs/pipe-user-pages-soft", "16384");
    fixed("fs/pipe-user-pages-hard", "0");
    fixed("fs/aio-max-nr", "65536");
    fixed("fs/aio-nr", "0");
    remembered("fs/suid_dumpable", 0, 0..=2);
    switch("fs/protected_hardlinks", &perm::PROTECTED_HARDLINKS);
    switch("fs/protected_symlinks", &perm::PROTECTED_SYMLINKS);
    level("fs/protected_fifos", &perm::PROTECTED_FIFOS, 2);
    level("fs/protected_regular", &perm::PROTECTED_REGULAR, 2);
    fixed("fs/inotify/max_queued_events", "16384");
    fixed("fs/inotify/max_user_instances", "128");
    fixed("fs/inotify/max_user_watches", "65536");
    fixed("fs/epoll/max_user_watches", "419430");
    fixed("fs/mqueue/msg_max", "10");
    remembered("net/core/somaxconn", 4096, 0..=i64::MAX);
    fixed("net/unix/max_dgram_qlen", "512");
}
