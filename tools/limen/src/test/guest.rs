//! Runs `limen run` for a test: this very program as a child process, with its standard streams captured.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::Context;
use super::turns::ShortTurns;
use crate::arch::Arch;
use crate::tree;

/// A run that is to be made.
#[derive(Clone)]
pub struct Guest {
    arch: Arch,
    arguments: Vec<String>,
    program: Vec<String>,
    input: Vec<u8>,
    log: PathBuf,
}

/// The result of a run.
pub struct Ran {
    pub status: i32,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// The kernel's log.
    pub log: String,
}

impl Guest {
    /// A run on the kernel under test. It uses TCG, so that every host tests the same.
    pub fn new(context: &Context, arch: Arch) -> Guest {
        Guest::on(context.kernel.as_deref(), arch)
    }

    /// A run on this kernel; on the tree's if `None`.
    pub fn on(kernel: Option<&Path>, arch: Arch) -> Guest {
        let mut guest = Guest::plain(arch);
        if let Some(kernel) = kernel {
            guest.arguments.push(format!("--kernel={}", kernel.display()));
        }
        guest
    }

    /// A run on Debian's Linux image.
    pub fn linux(arch: Arch) -> Result<Guest> {
        let mut guest = Guest::plain(arch);
        guest.arguments.push(format!(
            "--kernel={}",
            crate::linux::debian_image(arch)?.display()
        ));
        // Mitigations are against faults that QEMU's processors do not have, and take much of the time.
        guest.arguments.push("--append=mitigations=off".into());
        Ok(guest)
    }

    fn plain(arch: Arch) -> Guest {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let log = crate::tree::cache("test").unwrap_or_default();
        let log = log.join(format!("{}-{number}.log", std::process::id()));
        Guest {
            arch,
            arguments: vec![
                "run".into(),
                "--accel=tcg".into(),
                format!("--arch={arch}"),
                format!("--log={}", log.display()),
            ],
            program: Vec::new(),
            input: Vec::new(),
            log,
        }
        .timeout(120)
    }

    /// The architecture.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// The options and the input on which the result depends; the same in every tree.
    pub fn describe(&self) -> String {
        let tree = tree::root().display().to_string();
        let words: Vec<&str> = self
            .arguments
            .iter()
            .map(String::as_str)
            .filter(|a| !a.starts_with("--log="))
            .collect();
        format!(
            "{} -- {} < {}",
            words.join(" "),
            self.program.join(" "),
            String::from_utf8_lossy(&self.input)
        )
        .replace(&tree, ".")
    }

    /// One more option of `limen run`.
    pub fn option(mut self, option: impl Into<String>) -> Guest {
        self.arguments.push(option.into());
        self
    }

    /// More options of `limen run`.
    pub fn options(self, options: &[&str]) -> Guest {
        options.iter().fold(self, |guest, option| guest.option(*option))
    }

    /// Seconds after which the guest is killed.
    pub fn timeout(mut self, seconds: u32) -> Guest {
        self.arguments.retain(|a| !a.starts_with("--timeout="));
        self.arguments.push(format!("--timeout={seconds}"));
        self
    }

    /// The number of processors.
    pub fn smp(self, n: u32) -> Guest {
        self.option(format!("--smp={n}"))
    }

    /// The program and its arguments.
    pub fn program(mut self, words: &[&str]) -> Guest {
        self.program = words.iter().map(|w| (*w).to_owned()).collect();
        self
    }

    /// A script for the BusyBox shell.
    pub fn script(mut self, text: &str) -> Guest {
        self.input = text.as_bytes().to_vec();
        self
    }

    /// Bytes for the program's standard input.
    pub fn input(mut self, bytes: Vec<u8>) -> Guest {
        self.input = bytes;
        self
    }

    /// Runs to the end.
    pub fn run(mut self) -> Result<Ran> {
        if !self.program.is_empty() {
            self.arguments.push("--".into());
            self.arguments.append(&mut self.program);
        }
        let own = tree::own_program();
        let mut command = Command::new(own);
        command
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // If this process is killed, the child ends, and with it its machine.
        crate::session::ends_with_us(&mut command, rustix::process::Signal::TERM);
        let _turns = ShortTurns::begin();
        let mut child = command.spawn().context("cannot start limen run")?;
        let input = std::mem::take(&mut self.input);
        let mut stdin = child.stdin.take().context("no pipe")?;
        let feeder = std::thread::spawn(move || {
            let _ = stdin.write_all(&input);
        });
        let output = child.wait_with_output().context("cannot wait for limen run")?;
        let _ = feeder.join();
        let log = std::fs::read(&self.log).unwrap_or_default();
        let _ = std::fs::remove_file(&self.log);
        Ok(Ran {
            status: output.status.code().unwrap_or(-1),
            stdout: output.stdout,
            stderr: output.stderr,
            log: String::from_utf8_lossy(&log).into_owned(),
        })
    }

    /// Runs, and fails unless the program exits with 0 and the kernel's log has no complaint.
    pub fn run_well(self) -> Result<Ran> {
        let ran = self.run()?;
        ran.expect(0)?;
        Ok(ran)
    }
}

impl Ran {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Fails unless the status is this one and the log is free of complaints.
    pub fn expect(&self, status: i32) -> Result<()> {
        if self.status != status {
            bail!(
                "status {} instead of {status}\n{}",
                self.status,
                self.everything()
            );
        }
        self.clean_log()
    }

    /// Fails when the kernel's log has a complaint.
    pub fn clean_log(&self) -> Result<()> {
        const COMPLAINTS: [&str; 6] = [
            "Kernel panic",
            "BUG:",
            "WARNING:",
            "possible circular locking",
            "Oops",
            "lockdep:",
        ];
        match self
            .log
            .lines()
            .find(|l| COMPLAINTS.iter().any(|c| l.contains(c)))
        {
            Some(line) => bail!("the kernel complained: {line}\n{}", self.everything()),
            None => Ok(()),
        }
    }

    /// The ends of all outputs, for the message of a failure.
    pub fn everything(&self) -> String {
        let tail = |name: &str, text: &str| {
            let lines: Vec<&str> = text.lines().collect();
            let from = lines.len().saturating_sub(150);
            format!("{name}:\n{}\n", lines[from..].join("\n"))
        };
        let mut all = tail("stdout", &self.text());
        all += &tail("stderr", &String::from_utf8_lossy(&self.stderr));
        all += &tail("kernel log", &self.log);
        all
    }
}
