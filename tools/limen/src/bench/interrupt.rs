//! Long commands whose leftovers must go when the user ends `limen`: while [`held`] lasts, Ctrl-C and the
//! like end the running command and then fail here, so that callers tidy up on their way out.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::{pump, session, status};

/// What signals do; registered once, since a handler cannot be taken back.
struct State {
    /// Whether a signal ends this process at once, as it does by default.
    at_once: Arc<AtomicBool>,
    /// The signal that came while it did not; 0 if none.
    came: Arc<AtomicUsize>,
}

static STATE: OnceLock<State> = OnceLock::new();

/// While the value lives, signals do not end this process.
pub struct Held {
    state: &'static State,
}

/// Holds signals back.
pub fn held() -> Result<Held> {
    if STATE.get().is_none() {
        let state = State {
            at_once: Arc::new(AtomicBool::new(true)),
            came: Arc::new(AtomicUsize::new(0)),
        };
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // A signal that was ignored when we were started stays ignored.
            if pump::ignored(signal) {
                continue;
            }
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&state.at_once))?;
            signal_hook::flag::register_usize(signal, Arc::clone(&state.came), signal as usize)?;
        }
        let _ = STATE.set(state);
    }
    let state = STATE.get().context("signals are set up")?;
    state.at_once.store(false, Ordering::SeqCst);
    Ok(Held { state })
}

impl Held {
    /// Fails if a signal came.
    pub fn check(&self) -> Result<()> {
        came(self.state)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.state.at_once.store(true, Ordering::SeqCst);
    }
}

fn came(state: &State) -> Result<()> {
    match state.came.load(Ordering::SeqCst) {
        0 => Ok(()),
        signal => Err(status::error(128 + signal as i32, "interrupted")),
    }
}

/// Runs a command to its end, its output in the file `log`; ends it and fails when a signal comes. What it
/// said last is part of the error.
pub fn run(command: &mut Command, log: &Path) -> Result<()> {
    let state = STATE.get().context("only while signals are held back")?;
    let output = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    command
        .stdin(Stdio::null())
        .stderr(output.try_clone()?)
        .stdout(output)
        // The terminal's Ctrl-C reaches only us; we then end the whole group.
        .process_group(0);
    session::ends_with_us(command, rustix::process::Signal::TERM);
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
    loop {
        if let Some(status) = child.try_wait()? {
            if status.success() {
                return Ok(());
            }
            let text = std::fs::read(log).unwrap_or_default();
            bail!("{name} failed:\n{}", last_lines(&String::from_utf8_lossy(&text)));
        }
        if let Err(interrupted) = came(state) {
            let group = rustix::process::Pid::from_child(&child);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
            child.wait()?;
            eprintln!("limen: interrupted; removing what was begun");
            return Err(interrupted);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The end of a log, without the lines that only say what is being done; the first error is part of it.
fn last_lines(text: &str) -> String {
    const MOST: usize = 15;
    let lines: Vec<&str> = text.lines().filter(|l| !l.starts_with("  ")).collect();
    let from = lines.len().saturating_sub(MOST);
    let error = lines[..from].iter().find(|l| l.contains("error"));
    let shown: Vec<&str> = error.into_iter().chain(&lines[from..]).copied().collect();
    shown.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_the_first_error_and_the_end() {
        let mut text = "  CC a.o\na.c:1: error: x\n".to_owned();
        (0..20).for_each(|n| text += &format!("line {n}\n  CC {n}.o\n"));
        let shown = last_lines(&text);
        assert!(shown.starts_with("a.c:1: error: x\nline 5\n"));
        assert!(shown.ends_with("line 19"));
        assert_eq!(last_lines("one\n"), "one");
    }
}
