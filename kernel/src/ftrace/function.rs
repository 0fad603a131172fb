//! The tracer `function`: records each call of the functions that an instance's filters choose, with who
//! called.

mod plain;

use super::graph;
use super::guard::Guard;
use super::names::{self, Known};
use super::ops::{self, Registered, errno};
use super::target::{Data, Target};
use crate::arch::exits;
use crate::arch::sites::Entry;
use crate::mm::reserve::handling;
use crate::rcu::{self, Retire, Shared, Slot};
use crate::sched::preempt;
use crate::sync::Mutex;
use crate::sync::lockdep::fallible;
use crate::tracing::tracers::{self, Tracer};
use crate::tracing::{self, Instance, record};
use alloc::sync::Arc;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use limen_linux_abi::Errno;
use limen_trace_sites::Site;
use limen_trace_sites::filter::{Effective, Filter, Which};
use limen_trace_sites::hash::Hash;
use limen_trace_sites::pids::{PidFilter, Pids};
use limen_trace_text::Kind;

/// Words of an address in a record.
const ADDRESS: usize = size_of::<usize>() / 4;

/// What a target needs to record.
pub struct Recorder {
    instance: Arc<Instance>,
    /// Which processes are traced. Nothing: all.
    pids: Slot<Processes>,
    guard: Guard,
    /// It was to end, and there was no memory to take it out of the sites.
    ended: AtomicBool,
    /// Not all calls are recorded, because of `pids` or `ended`.
    chooses: AtomicBool,
}

/// Lists of processes, as tracers find them.
struct Processes(PidFilter);

impl Retire for Processes {}

impl Recorder {
    fn new(instance: &Arc<Instance>, pids: Option<PidFilter>) -> Result<Self, Errno> {
        let new = Self {
            instance: instance.clone(),
            pids: Slot::empty(),
            chooses: AtomicBool::new(false),
            guard: Guard::new(),
            ended: AtomicBool::new(false),
        };
        new.set_pids(pids)?;
        Ok(new)
    }

    /// Other processes are traced from now on: no call of one that was and still is goes unrecorded. On an
    /// error the same are. The caller holds a lock that keeps others away.
    fn set_pids(&self, pids: Option<PidFilter>) -> Result<(), Errno> {
        let share = |pids| fallible(|| Shared::try_new(Processes(pids))).ok_or(Errno::ENOMEM);
        let new = pids.map(share).transpose()?;
        let chooses = new.is_some();
        if chooses {
            self.chooses.store(true, Relaxed);
        }
        drop(self.pids.replace(new));
        if !chooses && !self.ended.load(Relaxed) {
            self.chooses.store(false, Relaxed);
        }
        Ok(())
    }
}

/// What an instance traces of functions: an extension of it.
#[derive(Default)]
pub struct Functions(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    filter: Filter,
    pids: Lists,
    running: Option<Running>,
}

/// `set_ftrace_pid` and `set_ftrace_notrace_pid`. `None`: there is no list.
#[derive(Default)]
struct Lists {
    only: Option<Pids>,
    not: Option<Pids>,
}

enum Running {
    Calls {
        registered: Registered,
        target: Arc<Target>,
    },
    /// `function_graph`.
    Graph,
}

/// Which of the lists of processes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// Those that are traced.
    Only,
    /// Those that are not.
    Not,
}

impl Lists {
    fn of(&self, list: List) -> &Option<Pids> {
        match list {
            List::Only => &self.only,
            List::Not => &self.not,
        }
    }
    fn of_mut(&mut self, list: List) -> &mut Option<Pids> {
        match list {
            List::Only => &mut self.only,
            List::Not => &mut self.not,
        }
    }
    /// What a recorder asks. `None`: every process is traced.
    fn filter(&self) -> Result<Option<PidFilter>, Errno> {
        if self.only.is_none() && self.not.is_none() {
            return Ok(None);
        }
        let copy =
            |list: &Option<Pids>| handling(|| list.as_ref().map(Pids::try_clone).transpose()).map_err(errno);
        Ok(Some(PidFilter {
            only: copy(&self.only)?,
            not: copy(&self.not)?,
        }))
    }
}

