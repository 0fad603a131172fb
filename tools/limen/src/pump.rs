//! The one event loop of a run. It moves bytes between our standard streams and the guest's, and handles the
//! agent's messages, the kernel's log, signals and time. `session.rs` sets it up.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};

use crate::missing;
use crate::relay::Relay;
use crate::session::{Ending, Options, Qemu};
use crate::term;
use crate::trace::Parcels;

/// How long the machine has to switch itself off after the program's end.
const POWER_OFF: Duration = Duration::from_secs(3);
/// How long the program has to end after it was sent SIGTERM.
const GRACE: Duration = Duration::from_secs(5);
/// Ctrl-]: the key that ends the run.
const ESCAPE: u8 = 0x1d;
/// The most bytes of the log that may wait to be shown; the most bytes of QEMU's own output that are kept.
const LOG_ROOM: usize = 1 << 20;
/// The most missing files that are kept.
const MISSING_LIMIT: usize = 1 << 14;
/// The most bytes of the kernel's log that are kept.
const LOG_LIMIT: usize = 16 << 20;

/// Signals that end or change a run: a flag for each, and a socket that wakes the loop.
pub struct Signals {
    wake: UnixStream,
    flags: [(i32, Arc<AtomicBool>); 4],
}

impl Signals {
    /// Starts listening for the rest of this process's life.
    pub fn new() -> Result<Signals> {
        let (wake, write) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let flags = [SIGINT, SIGTERM, SIGHUP, SIGWINCH].map(|s| (s, Arc::new(AtomicBool::new(false))));
        for (signal, flag) in &flags {
            // A signal that was ignored when we were started stays ignored: `nohup limen run`.
            if ignored(*signal) {
                continue;
            }
            signal_hook::flag::register(*signal, Arc::clone(flag))?;
            signal_hook::low_level::pipe::register(*signal, write.try_clone()?)?;
        }
        Ok(Signals { wake, flags })
    }

    fn take(&self, signal: i32) -> bool {
        self.flags
            .iter()
            .any(|(s, flag)| *s == signal && flag.swap(false, Ordering::SeqCst))
    }

    fn drain(&self) {
        let mut buffer = [0; 64];
        while matches!(rustix::io::read(&self.wake, &mut buffer), Ok(n) if n > 0) {}
    }
}

/// Whether this process was started with `signal` ignored.
pub fn ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 != 0)
}

/// Our ends of QEMU's channels.
pub struct Sockets {
    pub control: UnixStream,
    pub stdio: UnixStream,
    pub stderr: UnixStream,
    pub terminal: UnixStream,
    pub log: UnixStream,
}

/// The state of the loop.
pub struct Pump<'a> {
    options: &'a Options,
    sockets: Sockets,
    /// The program's stdin, stdout and stderr; what is typed; what the terminal shows.
    relays: [Relay; 5],
    /// The kernel's log.
    pub log_bytes: Vec<u8>,
    log_file: Option<std::fs::File>,
    /// The error because of which the log's file is incomplete.
    log_lost: Option<std::io::Error>,
    log_ended: bool,
    /// A message of the agent that is not complete yet, and messages to the agent that are not sent yet.
    line: Vec<u8>,
    messages: Vec<u8>,
    control_ended: bool,
    said_eof: bool,
    said_broken: [bool; 2],
    /// For stdout and stderr: the agent said that the stream ended after this many bytes.
    closes: [Option<u64>; 2],
    /// How the program ended, and how many bytes it wrote to stdout and stderr.
    ending: Option<(Ending, u64, u64)>,
    /// The agent was told that we have all of that output.
    said_done: bool,
    /// The part of the kernel's log that still is to be written to our stdout or stderr.
    shown_log: Vec<u8>,
    log_broken: bool,
    /// QEMU's own output: our end of the pipe, and what was read.
    said: UnixStream,
    said_ended: bool,
    /// QEMU's own output.
    pub said_bytes: Vec<u8>,
    /// Files that the program looked for in the guest and that did not exist.
    pub missing: Vec<PathBuf>,
    /// What the agent has sent of the trace.
    pub parcels: Parcels,
}

