//! Statuses and streams of a program: what comes out is what went in, whole, and ends as the program did.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::{check, expect_line};
use crate::arch::Arch;
use crate::test::guest::Guest;
use crate::test::{Context, Verdict};
use crate::{agent, tree};

pub(super) fn statuses(context: &Context, arch: Arch) -> Result<Verdict> {
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
        // The boot is in it.
        .timeout(30)
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
pub(super) fn big_pipe(context: &Context, arch: Arch) -> Result<Verdict> {
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
pub(super) fn output(context: &Context, arch: Arch) -> Result<Verdict> {
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
