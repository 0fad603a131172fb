//! `limen run` on a terminal of our own.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::check;
use crate::arch::Arch;
use crate::test::{Context, Verdict};
use crate::tree;

/// `limen run` with a terminal of our own as its three standard streams.
struct Terminal {
    master: std::fs::File,
    child: std::process::Child,
    /// All it showed, and how much of that is dealt with.
    seen: Vec<u8>,
    passed: usize,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Terminal {
    fn start(context: &Context, arch: Arch, program: &[&str]) -> Result<Terminal> {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        use rustix::termios::{Winsize, tcsetwinsize};
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let open = || -> Result<OwnedFd> {
            let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
            Ok(rustix::fs::open(&name, flags, rustix::fs::Mode::empty())?)
        };
        let slave = open()?;
        tcsetwinsize(
            &slave,
            Winsize {
                ws_row: 33,
                ws_col: 99,
                ws_xpixel: 0,
                ws_ypixel: 0,
            },
        )?;
        // setsid -c makes the terminal the controlling one, as a terminal program does.
        let mut command = Command::new("setsid");
        command.args(["-c", "-w"]).arg(tree::own_program());
        command.args(["run", "--accel=tcg", "--timeout=100", &format!("--arch={arch}")]);
        if let Some(kernel) = &context.kernel {
            command.arg(format!("--kernel={}", kernel.display()));
        }
        if !program.is_empty() {
            command.arg("--").args(program);
        }
        command
            .env("TERM", "vt100")
            .stdin(open()?)
            .stdout(open()?)
            .stderr(open()?);
        let child = command.spawn().context("cannot start setsid")?;
        drop(command);
        drop(slave);
        let master = std::fs::File::from(master);
        rustix::io::ioctl_fionbio(&master, true)?;
        Ok(Terminal {
            master,
            child,
            seen: Vec::new(),
            passed: 0,
        })
    }

    fn send(&mut self, text: &str) -> Result<()> {
        Ok(self.master.write_all(text.as_bytes())?)
    }

    fn read(&mut self) {
        let mut buffer = [0; 4096];
        while let Ok(n) = self.master.read(&mut buffer) {
            if n == 0 {
                break;
            }
            self.seen.extend_from_slice(&buffer[..n]);
        }
    }

    /// Waits for a text after the last one waited for.
    fn wait_for(&mut self, text: &str) -> Result<()> {
        let limit = Instant::now() + Duration::from_secs(60);
        loop {
            self.read();
            let wanted = text.as_bytes();
            let new = &self.seen[self.passed..];
            if let Some(at) = new.windows(wanted.len()).position(|w| w == wanted) {
                self.passed += at + wanted.len();
                return Ok(());
            }
            if Instant::now() > limit || matches!(self.child.try_wait(), Ok(Some(_))) {
                self.read();
                bail!(
                    "the terminal never showed {text:?} after what is above the line; it \
                     showed:\n{}\n----\n{}",
                    String::from_utf8_lossy(&self.seen[..self.passed]),
                    String::from_utf8_lossy(&self.seen[self.passed..])
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn end(&mut self) -> Result<i32> {
        let limit = Instant::now() + Duration::from_secs(20);
        loop {
            self.read();
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.code().unwrap_or(-1));
            }
            if Instant::now() > limit {
                bail!(
                    "it did not end; the terminal showed:\n{}",
                    String::from_utf8_lossy(&self.seen)
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A shell on a terminal: echo, line editing, Ctrl-C, Ctrl-D, Ctrl-], window size, full-screen programs.
pub(super) fn terminal(context: &Context, arch: Arch) -> Result<Verdict> {
    let mut t = Terminal::start(context, arch, &[])?;
    t.wait_for("# ")?;
    t.send("echo fir''st\r")?;
    t.wait_for("first\r\n")?;
    t.wait_for("# ")?;
    // Line editing: the shell's own, with the cursor keys.
    t.send("echo XY\x1b[D\x7fZ''Q\r")?;
    t.wait_for("ZQY\r\n")?;
    t.wait_for("# ")?;
    t.send("stty size\r")?;
    t.wait_for("33 99")?;
    t.wait_for("# ")?;
    t.send("sh -c 'tty; exec sleep 100'\r")?;
    t.wait_for(&format!("{}\r\n", arch.terminal()))?;
    t.send("\x03")?;
    t.wait_for("# ")?;
    t.send("echo status $?\r")?;
    t.wait_for("status 130")?;
    t.wait_for("# ")?;
    // The kernel's own line discipline, in cat: erase, and Ctrl-D for the end.
    t.send("sh -c 'echo r''eady; exec cat'\r")?;
    t.wait_for("ready\r\n")?;
    t.send("abX\x7fc\n")?;
    t.wait_for("abc\r\n")?;
    t.send("\x04")?;
    t.wait_for("# ")?;
    // Job control.
    t.send("sh -c 'echo st''arted; exec sleep 100'\r")?;
    t.wait_for("started\r\n")?;
    t.send("\x1a")?;
    t.wait_for("Stopped")?;
    t.wait_for("# ")?;
    t.send("kill %1; fg; echo back''again\r")?;
    t.wait_for("backagain")?;
    t.wait_for("# ")?;
    t.send("vi /tmp/f\r")?;
    t.wait_for("~")?;
    // As typed: vi takes an escape with something right behind it for a function key.
    for keys in ["i", "some text", "\x1b", ":wq\r"] {
        std::thread::sleep(Duration::from_millis(400));
        t.send(keys)?;
    }
    t.wait_for("# ")?;
    t.send("cat /tmp/f\r")?;
    t.wait_for("some text\r\n")?;
    t.wait_for("# ")?;
    t.send("top -d 1\r")?;
    t.wait_for("Mem")?;
    t.wait_for("PID")?;
    t.send("q")?;
    t.wait_for("# ")?;
    t.send("exit 5\r")?;
    check("the shell's status", t.end()? == 5, String::new)?;

    let mut t = Terminal::start(context, arch, &[])?;
    t.wait_for("# ")?;
    t.send("sleep 100\r")?;
    std::thread::sleep(Duration::from_millis(300));
    t.send("\x1d")?;
    check(
        "Ctrl-] did not end the run with 130",
        t.end()? == 130,
        String::new,
    )?;
    Ok(Verdict::Passed(
        "echo, editing, Ctrl-C, Ctrl-D, Ctrl-Z, Ctrl-], size, vi, top".into(),
    ))
}