/// As many addresses as there are, as the words of a record.
#[inline(always)]
fn words(ip: usize, parent: usize) -> [u32; 2 * ADDRESS] {
    let mut words = [0; 2 * ADDRESS];
    for n in 0..ADDRESS {
        // Records are in the byte order of the processor.
        let at = if cfg!(target_endian = "little") {
            n
        } else {
            ADDRESS - 1 - n
        };
        words[at] = (ip >> (32 * n % usize::BITS as usize)) as u32;
        words[ADDRESS + at] = (parent >> (32 * n % usize::BITS as usize)) as u32;
    }
    words
}

/// Who called a function that seems to return to `parent`: it may have been jumped to by one that is traced
/// until it returns.
fn caller(parent: usize, entry: &Entry) -> usize {
    if parent != exits::return_address() {
        return parent;
    }
    let returns = preempt::current_info().returns.get();
    let original = returns.and_then(|returns| returns.original(entry.sp(), parent));
    original.unwrap_or(parent)
}

/// Records a call in every case; [`plain`] is for the usual one.
#[cold]
fn record(recorder: &Recorder, ip: usize, parent: usize) {
    let Some(_inside) = recorder.guard.enter() else {
        return;
    };
    // The code behind the site has turned preemption off once.
    let common = record::common(Kind::FUNCTION, 1);
    let reader = rcu::read();
    if let Some(pids) = recorder.pids.load(&reader)
        && !pids.0.traces(common.pid as u32)
    {
        return;
    }
    drop(reader);
    if !recorder.ended.load(Relaxed) {
        recorder.instance.record_as(common, words(ip, parent));
    }
}

impl Inner {
    /// Ends a tracer. If there is no memory for that, it stays and records nothing.
    fn end(&mut self) {
        let Some(running) = self.running.take() else {
            return;
        };
        let Running::Calls { registered, target } = running else {
            return;
        };
        if let Err((registered, _)) = ops::remove(registered) {
            if let Data::Record(recorder) = &target.data {
                recorder.ended.store(true, Relaxed);
                recorder.chooses.store(true, Relaxed);
            }
            self.running = Some(Running::Calls { registered, target });
        }
    }

    /// As the tracer `function_graph`.
    fn begin_graph(&mut self, instance: &Arc<Instance>) -> Result<(), Errno> {
        graph::record(
            instance,
            handling(|| self.filter.effective()).map_err(errno)?,
            self.pids.filter()?,
        )?;
        self.running = Some(Running::Graph);
        Ok(())
    }

    fn begin(&mut self, instance: &Arc<Instance>) -> Result<(), Errno> {
        self.end();
        if self.running.is_some() {
            return Err(Errno::ENOMEM);
        }
        let recorder = Recorder::new(instance, self.pids.filter()?)?;
        let target = Arc::new(Target::new(plain::record, Data::Record(recorder)));
        let set = handling(|| self.filter.effective()).map_err(errno)?;
        let registered = ops::add(target.clone(), set)?;
        self.running = Some(Running::Calls { registered, target });
        Ok(())
    }
}

impl Functions {
    /// Those of an instance.
    pub fn of(instance: &Instance) -> Result<Arc<Self>, Errno> {
        instance.extension()
    }

    /// What a file of filters holds, for one that is opened to append.
    pub fn hash(&self, which: Which) -> Result<Hash, Errno> {
        let inner = self.0.lock();
        handling(|| inner.filter.hash(which).try_clone()).map_err(errno)
    }

    /// Calls `f` with the filters.
    pub fn with_filter<R>(&self, f: impl FnOnce(&Filter) -> R) -> R {
        f(&self.0.lock().filter)
    }

    /// A file of filters that was written is closed. On an error the filters are those of before.
    pub fn set_hash(&self, instance: &Arc<Instance>, which: Which, mut hash: Hash) -> Result<(), Errno> {
        let mut inner = self.0.lock();
        let names = names::known()?;
        handling(|| hash.settle(&names)).map_err(errno)?;
        let set = handling(|| inner.filter.effective_with(which, &hash)).map_err(errno)?;
        match &inner.running {
            None => {}
            Some(Running::Calls { registered, .. }) => ops::change(registered, set)?,
            Some(Running::Graph) => graph::record(instance, set, inner.pids.filter()?)?,
        }
        *inner.filter.hash_mut(which) = hash;
        Ok(())
    }

