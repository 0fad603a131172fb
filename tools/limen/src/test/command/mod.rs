//! The `limen` command itself: exit statuses, streams, bad input, timeouts, terminals, interruptions.

mod bad_input;
mod endings;
mod files;
mod perf;
mod streams;
mod terminal;
mod trace;

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use super::Step;
use crate::arch::Arch;
use crate::tree;

/// The steps.
pub fn steps() -> Vec<Step> {
    let Some(host) = Arch::host() else {
        return Vec::new();
    };
    let boot = format!("boot-{host}");
    let mut steps = vec![Step::new("command-bad-input", bad_input::bad_input).after(&boot)];
    for arch in Arch::ALL {
        steps.push(
            Step::on(arch, "command-status", move |c| streams::statuses(c, arch))
                .after(format!("boot-{arch}")),
        );
        steps.push(
            Step::on(arch, "command-terminal", move |c| terminal::terminal(c, arch))
                .after(format!("boot-{arch}")),
        );
        steps.push(
            Step::on(arch, "command-guest", move |c| files::guest_programs(c, arch))
                .after(format!("boot-{arch}")),
        );
        steps.push(Step::on(arch, "run-trace", move |c| trace::trace(c, arch)).after(format!("boot-{arch}")));
        steps.push(
            Step::on(arch, "perf-ftrace", move |c| perf::ftrace(c, arch)).after(format!("boot-{arch}")),
        );
    }
    steps.push(Step::new("run-trace-linux", move |_| {
        trace::on_linux(Arch::X86_64)
    }));
    steps.push(Step::new("command-pipe", move |c| streams::big_pipe(c, host)).after(&boot));
    steps.push(Step::new("command-output", move |c| streams::output(c, host)).after(&boot));
    steps.push(Step::new("command-files", move |c| files::files(c, host)).after(&boot));
    steps.push(Step::new("command-missing", move |c| files::missing(c, host)).after(&boot));
    steps.push(Step::new("command-endings", move |c| endings::endings(c, host)).after(&boot));
    steps.push(Step::new("command-initrd", move |c| files::own_initrd(c, host)).after(&boot));
    steps
}

fn check(what: &str, ok: bool, detail: impl FnOnce() -> String) -> Result<()> {
    if ok { Ok(()) } else { bail!("{what}\n{}", detail()) }
}

/// An empty folder of a test.
fn folder(name: &str) -> Result<std::path::PathBuf> {
    let dir = tree::cache("test")?.join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// An executable file; returns its path.
fn executable(path: std::path::PathBuf, content: &[u8]) -> Result<String> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(&path, content)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(path.to_string_lossy().into_owned())
}

/// The command ends with that status and one line on standard error that has `word`.
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