const INPUT: usize = 0;
const OUTPUT: usize = 1;
const ERRORS: usize = 2;
const TYPED: usize = 3;
const SHOWN: usize = 4;

/// What a descriptor in the poll set is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    Wake,
    Child,
    Log,
    Control,
    From(usize),
    To(usize),
    ShownLog,
    Said,
}

impl<'a> Pump<'a> {
    pub fn new(
        options: &'a Options,
        sockets: Sockets,
        said: UnixStream,
        log_file: Option<std::fs::File>,
    ) -> Pump<'a> {
        let mut relays = [(); 5].map(|()| Relay::new());
        // QEMU throws away what a terminal does not read at once.
        relays[SHOWN] = Relay::patient();
        let typed = options.terminals & 1 != 0;
        // Without streams the program's input is empty; with a terminal its input is what is typed.
        relays[INPUT].ended = !options.streams || typed || options.own;
        relays[TYPED].ended = !typed && !options.own;
        relays[SHOWN].ended = options.terminals == 0 || options.own;
        Pump {
            options,
            sockets,
            relays,
            log_bytes: Vec::new(),
            log_file,
            log_lost: None,
            log_ended: false,
            line: Vec::new(),
            messages: Vec::new(),
            control_ended: false,
            said_eof: false,
            said_broken: [false; 2],
            closes: [None; 2],
            ending: None,
            said_done: false,
            shown_log: Vec::new(),
            log_broken: false,
            said,
            said_ended: false,
            said_bytes: Vec::new(),
            missing: Vec::new(),
            parcels: Parcels::default(),
        }
    }

    /// The output of the program that could not be written or did not arrive, if any, as a message.
    pub fn lost(&self) -> Option<String> {
        let streams = [
            (OUTPUT, "standard output"),
            (ERRORS, "standard error"),
            (SHOWN, "the terminal"),
        ];
        let failed = |(r, name): (usize, &str)| {
            let why = std::io::Error::from(self.relays[r].failed?);
            Some(format!("cannot write to {name}: {why}"))
        };
        let of_log = |why| format!("cannot write the kernel's log to its file: {why}");
        let stream = streams.into_iter().find_map(failed);
        stream.or_else(|| self.log_lost.as_ref().map(of_log)).or_else(|| {
            let (_, out, err) = self.ending?;
            let short = |r: usize, n| !self.relays[r].broken && self.relays[r].taken < n;
            (short(OUTPUT, out) || short(ERRORS, err))
                .then(|| "QEMU ended before all of the program's output had come".to_owned())
        })
    }

    /// The source and the sink of a relay.
    fn ends(&self, relay: usize) -> (BorrowedFd<'_>, BorrowedFd<'_>) {
        let s = &self.sockets;
        match relay {
            INPUT => (rustix::stdio::stdin(), s.stdio.as_fd()),
            OUTPUT => (s.stdio.as_fd(), rustix::stdio::stdout()),
            ERRORS => (s.stderr.as_fd(), rustix::stdio::stderr()),
            TYPED if self.options.own => (rustix::stdio::stdin(), s.log.as_fd()),
            TYPED => (rustix::stdio::stdin(), s.terminal.as_fd()),
            _ => (
                s.terminal.as_fd(),
                term::output(self.options.terminals).unwrap_or(rustix::stdio::stdout()),
            ),
        }
    }

    /// Runs until something ends it.
    pub fn run(&mut self, qemu: &mut Qemu, signals: &Signals) -> Result<Ending> {
        let pid = rustix::process::Pid::from_child(&qemu.child);
        let exit = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
            .context("pidfd_open does not work; Linux 5.3 or newer is needed")?;
        let mut deadline = self
            .options
            .timeout
            .map(|t| (Instant::now() + t, Ending::Timeout));
        let mut exited: Option<i32> = None;
        loop {
            self.after();
            if let Some(done) = self.finished(exited, &mut deadline) {
                return Ok(done);
            }
            let wait = deadline.map(|(at, _)| at.saturating_duration_since(Instant::now()));
            let ready = self.wait(signals, exited.is_none().then_some(exit.as_fd()), wait)?;
            if let Some(ending) = self.obey(signals, &mut deadline) {
                if !matches!(
                    ending,
                    Ending::Program(_) | Ending::NotStarted(_) | Ending::NotTraced(..)
                ) {
                    return Ok(ending);
                }
                // The machine does not switch itself off. The terminal's last output is still read.
                let _ = qemu.child.kill();
                deadline = None;
            }
            for slot in ready {
                match slot {
                    Slot::Child => {
                        use std::os::unix::process::ExitStatusExt;
                        let status = qemu.child.wait().context("cannot wait for QEMU")?;
                        exited = Some(
                            status
                                .code()
                                .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
                        );
                    }
                    Slot::Log => self.read_log(),
                    Slot::Control => self.talk(),
                    Slot::From(r) if self.fill(r) => return Ok(Ending::Interrupted(SIGINT)),
                    Slot::To(r) => self.drain(r),
                    Slot::ShownLog => self.show_log(),
                    Slot::Said => self.hear_qemu(),
                    Slot::From(_) | Slot::Wake => {}
                }
            }
        }
    }

    /// Handles signals and time. Returns an ending if one of them ends the run.
    fn obey(&mut self, signals: &Signals, deadline: &mut Option<(Instant, Ending)>) -> Option<Ending> {
        signals.drain();
        if signals.take(SIGWINCH) {
            let (rows, columns) = term::size(self.options.terminals);
            self.send(&format!("winsize {rows} {columns}\n"));
        }
        for signal in [SIGINT, SIGHUP] {
            if signals.take(signal) {
                return Some(Ending::Interrupted(signal));
            }
        }
        if signals.take(SIGTERM) {
            let again = matches!(deadline, Some((_, Ending::Interrupted(_))));
            if again || !self.options.streams || self.options.own {
                return Some(Ending::Interrupted(SIGTERM));
            }
            self.send(&format!("signal {SIGTERM}\n"));
            *deadline = Some((Instant::now() + GRACE, Ending::Interrupted(SIGTERM)));
        }
        deadline
            .filter(|(at, _)| Instant::now() >= *at)
            .map(|(_, ending)| ending)
    }

    /// The end of the run, if it is over.
    fn finished(&mut self, exited: Option<i32>, deadline: &mut Option<(Instant, Ending)>) -> Option<Ending> {
        let drained = |r: usize| self.relays[r].ended && !self.relays[r].pending();
        let logged = self.log_ended && self.said_ended && self.shown_log.is_empty();
        let Some((ending, out, err)) = self.ending else {
            let status = exited?;
            // QEMU has ended: the bytes left in its sockets are the last ones.
            let rest =
                [OUTPUT, ERRORS, SHOWN].into_iter().any(|r| !drained(r)) || !logged || !self.control_ended;
            return if rest { None } else { Some(Ending::Qemu(status)) };
        };
        let whole = |r: usize, n: u64| {
            let relay = &self.relays[r];
            relay.broken || !relay.pending() && (relay.taken >= n || relay.ended)
        };
        if !(whole(OUTPUT, out) && whole(ERRORS, err)) {
            return None;
        }
        if exited.is_some() {
            return (drained(SHOWN) && logged).then_some(ending);
        }
        // The agent switches the machine off when it has been told. A machine that does not is killed.
        if !self.said_done {
            self.said_done = true;
            self.send("done\n");
            *deadline = Some((Instant::now() + POWER_OFF, ending));
        }
        None
    }

    /// Waits until a descriptor is ready or time is up; returns the ready ones.
    fn wait(
        &self,
        signals: &Signals,
        exit: Option<BorrowedFd<'_>>,
        wait: Option<Duration>,
    ) -> Result<Vec<Slot>> {
        let (read, write) = (PollFlags::IN, PollFlags::OUT);
        let mut slots = vec![Slot::Wake];
        let mut fds = vec![PollFd::from_borrowed_fd(signals.wake.as_fd(), read)];
        let mut add = |slot, fd, flags| {
            slots.push(slot);
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        };
        if let Some(exit) = exit {
            add(Slot::Child, exit, read);
        }
        if !self.log_ended && self.shown_log.len() < LOG_ROOM {
            add(Slot::Log, self.sockets.log.as_fd(), read);
        }
        if !self.shown_log.is_empty() {
            add(Slot::ShownLog, self.log_goes_to(), write);
        }
        if !self.said_ended {
            add(Slot::Said, self.said.as_fd(), read);
        }
        if !self.control_ended {
            let flags = if self.messages.is_empty() {
                read
            } else {
                read | write
            };
            add(Slot::Control, self.sockets.control.as_fd(), flags);
        }
        for (r, relay) in self.relays.iter().enumerate() {
            let (from, to) = self.ends(r);
            if relay.pending() {
                add(Slot::To(r), to, write);
            }
            if relay.wants() {
                add(Slot::From(r), from, read);
            }
        }
        let limit = wait.map(|w| Timespec {
            tv_sec: i64::try_from(w.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(w.subsec_nanos()),
        });
        match poll(&mut fds, limit.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("poll does not work"),
        }
        Ok(slots
            .into_iter()
            .zip(&fds)
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|(s, _)| s)
            .collect())
    }

    /// Reads from a relay's source. True when the user typed the key that ends the run.
    fn fill(&mut self, r: usize) -> bool {
        let mut relay = std::mem::replace(&mut self.relays[r], Relay::none());
        relay.fill(self.ends(r).0);
        let mut escape = false;
        if r == TYPED
            && self.options.terminals & 1 != 0
            && let Some(at) = relay.waiting().iter().position(|b| *b == ESCAPE)
        {
            relay.truncate(at);
            escape = true;
        }
        self.relays[r] = relay;
        escape
    }

    fn drain(&mut self, r: usize) {
        let mut relay = std::mem::replace(&mut self.relays[r], Relay::none());
        relay.drain(self.ends(r).1);
        self.relays[r] = relay;
    }

    /// Closes and reports streams that have ended.
    fn after(&mut self) {
        if self.options.streams && !self.said_eof && self.relays[INPUT].ended && !self.relays[INPUT].pending()
        {
            self.said_eof = true;
            self.send(&format!("eof {}\n", self.relays[INPUT].taken));
        }
        for (i, r) in [OUTPUT, ERRORS].into_iter().enumerate() {
            if self.relays[r].broken && !self.said_broken[i] {
                self.said_broken[i] = true;
                self.send(&format!("broken {}\n", i + 1));
            }
            if self.closes[i].is_some_and(|n| self.relays[r].taken >= n) && !self.relays[r].pending() {
                self.closes[i] = None;
                close_standard(i + 1);
            }
        }
    }

    fn read_log(&mut self) {
        let mut buffer = [0; 16384];
        match rustix::io::read(&self.sockets.log, &mut buffer) {
            Ok(0) => self.log_ended = true,
            Ok(n) => {
                let bytes = &buffer[..n];
                if self.log_bytes.len() < LOG_LIMIT {
                    self.log_bytes.extend_from_slice(bytes);
                }
                if let Some(file) = &mut self.log_file
                    && let Err(why) = file.write_all(bytes)
                {
                    self.log_file = None;
                    self.log_lost = Some(why);
                }
                if (self.options.own || self.options.verbose) && !self.log_broken {
                    self.shown_log.extend_from_slice(bytes);
                }
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(_) => self.log_ended = true,
        }
    }

    /// Where the log is shown. The user's own init has the serial port as its console, so its output and the
    /// log are one stream (stdout).
    fn log_goes_to(&self) -> BorrowedFd<'static> {
        if self.options.own {
            rustix::stdio::stdout()
        } else {
            rustix::stdio::stderr()
        }
    }

    /// Writes as much of the log as a descriptor takes that is ready.
    fn show_log(&mut self) {
        let some = self.shown_log.len().min(crate::relay::PIPE_ROOM);
        match rustix::io::write(self.log_goes_to(), &self.shown_log[..some]) {
            Ok(n) => drop(self.shown_log.drain(..n)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(_) => {
                self.log_broken = true;
                self.shown_log.clear();
            }
        }
    }

    /// Reads QEMU's own output, of which the beginning is kept.
    fn hear_qemu(&mut self) {
        let mut buffer = [0; 4096];
        match rustix::io::read(&self.said, &mut buffer) {
            Ok(n) if n > 0 => {
                let room = LOG_ROOM - self.said_bytes.len().min(LOG_ROOM);
                self.said_bytes.extend_from_slice(&buffer[..n.min(room)]);
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            _ => self.said_ended = true,
        }
    }

    /// Queues a message for the agent.
    fn send(&mut self, message: &str) {
        self.messages.extend_from_slice(message.as_bytes());
    }

    /// Sends queued messages and reads the agent's.
    fn talk(&mut self) {
        while !self.messages.is_empty() {
            match rustix::io::write(&self.sockets.control, &self.messages) {
                Ok(n) => drop(self.messages.drain(..n)),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => break,
                Err(_) => self.messages.clear(),
            }
        }
        let mut buffer = [0; 16384];
        match rustix::io::read(&self.sockets.control, &mut buffer) {
            Ok(0) => self.control_ended = true,
            Ok(n) => self.line.extend_from_slice(&buffer[..n]),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(_) => self.control_ended = true,
        }
        loop {
            // A parcel's bytes follow its message at once.
            self.parcels.take(&mut self.line);
            let Some(end) = self.line.iter().position(|b| *b == b'\n') else {
                break;
            };
            let line: Vec<u8> = self.line.drain(..=end).collect();
            if let Some(name) = line.strip_prefix(b"missing ") {
                if self.missing.len() < MISSING_LIMIT {
                    self.missing.push(missing::path_of(name));
                }
                continue;
            }
            self.hear(&String::from_utf8_lossy(&line));
        }
    }

    /// Handles one message of the agent. A message that is not understood comes from a damaged guest and is
    /// ignored.
    fn hear(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let word = words.next();
        let numbers: Vec<u64> = words.filter_map(|w| w.parse().ok()).collect();
        match (word, numbers.as_slice()) {
            (Some("exit"), [status, out, err]) => {
                let (out, err) = if self.options.streams {
                    (*out, *err)
                } else {
                    (0, 0)
                };
                self.ending = Some((Ending::Program(*status as i32), out, err));
            }
            (Some(kind), [size]) if self.parcels.begin(kind, *size) => {}
            (Some("untraced"), [setting, errno]) => {
                self.ending = Some((Ending::NotTraced(*setting as usize, *errno as i32), 0, 0));
            }
            (Some("exec"), [errno]) => self.ending = Some((Ending::NotStarted(*errno as i32), 0, 0)),
            (Some("closed"), [stream @ 1..=2, n]) => self.closes[*stream as usize - 1] = Some(*n),
            (Some("stdin-closed"), _) => {
                self.relays[INPUT].ended = true;
                self.relays[INPUT].broken = true;
                self.relays[INPUT].truncate(0);
                close_standard(0);
            }
            _ => {}
        }
    }
}

/// Closes one of our standard streams, so that its reader sees the end.
fn close_standard(stream: usize) {
    let Ok(null) = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
    else {
        return;
    };
    let _ = match stream {
        0 => rustix::stdio::dup2_stdin(&null),
        1 => rustix::stdio::dup2_stdout(&null),
        // Our own messages still need stderr.
        _ => Ok(()),
    };
}
