//! The rules.

use crate::mm::reserve::room_exact;
use crate::rcu::{Shown, glance};
use crate::sync::Mutex;
use crate::task::{Task, current};
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_audit::field::what;
use limen_audit::{Action, Error, Facts, Ids, List, Rule};
use limen_linux_abi::Errno;

/// All rules, in their order.
pub struct Set(Vec<Arc<Rule>>);

impl Set {
    pub fn get(&self, n: usize) -> Option<&Arc<Rule>> {
        self.0.get(n)
    }
}

/// Readers count it; whoever changes rules puts another there.
static RULES: Shown<Set> = Shown::empty();
/// Held by who changes rules.
static CHANGING: Mutex<()> = Mutex::new(());

/// Fields that say something of files. Which files a call looks at is not known here.
fn is_of_files(field: u32) -> bool {
    let objects = matches!(
        field,
        what::DEVMAJOR..=what::INODE | what::WATCH..=what::OBJ_GID | what::SADDR_FAM | what::FSTYPE
    );
    objects
}

/// The first comparison of two fields that are both a thread's own.
const FIRST_OWN_COMPARISON: u32 = 10;

/// Reads a rule. `EINVAL`, also if it asks for files, as from a Linux without watches; `ENAMETOOLONG`;
/// `ENOMEM`.
pub fn read(bytes: &[u8]) -> Result<Rule, Errno> {
    let rule = Rule::from_bytes(bytes).map_err(|error| match error {
        Error::Invalid => Errno::EINVAL,
        Error::LongText => Errno::ENAMETOOLONG,
        Error::NoMemory => Errno::ENOMEM,
    })?;
    let mut fields = rule.fields().iter();
    let of_files =
        |what, number| is_of_files(what) || what == what::FIELD_COMPARE && number < FIRST_OWN_COMPARISON;
    if rule.list == List::FileSystem || fields.any(|field| of_files(field.what, field.number())) {
        return Err(Errno::EINVAL);
    }
    Ok(rule)
}

/// All rules now.
pub fn all() -> Option<Arc<Set>> {
    RULES.get(&glance())
}

/// Puts another set of rules there, which `change` makes of the present ones.
fn change(more: usize, change: impl FnOnce(&mut Vec<Arc<Rule>>) -> Result<(), Errno>) -> Result<(), Errno> {
    let _alone = CHANGING.lock();
    let now = RULES.get(&glance());
    let now = now.as_ref().map_or(&[][..], |set| &set.0);
    let mut rules = Vec::new();
    room_exact(&mut rules, now.len() + more)?;
    rules.extend(now.iter().cloned());
    change(&mut rules)?;
    drop(RULES.replace((!rules.is_empty()).then(|| Arc::new(Set(rules)))));
    Ok(())
}

/// Adds a rule. `EEXIST`; as on Linux, one that is to go before the others is never that. `ENOMEM`. May
/// sleep.
pub fn add(mut rule: Rule) -> Result<(), Errno> {
    change(1, |rules| {
        if rules.iter().any(|other| **other == rule) {
            return Err(Errno::EEXIST);
        }
        let at = if core::mem::take(&mut rule.prepend) {
            0
        } else {
            rules.len()
        };
        rules.insert(at, Arc::new(rule));
        Ok(())
    })
}

/// Removes a rule. `ENOENT`, `ENOMEM`. May sleep.
pub fn remove(rule: &Rule) -> Result<(), Errno> {
    change(0, |rules| {
        let at = rules.iter().position(|other| **other == *rule);
        rules.remove(at.ok_or(Errno::ENOENT)?);
        Ok(())
    })
}

/// Whether there are rules about calls or who makes them.
pub fn any_for_calls() -> bool {
    let glance = glance();
    let set = RULES.look(&glance);
    set.is_some_and(|set| {
        set.0
            .iter()
            .any(|rule| matches!(rule.list, List::Exit | List::Task))
    })
}

/// The first rule of a list that matches. `number`: the call's, for rules about calls.
pub fn first(list: List, number: Option<u32>, facts: &impl Facts) -> Option<Arc<Rule>> {
    let set = RULES.get(&glance())?;
    let mut rules = set.0.iter().filter(|rule| rule.list == list);
    let matching = rules.find(|rule| number.is_none_or(|n| rule.is_for(n)) && rule.matches(facts));
    matching.cloned()
}

/// Whether a new thread is never audited.
pub fn never(task: &Task) -> bool {
    let rule = first(List::Task, None, &Subject::new(task));
    rule.is_some_and(|rule| rule.action == Action::Never)
}

/// What rules can ask of a thread.
pub struct Subject<'a> {
    task: &'a Task,
    /// The call that it ends: its first arguments and result.
    pub call: Option<([usize; 4], Option<isize>)>,
    /// The ABI of that call (`AUDIT_ARCH_*`), or the native one.
    pub arch: u32,
    /// The kind of the record that is to be made.
    pub record: Option<u16>,
}

impl<'a> Subject<'a> {
    pub fn new(task: &'a Task) -> Self {
        Self {
            task,
            call: None,
            arch: crate::arch::AUDIT_ARCH,
            record: None,
        }
    }
}

impl Facts for Subject<'_> {
    fn ids(&self) -> Ids {
        let creds = self.task.creds();
        Ids {
            uid: [creds.uid, creds.euid, creds.suid, creds.fsuid],
            gid: [creds.gid, creds.egid, creds.sgid, creds.fsgid],
        }
    }
    fn in_group(&self, gid: u32) -> bool {
        self.task.creds().groups.binary_search(&gid).is_ok()
    }
    fn number(&self, field: u32) -> Option<u32> {
        use core::sync::atomic::Ordering::Relaxed;
        Some(match field {
            what::PID => self.task.tgid() as u32,
            what::PPID => self.task.process.ppid.load(Relaxed) as u32,
            what::LOGINUID => self.task.audit.login(),
            what::SESSIONID => self.task.audit.session(),
            what::PERS => self.task.personality.load(Relaxed),
            what::ARCH => self.arch,
            what::MSGTYPE => u32::from(self.record?),
            what::ARG0..=what::ARG3 => self.call?.0[(field - what::ARG0) as usize] as u32,
            _ => return None,
        })
    }
    fn exit(&self) -> Option<isize> {
        self.call?.1
    }
    fn is_exe(&self, path: &[u8]) -> bool {
        let exe = self.task.process.exe();
        exe.and_then(|exe| exe.path.display().ok())
            .is_some_and(|name| name == path)
    }
}

/// Whether a record of this kind by the running thread is left out, as the list of users' records or the one
/// of all says.
pub fn leave_out(list: List, kind: u16) -> bool {
    let Some(set) = RULES.get(&glance()) else {
        return false;
    };
    let task = current();
    let mut subject = Subject::new(&task);
    subject.record = Some(kind);
    for rule in set.0.iter().filter(|rule| rule.list == list) {
        match rule.matches_record(&subject) {
            // Whatever the action is: the list of all is of what is left out.
            Some(true) => return list == List::Exclude || rule.action == Action::Never,
            Some(false) => {}
            None => return false,
        }
    }
    false
}
