//! The rules, and which of them a call meets. A rule that is about one file is found by that file: calls pay
//! for the files that they look up, not for the rules that there are.

use super::trees::Tree;
use super::watches::Watch;
use crate::arch::NATIVE_ABI;
use crate::mm::reserve::{room, room_exact};
use crate::rcu::{Shown, glance};
use crate::sync::{Lazy, Mutex};
use crate::task::audit::Context;
use crate::task::audit::details::Special;
use crate::task::audit::names::{Wanted, id, want};
use crate::task::{Task, calls, current};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use limen_audit::field::what;
use limen_audit::names::{FileId, Name};
use limen_audit::{Action, Classes, Error, Facts, Ids, List, Rule};
use limen_linux_abi::Errno;

/// A rule, and what the paths in it stand for.
pub struct Entry {
    /// The rule.
    pub rule: Rule,
    /// Its number, which no other rule has.
    pub id: u64,
    /// The file that it watches.
    pub file: Option<Watch>,
    /// The program that it means.
    pub exe: Option<Watch>,
    /// The directory whose files it watches.
    pub tree: Option<Tree>,
}

impl Entry {
    /// Finds what a rule's paths stand for. Errors are those of looking them up. May sleep.
    fn new(rule: Rule) -> Result<Self, Errno> {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let watch = |field| rule.text(field).map(Watch::new).transpose();
        let (file, exe) = (watch(what::WATCH)?, watch(what::EXE)?);
        let tree = rule.text(what::DIR).map(Tree::new).transpose()?;
        Ok(Self {
            rule,
            id: IDS.fetch_add(1, Relaxed),
            file,
            exe,
            tree,
        })
    }

    /// Whether only certain files lead to it.
    fn is_of_file(&self) -> bool {
        self.file.is_some() || self.rule.inode().is_some()
    }
}

/// Places of rules by what leads to them, ascending.
type Index<T> = Vec<(T, usize)>;

/// All rules, in their order.
pub struct Set {
    rules: Vec<Arc<Entry>>,
    /// Those that watch a file, by that file.
    files: Index<FileId>,
    /// Those that mean an inode, by its number.
    inodes: Index<u64>,
    /// Those that watch names, by their directory.
    directories: Index<FileId>,
}

impl Set {
    /// `ENOMEM`.
    fn new(rules: Vec<Arc<Entry>>) -> Result<Self, Errno> {
        let (mut files, mut inodes, mut directories) = (Vec::new(), Vec::new(), Vec::new());
        for (n, entry) in rules.iter().enumerate() {
            if let Some(file) = entry.file.as_ref().and_then(Watch::now) {
                room(&mut files, 1)?;
                files.push((file, n));
            }
            if let Some(inode) = entry.rule.inode() {
                room(&mut inodes, 1)?;
                inodes.push((inode, n));
            }
            for watch in entry.file.iter().chain(&entry.exe) {
                room(&mut directories, 1)?;
                directories.push((watch.dir, n));
            }
        }
        files.sort_unstable();
        inodes.sort_unstable();
        directories.sort_unstable();
        Ok(Self {
            rules,
            files,
            inodes,
            directories,
        })
    }

    /// A rule by its place.
    pub fn get(&self, n: usize) -> Option<&Arc<Entry>> {
        self.rules.get(n)
    }
    /// All.
    pub fn all(&self) -> &[Arc<Entry>] {
        &self.rules
    }

    fn at<'a, T: Ord + Copy>(
        &'a self,
        index: &'a Index<T>,
        key: T,
    ) -> impl Iterator<Item = (usize, &'a Arc<Entry>)> {
        let from = index.partition_point(|(known, _)| *known < key);
        let found = index
            .iter()
            .skip(from)
            .take_while(move |(known, _)| *known == key);
        found.filter_map(|(_, n)| Some((*n, self.rules.get(*n)?)))
    }

    /// Those that watch a name in a directory.
    pub fn in_directory(&self, directory: FileId) -> impl Iterator<Item = &Arc<Entry>> {
        self.at(&self.directories, directory).map(|(_, entry)| entry)
    }
}

/// Readers count it; whoever changes rules puts another there.
static RULES: Shown<Set> = Shown::empty();
/// Held by who changes rules. Nothing is looked up meanwhile.
static CHANGING: Mutex<()> = Mutex::new(());
/// The classes of calls.
static CLASSES: Lazy<Classes> = Lazy::new(|| Classes::new(NATIVE_ABI.name_of));
/// Those of the ABI of 32-bit programs.
static COMPAT_CLASSES: Lazy<Classes> = Lazy::new(|| Classes::new(calls::compat_names().unwrap_or(|_| None)));

/// Reads a rule. `EINVAL`; `ENAMETOOLONG`; `ENOMEM`.
pub fn read(bytes: &[u8]) -> Result<Rule, Errno> {
    Rule::from_bytes(bytes, &CLASSES).map_err(|error| match error {
        Error::Invalid => Errno::EINVAL,
        Error::LongText => Errno::ENAMETOOLONG,
        Error::NoMemory => Errno::ENOMEM,
    })
}

