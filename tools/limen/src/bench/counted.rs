//! One counted run: QEMU with `-icount`, a kernel and an initramfs; the result is the lines of the serial
//! port. Both kernels of a comparison get the same machine, memory, initramfs and settings from here. Only
//! settings that make Linux quicker differ.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::guest::Guest;
use super::{MEMORY, PATIENCE};
use crate::arch::Arch;
use crate::session::{self, Qemu};
use crate::{machine, packages};

/// A kernel to be measured.
#[derive(Clone)]
pub struct Kernel {
    /// Its name in tables.
    pub name: String,
    /// What QEMU gets.
    pub image: PathBuf,
    /// The ELF file with symbols, if there is one.
    pub symbols: Option<PathBuf>,
    /// Whether it is Limen.
    pub limen: bool,
}

/// A kernel on a machine with its initramfs, the start of every measurement.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The machine's architecture.
    pub arch: Arch,
    /// QEMU's processor model.
    pub cpu: &'a str,
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The programs and the initramfs files.
    pub guest: &'a Guest,
    /// Print QEMU's command line and all lines of the serial port.
    pub verbose: bool,
}

impl<'a> Subject<'a> {
    /// A counted run on `initrd` with the settings of most rows.
    pub fn boot(self, initrd: &'a Path) -> Run<'a> {
        Run {
            subject: self,
            initrd,
            memory: MEMORY,
            cpus: 1,
            words: Vec::new(),
            kernel_words: Vec::new(),
            icount: true,
            plugin: None,
            timeout: PATIENCE,
        }
    }
}

/// A run that is to be made.
pub struct Run<'a> {
    /// Kernel and machine.
    pub subject: Subject<'a>,
    /// The initramfs.
    pub initrd: &'a Path,
    /// Memory in MiB.
    pub memory: u64,
    /// Processors.
    pub cpus: u32,
    /// Arguments of init.
    pub words: Vec<String>,
    /// More words for the kernel.
    pub kernel_words: Vec<String>,
    /// Whether the guest's clock counts instructions (`-icount`); else it is the host's clock.
    pub icount: bool,
    /// QEMU's `-plugin` with its options.
    pub plugin: Option<String>,
    /// Wall-clock time after which QEMU is killed.
    pub timeout: Duration,
}

/// The result of a run.
pub struct Ended {
    /// The lines of the serial port.
    pub lines: Vec<String>,
    /// Whether QEMU ended by itself, in time.
    pub by_itself: bool,
}

/// The processor model with which counts are comparable. On x86_64, `erms` is off: with it, Linux clears and
/// copies with `rep stosb` and `rep movsb`, and QEMU counts every byte as an instruction. `la57` is off, too:
/// with it, Linux would use 5-level paging, which most machines do not have.
pub fn fair_cpu(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "max,erms=off,fsrm=off,la57=off",
        Arch::Arm64 => "cortex-a57",
        Arch::Arm => "cortex-a15",
        Arch::Powerpc64 => "power9",
    }
}

/// The machine, the same for every kernel.
pub fn machine(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "q35",
        Arch::Arm64 | Arch::Arm => "virt",
        Arch::Powerpc64 => "pseries",
    }
}

