//! The `limen` command itself: exit statuses, streams, bad input, timeouts, terminals, interruptions.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::guest::Guest;
use super::{Context, Step, Verdict};
use crate::arch::Arch;
use crate::{agent, tree};

/// The steps.
pub fn steps() -> Vec<Step> {
    let Some(host) = Arch::host() else {
        return Vec::new();
    };
    let boot = format!("boot-{host}");
    let mut steps = vec![Step::new("command-bad-input", bad_input).after(&boot)];
    for arch in Arch::ALL {
        steps
            .push(Step::on(arch, "command-status", move |c| statuses(c, arch)).after(format!("boot-{arch}")));
        steps.push(
            Step::on(arch, "command-terminal", move |c| terminal(c, arch)).after(format!("boot-{arch}")),
        );
    }
    steps.push(Step::new("command-pipe", move |c| big_pipe(c, host)).after(&boot));
    steps.push(Step::new("command-output", move |c| output(c, host)).after(&boot));
    steps.push(Step::new("command-endings", move |c| endings(c, host)).after(&boot));
    steps.push(Step::new("command-initrd", move |c| own_initrd(c, host)).after(&boot));
    steps
}

fn check(what: &str, ok: bool, detail: impl FnOnce() -> String) -> Result<()> {
    if ok { Ok(()) } else { bail!("{what}\n{}", detail()) }
}

/// Statuses and streams of a program.
fn statuses(context: &Context, arch: Arch) -> Result<Verdict> {
    let program = agent::program(arch, "memory")?;
    let path = program.to_string_lossy().into_owned();
    let runs: [(&str, &str, i32); 6] = [
        ("exit 0", "exit 0\n", 0),
        ("exit 7", "exit 7\n", 7),
        ("exit 255", "exit 255\n", 255),
        ("SIGKILL", "kill -9 $$\n", 137),
        ("SIGSEGV", "kill -SEGV $$\n", 139),
        ("streams", "echo out; echo err >&2; exit 3\n", 3),
    ];
    for (name, script, status) in runs {
        let ran = Guest::new(context, arch).script(script).run()?;
        ran.expect(status).with_context(|| name.to_owned())?;
        if name == "streams" {
            let right = ran.stdout == b"out\n" && ran.stderr == b"err\n";
            check("the streams are not what was written", right, || ran.everything())?;
        }
    }
    let ran = Guest::new(context, arch).program(&[&path, "nothing"]).run()?;
    ran.expect(0).context("a static program")?;
    let ran = Guest::new(context, arch).program(&[&path, "unknown"]).run()?;
    ran.expect(64).context("its status")?;
    let ran = Guest::new(context, arch)
        .timeout(8)
        .script("echo before; sleep 1000\n")
        .run()?;
    check(
        "a timeout",
        ran.status == 124 && ran.stdout == b"before\n",
        || ran.everything(),
    )?;
    if context.kernel.is_none() {
        // With another processor, which is to stop and must not hold anything that the end needs.
        for processors in [1, 2] {
            let ran = Guest::new(context, arch)
                .smp(processors)
                .script("echo c > /proc/sysrq-trigger; sleep 5\n")
                .run()?;
            check("a panic", ran.status == 123, || ran.everything())?;
        }
    }
    Ok(Verdict::Passed(
        "exit statuses, signals, streams, timeout, panic".into(),
    ))
}

/// 100 MiB through a guest, unharmed.
fn big_pipe(context: &Context, arch: Arch) -> Result<Verdict> {
    let mut state = 0x1234_5678_9abc_def0u64;
    let mut bytes = vec![0u8; 100 << 20];
    for chunk in bytes.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes());
    }
    let began = Instant::now();
    let ran = Guest::new(context, arch)
        .program(&["cat"])
        .input(bytes.clone())
        .timeout(300)
        .run()?;
    ran.expect(0)?;
    check("the bytes that came back differ", ran.stdout == bytes, || {
        format!("{} bytes", ran.stdout.len())
    })?;
    Ok(Verdict::Passed(format!(
        "100 MiB both ways in {:.1} s",
        began.elapsed().as_secs_f64()
    )))
}

/// Output to who is slow, and to what is full; a program with many words; one that leaves a writer behind.
fn output(context: &Context, arch: Arch) -> Result<Verdict> {
    let command = |script: &str, words: &[&str]| {
        let mut command = Command::new(tree::own_program());
        command.args(["run", "--accel=tcg", "--timeout=60", "--smp=2"]);
        command
            .arg(format!("--arch={arch}"))
            .args(["--with=yes", "--with=dd"]);
        if let Some(kernel) = &context.kernel {
            command.arg(format!("--kernel={}", kernel.display()));
        }
        command.args(["--", "sh", "-c", script, "sh"]).args(words);
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        command
    };
    // Everything between the program and us is full when the program ends, and long after.
    let mut slow = command("yes x | dd bs=1000 count=700 iflag=fullblock 2>/dev/null", &[])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut bytes = Vec::new();
    let mut stdout = slow.stdout.take().context("no pipe")?;
    while (&mut stdout).take(1000).read_to_end(&mut bytes)? > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let status = slow.wait()?;
    check(
        "a slow reader does not get everything",
        status.success() && bytes == b"x\n".repeat(350_000),
        || format!("{status}, {} bytes", bytes.len()),
    )?;
    let full = std::fs::File::options().write(true).open("/dev/full")?;
    expect_line(command("echo hello", &[]), Some(full), 125, "No space left").context("a full disk")?;
    let many = vec!["word"; 5000];
    let counted = command("echo $#", &many).output()?;
    check("many words", counted.stdout == b"5000\n", || {
        String::from_utf8_lossy(&counted.stdout).into_owned()
    })?;
    let left = command("yes & exit 3", &[]).stdout(Stdio::null()).status()?;
    check("a writer is left behind", left.code() == Some(3), || {
        format!("{left}")
    })?;
    Ok(Verdict::Passed(
        "a slow reader, a full disk, 5,000 words, a writer left behind".into(),
    ))
}

