//! One QEMU process from start to end: its sockets, the agent's messages, our standard streams, signals,
//! time. In every case QEMU has ended when `run` returns; if this process is killed, the kernel kills QEMU.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::machine::{Channels, Machine};
use crate::pump::{Pump, Signals, Sockets};
use crate::term;
use crate::trace::Parcels;

/// The options of a run that are not its machine's.
pub struct Options {
    /// Bit n: our standard descriptor n is a terminal, and the program's descriptor n shall be the guest's
    /// terminal.
    pub terminals: u32,
    /// The program gets our standard streams; otherwise it gets empty ones.
    pub streams: bool,
    /// The user's own init runs: the serial port is its console, and gets what is typed.
    pub own: bool,
    pub timeout: Option<Duration>,
    pub verbose: bool,
    /// A file to which the kernel's log is written, too.
    pub log: Option<std::path::PathBuf>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The program ended with this wait status.
    Program(i32),
    /// The agent could not start the program, with this errno.
    NotStarted(i32),
    /// The agent could not make the setting of this number of the trace (0: none at all), with this errno.
    NotTraced(usize, i32),
    Timeout,
    /// The user or a signal ended the run; the number of the signal.
    Interrupted(i32),
    /// QEMU ended with this status before the agent had said anything.
    Qemu(i32),
}

/// The end of a run, and the output to report it.
pub struct Outcome {
    pub ending: Ending,
    /// The kernel's log.
    pub log: Vec<u8>,
    /// What QEMU itself said.
    pub qemu: String,
    /// A message about output that was lost, if any was.
    pub lost: Option<String>,
    /// Files that a failed program looked for and that did not exist, if the kernel tells.
    pub missing: Vec<std::path::PathBuf>,
    /// What the agent sent of the trace.
    pub trace: Parcels,
}

/// The QEMU process; dropping the value ends it.
pub struct Qemu {
    pub child: Child,
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Our end and QEMU's end of a channel.
fn channel() -> Result<(UnixStream, UnixStream)> {
    let (ours, theirs) = UnixStream::pair().context("cannot make a socket pair")?;
    ours.set_nonblocking(true)?;
    // QEMU inherits its end by number.
    rustix::io::fcntl_setfd(&theirs, rustix::io::FdFlags::empty())?;
    Ok((ours, theirs))
}

/// The child gets `signal` when this process ends, or the thread that starts the child (`PR_SET_PDEATHSIG`).
pub fn ends_with_us(command: &mut Command, signal: rustix::process::Signal) {
    let parent = rustix::process::getpid();
    // SAFETY: between fork and exec only two system calls run; nothing is allocated and no lock is taken.
    unsafe {
        command.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(signal))?;
            if rustix::process::getppid() != Some(parent) {
                return Err(std::io::Error::from(rustix::io::Errno::SRCH));
            }
            Ok(())
        });
    }
}

/// Runs a machine until the program, the machine, the time or the user ends it.
pub fn run(machine: &Machine, options: &Options) -> Result<Outcome> {
    let (control, control_q) = channel()?;
    let (stdio, stdio_q) = channel()?;
    let (stderr, stderr_q) = channel()?;
    let (terminal, terminal_q) = channel()?;
    let (log, log_q) = channel()?;
    let (said, said_q) = UnixStream::pair()?;
    let ports = |s: &UnixStream| machine.ports.then_some(s.as_raw_fd());
    let channels = Channels {
        log: log_q.as_raw_fd(),
        terminal: machine.terminal.then_some(terminal_q.as_raw_fd()),
        control: ports(&control_q),
        stdio: ports(&stdio_q),
        stderr: ports(&stderr_q),
    };
    let program = machine.arch.qemu().0;
    let arguments = machine.arguments(&channels, options.verbose);
    if options.verbose {
        eprintln!("limen: {program} {}", shell_words(&arguments));
    }
    let signals = Signals::new()?;
    let mut command = Command::new(program);
    command
        .args(&arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command.env("QEMU_AUDIO_DRV", "none");
    // A process group of its own: the terminal's Ctrl-C must reach us, not QEMU.
    command.process_group(0);
    if options.verbose {
        command.stderr(Stdio::inherit());
    } else {
        command.stderr(Stdio::from(std::os::fd::OwnedFd::from(said_q.try_clone()?)));
    }
    ends_with_us(&mut command, rustix::process::Signal::KILL);
    let child = command
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    let mut qemu = Qemu { child };
    // `command` holds a copy of QEMU's end of the message socket, which must be closed here.
    drop(command);
    drop((control_q, stdio_q, stderr_q, terminal_q, log_q, said_q));

    let log_file = match &options.log {
        Some(path) => {
            Some(std::fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))?)
        }
        None => None,
    };
    let sockets = Sockets {
        control,
        stdio,
        stderr,
        terminal,
        log,
    };
    said.set_nonblocking(true)?;
    let mut pump = Pump::new(options, sockets, said, log_file);
    let raw = if options.terminals != 0 {
        term::Raw::enter(options.terminals)?
    } else {
        None
    };
    let ending = pump.run(&mut qemu, &signals);
    drop(raw);
    drop(qemu);
    Ok(Outcome {
        ending: ending?,
        lost: pump.lost(),
        missing: std::mem::take(&mut pump.missing),
        trace: std::mem::take(&mut pump.parcels),
        log: pump.log_bytes,
        qemu: String::from_utf8_lossy(&pump.said_bytes).into_owned(),
    })
}

/// The arguments quoted for a shell, for `-v`.
pub fn shell_words(words: &[String]) -> String {
    let plain = |w: &&String| {
        !w.is_empty()
            && w.chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_=,./:@+".contains(c))
    };
    let quoted: Vec<String> = words
        .iter()
        .map(|w| {
            if plain(&w) {
                w.clone()
            } else {
                format!("'{}'", w.replace('\'', "'\\''"))
            }
        })
        .collect();
    quoted.join(" ")
}
