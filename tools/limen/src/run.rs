//! `limen run`: puts the pieces of a run together and turns its end into an exit status.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::cli::RunOptions;
use crate::cpio::Archive;
use crate::image::{self, Description, TemporaryFile};
use crate::machine::{self, Machine};
use crate::program::{self, Program};
use crate::session::{self, Ending, Options, Outcome};
use crate::{accel, guest_files, initrd, kernel, made, packages, status, term, tree};

/// What the guest runs.
enum What {
    /// BusyBox's shell.
    Shell,
    /// A host program.
    Host(Program),
    /// A program inside the tree given with `--root`, by its path in the guest.
    InTree(String),
    /// The user's own init.
    Own,
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
    let (what, arch) = choose(options)?;
    let (qemu, package) = arch.qemu();
    let qemu = packages::ensure_tool(qemu, &[package])?;
    check_qemu(&qemu)?;
    let kernel = kernel::choose(options, arch)?;

    let own = matches!(what, What::Own);
    let terminals = term::standard_terminals();
    let mut append = options.append.clone();
    let initrd = if own {
        if !options.program.is_empty() {
            append.push("--".to_owned());
            append.extend(options.program.iter().cloned());
        }
        initrd::read(options.initrd.as_deref().unwrap_or(Path::new("")))?
    } else {
        let description = describe(options, &what, arch, terminals, kernel.modules.clone());
        image::compose(arch, &description, |archive| fill(archive, options, &what, arch))?
    };
    let initrd_mib = initrd.len() as u64 >> 20;
    if memory < 4 + initrd_mib * 2 {
        bail!(
            "--mem {}: too little for an initramfs of {initrd_mib} MiB; give at least {}M",
            options.mem,
            16 + initrd_mib * 3
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
        initrd: Some(initrd.0.clone()),
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
    Ok(report(&outcome, options, arch, own))
}

/// Decides what runs, and on which architecture: the one asked for, the program's, the kernel's, the host's.
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
    if let Some(dir) = &options.root {
        if !dir.is_dir() {
            bail!(
                "--root {}: no such directory; give the tree that becomes the guest's root",
                dir.display()
            );
        }
        let name = options.program.first().map_or("/bin/sh", String::as_str);
        let (path, arch) = program::find_in_tree(dir, &options.add, name, options.arch)?;
        return Ok((What::InTree(path), arch.map_or_else(default, Ok)?));
    }
    let Some(name) = options.program.first() else {
        return Ok((What::Shell, default()?));
    };
    let program = program::find(name, options.arch.or_else(|| kernel::arch_of(options)))?;
    let arch = program.arch;
    Ok((What::Host(program), arch))
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
        What::Host(program) => program.path.to_string_lossy().into_owned(),
        What::InTree(path) => path.clone(),
        What::Shell | What::Own => "/bin/sh".to_owned(),
    };
    match arguments.first_mut() {
        Some(first) => *first = path,
        None => arguments.push(path),
    }
    let mut environment: Vec<String> = vec![
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
        "HOME=/root".to_owned(),
        "USER=root".to_owned(),
        "LOGNAME=root".to_owned(),
        "SHELL=/bin/sh".to_owned(),
    ];
    if terminals != 0 {
        let term = std::env::var("TERM").unwrap_or_else(|_| "vt100".to_owned());
        environment.push(format!("TERM={term}"));
    }
    for wanted in &options.env {
        let entry = match wanted.split_once('=') {
            Some(_) => wanted.clone(),
            None => match std::env::var(wanted) {
                Ok(value) => format!("{wanted}={value}"),
                Err(_) => continue,
            },
        };
        let name = entry.split('=').next().unwrap_or_default().to_owned() + "=";
        environment.retain(|e| !e.starts_with(&name));
        environment.push(entry);
    }
    Description {
        arguments,
        environment,
        cwd: options.cwd.clone(),
        terminal: arch.terminal(),
        tty_fds: terminals,
        size: term::size(terminals),
        modules,
    }
}

fn fill(archive: &mut Archive, options: &RunOptions, what: &What, arch: Arch) -> Result<()> {
    if let What::Host(program) = what {
        guest_files::add_links_to(archive, &program.files)?;
    }
    image::add_requests(archive, arch, &options.add, &options.with)?;
    match what {
        What::Host(program) => {
            guest_files::add_all(archive, &program.files, arch)?;
            let term = std::env::var("TERM").unwrap_or_default();
            guest_files::add_terminals(archive, &["dumb", "vt100", &term])?;
        }
        What::Shell => drop(image::add_busybox(archive, arch)?),
        What::InTree(_) | What::Own => {}
    }
    if let Some(dir) = &options.root {
        guest_files::add_tree(archive, dir, "")?;
    }
    if options.cwd != "/" {
        archive.directory(&options.cwd);
    }
    Ok(())
}

/// The oldest QEMU that has what we use (`-chardev socket,fd=`, microvm, `thread=multi`) and was tried.
const OLDEST_QEMU: (u32, u32) = (6, 2);

/// Asks QEMU for its version, once per installed binary.
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
    made::replace(&remembered, text.as_bytes())?;
    Ok(())
}

/// Says what must be said about the end of a run, and gives its exit status.
fn report(outcome: &Outcome, options: &RunOptions, arch: Arch, own: bool) -> i32 {
    if let (Ending::Program(_), Some(why)) = (outcome.ending, &outcome.lost) {
        eprintln!("limen: {why}");
        return status::HOST;
    }
    let code = match outcome.ending {
        Ending::Program(wait) if wait & 0x7f == 0 => return wait >> 8 & 0xff,
        Ending::Program(wait) => return 128 + (wait & 0x7f),
        Ending::NotStarted(errno) => {
            let error = std::io::Error::from_raw_os_error(errno);
            eprintln!("limen: the guest could not start the program: {error}");
            // The program itself was there: what is not is what it needs to be run, such as its interpreter.
            return status::CANNOT_RUN;
        }
        Ending::Timeout => {
            eprintln!("limen: the time given with --timeout is over");
            return status::TIMEOUT;
        }
        Ending::Interrupted(signal) => return 128 + signal,
        Ending::Qemu(code) => code,
    };
    let log = String::from_utf8_lossy(&outcome.log);
    let panic = log.find("Kernel panic");
    // QEMU has words for its own errors, whatever the status.
    let silent = outcome.qemu.trim().is_empty();
    if panic.is_some() || code == machine::panic_status(arch) && silent {
        eprintln!("limen: the kernel panicked");
        if !options.verbose {
            show_tail(&log[panic.unwrap_or(0)..], 100, panic.is_some());
        }
        return status::PANIC;
    }
    // isa-debug-exit gives 1 for the value 0, which is how a machine without a power switch ends well.
    if own && (code == 0 || code == 1 && silent) {
        return 0;
    }
    if !silent {
        eprintln!("limen: QEMU: {}", outcome.qemu.trim());
        return status::HOST;
    }
    eprintln!(
        "limen: the machine ended (QEMU's status {code}) and did not say how the program ended; its log ends so:"
    );
    if !options.verbose {
        show_tail(&log, 30, false);
    }
    status::NO_STATUS
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
