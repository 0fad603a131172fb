//! `limen run`: prepares a run and turns its end into an exit status.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::applets::{self, Applets};
use crate::arch::Arch;
use crate::cli::RunOptions;
use crate::cpio::Archive;
use crate::image::{self, Description, TemporaryFile};
use crate::machine::{self, Machine};
use crate::program::{self, Guest, Program};
use crate::session::{self, Ending, Options, Outcome};
use crate::{accel, guest_files, initrd, kernel, made, missing, packages, status, term, trace, tree};

/// The program that the guest runs.
enum What {
    /// BusyBox's shell.
    Shell,
    /// A program of the host, or one that is in the guest.
    Host(Program),
    /// A program inside the tree given with `--root`, by its path in the guest.
    InTree(PathBuf),
    /// The user's own init.
    Own,
}

impl What {
    /// Whether it is an applet of BusyBox, or a program that needs applets.
    fn is_applet(&self) -> bool {
        match self {
            What::Host(program) => !program.stand_ins.is_empty() || program.path.starts_with(applets::PLACE),
            What::InTree(path) => path.starts_with(applets::PLACE),
            What::Shell | What::Own => false,
        }
    }
}

/// Runs; returns the exit status.
pub fn run(options: &RunOptions) -> Result<i32> {
    let memory = machine::parse_memory(&options.mem)?;
    let timeout = match options.timeout {
        Some(t) if !t.is_finite() || t <= 0.0 || t > 1e9 => {
            bail!("--timeout {t}: give a number of seconds above 0")
        }
        t => t.map(Duration::from_secs_f64),
    };
    check(options)?;
    let mut trace = trace::Wanted::new(&options.trace, options.initrd.is_some())?;
    let (what, arch) = choose(options)?;
    let (qemu, package) = arch.qemu();
    let qemu = packages::ensure_tool(qemu, &[package])?;
    check_qemu(&qemu)?;
    let kernel = kernel::choose(options, arch)?;

    let own = matches!(what, What::Own);
    let terminals = term::standard_terminals();
    let mut append = options.append.clone();
    // QEMU puts the initramfs at the end of memory, over the kernel if need be.
    let kernel_end = kernel.end()?;
    let room_needed = |initrd: &[u8]| kernel_end + initrd.len() as u64;
    let is_enough = |initrd: &[u8]| memory >= least_memory(initrd) && memory << 20 >= room_needed(initrd);
    let initrd = if own {
        if !options.program.is_empty() {
            append.push("--".to_owned());
            for word in &options.program {
                let word = word.to_str().with_context(|| {
                    format!(
                        "{}: not UTF-8, which the kernel's command line must be",
                        word.display()
                    )
                })?;
                append.push(word.to_owned());
            }
        }
        initrd::read(options.initrd.as_deref().unwrap_or(Path::new("")))?
    } else {
        let mut description = describe(options, &what, arch, terminals, kernel.modules.clone());
        description.trace = trace.as_ref().map(trace::Wanted::settings).unwrap_or_default();
        let compose = |applets: bool| {
            image::compose(arch, &description, room(memory), |archive| {
                fill(archive, options, &what, arch, applets)
            })
        };
        let whole = compose(true)?;
        // If memory is just enough for the program, the applets are left out.
        if !is_enough(&whole) && !what.is_applet() {
            if options.verbose {
                eprintln!(
                    "limen: --mem {}: too little for BusyBox's programs too",
                    options.mem
                );
            }
            compose(false)?
        } else {
            whole
        }
    };
    if memory < least_memory(&initrd) {
        let mib = initrd.len() as u64 >> 20;
        bail!(
            "--mem {}: too little for an initramfs of {mib} MiB; give at least {}M",
            options.mem,
            16 + mib * 3
        );
    }
    let least = room_needed(&initrd);
    if memory << 20 < least {
        bail!(
            "--mem {}: too little for the kernel and an initramfs; give at least {}M",
            options.mem,
            (least >> 20) + 2
        );
    }
    let initrd = TemporaryFile::new(&initrd)?;
    let kvm = accel::choose(options.accel, arch, &kernel, options.verbose)?;
    if options.gdb {
        let symbols = kernel.symbols.as_ref().unwrap_or(&kernel.image);
        eprintln!(
            "limen: waiting for a debugger: gdb-multiarch -ex 'target remote :1234' {}",
            symbols.display()
        );
    }
    let mut machine = Machine {
        arch,
        machine: options.machine.clone(),
        cpu: options
            .cpu
            .clone()
            .unwrap_or_else(|| machine::default_cpu(arch).to_owned()),
        smp: options.smp,
        memory,
        kernel: kernel.image.clone(),
        limen: kernel.limen,
        initrd: Some(initrd.path.clone()),
        dtb: None,
        append,
        kvm,
        gdb: options.gdb,
        ports: !own,
        terminal: !own && terminals != 0,
        extra: options.qemu_arg.clone(),
    };
    machine.dtb = machine::devicetree(arch, &machine.kind())?;
    let session = Options {
        terminals,
        streams: true,
        own,
        timeout,
        verbose: options.verbose,
        log: options.log.clone(),
    };
    let outcome = session::run(&machine, &session)?;
    drop(initrd);
    let delivered = trace
        .as_mut()
        .map_or(Ok(()), |trace| trace.deliver(&outcome, arch));
    let code = report(&outcome, options, arch, own);
    delivered.map(|()| code)
}

