//! Records about calls: those that rules want at a call's end, and those of seccomp.

use super::record::{self, Program, Stamp, kind};
use super::rules::{self, Subject};
use super::settings;
use crate::arch::frame::Frame;
use crate::signal::SIGQUIT;
use crate::task::{CurrentTask, Task, audit, calls, current};
use crate::time::realtime_ns;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::Ordering::Relaxed;
use limen_audit::text::OrNull;
use limen_audit::{Action, List};
use limen_entry::Frame as _;
use limen_linux_abi::Errno;

/// How much of a program's arguments is recorded (`MAX_PROCTITLE_AUDIT_LEN`).
const MAX_TITLE: usize = 128;

/// The running thread begins a call.
pub fn enter(frame: &Frame) {
    let task = current();
    if settings::enabled() == settings::OFF {
        return audit::end_call(&task);
    }
    let arguments = core::array::from_fn(|n| frame.arg(n));
    let number = frame.syscall_number() as usize;
    let arch = calls::audit_arch(&task, frame);
    audit::begin_call(&task, (arch, number), arguments, realtime_ns() / 1_000_000);
}

/// The running thread has a record to make in a call. If the call's begin was not seen, because no rule is
/// about calls, it is now: whoever changes something is to be known.
pub fn notice() {
    let task = current();
    let is_seen = task.audit.call().is_some();
    if is_seen || settings::enabled() == settings::OFF || task.audit.is_never() || task.is_kernel_thread() {
        return;
    }
    let (call, arguments) = task.present_call();
    audit::begin_call(&task, call, arguments, realtime_ns() / 1_000_000);
}

/// It ends the call. One whose begin was seen is recorded even if audit was turned off since: else nobody
/// would know who did that. May sleep.
pub fn exit(frame: &Frame) {
    let task = current();
    let Some(call) = task.audit.call() else { return };
    let result = told(frame.result());
    let mut subject = Subject::new(&task);
    subject.call = Some((call.arguments, Some(result)));
    subject.arch = call.arch;
    // The daemon's own calls would have records without end.
    let own = settings::daemon().is_some_and(|daemon| daemon.pid == task.tgid());
    let rule = match own {
        true => None,
        false => {
            // A mask has a bit for each call of a table; the ABI's numbers begin elsewhere.
            let number = calls::number_in(call.arch, call.number);
            rules::first(List::Exit, Some(number as u32), &subject)
        }
    };
    // A rule that says never says it of calls with other records, too.
    let wanted = match rule.as_ref() {
        Some(rule) => rule.action == Action::Always,
        None => call.serial != 0,
    };
    if wanted {
        write(&task, &call, result, rule.as_ref().and_then(|rule| rule.key()));
    }
    audit::end_call(&task);
}

/// The result that a program gets: a call that is to be restarted was interrupted.
fn told(result: usize) -> isize {
    match Errno::from_return_value(result) {
        Some(errno) if errno.restart().is_some() => Errno::EINTR.to_return_value() as isize,
        _ => result as isize,
    }
}

/// A name for the terminal of a thread's session.
pub struct Tty(Option<String>);

impl fmt::Display for Tty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_deref().unwrap_or("(none)"))
    }
}

/// The terminal of a thread's session.
pub fn terminal(task: &Task) -> Tty {
    let terminal = task.process.group().session.terminal();
    Tty(terminal.map(|terminal| terminal.name().replace('/', "")))
}

#[cold]
#[inline(never)]
fn write(task: &CurrentTask, call: &audit::Call, result: isize, key: Option<&[u8]>) {
    let stamp = Stamp::now();
    let write = |what: u16, args: fmt::Arguments<'_>| {
        if !rules::leave_out(List::Exclude, what) {
            record::write_in(stamp, what, args);
        }
    };
    let [a0, a1, a2, a3] = call.arguments;
    let arch = call.arch;
    let personality = task.personality.load(Relaxed);
    write(
        kind::SYSCALL,
        format_args!(
            "arch={arch:x} syscall={}{} success={} exit={result} a0={a0:x} a1={a1:x} a2={a2:x} \
             a3={a3:x} items=0 {} key={}",
            call.number as i32,
            Personality(personality),
            if limen_audit::succeeded(result) {
                "yes"
            } else {
                "no"
            },
            Thread(task),
            OrNull(key),
        ),
    );
    let title = title(task);
    write(
        kind::PROCTITLE,
        format_args!("proctitle={}", OrNull(title.as_deref())),
    );
    write(kind::EOE, format_args!(""));
}

/// All that is recorded of a thread (`ppid=... exe=...`).
pub struct Thread<'a>(pub &'a Task);

impl fmt::Display for Thread<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (task, creds) = (self.0, self.0.creds());
        write!(
            f,
            "ppid={} pid={} auid={} uid={} gid={} euid={} suid={} fsuid={} egid={} sgid={} fsgid={} tty={} \
             ses={} {}",
            task.process.ppid.load(Relaxed),
            task.tgid(),
            task.audit.login(),
            creds.uid,
            creds.gid,
            creds.euid,
            creds.suid,
            creds.fsuid,
            creds.egid,
            creds.sgid,
            creds.fsgid,
            terminal(task),
            task.audit.session(),
            Program(task),
        )
    }
}

/// ` per=...` unless it is Linux's usual one.
struct Personality(u32);

impl fmt::Display for Personality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            other => write!(f, " per={other:x}"),
        }
    }
}

/// The beginning of the program's arguments. `None`: it has none.
fn title(task: &CurrentTask) -> Option<Vec<u8>> {
    let mm = task.mm()?;
    let layout = mm.layout();
    let len = layout.arg_end.saturating_sub(layout.arg_start).min(MAX_TITLE);
    let mut bytes = crate::mm::copy::zeroed(len).ok()?;
    let read = mm.access_remote(layout.arg_start, &mut bytes, false, false);
    bytes.truncate(read);
    // As Linux does: what ends with a zero byte is told without it.
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    (!bytes.is_empty()).then_some(bytes)
}

/// The running thread's program is ended by a signal. May sleep.
pub fn crash(sig: u32) {
    // As on Linux: whoever asks for a core file this way wants it.
    if settings::enabled() == settings::OFF || sig == SIGQUIT {
        return;
    }
    let task = current();
    let (uid, gid) = task.with_creds(|creds| (creds.uid, creds.gid));
    record::write(
        kind::ANOM_ABEND,
        format_args!(
            "auid={} uid={uid} gid={gid} ses={} pid={} {} sig={sig} res=1",
            task.audit.login(),
            task.audit.session(),
            task.tgid(),
            Program(&task),
        ),
    );
}

/// A call of the running thread about which seccomp decided. `signal`: what the thread gets, or 0. May sleep.
pub fn seccomp(data: &limen_bpf::Data, signal: u32, action: limen_bpf::Action) {
    let task = current();
    let (uid, gid) = task.with_creds(|creds| (creds.uid, creds.gid));
    record::write(
        kind::SECCOMP,
        format_args!(
            "auid={} uid={uid} gid={gid} ses={} pid={} {} sig={signal} arch={:x} syscall={} compat=0 \
             ip={:#x} code={:#x}",
            task.audit.login(),
            task.audit.session(),
            task.tgid(),
            Program(&task),
            data.arch,
            data.nr,
            data.instruction_pointer,
            action.raw(),
        ),
    );
}
