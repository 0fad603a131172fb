//! The records of a call beside the first one: what it executed, whom it was for, which files it looked up.
//! They come in Linux's order.

use super::record::kind;
use crate::fs::path::Path;
use crate::task::CurrentTask;
use crate::task::audit::Context;
use crate::task::audit::details::{Details, Ownership, QueueCall, Special};
use crate::task::creds::{CAP_ALL, Creds, securebits};
use core::fmt;
use limen_audit::names::{FileFacts, Name, Told, halves};
use limen_audit::text::{Hex, Untrusted};

/// Makes a record of the call.
type Write<'a> = &'a dyn Fn(u16, fmt::Arguments<'_>);

/// A set of capabilities: `0`, or 16 digits.
struct Caps(u64);

impl fmt::Display for Caps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0"),
            set => write!(f, "{set:016x}"),
        }
    }
}

/// A place's path name.
struct Place<'a>(&'a Path);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.display() {
            Ok(name) => write!(f, "{}", Untrusted(&name)),
            Err(_) => f.write_str("\"<too_long>\""),
        }
    }
}

/// Whether a program that was executed has effective capabilities that are not simply root's, or not simply
/// those that it had before.
fn raised(old: &Creds, new: &Creds) -> bool {
    let root_counts = new.securebits & securebits::NOROOT == 0;
    let is_full = new.effective & CAP_ALL == CAP_ALL;
    let grew = new.effective & !new.ambient != 0;
    let is_root = root_counts && (new.uid == 0 || new.euid == 0);
    let is_set_uid = new.uid != 0 && new.euid == 0;
    grew && !(is_full && is_root)
        || root_counts && is_set_uid && !is_full
        || new.euid == old.uid && new.ambient & !old.ambient != 0
}

/// The call has executed a program: its capabilities, if they are worth it, and its arguments.
pub fn executed(task: &CurrentTask, context: &Context, write: Write<'_>) {
    let new = task.creds();
    if let Some(old) = context.creds.as_ref().filter(|old| raised(old, &new)) {
        let [pp, pi, pe, pa] = [new.permitted, new.inheritable, new.effective, new.ambient].map(Caps);
        let [old_pp, old_pi, old_pe, old_pa] =
            [old.permitted, old.inheritable, old.effective, old.ambient].map(Caps);
        // No file gives capabilities here.
        write(
            kind::BPRM_FCAPS,
            format_args!(
                "fver=0 fp=0 fi=0 fe=0 old_pp={old_pp} old_pi={old_pi} old_pe={old_pe} old_pa={old_pa} \
                 pp={pp} pi={pi} pe={pe} pa={pa} frootid=0"
            ),
        );
    }
    let Some(mm) = task.mm() else { return };
    let layout = mm.layout();
    let read = |at: usize, to: &mut [u8]| {
        let left = layout.arg_end.saturating_sub(layout.arg_start.saturating_add(at));
        let len = to.len().min(left);
        mm.access_remote(layout.arg_start + at, &mut to[..len], false, false)
    };
    let size = layout.arg_end.saturating_sub(layout.arg_start);
    let tell = |text: &[u8]| {
        let text = core::str::from_utf8(text).unwrap_or("?");
        write(kind::EXECVE, format_args!("{text}"));
    };
    if crate::mm::reserve::handling(|| limen_audit::arguments::tell(size, read, tell)).is_err() {
        super::queue::lost("out of memory in audit_log_execve_info");
    }
}

/// The call has changed the thread's capabilities, to what they are now.
pub fn capabilities(task: &CurrentTask, write: Write<'_>) {
    let creds = task.creds();
    let [pi, pp, pe, pa] = [creds.inheritable, creds.permitted, creds.effective, creds.ambient].map(Caps);
    let pid = task.tgid();
    write(
        kind::CAPSET,
        format_args!("pid={pid} cap_pi={pi} cap_pp={pp} cap_pe={pe} cap_pa={pa}"),
    );
}

/// Words as ` a0=... a1=...`.
struct Words<'a>(&'a [usize]);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = self.0.iter().enumerate();
        all.try_for_each(|(n, word)| write!(f, " a{n}={word:x}"))
    }
}

/// A user, a group and permissions as `ouid=... ogid=... mode=...`.
impl fmt::Display for Ownership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ouid={} ogid={} mode=", self.uid, self.gid)?;
        // No permission at all has one digit.
        let mode = self.mode as u16;
        if mode == 0 {
            f.write_str("0")
        } else {
            write!(f, "0{mode:o}")
        }
    }
}

/// The attributes of a POSIX message queue.
struct Attributes([isize; 4]);

impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [flags, messages, size, present] = self.0;
        write!(
            f,
            "mq_flags=0x{flags:x} mq_maxmsg={messages} mq_msgsize={size} mq_curmsgs={present}"
        )
    }
}

