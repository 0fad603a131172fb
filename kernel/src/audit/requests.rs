//! What programs ask for over netlink.

use super::changes::{self, change_rules, set_features, tampered};
use super::queue::{self, PROTOCOL, READLOG};
use super::record::{self, Session};
use super::rules;
use super::serving;
use super::settings::{self, Daemon, LOCKED, OFF};
use super::trees;
use crate::mm::copy::PATH_MAX;
use crate::mm::reserve::handling;
use crate::net::netlink::{self, Dump, Protocol, Request};
use crate::task::creds::cap;
use crate::task::current;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use limen_audit::text::Untrusted;
use limen_audit::{Features, List, Status, TtyStatus, feature, set};
use limen_linux_abi::Errno;
use limen_netlink::{Header, Message, NoMemory, packed};

/// Kinds of messages.
const GET: u16 = 1000;
const SET: u16 = 1001;
const OLD_LIST: u16 = 1002;
const OLD_DEL: u16 = 1004;
const USER: u16 = 1005;
const SIGNAL_INFO: u16 = 1010;
const ADD_RULE: u16 = 1011;
const DEL_RULE: u16 = 1012;
const LIST_RULES: u16 = 1013;
const TRIM: u16 = 1014;
const MAKE_EQUIV: u16 = 1015;
const TTY_GET: u16 = 1016;
const TTY_SET: u16 = 1017;
const SET_FEATURE: u16 = 1018;
const GET_FEATURE: u16 = 1019;
const FIRST_USER: u16 = 1100;
const USER_AVC: u16 = 1107;
const USER_TTY: u16 = 1124;
const LAST_USER: u16 = 1199;
const REPLACE: u16 = 1329;
const FIRST_USER2: u16 = 2100;
const LAST_USER2: u16 = 2999;
/// How much of a program's text a record has.
const MAX_TEXT: usize = 8560;
/// What `auditctl` is told that this kernel can do.
const ABLE: u32 = feature::BACKLOG_LIMIT
    | feature::BACKLOG_WAIT_TIME
    | feature::EXECUTABLE_PATH
    | feature::EXCLUDE_EXTEND
    | feature::SESSIONID_FILTER
    | feature::LOST_RESET
    | feature::FILTER_FS;

struct Audit;

pub fn init() {
    netlink::register(PROTOCOL, &Audit);
}

/// Sends an answer. As on Linux, it names no port.
fn reply(to: &mut Request<'_>, data: &[u8]) -> Result<(), Errno> {
    let header = Header {
        kind: to.message.header.kind,
        seq: to.message.header.seq,
        ..Header::default()
    };
    let bytes = packed(header, &[data]).map_err(|NoMemory| Errno::ENOMEM)?;
    to.answer(bytes)
}

/// The list of rules, one after the other, and its end.
struct Rules {
    rules: Option<Arc<rules::Set>>,
    told: usize,
    header: Header,
    done: bool,
}

impl Dump for Rules {
    fn next(&mut self) -> Result<Option<Vec<u8>>, Errno> {
        let rule = self.rules.as_ref().and_then(|set| set.get(self.told));
        let bytes = match rule {
            Some(entry) => {
                let data = handling(|| entry.rule.to_bytes()).map_err(|_| Errno::ENOMEM)?;
                let header = Header {
                    kind: LIST_RULES,
                    ..self.header
                };
                let bytes = handling(|| packed(header, &[&data]));
                self.told += usize::from(bytes.is_ok());
                bytes
            }
            None if self.done => return Ok(None),
            None => {
                let header = Header {
                    kind: limen_netlink::kind::DONE,
                    ..self.header
                };
                let bytes = packed(header, &[]);
                self.done = bytes.is_ok();
                bytes
            }
        };
        bytes.map(Some).map_err(|NoMemory| Errno::ENOMEM)
    }
}