/// Decides the program and the architecture: the one asked for, else the program's, else the kernel's, else
/// the host's.
fn choose(options: &RunOptions) -> Result<(What, Arch)> {
    let default = || {
        options
            .arch
            .or_else(|| kernel::arch_of(options))
            .or(Arch::host())
            .context("this host's architecture is not one of Limen's; say which with --arch")
    };
    if options.initrd.is_some() {
        return Ok((What::Own, default()?));
    }
    let path = guest_path(options);
    if let Some(dir) = &options.root {
        if !dir.is_dir() {
            bail!(
                "--root {}: no such directory; give the tree that becomes the guest's root",
                dir.display()
            );
        }
        let guest = guest(options, &path);
        let name = options.program.first().map(OsString::as_os_str);
        let (path, arch) = match name {
            Some(name) => program::find_in_tree(dir, name, options.arch, &guest)?,
            None => program::find_in_tree(dir, "/bin/sh".as_ref(), options.arch, &guest)
                .or_else(|_| program::find_in_tree(dir, "sh".as_ref(), options.arch, &guest))?,
        };
        return Ok((What::InTree(path), arch.map_or_else(default, Ok)?));
    }
    let Some(name) = options.program.first() else {
        return Ok((What::Shell, default()?));
    };
    let arch = options.arch.or_else(|| kernel::arch_of(options));
    let program = program::find(name, arch, &guest(options, &path))?;
    let arch = program.arch;
    Ok((What::Host(program), arch))
}

/// Where programs are in the guest.
fn guest<'a>(options: &'a RunOptions, path: &'a [PathBuf]) -> Guest<'a> {
    Guest {
        add: &options.add,
        path,
        applets: true,
    }
}

/// The program's `PATH`; BusyBox's folder is appended to it.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The directories of the program's `PATH`: the one that `--env` gives, else the usual.
fn guest_path(options: &RunOptions) -> Vec<PathBuf> {
    let given = options.env.iter().rev().find_map(|entry| {
        let bytes = entry.as_bytes();
        match bytes.strip_prefix(b"PATH=") {
            Some(value) => Some(OsStr::from_bytes(value).to_owned()),
            None if bytes == b"PATH" => std::env::var_os("PATH"),
            None => None,
        }
    });
    let path = given.unwrap_or_else(|| PATH.into());
    std::env::split_paths(&path)
        .filter(|dir| dir.is_absolute())
        .collect()
}

/// The least memory, in MiB, with which it makes sense to boot this initramfs.
fn least_memory(initrd: &[u8]) -> u64 {
    4 + (initrd.len() as u64 >> 20) * 2
}

/// The most bytes of an initramfs while it is composed: its unpacked content must fit into memory, too. The
/// exact limit is checked when it is complete.
fn room(memory: u64) -> u64 {
    (memory << 20).max(64 << 20)
}