/// A call on a POSIX message queue.
fn queue(call: &QueueCall, write: Write<'_>) {
    match *call {
        QueueCall::Open {
            flags,
            mode,
            attributes,
        } => {
            // No permission at all has one digit.
            let zero = if mode == 0 { "" } else { "0" };
            let attributes = Attributes(attributes);
            write(
                kind::MQ_OPEN,
                format_args!("oflag=0x{flags:x} mode={zero}{mode:o} {attributes}"),
            );
        }
        QueueCall::Transfer {
            fd,
            len,
            priority,
            until: [seconds, ns],
        } => write(
            kind::MQ_SENDRECV,
            format_args!(
                "mqdes={fd} msg_len={} msg_prio={priority} abs_timeout_sec={seconds} abs_timeout_nsec={ns}",
                len.cast_signed()
            ),
        ),
        QueueCall::Notify { fd, signal } => {
            write(kind::MQ_NOTIFY, format_args!("mqdes={fd} sigev_signo={signal}"))
        }
        // As on Linux there is a blank at the end.
        QueueCall::Set { fd, attributes } => write(
            kind::MQ_GETSETATTR,
            format_args!("mqdes={fd} {} ", Attributes(attributes)),
        ),
    }
}

/// What only some calls have.
pub fn special(special: &Special, write: Write<'_>) {
    match special {
        Special::SocketCall(arguments, count) => write(
            kind::SOCKETCALL,
            format_args!(
                "nargs={count}{}",
                Words(arguments.get(..*count).unwrap_or(arguments))
            ),
        ),
        Special::Mmap(fd, flags) => write(kind::MMAP, format_args!("fd={fd} flags=0x{flags:x}")),
        Special::OpenAt2([flags, mode, resolve]) => write(
            kind::OPENAT2,
            format_args!("oflag=0{flags:o} mode=0{mode:o} resolve=0x{resolve:x}"),
        ),
        Special::Module(name) => write(kind::KERN_MODULE, format_args!("name={}", Untrusted(name))),
        Special::Ipc { now, new } => {
            write(kind::IPC, format_args!("{now}"));
            if let Some((new, bytes)) = new {
                write(kind::IPC_SET_PERM, format_args!("qbytes={bytes:x} {new}"));
            }
        }
        Special::Queue(call) => queue(call, write),
    }
}

/// Descriptors, an address, and whom the call was for.
pub fn details(details: &Details, write: Write<'_>) {
    if let Some([first, second]) = details.pair {
        write(kind::FD_PAIR, format_args!("fd0={first} fd1={second}"));
    }
    if !details.address.is_empty() {
        write(kind::SOCKADDR, format_args!("saddr={}", Hex(&details.address)));
    }
    // As on Linux the first comes last: it has a place of its own, others are in groups of 16, the newest
    // first.
    let (first, others) = match details.targets.split_first() {
        Some((first, others)) => (Some(first), others),
        None => (None, &[][..]),
    };
    for target in others.chunks(16).rev().flatten().chain(first) {
        let comm = target.comm.split(|byte| *byte == 0).next().unwrap_or_default();
        let [login, user, session] = target.ids.map(|id| id as i32);
        write(
            kind::OBJ_PID,
            format_args!(
                "opid={} oauid={login} ouid={user} oses={session} ocomm={}",
                target.pid,
                Untrusted(comm)
            ),
        );
    }
}

/// What is told of a file.
struct Facts<'a>(&'a FileFacts);

impl fmt::Display for Facts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.0;
        let ((major, minor), (own_major, own_minor)) = (halves(file.id.dev), halves(file.rdev));
        write!(
            f,
            " inode={} dev={major:02x}:{minor:02x} mode=0{:o} ouid={} ogid={} \
             rdev={own_major:02x}:{own_minor:02x}",
            file.id.ino, file.mode, file.uid, file.gid
        )
    }
}

/// A name, its file, and what it was for the call.
struct Item<'a>(&'a Context, &'a Name);

impl fmt::Display for Item<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(context, name) = self;
        match (context.names.told(name), &context.cwd) {
            (Told::Text(text), _) => write!(f, "name={}", Untrusted(text))?,
            (Told::Here, Some(cwd)) => write!(f, "name={}", Place(cwd))?,
            _ => f.write_str("name=(null)")?,
        }
        if let Some(file) = &name.file {
            write!(f, "{}", Facts(file))?;
        }
        let caps = name.file.map(|file| file.caps).unwrap_or_default();
        write!(
            f,
            " nametype={} cap_fp={} cap_fi={} cap_fe={} cap_fver={:x} cap_frootid={}",
            name.kind.name(),
            Caps(caps.permitted),
            Caps(caps.inheritable),
            u32::from(caps.effective),
            caps.version,
            caps.root
        )
    }
}

/// The working directory, and the files that the call looked up.
pub fn names(context: &Context, write: Write<'_>) {
    if let Some(cwd) = &context.cwd {
        write(kind::CWD, format_args!("cwd={}", Place(cwd)));
    }
    let told = context.names.all().iter().filter(|name| !name.hidden);
    for (n, name) in told.enumerate() {
        write(kind::PATH, format_args!("item={n} {}", Item(context, name)));
    }
}
