//! Changes of features and rules, and records of who changes something or listens.

use super::call::{self, Thread};
use super::record::{self, Program, Session, kind};
use super::rules;
use super::settings::{self, LOCKED, OFF};
use crate::task::current;
use core::fmt;
use limen_audit::Features;
use limen_audit::text::OrNull;
use limen_bpf::Logged;
use limen_linux_abi::Errno;

/// Hears of changes that other rooms make. Boot.
pub fn init() {
    crate::task::seccomp::when_logging_changes(logs_others);
}

/// The running thread hears all records, or no longer, or may not.
pub fn listens(group: u32, op: &str, may: bool) {
    if settings::enabled() == OFF {
        return;
    }
    let task = current();
    record::write_change(
        kind::EVENT_LISTENER,
        format_args!(
            "pid={} uid={} auid={} tty={} ses={} {} nl-mcgrp={group} op={op} res={}",
            task.tgid(),
            task.creds().uid,
            task.audit.login(),
            call::terminal(&task),
            task.audit.session(),
            Program(&task),
            u32::from(may),
        ),
    );
}

/// Names of seccomp's actions with commas between them.
struct Names(Option<Logged>);

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(logged) = self.0 else {
            return f.write_str("?");
        };
        let mut between = "";
        for action in limen_bpf::Action::ALL
            .into_iter()
            .filter(|action| logged.has(*action))
        {
            write!(f, "{between}{}", action.name())?;
            between = ",";
        }
        match between {
            "" => f.write_str("(none)"),
            _ => Ok(()),
        }
    }
}

/// The running thread sets which of seccomp's actions are logged. `None`: it named none that are.
fn logs_others(old: Logged, new: Option<Logged>) {
    if settings::enabled() != OFF {
        record::write_change(
            kind::CONFIG_CHANGE,
            format_args!(
                "op=seccomp-logging actions={} old-actions={} res={}",
                Names(new),
                Names(Some(old)),
                u32::from(new.is_some()),
            ),
        );
    }
}

/// Changes features. `EPERM`: one is locked.
pub fn set_features(wanted: Features) -> Result<(), Errno> {
    let meant = wanted.mask & Features::ALL;
    let now = *settings::FEATURES.lock();
    let changes = (wanted.on ^ now.on) & meant;
    let allowed = changes & now.lock == 0;
    for (bit, name) in [
        (Features::ONLY_UNSET_LOGINUID, "only_unset_loginuid"),
        (Features::LOGINUID_IMMUTABLE, "loginuid_immutable"),
    ] {
        // If one may not be changed none is, and only that is recorded.
        let is_told = changes & bit != 0 && (allowed || now.lock & bit != 0);
        if is_told && settings::enabled() != OFF {
            let is = |of: u32| u32::from(of & bit != 0);
            record::write_change(
                kind::FEATURE_CHANGE,
                format_args!(
                    " {} feature={name} old={} new={} old_lock={} new_lock={} res={}",
                    Thread(&current()),
                    is(now.on),
                    is(wanted.on),
                    is(now.lock),
                    is(now.lock | wanted.lock),
                    u32::from(allowed),
                ),
            );
        }
        if is_told && !allowed {
            return Err(Errno::EPERM);
        }
    }
    let mut features = settings::FEATURES.lock();
    features.on = features.on & !meant | wanted.on & meant;
    features.lock |= wanted.lock & meant;
    Ok(())
}

/// A record of what the running thread did to audit, with who it is.
pub fn tampered(what: fmt::Arguments<'_>) {
    let task = current();
    let (pid, uid) = (task.tgid(), task.creds().uid);
    record::write_change(
        kind::CONFIG_CHANGE,
        format_args!("pid={pid} uid={uid} {Session} {what}"),
    );
}

/// Adds a rule or removes it. `EPERM`: audit is locked.
pub fn change_rules(adds: bool, data: &[u8]) -> Result<(), Errno> {
    let locked = settings::enabled() == LOCKED;
    if locked {
        let op = if adds { "add_rule" } else { "remove_rule" };
        tampered(format_args!("op={op} audit_enabled={LOCKED} res=0"));
        return Err(Errno::EPERM);
    }
    let rule = rules::read(data)?;
    let (list, op) = (rule.list as u32, if adds { "add_rule" } else { "remove_rule" });
    let key = rule.key().map(<[u8]>::to_vec);
    let result = if adds {
        rules::add(rule)
    } else {
        rules::remove(&rule)
    };
    settings::apply();
    if settings::enabled() != OFF {
        record::write_change(
            kind::CONFIG_CHANGE,
            format_args!(
                "{Session} op={op} key={} list={list} res={}",
                OrNull(key.as_deref()),
                u32::from(result.is_ok())
            ),
        );
    }
    result
}