/// Input that cannot work: one line each, with what to do, and the right status.
fn bad_input(context: &Context) -> Result<Verdict> {
    let dir = tree::cache("test")?.join("bad-input");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir)?;
    let make = |name: &str, content: &[u8], mode: u32| -> Result<String> {
        use std::os::unix::fs::PermissionsExt;
        let path = dir.join(name);
        std::fs::write(&path, content)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
        Ok(path.to_string_lossy().into_owned())
    };
    let mut other = std::fs::read(tree::own_program())?;
    other.truncate(4 << 20);
    other[18..20].copy_from_slice(&243u16.to_le_bytes());
    let foreign = make("riscv", &other, 0o755)?;
    let script = make("script", b"#!/no/such/interpreter\necho hi\n", 0o755)?;
    let plain = make("plain", b"just text\n", 0o755)?;
    let locked = make("locked", b"#!/bin/sh\n", 0o644)?;
    let not_cpio = make("not-cpio", b"hello\n", 0o644)?;
    let bad_gzip = make("bad.gz", &[0x1f, 0x8b, 8, 0, 1, 2, 3], 0o644)?;
    let no_init = dir.join("no-init.cpio");
    let mut archive = crate::cpio::Archive::default();
    archive.file("etc/x", 0o644, b"x");
    std::fs::write(&no_init, archive.finish())?;
    let no_init = no_init.to_string_lossy().into_owned();
    let folder = dir.to_string_lossy().into_owned();
    let old = make(
        "qemu-system-x86_64",
        b"#!/bin/sh\necho 'QEMU emulator version 2.5.0'\n",
        0o755,
    )?;
    let with_old = std::path::Path::new(&old)
        .parent()
        .map(|p| p.to_string_lossy().into_owned())
        .unwrap_or_default();
    // What is asked, the status, and a word the message must have.
    let cases: Vec<(Vec<&str>, i32, &str)> = vec![
        (vec!["--", "no-such-program-here"], 127, "PATH"),
        (vec!["--", "/no/such/file"], 127, "no such file"),
        (vec!["--", &folder], 126, "--root"),
        (vec!["--", &foreign], 126, "RISC-V"),
        (vec!["--", &script], 126, "/no/such/interpreter"),
        (vec!["--", &plain], 126, "neither an ELF"),
        (vec!["--", &locked], 126, "chmod"),
        (vec!["--initrd=/no/such/initrd"], 125, "cannot read the initrd"),
        (vec!["--initrd", &not_cpio], 125, "newc"),
        (vec!["--initrd", &bad_gzip], 125, "unpacked"),
        (vec!["--initrd", &no_init], 125, "/init"),
        (vec!["--root=/no/such/dir"], 125, "no such directory"),
        (vec!["--mem=banana"], 125, "--mem"),
        (vec!["--mem=1M", "--", "true"], 125, "too little"),
        (
            vec!["--kernel=/no/such/kernel", "--", "true"],
            125,
            "cannot read the kernel",
        ),
        (vec!["--kernel", &plain, "--", "true"], 125, "no kernel image"),
        (vec!["--timeout=-3", "--", "true"], 125, "--timeout"),
    ];
    let kernel = context
        .kernel
        .as_ref()
        .map(|k| format!("--kernel={}", k.display()));
    for (arguments, status, word) in &cases {
        let given = arguments.iter().any(|a| a.starts_with("--kernel"));
        let mut command = Command::new(tree::own_program());
        command
            .arg("run")
            .args(kernel.iter().filter(|_| !given))
            .args(arguments);
        expect_line(command, None, *status, word).with_context(|| arguments.join(" "))?;
    }
    if Arch::host() == Some(Arch::X86_64) {
        let mut command = Command::new(tree::own_program());
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env("PATH", format!("{with_old}:{path}"))
            .args(["run"])
            .args(&kernel)
            .args(["--", "true"]);
        expect_line(command, None, 125, "newer").context("an old QEMU")?;
    }
    Ok(Verdict::Passed(format!(
        "{} kinds, one line each",
        cases.len() + 1
    )))
}