    /// A module was loaded, whose functions are among `names`. On an error the filters are those of before.
    pub(super) fn module_loaded(
        &self,
        instance: &Arc<Instance>,
        names: &Known,
        module: &str,
    ) -> Result<(), Errno> {
        let mut inner = self.0.lock();
        let (filter, changed) = handling(|| {
            let mut filter = inner.filter.try_clone()?;
            let changed = filter.loaded(names, module)?;
            Ok((filter, changed))
        })
        .map_err(errno)?;
        let set = || handling(|| filter.effective()).map_err(errno);
        match &inner.running {
            Some(Running::Calls { registered, .. }) if changed => ops::change(registered, set()?)?,
            // It has sets of its own, in which these numbers may have been another module's.
            Some(Running::Graph) => graph::record(instance, set()?, inner.pids.filter()?)?,
            _ => {}
        }
        inner.filter = filter;
        Ok(())
    }

    /// Sites are gone with their module.
    pub(super) fn forget(&self, sites: &[Site]) {
        let mut inner = self.0.lock();
        sites.iter().for_each(|site| inner.filter.forget(*site));
    }

    /// Calls `f` with a list of processes.
    pub fn with_pids<R>(&self, list: List, f: impl FnOnce(Option<&Pids>) -> R) -> R {
        f(self.0.lock().pids.of(list).as_ref())
    }

    /// Replaces a list of processes. On an error it is that of before.
    pub fn set_pids(&self, instance: &Arc<Instance>, list: List, pids: Option<Pids>) -> Result<(), Errno> {
        let mut inner = self.0.lock();
        let before = core::mem::replace(inner.pids.of_mut(list), pids);
        let changed = match &inner.running {
            None => return Ok(()),
            Some(Running::Calls { target, .. }) => inner.pids.filter().and_then(|pids| match &target.data {
                Data::Record(recorder) => recorder.set_pids(pids),
                _ => Ok(()),
            }),
            Some(Running::Graph) => inner.begin_graph(instance),
        };
        if changed.is_err() {
            *inner.pids.of_mut(list) = before;
        }
        changed
    }

    /// Begins to record as `function_graph`.
    pub(super) fn begin_graph(&self, instance: &Arc<Instance>) -> Result<(), Errno> {
        let mut inner = self.0.lock();
        inner.end();
        if inner.running.is_some() {
            return Err(Errno::ENOMEM);
        }
        inner.begin_graph(instance)
    }

    /// Ends that.
    pub(super) fn end_graph(&self, instance: &Arc<Instance>) {
        let mut inner = self.0.lock();
        if matches!(inner.running, Some(Running::Graph)) {
            inner.running = None;
            graph::stop(instance);
        }
    }
}

/// Runs `f` while the calls of some functions are recorded into the top instance: for a self-test.
pub(super) fn while_recorded<R>(set: Effective, f: impl FnOnce() -> R) -> Result<R, Errno> {
    let instance = tracing::top()?;
    instance.expand()?;
    let recorder = Recorder::new(instance, None)?;
    let registered = ops::add(Arc::new(Target::new(plain::record, Data::Record(recorder))), set)?;
    let result = f();
    ops::remove(registered).map_err(|(_, errno)| errno)?;
    instance.clear(None)?;
    Ok(result)
}

struct Function;

impl Tracer for Function {
    fn name(&self) -> &'static str {
        "function"
    }
    fn start(&self, instance: &Arc<Instance>) -> Result<(), Errno> {
        Functions::of(instance)?.0.lock().begin(instance)
    }
    fn stop(&self, instance: &Arc<Instance>) {
        if let Ok(functions) = Functions::of(instance) {
            functions.0.lock().end();
        }
    }
}

/// The tracer can be chosen from now on. Boot.
pub fn init() {
    tracers::register(&Function);
}
