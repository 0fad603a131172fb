//! The first process.

use super::{exec, start};
use crate::arch::frame::Frame;
use crate::cmdline;
use crate::fs::FsContext;
use crate::mm::PhysRange;
use crate::signal::ProcessSignals;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use limen_linux_abi::{Errno, raw::general as abi};

/// Makes process 1. Its thread unpacks `initrd` into the root and executes init.
pub fn start_init(initrd: Option<PhysRange>) {
    let mut signals = ProcessSignals::new();
    signals.unkillable = true;
    let run = Box::new(move || run(initrd));
    let task = start::process(b"init", signals, FsContext::initial(), run).expect("the first process");
    crate::sched::wake_new_task(&task);
}

/// What the first process does in kernel mode.
fn run(initrd: Option<PhysRange>) {
    if let Some(initrd) = initrd {
        crate::fs::initramfs::unpack(initrd);
    }
    open_console();
    let mut frame = Frame::new_user(0, 0);
    let (args, env) = init_arguments();
    execute(&mut frame, &args, &env);
    *super::current().start_frame.lock() = Some(Box::new(frame));
}

/// Opens the console as descriptors 0, 1 and 2.
fn open_console() {
    let files = super::current().files();
    match crate::fs::open_path("/dev/console", abi::O_RDWR, 0) {
        Ok(console) => {
            for _ in 0..3 {
                let _ = files.install(console.clone(), false);
            }
        }
        Err(_) => warning!("Warning: unable to open an initial console."),
    }
}

/// What of the command line goes to init. A word that the kernel does not know becomes an argument or, if it
/// contains `=`, a variable of the environment. Everything behind `--` becomes arguments.
fn init_arguments() -> (Vec<String>, Vec<String>) {
    let mut args = Vec::new();
    let mut env: Vec<String> = Vec::from([String::from("HOME=/"), String::from("TERM=linux")]);
    for word in cmdline::words() {
        if is_kernel_option(word) {
            continue;
        }
        match word.split_once('=') {
            // A parameter of a module, as Linux takes it.
            Some((name, _)) if name.contains('.') => {}
            Some((name, _)) => {
                env.retain(|old| old.split_once('=').is_none_or(|(old, _)| old != name));
                env.push(String::from(word));
            }
            None if word.contains('.') => {}
            None => args.push(String::from(word)),
        }
    }
    args.extend(cmdline::after_dashes().map(String::from));
    (args, env)
}

/// Whether a word is an option of the kernel's. (Words with a point never go to init.)
fn is_kernel_option(word: &str) -> bool {
    const NAMES: &[&str] = &[
        "acpi",
        "alloc_snapshot",
        "audit",
        "audit_backlog_limit",
        "clocksource",
        "console",
        "context_tracking",
        "debug",
        "debug_pagealloc",
        "earlycon",
        "ftrace",
        "ftrace_dump_on_oops",
        "ftrace_filter",
        "ftrace_graph_filter",
        "ftrace_graph_max_depth",
        "ftrace_graph_notrace",
        "ftrace_notrace",
        "hostname",
        "idle",
        "ignore_loglevel",
        "init",
        "initrd",
        "isolcpus",
        "kaslr",
        "kernel_map",
        "kpti",
        "loglevel",
        "lpj",
        "maxcpus",
        "mem",
        "mitigations",
        "no_timer_check",
        "noapic",
        "noinitrd",
        "nohz",
        "nohz_full",
        "nokaslr",
        "nolapic",
        "nopti",
        "norandmaps",
        "nosmp",
        "nr_cpus",
        "oops",
        "panic",
        "pci",
        "print-fatal-signals",
        "quiet",
        "randomize_kstack_offset",
        "rdinit",
        "reboot",
        "ro",
        "rodata",
        "root",
        "rootflags",
        "rootfstype",
        "rseq_debug",
        "rseq_slice_ext",
        "rw",
        "selftest",
        "stack_erasing",
        "stacktrace",
        "tp_printk",
        "trace_buf_size",
        "trace_clock",
        "trace_event",
        "trace_instance",
        "trace_options",
        "traceoff_after_boot",
        "traceoff_on_warning",
        "tsc",
    ];
    let name = word.split('=').next().unwrap_or(word);
    NAMES.contains(&name)
}

/// Executes init, with a frame of its own on the stack: the program that `rdinit=` or `init=` names, else one
/// of the usual ones.
#[inline(never)]
fn execute(frame: &mut Frame, args: &[String], env: &[String]) {
    let env: Vec<&[u8]> = env.iter().map(String::as_bytes).collect();
    let mut try_one = |path: &str| -> Result<(), Errno> {
        let mut argv = Vec::from([path.as_bytes()]);
        argv.extend(args.iter().map(String::as_bytes));
        let result = exec::kernel_execve(frame, path.as_bytes(), &argv, &env);
        if result.is_ok() {
            info!("Run {path} as init process");
        }
        result.map(|_| ())
    };
    let ramdisk = cmdline::value("rdinit").unwrap_or("/init");
    let first = try_one(ramdisk);
    if first.is_ok() {
        return;
    }
    if cmdline::value("rdinit").is_some() {
        warning!("Failed to execute {ramdisk} ({first:?})");
    }
    if let Some(path) = cmdline::value("init") {
        match try_one(path) {
            Ok(()) => return,
            Err(e) => panic!(
                "{}",
                format!("Requested init {path} failed (error -{}).", e.get())
            ),
        }
    }
    for path in ["/sbin/init", "/etc/init", "/bin/init", "/bin/sh"] {
        match try_one(path) {
            Ok(()) => return,
            Err(Errno::ENOENT) => {}
            Err(e) => warning!(
                "Starting init: {path} exists but couldn't execute it (error -{})",
                e.get()
            ),
        }
    }
    panic!("No working init found.  Try passing init= option to kernel.");
}