fn describe(
    options: &RunOptions,
    what: &What,
    arch: Arch,
    terminals: u32,
    modules: Vec<(String, Vec<u8>)>,
) -> Description {
    let mut arguments = options.program.clone();
    let path = match what {
        What::Host(program) => program.path.clone().into_os_string(),
        What::InTree(path) => path.clone().into_os_string(),
        What::Shell | What::Own => "/bin/sh".into(),
    };
    match arguments.first_mut() {
        Some(first) => *first = path,
        None => arguments.push(path),
    }
    let behind = match what {
        What::Shell | What::Own => String::new(),
        What::Host(_) | What::InTree(_) => format!(":{}", applets::PLACE),
    };
    let mut environment: Vec<OsString> = vec![
        format!("PATH={PATH}{behind}").into(),
        "HOME=/root".into(),
        "USER=root".into(),
        "LOGNAME=root".into(),
        "SHELL=/bin/sh".into(),
    ];
    if terminals != 0 {
        let mut term = OsString::from("TERM=");
        term.push(std::env::var_os("TERM").unwrap_or_else(|| "vt100".into()));
        environment.push(term);
    }
    for wanted in &options.env {
        let mut entry = wanted.clone();
        if !wanted.as_bytes().contains(&b'=') {
            let Some(value) = std::env::var_os(wanted) else {
                continue;
            };
            entry.push("=");
            entry.push(value);
        }
        let name = |entry: &OsString| entry.as_bytes().split(|b| *b == b'=').next().map(<[u8]>::to_vec);
        environment.retain(|other| name(other) != name(&entry));
        environment.push(entry);
    }
    Description {
        arguments,
        environment,
        cwd: guest_files::clean(Path::new(&options.cwd)).into_os_string(),
        terminal: arch.terminal(),
        tty_fds: terminals,
        size: term::size(terminals),
        modules,
        trace: Vec::new(),
    }
}

fn fill(archive: &mut Archive, options: &RunOptions, what: &What, arch: Arch, applets: bool) -> Result<()> {
    match (&options.root, what) {
        (Some(dir), _) => guest_files::add_top_links(archive, dir),
        (None, What::Host(_)) => guest_files::add_merged_usr(archive),
        (None, _) => {}
    }
    image::add_requests(archive, arch, &options.add, &options.with)?;
    match what {
        What::Host(program) => {
            guest_files::add_program(archive, program)?;
            let term = std::env::var("TERM").unwrap_or_default();
            guest_files::add_terminals(archive, &["dumb", "vt100", &term])?;
        }
        What::Shell => Applets::fetch(arch)?.add_installed(archive)?,
        What::InTree(_) | What::Own => {}
    }
    if let Some(dir) = &options.root {
        guest_files::add_tree(archive, dir, Path::new(""))?;
    }
    if let What::Host(_) | What::InTree(_) = what
        && let Some(applets) = applets.then(|| Applets::get(arch)).flatten()
    {
        applets.add_behind(archive)?;
        if options.root.is_none() {
            // Programs start each other through these two paths.
            for place in ["/bin/sh", "/usr/bin/env"] {
                if let Some(stands_in) = applets.stand_in(place) {
                    archive.symlink(place, stands_in);
                }
            }
        }
    }
    Ok(())
}

/// Checks the values of options that name files and folders.
fn check(options: &RunOptions) -> Result<()> {
    for entry in &options.env {
        if entry.is_empty() || entry.as_bytes().starts_with(b"=") {
            bail!("--env {}: give NAME or NAME=VALUE", entry.display());
        }
    }
    if !Path::new(&options.cwd).is_absolute() {
        bail!(
            "--cwd {}: give the whole path of a directory in the guest, from /",
            options.cwd.display()
        );
    }
    Ok(())
}

/// The oldest QEMU that has what `limen` uses (`-chardev socket,fd=`, microvm, `thread=multi`) and that was
/// tested.
const OLDEST_QEMU: (u32, u32) = (6, 2);

