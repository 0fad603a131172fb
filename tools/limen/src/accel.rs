//! Chooses the accelerator. KVM is used only after a probe has booted a guest with it: on some hosts
//! `/dev/kvm` exists and does not work. The result is kept under `target/limen` until the host or the kernel
//! changes.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::arch::Arch;
use crate::cli::Accel;
use crate::image::{self, Description, TemporaryFile};
use crate::kernel::Kernel;
use crate::machine::{self, Machine};
use crate::session::{self, Ending, Options};
use crate::{made, tree};

/// How long the probe may take; a guest that works is up in far less.
const PROBE: Duration = Duration::from_secs(15);

/// Whether to use KVM, and why.
pub fn choose(asked: Accel, arch: Arch, kernel: &Kernel, verbose: bool) -> Result<bool> {
    let (kvm, why) = match asked {
        Accel::Tcg => (false, "asked for".to_owned()),
        Accel::Auto => match possible(arch) {
            Err(why) => (false, why),
            Ok(()) => verdict(arch, kernel)?,
        },
        Accel::Kvm => match possible(arch) {
            Err(why) => bail!("KVM cannot be used: {why}; leave --accel out"),
            Ok(()) => (true, "asked for".to_owned()),
        },
    };
    if verbose {
        eprintln!("limen: accelerator {} ({why})", if kvm { "KVM" } else { "TCG" });
    }
    Ok(kvm)
}

fn possible(arch: Arch) -> Result<(), String> {
    if Arch::host() != Some(arch) {
        return Err(format!("this host is no {arch} machine"));
    }
    match std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/kvm")
    {
        Ok(_) => Ok(()),
        Err(e) => Err(format!("/dev/kvm: {e}")),
    }
}

/// The remembered result, or that of a new probe.
fn verdict(arch: Arch, kernel: &Kernel) -> Result<(bool, String)> {
    let read = |p: &str| std::fs::read_to_string(p).unwrap_or_default().trim().to_owned();
    let changed = |p: &Path| std::fs::metadata(p).and_then(|m| m.modified()).ok();
    let qemu = tree::find_tool(arch.qemu().0).unwrap_or_default();
    let key = format!(
        "{} {} {:?} {} {:?}",
        read("/proc/sys/kernel/random/boot_id"),
        read("/proc/sys/kernel/osrelease"),
        changed(&qemu),
        kernel.image.display(),
        changed(&kernel.image)
    );
    let remembered =
        tree::cache("kvm")?.join(format!("{arch}-{}", if kernel.limen { "limen" } else { "other" }));
    if let Ok(text) = std::fs::read_to_string(&remembered)
        && let Some(rest) = text.strip_prefix(&format!("{key}\n"))
    {
        return Ok((
            rest.starts_with("yes"),
            format!("{}, remembered", rest.split_once(' ').map_or("", |r| r.1)),
        ));
    }
    let (works, why) = match probe(arch, kernel) {
        Ok(()) => (true, "a probe booted with KVM".to_owned()),
        Err(error) => (false, format!("a probe did not boot with KVM: {error:#}")),
    };
    let word = if works { "yes" } else { "no" };
    let why = why.lines().next().unwrap_or_default().to_owned();
    // If it cannot be kept (a full disk), the next run probes again.
    let _ = made::replace(&remembered, format!("{key}\n{word} {why}").as_bytes());
    Ok((works, why))
}

/// Boots this very kernel up to the agent and asks it to start a program that does not exist: the agent's
/// answer proves that KVM works.
fn probe(arch: Arch, kernel: &Kernel) -> Result<()> {
    let description = Description {
        arguments: vec!["/nothing".into()],
        cwd: "/".into(),
        modules: kernel.modules.clone(),
        ..Description::default()
    };
    let initrd = TemporaryFile::new(&image::compose(arch, &description, 0, |_| Ok(()))?)?;
    let machine = Machine {
        arch,
        machine: None,
        cpu: machine::default_cpu(arch).to_owned(),
        smp: 1,
        memory: 256,
        kernel: kernel.image.clone(),
        limen: kernel.limen,
        initrd: Some(initrd.path.clone()),
        dtb: None,
        append: Vec::new(),
        kvm: true,
        gdb: false,
        ports: true,
        terminal: false,
        extra: Vec::new(),
    };
    let options = Options {
        terminals: 0,
        streams: false,
        own: false,
        timeout: Some(PROBE),
        verbose: false,
        log: None,
    };
    let outcome = session::run(&machine, &options)?;
    match outcome.ending {
        Ending::NotStarted(_) => Ok(()),
        Ending::Timeout => bail!("it was not up after {} seconds", PROBE.as_secs()),
        other => bail!("{other:?} {}", outcome.qemu.lines().next().unwrap_or_default()),
    }
}