/// All rules now.
pub fn all() -> Option<Arc<Set>> {
    RULES.get(&glance())
}

/// Puts another set of rules there, which `change` makes of the present ones.
fn change(more: usize, change: impl FnOnce(&mut Vec<Arc<Entry>>) -> Result<(), Errno>) -> Result<(), Errno> {
    let _alone = CHANGING.lock();
    let now = RULES.get(&glance());
    let now = now.as_ref().map_or(&[][..], |set| &set.rules);
    let mut rules = Vec::new();
    room_exact(&mut rules, now.len() + more)?;
    rules.extend(now.iter().cloned());
    change(&mut rules)?;
    let wanted = wanted(&rules)?;
    let set = Set::new(rules)?;
    want(wanted.map(Arc::new));
    drop(RULES.replace((!set.rules.is_empty()).then(|| Arc::new(set))));
    Ok(())
}

/// What the file system is to tell for rules. `ENOMEM`.
fn wanted(rules: &[Arc<Entry>]) -> Result<Option<Wanted>, Errno> {
    let mut wanted = Wanted::default();
    for entry in rules {
        if let Some(tree) = &entry.tree {
            tree.add_to(&mut wanted.trees)?;
        }
        if entry.rule.list == List::FileSystem && entry.rule.action == Action::Never {
            for field in entry.rule.file_systems() {
                room(&mut wanted.silent, 1)?;
                wanted.silent.push(field);
            }
        }
    }
    wanted.trees.sort_unstable();
    wanted.trees.dedup();
    let any = !wanted.trees.is_empty() || !wanted.silent.is_empty();
    Ok(any.then_some(wanted))
}

/// Looks again what rules' paths stand for, which has changed. `ENOMEM`. May sleep.
pub fn refresh() -> Result<(), Errno> {
    change(0, |_| Ok(()))
}

/// Adds a rule. `EEXIST`; as on Linux, one that is to go before the others is never that. `ENOMEM`, and what
/// looking its paths up gives. May sleep.
pub fn add(mut rule: Rule) -> Result<(), Errno> {
    let prepend = core::mem::take(&mut rule.prepend);
    let known = |rules: &[Arc<Entry>], rule: &Rule| !prepend && rules.iter().any(|other| other.rule == *rule);
    if all().is_some_and(|set| known(&set.rules, &rule)) {
        return Err(Errno::EEXIST);
    }
    let entry = Arc::new(Entry::new(rule)?);
    change(1, |rules| {
        if known(rules, &entry.rule) {
            return Err(Errno::EEXIST);
        }
        let at = if prepend { 0 } else { rules.len() };
        rules.insert(at, entry);
        Ok(())
    })
}

/// Removes a rule. `ENOENT`, `ENOMEM`. May sleep.
pub fn remove(rule: &Rule) -> Result<(), Errno> {
    change(0, |rules| {
        let at = rules.iter().position(|other| other.rule == *rule);
        rules.remove(at.ok_or(Errno::ENOENT)?);
        Ok(())
    })
}

/// Removes the rule with a number. `ENOENT`, `ENOMEM`. May sleep.
pub fn remove_one(id: u64) -> Result<(), Errno> {
    change(0, |rules| {
        let at = rules.iter().position(|other| other.id == id);
        rules.remove(at.ok_or(Errno::ENOENT)?);
        Ok(())
    })
}

/// Whether there is a rule of which `is` is true.
fn any(is: impl Fn(&Entry) -> bool) -> bool {
    all().is_some_and(|set| set.rules.iter().any(|entry| is(entry)))
}

/// Whether there are rules about calls or who makes them.
pub fn any_for_calls() -> bool {
    any(|entry| matches!(entry.rule.list, List::Exit | List::Task))
}

/// Whether there are rules that watch names.
pub fn any_watches() -> bool {
    any(|entry| entry.file.is_some() || entry.exe.is_some() || entry.tree.is_some())
}

/// Whether there are rules about calls that send signals.
pub fn any_for_signals() -> bool {
    any(|entry| entry.rule.is_for_signals(&CLASSES))
}

/// The first rule that matches a call that ends.
pub fn first_for_call(subject: &Subject<'_>) -> Option<Arc<Entry>> {
    let context = subject.context?;
    let before = context.rules.clone().and_then(|set| set.downcast().ok());
    let set: Arc<Set> = before.or_else(all)?;
    // A mask has a bit for each call of a table; the ABI's numbers begin elsewhere.
    let number = calls::number_in(context.call.arch, context.call.number) as u32;
    let matches = |entry: &Arc<Entry>, about: Option<&Name>| {
        entry.rule.list == List::Exit
            && entry.rule.is_for(number)
            && entry.rule.matches(&Asked { subject, entry }, about)
    };
    let mut rules = set.rules.iter();
    let mut first = rules.position(|entry| !entry.is_of_file() && matches(entry, None));
    for name in context.names.all() {
        let Some(file) = &name.file else { continue };
        let former = context.former.iter().filter(|(_, known)| *known == file.id);
        let former = former.filter_map(|(id, _)| {
            let mut all = set.rules.iter().enumerate();
            all.find(|(_, entry)| entry.id == *id)
        });
        let watching = set.at(&set.files, file.id);
        let of_inode = set.at(&set.inodes, file.id.ino);
        for (n, entry) in watching.chain(of_inode).chain(former) {
            if first.is_none_or(|first| n < first) && matches(entry, Some(name)) {
                first = Some(n);
            }
        }
    }
    set.rules.get(first?).cloned()
}

