//! QEMU's command line for a run. `docs/running.md` describes the machine from the guest's side: it is the
//! contract between this file and the kernel.

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::arch::Arch;
use crate::{linux, status};

/// What the machine is made of.
pub struct Machine {
    pub arch: Arch,
    /// QEMU's machine with its options; `None` for the kernel's default machine.
    pub machine: Option<String>,
    pub cpu: String,
    pub smp: u32,
    /// Memory in MiB.
    pub memory: u64,
    pub kernel: PathBuf,
    pub limen: bool,
    pub initrd: Option<PathBuf>,
    /// The devicetree, for machines for which QEMU makes none.
    pub dtb: Option<PathBuf>,
    /// Words for the kernel's command line besides those that belong to the machine.
    pub append: Vec<String>,
    pub kvm: bool,
    pub gdb: bool,
    /// Whether the agent's virtio ports exist (with the user's own init they do not).
    pub ports: bool,
    /// Whether there is a virtio terminal (`hvc0`).
    pub terminal: bool,
    pub extra: Vec<String>,
}

/// The file descriptors QEMU inherits: the other ends of our sockets.
pub struct Channels {
    pub log: i32,
    pub terminal: Option<i32>,
    pub control: Option<i32>,
    pub stdio: Option<i32>,
    pub stderr: Option<i32>,
}

/// The value for `isa-debug-exit` at a panic: it gives `(value << 1) | 1`.
const PANIC_VALUE: i32 = (status::PANIC - 1) / 2;
const _: () = assert!((PANIC_VALUE << 1) | 1 == status::PANIC);

/// QEMU's exit status when the kernel panics. `isa-debug-exit` and semihosting pass our status on. On
/// `pseries` the guest can only tell that it panicked (firmware call `ibm,os-term`), and `-action
/// panic=exit-failure` makes that a 1.
pub fn panic_status(arch: Arch) -> i32 {
    match arch {
        Arch::X86_64 | Arch::Arm64 | Arch::Arm => status::PANIC,
        Arch::Powerpc64 => 1,
    }
}

/// The processor model of a run that names none: `max` where QEMU has it.
pub fn default_cpu(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 | Arch::Arm64 => "max",
        Arch::Arm => "cortex-a15",
        Arch::Powerpc64 => "power9",
    }
}

/// The default options of a kind of machine.
pub fn default_options(kind: &str, limen: bool) -> &'static [&'static str] {
    match kind {
        // Without ACPI, QEMU describes microvm's devices on the kernel's command line, the only place where
        // Debian's Linux looks for them. Limen reads ACPI, which also lists the processors.
        "microvm" if !limen => &["acpi=off"],
        "virt" => &["gic-version=2"],
        // VOF is a small firmware that takes a tenth of a second; SLOF takes four. TCG has none of the
        // mitigations that the machine has by default, and would print warnings.
        "pseries" => &[
            "x-vof=on",
            "cap-cfpc=broken",
            "cap-sbbc=broken",
            "cap-ibs=broken",
            "cap-ccf-assist=off",
        ],
        _ => &[],
    }
}

/// The value of QEMU's `-machine`: `given`, with the default options of its kind that `given` does not
/// mention.
pub fn with_options(given: &str, limen: bool) -> String {
    let mut parts: Vec<&str> = given.split(',').collect();
    let kind = parts[0];
    for option in default_options(kind, limen) {
        let key = option.split('=').next().unwrap_or_default();
        if !parts.iter().any(|p| p.split('=').next() == Some(key)) {
            parts.push(option);
        }
    }
    parts.join(",")
}

/// The devicetree of a machine for which QEMU makes none: the one in its Linux package.
pub fn devicetree(arch: Arch, kind: &str) -> Result<Option<PathBuf>> {
    match kind {
        "vexpress-a15" => linux::debian_devicetree(arch, "vexpress-v2p-ca15-tc1.dtb").map(Some),
        _ => Ok(None),
    }
}

/// The steps, in MiB, in which a machine takes memory.
pub fn memory_step(arch: Arch) -> u64 {
    match arch {
        Arch::X86_64 | Arch::Arm64 | Arch::Arm => 1,
        Arch::Powerpc64 => 256,
    }
}

/// QEMU's `-m` in MiB, and a word for the kernel's command line that limits memory to `wanted`, if that is
/// needed.
pub fn memory(arch: Arch, wanted: u64) -> (u64, Option<String>) {
    let whole = wanted.next_multiple_of(memory_step(arch));
    (whole, (whole != wanted).then(|| format!("mem={wanted}M")))
}

/// A size as QEMU takes it, in MiB: a number with K, M or G; a bare number is MiB.
pub fn parse_memory(text: &str) -> Result<u64> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let scale = match unit
        .to_ascii_uppercase()
        .trim_end_matches("IB")
        .trim_end_matches('B')
    {
        "" | "M" => 1024,
        "K" => 1,
        "G" => 1024 * 1024,
        "T" => 1024 * 1024 * 1024,
        _ => bail!("--mem {text}: not a size; give a number with K, M or G, such as 64M"),
    };
    let kib = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(scale));
    match kib {
        Some(kib) if (1024..=1 << 40).contains(&kib) => Ok(kib / 1024),
        Some(_) => bail!("--mem {text}: give at least 1M and at most 1024T"),
        None => bail!("--mem {text}: not a size; give a number with K, M or G, such as 64M"),
    }
}

impl Machine {
    /// The kind of machine, without its options.
    pub fn kind(&self) -> String {
        let given = self.machine.as_deref().and_then(|m| m.split(',').next());
        given.unwrap_or_else(|| self.default_kind()).to_owned()
    }