/// Asks QEMU for its version, once for each installed binary.
fn check_qemu(path: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::metadata(path)?;
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let remembered = tree::cache("qemu")?.join(format!("{name}-{}-{}", meta.ino(), meta.mtime()));
    if remembered.exists() {
        return Ok(());
    }
    let output = std::process::Command::new(path).arg("--version").output();
    let output = output.with_context(|| format!("cannot start {}", path.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split("version ").nth(1).unwrap_or_default();
    let mut numbers = version
        .split(|c: char| !c.is_ascii_digit())
        .map(|n| n.parse().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < OLDEST_QEMU {
        bail!(
            "{} is QEMU {}.{}; at least {}.{} is needed: install a newer qemu-system package",
            path.display(),
            version.0,
            version.1,
            OLDEST_QEMU.0,
            OLDEST_QEMU.1
        );
    }
    // If it cannot be kept (a full disk), the next run asks again.
    let _ = made::replace(&remembered, text.as_bytes());
    Ok(())
}

/// Prints messages about the end of a run; returns its exit status.
fn report(outcome: &Outcome, options: &RunOptions, arch: Arch, own: bool) -> i32 {
    if let (Ending::Program(_), Some(why)) = (outcome.ending, &outcome.lost) {
        eprintln!("limen: {why}");
        return status::HOST;
    }
    let code = match outcome.ending {
        Ending::Program(wait) => {
            let status = if wait & 0x7f == 0 {
                wait >> 8 & 0xff
            } else {
                128 + (wait & 0x7f)
            };
            // With `--root` nothing is missing: the tree is meant to be all that the guest has.
            if status != 0
                && options.root.is_none()
                && let Some(advice) = missing::advice(&outcome.missing, arch, &options.add)
            {
                eprintln!("limen: {advice}");
            }
            return status;
        }
        Ending::NotStarted(errno) => {
            let error = std::io::Error::from_raw_os_error(errno);
            eprintln!(
                "limen: the guest could not start the program: {error}{}",
                what_it_takes(errno)
            );
            if let Some(advice) = missing::advice(&outcome.missing, arch, &options.add) {
                eprintln!("limen: {advice}");
            }
            // The program itself exists: a file that it needs is missing, such as its interpreter.
            return status::CANNOT_RUN;
        }
        // Why it was not traced is an error of its own.
        Ending::NotTraced(..) => return status::HOST,
        Ending::Timeout => {
            eprintln!("limen: the time given with --timeout is over");
            return status::TIMEOUT;
        }
        Ending::Interrupted(signal) => return 128 + signal,
        Ending::Qemu(code) => code,
    };
    let log = String::from_utf8_lossy(&outcome.log);
    let panic = log.find("Kernel panic");
    // If QEMU failed, it has printed an error.
    let silent = outcome.qemu.trim().is_empty();
    if panic.is_some() || code == machine::panic_status(arch) && silent {
        eprintln!("limen: the kernel panicked");
        if !options.verbose {
            show_tail(&log[panic.unwrap_or(0)..], 100, panic.is_some());
        }
        return status::PANIC;
    }
    // A machine without a power switch ends well by writing 0 to isa-debug-exit, which makes QEMU's status 1.
    if own && (code == 0 || code == 1 && silent) {
        return 0;
    }
    if !silent {
        eprintln!("limen: QEMU: {}", outcome.qemu.trim());
        return status::HOST;
    }
    eprintln!(
        "limen: the machine ended (QEMU's status {code}) and did not say how the program ended; its log ends \
         so:"
    );
    if !options.verbose {
        show_tail(&log, 30, false);
    }
    status::NO_STATUS
}

/// Advice for a program that was not started.
fn what_it_takes(errno: i32) -> &'static str {
    match rustix::io::Errno::from_raw_os_error(errno) {
        rustix::io::Errno::NOENT => {
            "; its interpreter or dynamic loader is not in the guest: bring it with --with or --add"
        }
        rustix::io::Errno::TOOBIG => "; hand the words over in a file or through a pipe",
        rustix::io::Errno::NOEXEC => "; it is no program of this architecture, nor a script with #!",
        rustix::io::Errno::ACCESS => "; it is not executable: chmod +x",
        rustix::io::Errno::NOMEM => "; give more memory with --mem",
        _ => "",
    }
}

/// The first or last lines of a log.
fn show_tail(log: &str, lines: usize, first: bool) {
    let all: Vec<&str> = log.lines().collect();
    let part = if first {
        &all[..all.len().min(lines)]
    } else {
        &all[all.len().saturating_sub(lines)..]
    };
    for line in part {
        eprintln!("{}", line.trim_end_matches('\r'));
    }
}