/// Whether a new thread is never audited.
pub fn never(task: &Task) -> bool {
    let Some(set) = all() else { return false };
    let subject = &Subject::new(task);
    let mut rules = set.rules.iter().filter(|entry| entry.rule.list == List::Task);
    let first = rules.find(|entry| entry.rule.matches(&Asked { subject, entry }, None));
    first.is_some_and(|entry| entry.rule.action == Action::Never)
}

/// What rules can ask of a thread.
pub struct Subject<'a> {
    task: &'a Task,
    /// The call that it ends: its first arguments and result.
    pub call: Option<([usize; 4], Option<isize>)>,
    /// What was noted of that call.
    pub context: Option<&'a Context>,
    /// The kind of the record that is to be made.
    pub record: Option<u16>,
}

impl<'a> Subject<'a> {
    pub fn new(task: &'a Task) -> Self {
        Self {
            task,
            call: None,
            context: None,
            record: None,
        }
    }
}

/// What a rule asks of a thread.
struct Asked<'a> {
    subject: &'a Subject<'a>,
    entry: &'a Entry,
}

impl Facts for Asked<'_> {
    fn ids(&self) -> Ids {
        let creds = self.subject.task.creds();
        Ids {
            uid: [creds.uid, creds.euid, creds.suid, creds.fsuid],
            gid: [creds.gid, creds.egid, creds.sgid, creds.fsgid],
        }
    }
    fn in_group(&self, gid: u32) -> bool {
        self.subject.task.creds().groups.binary_search(&gid).is_ok()
    }
    fn number(&self, field: u32) -> Option<u32> {
        let Subject {
            task,
            call,
            context,
            record,
        } = self.subject;
        Some(match field {
            what::PID => task.tgid() as u32,
            what::PPID => task.process.ppid.load(Relaxed) as u32,
            what::LOGINUID => task.audit.login(),
            what::SESSIONID => task.audit.session(),
            what::PERS => task.personality.load(Relaxed),
            what::ARCH => context.map_or(crate::arch::AUDIT_ARCH, |context| context.call.arch),
            what::MSGTYPE => u32::from((*record)?),
            what::ARG0..=what::ARG3 => (*call)?.0[(field - what::ARG0) as usize] as u32,
            what::SADDR_FAM => match (*context)?.details.address[..] {
                [low, high, ..] => u32::from(u16::from_ne_bytes([low, high])),
                _ => return None,
            },
            _ => return None,
        })
    }
    fn exit(&self) -> Option<isize> {
        self.subject.call?.1
    }
    fn is_exe(&self, _: &[u8]) -> bool {
        let exe = self.subject.task.process.exe();
        let means = self.entry.exe.as_ref().and_then(Watch::now);
        exe.is_some_and(|exe| means == Some(id(exe.inode())))
    }
    fn names(&self) -> &[Name] {
        self.subject.context.map_or(&[], |context| context.names.all())
    }
    fn is_in_tree(&self) -> bool {
        let trees = self.subject.context.map_or(&[][..], |context| &context.trees);
        let own = self.entry.tree.as_ref();
        own.is_some_and(|tree| trees.iter().any(|tag| tree.has(*tag)))
    }
    fn wants(&self, rights: u32) -> bool {
        let Some(context) = self.subject.context else {
            return false;
        };
        let how = match &context.details.special {
            Some(Special::OpenAt2([flags, ..])) => *flags as u32,
            _ => 0,
        };
        let number = calls::number_in(context.call.arch, context.call.number) as u32;
        let classes = match calls::is_compat_arch(context.call.arch) {
            true => &COMPAT_CLASSES,
            false => &CLASSES,
        };
        classes.wants(rights, number, &context.call.arguments, how)
    }
}

/// Whether a record of this kind by the running thread is left out, as the list of users' records or the one
/// of all says.
pub fn leave_out(list: List, kind: u16) -> bool {
    let Some(set) = all() else {
        return false;
    };
    let task = current();
    let mut subject = Subject::new(&task);
    subject.record = Some(kind);
    for entry in set.rules.iter().filter(|entry| entry.rule.list == list) {
        let asked = Asked {
            subject: &subject,
            entry,
        };
        match entry.rule.matches_record(&asked) {
            // Whatever the action is: the list of all is of what is left out.
            Some(true) => return list == List::Exclude || entry.rule.action == Action::Never,
            Some(false) => {}
            None => return false,
        }
    }
    false
}
