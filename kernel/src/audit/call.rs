//! Records about calls: those that rules want at a call's end, and those of seccomp.

use super::record::{self, Program, Stamp, kind};
use super::rules::{self, Subject};
use super::{parts, queue, settings};
use crate::arch::NATIVE_ABI;
use crate::arch::frame::Frame;
use crate::arch::syscalls;
use crate::mm::{MapFlags, PAGE_SIZE};
use crate::signal::SIGQUIT;
use crate::sync::Lazy;
use crate::task::audit::Context;
use crate::task::audit::details::{self, Special};
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

/// Calls that are not like others here, by number.
struct Numbers {
    /// Those that end the thread.
    exit: [Option<usize>; 2],
    /// Those that map files.
    mmap: [Option<usize>; 2],
    /// Those that execute a program.
    execute: [Option<usize>; 2],
    capset: Option<usize>,
}

impl Numbers {
    fn new(name_of: fn(usize) -> Option<&'static str>) -> Self {
        let number = |name| (0..LEN).find(|n| name_of(*n) == Some(name));
        Self {
            exit: ["exit", "exit_group"].map(number),
            mmap: ["mmap", "mmap2"].map(number),
            execute: ["execve", "execveat"].map(number),
            capset: number("capset"),
        }
    }
    /// Those of the ABI `arch`.
    fn of(arch: u32) -> &'static Self {
        if calls::is_compat_arch(arch) {
            &COMPAT_NUMBERS
        } else {
            &NUMBERS
        }
    }
}

/// Found when they are first asked for: most systems are never audited.
static NUMBERS: Lazy<Numbers> = Lazy::new(|| Numbers::new(NATIVE_ABI.name_of));
/// Those of the ABI of 32-bit programs.
static COMPAT_NUMBERS: Lazy<Numbers> = Lazy::new(|| Numbers::new(calls::compat_names().unwrap_or(|_| None)));

/// The numbers below which all calls are that an ABI has.
const LEN: usize = 512;

/// The running thread begins a call.
pub fn enter(frame: &Frame) {
    let task = current();
    if settings::enabled() == settings::OFF {
        return audit::end_call(&task);
    }
    let arguments = core::array::from_fn(|n| syscalls::call_arg(frame, n));
    let number = frame.syscall_number() as usize;
    let arch = calls::audit_arch(&task, frame);
    if audit::begin_call(&task, (arch, number), arguments, realtime_ns() / 1_000_000).is_err() {
        return queue::lost("out of memory in audit_syscall_entry");
    }
    let number = calls::number_in(arch, number);
    let numbers = Numbers::of(arch);
    if numbers.exit.contains(&Some(number)) {
        // Nothing that could be seen comes after it.
        return finish(&task, None);
    }
    // (`mmap` of 32-bit x86 programs has its arguments in memory.)
    let is_mmap = numbers.mmap.contains(&Some(number));
    if is_mmap && !(calls::is_compat_arch(arch) && numbers.mmap[0] == Some(number)) {
        let anonymous = MapFlags::ANONYMOUS.bits() as usize;
        let arg = |n| syscalls::call_arg(frame, n);
        let in_pages = numbers.mmap[0] != Some(number) || arg(5) & (PAGE_SIZE - 1) == 0;
        if in_pages && arg(3) & anonymous == 0 {
            details::special(Special::Mmap(arg(4) as i32, arg(3)));
        }
    }
    if numbers.execute.contains(&Some(number)) {
        task.audit.with(|context| context.creds = Some(task.creds()));
    }
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
    if audit::begin_call(&task, call, arguments, realtime_ns() / 1_000_000).is_err() {
        queue::lost("out of memory in audit_syscall_entry");
    }
}

/// It ends the call. One whose begin was seen is recorded even if audit was turned off since: else nobody
/// would know who did that. May sleep.
pub fn exit(frame: &Frame) {
    finish(&current(), Some(told(frame.result())));
}

/// The call of `task`, which is running, ends, with this result if it has one.
fn finish(task: &CurrentTask, result: Option<isize>) {
    let Some(kept) = task.audit.take() else { return };
    if let Some(context) = kept.first() {
        record_call(task, context, result);
    }
    task.audit.give_back(kept);
    audit::end_call(task);
}

/// Records the call if rules or its other records want that.
fn record_call(task: &CurrentTask, context: &Context, result: Option<isize>) {
    let call = &context.call;
    let mut subject = Subject::new(task);
    subject.call = Some((call.arguments, result));
    subject.context = Some(context);
    // The daemon's own calls would have records without end.
    let own = settings::daemon().is_some_and(|daemon| daemon.pid == task.tgid());
    let rule = match own {
        true => None,
        false => rules::first_for_call(&subject),
    };
    // A rule that says never says it of calls with other records, too.
    let wanted = match rule.as_ref() {
        Some(entry) => entry.rule.action == Action::Always,
        None => call.serial != 0,
    };
    if wanted {
        write(
            task,
            context,
            result,
            rule.as_ref().and_then(|entry| entry.rule.key()),
        );
        if context.lost {
            queue::lost("out of memory in audit_syscall_exit");
        }
    }
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

/// ` success=... exit=...` of a call that has a result.
struct Outcome(Option<isize>);

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(result) = self.0 else { return Ok(()) };
        let success = if limen_audit::succeeded(result) {
            "yes"
        } else {
            "no"
        };
        write!(f, " success={success} exit={result}")
    }
}

#[cold]
#[inline(never)]
fn write(task: &CurrentTask, context: &Context, result: Option<isize>, key: Option<&[u8]>) {
    let call = &context.call;
    let stamp = Stamp::of(call);
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
            "arch={arch:x} syscall={}{}{} a0={a0:x} a1={a1:x} a2={a2:x} a3={a3:x} items={} {} key={}",
            call.number as i32,
            Personality(personality),
            Outcome(result),
            context.names.all().len(),
            Thread(task),
            OrNull(key),
        ),
    );
    let numbers: Option<&Numbers> = result
        .is_some_and(limen_audit::succeeded)
        .then(|| Numbers::of(arch));
    let number = calls::number_in(call.arch, call.number);
    let is_one_of = |of: fn(&Numbers) -> &[Option<usize>]| {
        numbers.is_some_and(|numbers| of(numbers).contains(&Some(number)))
    };
    if is_one_of(|numbers| &numbers.execute) {
        parts::executed(task, context, &write);
    } else if is_one_of(|numbers| core::slice::from_ref(&numbers.capset)) {
        parts::capabilities(task, &write);
    } else if let Some(special) = &context.details.special {
        parts::special(special, &write);
    }
    parts::details(&context.details, &write);
    parts::names(context, &write);
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