/// What a request may ask for. `ECONNREFUSED`: for programs in a user namespace there is no audit.
fn may(request: &Request<'_>, kind: u16) -> Result<(), Errno> {
    if current().has_user_ns() {
        return Err(Errno::ECONNREFUSED);
    }
    let needs = match kind {
        OLD_LIST..=OLD_DEL => return Err(Errno::EOPNOTSUPP),
        // Numbers of processes in its answers are those of the initial PID namespace.
        GET | SET | SIGNAL_INFO..=GET_FEATURE if current().pid_ns().is_some() => return Err(Errno::EPERM),
        GET | SET | SIGNAL_INFO..=GET_FEATURE => cap::AUDIT_CONTROL,
        USER | FIRST_USER..=LAST_USER | FIRST_USER2..=LAST_USER2 => cap::AUDIT_WRITE,
        _ => return Err(Errno::EINVAL),
    };
    if request.capable(needs) {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

impl Protocol for Audit {
    fn groups(&self) -> u32 {
        READLOG
    }
    fn anyone_hears(&self) -> bool {
        true
    }
    fn may_hear(&self, group: u32) -> Result<(), Errno> {
        let may = current().creds().capable(cap::AUDIT_READ);
        changes::listens(group, "connect", may);
        if may { Ok(()) } else { Err(Errno::EPERM) }
    }
    fn hears_no_more(&self, group: u32) {
        changes::listens(group, "disconnect", true);
    }
    fn receive(&self, request: &mut Request<'_>) -> Result<u32, Errno> {
        let Message {
            header,
            payload: data,
            ..
        } = request.message;
        let (asked, seq) = (header.kind, header.seq);
        may(request, asked)?;
        let _one = serving::begin();
        if matches!(asked, USER | FIRST_USER..=LAST_USER | FIRST_USER2..=LAST_USER2) {
            return user(asked, data).map(|()| 0);
        }
        if asked == SET {
            return set(request, data);
        }
        let done = match asked {
            GET => reply(request, &status().to_bytes()),
            GET_FEATURE => {
                let features = Features {
                    mask: Features::ALL,
                    ..*settings::FEATURES.lock()
                };
                reply(request, &features.to_bytes())
            }
            SET_FEATURE => set_features(Features::from_bytes(data).ok_or(Errno::EINVAL)?),
            ADD_RULE | DEL_RULE => change_rules(asked == ADD_RULE, data),
            LIST_RULES => {
                let header = Header {
                    seq,
                    flags: limen_netlink::flag::MULTI,
                    ..Header::default()
                };
                let dump = Box::new(Rules {
                    rules: rules::all(),
                    told: 0,
                    header,
                    done: false,
                });
                request.answer_in_parts(dump)
            }
            SIGNAL_INFO => {
                let mut info = [0; 8];
                for (to, word) in info
                    .as_chunks_mut()
                    .0
                    .iter_mut()
                    .zip(crate::task::audit::sender())
                {
                    *to = word.to_ne_bytes();
                }
                reply(request, &info)
            }
            TTY_GET => {
                let now = *settings::TTY.lock();
                reply(request, &now.to_bytes())
            }
            TTY_SET => {
                let new = TtyStatus::from_bytes(data);
                // There is nothing that records terminals.
                if new.enabled != 0 || new.log_passwd > 1 {
                    return Err(Errno::EINVAL);
                }
                let old = core::mem::replace(&mut *settings::TTY.lock(), new);
                tampered(format_args!(
                    "op=tty_set old-enabled={} new-enabled={} old-log_passwd={} new-log_passwd={} res=1",
                    old.enabled, new.enabled, old.log_passwd, new.log_passwd
                ));
                Ok(())
            }
            TRIM if settings::enabled() == LOCKED => Err(Errno::EPERM),
            TRIM => {
                let result = trees::trim();
                tampered(format_args!("op=trim res=1"));
                result
            }
            MAKE_EQUIV => {
                let (old, new) = two_texts(data)?;
                let result = trees::make_equivalent(old, new);
                tampered(format_args!(
                    "op=make_equiv old={} new={} res={}",
                    Untrusted(old),
                    Untrusted(new),
                    u32::from(result.is_ok())
                ));
                result
            }
            _ => Err(Errno::EINVAL),
        };
        done.map(|()| 0)
    }
    fn received(&self) {
        queue::penalize();
    }
}

/// Two texts behind their lengths. `EINVAL`; `ENAMETOOLONG`.
fn two_texts(data: &[u8]) -> Result<(&[u8], &[u8]), Errno> {
    let (lens, mut rest) = data.split_at_checked(8).ok_or(Errno::EINVAL)?;
    let mut take = |at: usize| {
        let len = u32::from_ne_bytes([lens[at], lens[at + 1], lens[at + 2], lens[at + 3]]) as usize;
        if len == 0 || len > rest.len() {
            return Err(Errno::EINVAL);
        }
        if len > PATH_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let (text, others) = rest.split_at(len);
        rest = others;
        Ok(text.split(|byte| *byte == 0).next().unwrap_or_default())
    };
    Ok((take(0)?, take(4)?))
}

/// A record that a program wants.
fn user(asked: u16, data: &[u8]) -> Result<(), Errno> {
    if settings::enabled() == OFF && asked != USER_AVC {
        return Ok(());
    }
    if data.len() < 2 {
        return Err(Errno::EINVAL);
    }
    let task = current();
    if rules::leave_out(List::User, asked) {
        return Ok(());
    }
    let (pid, uid) = (task.tgid(), task.creds().uid);
    if asked == USER_TTY {
        let data = data.strip_suffix(&[0]).unwrap_or(data);
        record::write_alone(
            asked,
            format_args!("pid={pid} uid={uid} {Session} data={}", Untrusted(data)),
        );
        return Ok(());
    }
    let text = data.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = &text[..text.len().min(data.len() - 1).min(MAX_TEXT)];
    record::write_with_bytes(
        asked,
        format_args!("pid={pid} uid={uid} {Session} msg='"),
        text,
        "'",
    );
    Ok(())
}

fn status() -> Status {
    Status {
        mask: 0,
        enabled: settings::enabled(),
        failure: settings::FAILURE.load(Relaxed),
        pid: settings::daemon().map_or(0, |daemon| daemon.pid as u32),
        rate_limit: settings::RATE_LIMIT.load(Relaxed),
        backlog_limit: settings::BACKLOG_LIMIT.load(Relaxed),
        lost: queue::lost_count(),
        backlog: queue::length(),
        features: ABLE,
        backlog_wait_time: settings::BACKLOG_WAIT_TIME.load(Relaxed),
        backlog_wait_time_actual: queue::waited(),
    }
}

/// Changes a number unless audit is locked.
fn change(what: &str, setting: &AtomicU32, new: u32) -> Result<(), Errno> {
    let old = setting.load(Relaxed);
    let allowed = settings::enabled() != LOCKED;
    if settings::enabled() != OFF {
        record::config_change(what, new, old, allowed);
    }
    if !allowed {
        return Err(Errno::EPERM);
    }
    setting.store(new, Relaxed);
    Ok(())
}

/// Changes the state. Returns what was counted so far if that was all to be changed.
fn set(request: &mut Request<'_>, data: &[u8]) -> Result<u32, Errno> {
    /// The longest wait: ten times the one at first.
    const MAX_WAIT: u32 = 10 * 60 * settings::HZ;
    let new = Status::from_bytes(data);
    let has = |part| new.mask & part != 0;
    if has(set::ENABLED) {
        if new.enabled > LOCKED {
            return Err(Errno::EINVAL);
        }
        change("audit_enabled", &settings::ENABLED, new.enabled)?;
        settings::apply();
    }
    if has(set::FAILURE) {
        if new.failure > settings::PANICS {
            return Err(Errno::EINVAL);
        }
        change("audit_failure", &settings::FAILURE, new.failure)?;
    }
    if has(set::PID) {
        set_daemon(request, new.pid as i32)?;
    }
    if has(set::RATE_LIMIT) {
        change("audit_rate_limit", &settings::RATE_LIMIT, new.rate_limit)?;
    }
    if has(set::BACKLOG_LIMIT) {
        change("audit_backlog_limit", &settings::BACKLOG_LIMIT, new.backlog_limit)?;
    }
    if has(set::BACKLOG_WAIT_TIME) {
        if new.backlog_wait_time > MAX_WAIT {
            return Err(Errno::EINVAL);
        }
        change(
            "audit_backlog_wait_time",
            &settings::BACKLOG_WAIT_TIME,
            new.backlog_wait_time,
        )?;
    }
    let (what, counted) = match new.mask {
        set::LOST => ("lost", queue::reset_lost()),
        set::BACKLOG_WAIT_TIME_ACTUAL => ("backlog_wait_time_actual", queue::reset_waited()),
        _ => return Ok(0),
    };
    record::config_change(what, 0, counted, true);
    Ok(counted)
}

/// The running process becomes the daemon, or is it no longer.
fn set_daemon(request: &mut Request<'_>, pid: i32) -> Result<(), Errno> {
    let own = current().tgid();
    if pid != 0 && pid != own {
        return Err(Errno::EINVAL);
    }
    let old = settings::daemon();
    let old_pid = old.map_or(0, |daemon| daemon.pid);
    let alive = old.is_some_and(|daemon| is_told_of(daemon, own));
    let refused = match (alive, pid) {
        (true, 1..) => Some(Errno::EEXIST),
        (true, _) if own != old_pid => Some(Errno::EACCES),
        _ => None,
    };
    if refused.is_some() || settings::enabled() != OFF {
        record::config_change("audit_pid", pid as u32, old_pid as u32, refused.is_none());
    }
    if let Some(errno) = refused {
        return Err(errno);
    }
    if pid != 0 {
        // It is told before the first record that it gets.
        request.acknowledge();
    }
    settings::set_daemon((pid != 0).then(|| Daemon {
        pid,
        socket: request.from().remembered(),
    }));
    Ok(())
}

/// Tells the daemon that a process wants its place. `false`: it is gone.
fn is_told_of(daemon: Daemon, pid: i32) -> bool {
    let header = Header {
        kind: REPLACE,
        ..Header::default()
    };
    let sent = packed(header, &[&pid.to_ne_bytes()])
        .map_err(|NoMemory| Errno::ENOMEM)
        .and_then(|bytes| netlink::unicast(daemon.socket, bytes, 0));
    sent != Err(Errno::ECONNREFUSED)
}