fn expect_line(mut command: Command, stdout: Option<std::fs::File>, status: i32, word: &str) -> Result<()> {
    let stdout = stdout.map_or_else(Stdio::piped, Stdio::from);
    let output = command.stdin(Stdio::null()).stdout(stdout).output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    // Progress (building, fetching) may come first.
    let lines: Vec<&str> = text
        .lines()
        .filter(|l| !l.contains("building") && !l.contains("fetching"))
        .collect();
    if output.status.code() != Some(status) || lines.len() != 1 || !lines[0].contains(word) {
        bail!(
            "status {:?} instead of {status}, or not one line with {word:?}:\n{text}",
            output.status.code()
        );
    }
    Ok(())
}

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
                    "the terminal never showed {text:?} after what is above the line; it showed:\n{}\n----\n{}",
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
fn terminal(context: &Context, arch: Arch) -> Result<Verdict> {
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

/// Whether a machine runs whose command line has `marker`.
fn running(marker: &str) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.into_iter().any(|e| {
        let line = std::fs::read(e.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(marker) && line.starts_with(b"qemu")
    })
}

/// Endings from outside: signals, closed pipes; and no QEMU is left.
fn endings(context: &Context, arch: Arch) -> Result<Verdict> {
    use rustix::process::{Pid, Signal, kill_process};
    let start = |script: &str| -> Result<(std::process::Child, String)> {
        let marker = format!("limen-test-{}-{}", std::process::id(), script.len());
        // What this test was started with ignored (by `nohup`, in the background of a script) is not for it.
        let mut command = Command::new("env");
        command.arg("--default-signal=INT,TERM,HUP");
        command.arg(tree::own_program()).args([
            "run",
            "--accel=tcg",
            "--timeout=60",
            &format!("--arch={arch}"),
            &format!("--append={marker}"),
        ]);
        if let Some(kernel) = &context.kernel {
            command.arg(format!("--kernel={}", kernel.display()));
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        if let Some(stdin) = &mut child.stdin {
            stdin.write_all(script.as_bytes())?;
        }
        let mut byte = [0];
        child.stdout.as_mut().context("no pipe")?.read_exact(&mut byte)?;
        Ok((child, marker))
    };
    // A machine that loses its host's side is ended by the host's kernel, as soon as there is a processor for that.
    let left = |marker: &str| -> bool {
        let limit = Instant::now() + Duration::from_secs(10);
        while running(marker) {
            if Instant::now() > limit {
                return true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        false
    };
    for (signal, script, status) in [
        (Signal::INT, "echo x; sleep 100\n", Some(130)),
        (
            Signal::TERM,
            "trap 'exit 44' TERM; echo x; while :; do sleep 0.1; done\n",
            Some(44),
        ),
        (Signal::HUP, "echo x; sleep 100 \n", Some(129)),
        (Signal::KILL, "echo x; sleep 100  \n", None),
    ] {
        let (mut child, marker) = start(script)?;
        kill_process(Pid::from_child(&child), signal)?;
        let ended = child.wait()?;
        check("the status after a signal", ended.code() == status, || {
            format!("{signal:?} gave {ended:?}")
        })?;
        check("QEMU is left running", !left(&marker), || {
            format!("after {signal:?}")
        })?;
    }
    // A reader that goes away: the writer in the guest learns it.
    let (mut child, marker) = start("yes; echo $? >&2; exit 9\n")?;
    drop(child.stdout.take());
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    check(
        "yes did not learn that nobody reads",
        text.contains("141"),
        || format!("{:?} {text}", output.status),
    )?;
    check("QEMU is left running", !left(&marker), String::new)?;
    Ok(Verdict::Passed(
        "SIGINT, SIGTERM, SIGHUP, SIGKILL, a closed pipe; nothing is left running".into(),
    ))
}

/// The user's own initramfs, plain and compressed.
fn own_initrd(context: &Context, arch: Arch) -> Result<Verdict> {
    let dir = tree::cache("test")?.join("initrd");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir)?;
    let mut archive = crate::cpio::Archive::default();
    crate::image::add_busybox(&mut archive, arch)?;
    archive.file(
        "init",
        0o755,
        b"#!/bin/sh\necho own init says $1\nmount -t proc proc /proc\npoweroff -f\n",
    );
    crate::guest_files::add_basics(&mut archive);
    let plain = dir.join("plain.cpio");
    std::fs::write(&plain, archive.finish())?;
    let mut files = vec![plain.clone()];
    for (tool, package, ending) in [
        ("gzip", "gzip", "gz"),
        ("zstd", "zstd", "zst"),
        ("lz4", "lz4", "lz4"),
    ] {
        crate::packages::ensure_tool(tool, &[package])?;
        let packed = plain.with_extension(format!("cpio.{ending}"));
        let output = Command::new(tool).arg("-c").arg(&plain).output()?;
        std::fs::write(&packed, output.stdout)?;
        files.push(packed);
    }
    for file in &files {
        let guest = Guest::new(context, arch)
            .option(format!("--initrd={}", file.display()))
            .program(&["hello"]);
        let ran = guest.run()?;
        let right = ran.status == 0 && ran.text().contains("own init says hello");
        check(&format!("{}", file.display()), right, || ran.everything())?;
    }
    Ok(Verdict::Passed(format!("{} formats", files.len())))
}