impl Run<'_> {
    fn command_line(&self) -> String {
        let mut words = vec![
            format!("console={}", self.subject.arch.log_console()),
            "quiet".to_owned(),
            // A random stack address would change the number of pages the stack touches.
            "norandmaps".to_owned(),
        ];
        words.extend(machine::memory(self.subject.arch, self.memory).1);
        if self.subject.kernel.limen {
            // A panic must end the machine, not wait.
            words.push("panic=-1".to_owned());
        } else {
            words.extend(["panic=-1", "mitigations=off"].map(str::to_owned));
            match self.subject.arch {
                // Only wall-clock runs on a busy host need it; all runs have it.
                Arch::X86_64 => words.push("no_timer_check".to_owned()),
                // QEMU's seed for KASLR would turn kernel page table isolation on, even with `nokaslr`.
                Arch::Arm64 => words.push("kpti=off".to_owned()),
                Arch::Arm | Arch::Powerpc64 => {}
            }
        }
        words.extend(self.kernel_words.iter().cloned());
        if !self.words.is_empty() {
            words.push("--".to_owned());
            words.extend(self.words.iter().cloned());
        }
        words.join(" ")
    }

    fn arguments(&self) -> Vec<String> {
        let memory = format!("{}M", machine::memory(self.subject.arch, self.memory).0);
        let mut a: Vec<String> = [
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
            "-machine",
            &machine::with_options(machine(self.subject.arch), self.subject.kernel.limen),
            "-cpu",
            self.subject.cpu,
            "-smp",
            &self.cpus.to_string(),
            "-m",
            &memory,
            "-accel",
            "tcg,thread=single",
            // Guests get the same random numbers and the same date in every run.
            "-seed",
            "1",
            "-rtc",
            if self.icount {
                "base=2026-01-01,clock=vm"
            } else {
                "base=2026-01-01"
            },
            "-chardev",
            "stdio,id=log,signal=off",
            "-serial",
            "chardev:log",
            "-kernel",
            &self.subject.kernel.image.to_string_lossy(),
            "-initrd",
            &self.initrd.to_string_lossy(),
            "-append",
            &self.command_line(),
        ]
        .map(str::to_owned)
        .to_vec();
        if self.icount {
            a.extend(["-icount", "shift=0,sleep=off"].map(str::to_owned));
        }
        if let Some(plugin) = &self.plugin {
            a.extend(["-plugin".to_owned(), plugin.clone()]);
        }
        a
    }

    /// Runs; `on_line` gets each line when it arrives.
    pub fn run(&self, on_line: &mut dyn FnMut(&str)) -> Result<Ended> {
        let (qemu, package) = self.subject.arch.qemu();
        packages::ensure_tool(qemu, &[package])?;
        let arguments = self.arguments();
        if self.subject.verbose {
            eprintln!("limen: {qemu} {}", session::shell_words(&arguments));
        }
        let mut command = Command::new(qemu);
        command
            .args(&arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        session::ends_with_us(&mut command, rustix::process::Signal::KILL);
        let began = Instant::now();
        let child = command.spawn().with_context(|| format!("cannot start {qemu}"))?;
        let mut qemu = Qemu { child };
        let (out, err) = (qemu.child.stdout.take(), qemu.child.stderr.take());
        let (sender, lines_in) = channel();
        let reader = std::thread::spawn(move || {
            let Some(out) = out else { return };
            let mut out = BufReader::new(out);
            let mut bytes = Vec::new();
            while out.read_until(b'\n', &mut bytes).is_ok_and(|n| n > 0) {
                let line = String::from_utf8_lossy(&bytes)
                    .trim_end_matches(['\r', '\n'])
                    .to_owned();
                bytes.clear();
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let said = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = err.map(|mut e| e.read_to_string(&mut text));
            text
        });
        let mut lines = Vec::new();
        let by_itself = loop {
            let left = self.timeout.saturating_sub(began.elapsed());
            match lines_in.recv_timeout(left) {
                Ok(line) => {
                    if self.subject.verbose {
                        eprintln!("limen: | {line}");
                    }
                    on_line(&line);
                    lines.push(line);
                }
                Err(RecvTimeoutError::Disconnected) => break true,
                Err(RecvTimeoutError::Timeout) => break false,
            }
        };
        if by_itself {
            let status = qemu.child.wait().context("cannot wait for QEMU")?;
            if !status.success() && lines.is_empty() {
                let said = said.join().unwrap_or_default();
                bail!(
                    "QEMU: {}",
                    said.lines().next().unwrap_or("it ended with an error")
                );
            }
        }
        drop(qemu);
        drop(lines_in);
        let _ = reader.join();
        Ok(Ended { lines, by_itself })
    }
}
