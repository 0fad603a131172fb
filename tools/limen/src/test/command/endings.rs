//! Endings from outside: signals, closed pipes; and no QEMU is left.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::check;
use crate::arch::Arch;
use crate::test::{Context, Verdict};
use crate::tree;

/// Whether a machine runs whose command line has `marker`.
fn running(marker: &str) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.into_iter().any(|e| {
        let line = std::fs::read(e.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(marker) && line.starts_with(b"qemu")
    })
}

/// Endings from outside: signals, closed pipes; and no QEMU is left.
pub(super) fn endings(context: &Context, arch: Arch) -> Result<Verdict> {
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
    // A machine that loses its host's side is ended by the host's kernel, as soon as there is a processor for
    // that.
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