    fn default_kind(&self) -> &'static str {
        match (self.arch, self.limen) {
            (Arch::X86_64, true) => "microvm",
            (Arch::X86_64, false) => "q35",
            (Arch::Arm64 | Arch::Arm, _) => "virt",
            (Arch::Powerpc64, _) => "pseries",
        }
    }

    /// The kernel's command line.
    pub fn command_line(&self, verbose: bool) -> String {
        let mut words: Vec<String> = vec![format!("console={}", self.arch.log_console())];
        if self.limen {
            let how = match self.arch {
                Arch::X86_64 => "isa-debug-exit",
                Arch::Arm64 | Arch::Arm => "semihosting",
                Arch::Powerpc64 => "os-term",
            };
            words.push(format!("limen.panic_exit={how}"));
            if self.ports {
                // The agent asks for the missing files when a program fails.
                words.push("limen.missing".to_owned());
            }
        } else {
            words.push("panic=-1".into());
            if self.arch == Arch::X86_64 {
                // On a busy host QEMU's timer interrupt is late, and Linux would take the timer for broken.
                words.push("no_timer_check".into());
            }
            if !verbose {
                words.push("quiet".into());
            }
        }
        words.extend(memory(self.arch, self.memory).1);
        words.extend(self.append.iter().cloned());
        words.join(" ")
    }

    /// QEMU's arguments.
    pub fn arguments(&self, channels: &Channels, verbose: bool) -> Vec<String> {
        let mut a: Vec<String> = Vec::new();
        let mut add = |words: &[&str]| a.extend(words.iter().map(|w| (*w).to_owned()));
        add(&["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        let kind = self.kind();
        let machine = self.machine.as_deref().unwrap_or(&kind);
        add(&["-machine", &with_options(machine, self.limen)]);
        add(&["-accel", if self.kvm { "kvm" } else { "tcg,thread=multi" }]);
        let cpu = match (self.cpu.as_str(), self.kvm, self.arch) {
            ("max", true, _) => "host",
            // Linux signs return addresses, and the architected algorithm (QARMA) would take most of the time
            // in TCG.
            ("max", false, Arch::Arm64) => "max,pauth-impdef=on",
            (cpu, ..) => cpu,
        };
        add(&[
            "-cpu",
            cpu,
            "-smp",
            &self.smp.to_string(),
            "-m",
            &format!("{}M", memory(self.arch, self.memory).0),
        ]);
        add(&["-kernel", &self.kernel.to_string_lossy()]);
        if let Some(initrd) = &self.initrd {
            add(&["-initrd", &initrd.to_string_lossy()]);
        }
        if let Some(dtb) = &self.dtb {
            add(&["-dtb", &dtb.to_string_lossy()]);
        }
        add(&["-append", &self.command_line(verbose)]);
        match self.arch {
            Arch::X86_64 => add(&["-device", "isa-debug-exit,iobase=0xf4,iosize=4"]),
            Arch::Arm64 | Arch::Arm if self.kvm => {}
            Arch::Powerpc64 => add(&["-action", "panic=exit-failure"]),
            Arch::Arm64 | Arch::Arm => add(&["-semihosting-config", "enable=on,target=native"]),
        }
        add(&[
            "-chardev",
            &format!("socket,id=log,fd={}", channels.log),
            "-serial",
            "chardev:log",
        ]);
        let bus = match kind.as_str() {
            "q35" | "pseries" => "pci",
            _ => "device",
        };
        if bus == "device" {
            add(&["-global", "virtio-mmio.force-legacy=false"]);
        }
        if self.ports || self.terminal {
            add(&["-device", &format!("virtio-serial-{bus},id=ports,max_ports=4")]);
        }
        if let Some(fd) = channels.terminal {
            add(&["-chardev", &format!("socket,id=terminal,fd={fd}")]);
            add(&[
                "-device",
                "virtconsole,bus=ports.0,nr=0,chardev=terminal,name=limen.terminal",
            ]);
        }
        let ports = [
            ("control", channels.control),
            ("stdio", channels.stdio),
            ("stderr", channels.stderr),
        ];
        for (number, (name, fd)) in ports.into_iter().enumerate() {
            if let Some(fd) = fd {
                add(&["-chardev", &format!("socket,id={name},fd={fd}")]);
                let number = number + 1;
                add(&[
                    "-device",
                    &format!("virtserialport,bus=ports.0,nr={number},chardev={name},name=limen.{name}"),
                ]);
            }
        }
        add(&["-device", &format!("virtio-rng-{bus}")]);
        if self.gdb {
            add(&["-gdb", "tcp:127.0.0.1:1234", "-S"]);
        }
        a.extend(self.extra.iter().cloned());
        a
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_keep_what_was_asked_for() {
        assert_eq!(with_options("virt", true), "virt,gic-version=2");
        assert_eq!(with_options("virt,gic-version=3", true), "virt,gic-version=3");
        assert_eq!(with_options("q35", true), "q35");
        let slof = with_options("pseries,x-vof=off", true);
        assert!(slof.starts_with("pseries,x-vof=off,cap-") && !slof.contains("x-vof=on"));
        assert_eq!(memory(Arch::Powerpc64, 512), (512, None));
        assert_eq!(memory(Arch::Powerpc64, 16), (256, Some("mem=16M".to_owned())));
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_memory("64M").unwrap(), 64);
        assert_eq!(parse_memory("64").unwrap(), 64);
        assert_eq!(parse_memory("2G").unwrap(), 2048);
        assert_eq!(parse_memory("2048k").unwrap(), 2);
        for bad in ["", "M", "12X", "-5M", "1K", "99999999999999999999"] {
            assert!(parse_memory(bad).is_err(), "{bad}");
        }
    }
}
