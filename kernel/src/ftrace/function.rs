//! The tracer `function`: records each call of the functions that an instance's filters choose, with who
//! called.

mod plain;

use super::graph;
use super::guard::Guard;
use super::names::{self, Known};
use super::ops::{self, Registered, errno};
use super::probes::Probes;
use super::target::{Data, Target};
use super::threads::Threads;
use crate::arch::exits;
use crate::arch::sites::Entry;
use crate::mm::reserve::handling;
use crate::sched::preempt;
use crate::sync::Mutex;
use crate::tracing::event::stack;
use crate::tracing::tracers::{self, Tracer};
use crate::tracing::{self, Extension, Instance, Special, record};
use alloc::sync::Arc;
use core::any::Any;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use limen_linux_abi::Errno;
use limen_trace_sites::Site;
use limen_trace_sites::filter::{Effective, Filter, Which};
use limen_trace_sites::hash::Hash;
use limen_trace_text::Kind;

/// Words of an address in a record.
const ADDRESS: usize = size_of::<usize>() / 4;

/// What a target needs to record.
pub struct Recorder {
    instance: Arc<Instance>,
    shared: Arc<Settings>,
    guard: Guard,
    /// It was to end, and there was no memory to take it out of the sites.
    ended: AtomicBool,
}

impl Recorder {
    fn new(instance: &Arc<Instance>, shared: Arc<Settings>) -> Self {
        Self {
            instance: instance.clone(),
            shared,
            guard: Guard::new(),
            ended: AtomicBool::new(false),
        }
    }
}

/// What tracers of an instance look at.
pub struct Settings {
    /// Whose calls are traced.
    pub threads: Threads,
    /// `func_stack_trace`: behind each call comes the stack.
    stacks: AtomicBool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            threads: Threads::new(),
            stacks: AtomicBool::new(false),
        }
    }
}

/// What an instance traces of functions: an extension of it.
#[derive(Default)]
pub struct Functions {
    inner: Mutex<Inner>,
    /// What tracers look at.
    pub shared: Arc<Settings>,
    /// What is done when functions are called.
    pub probes: Probes,
}

impl Extension for Functions {
    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
    fn end(self: Arc<Self>, _: &Arc<Instance>) {
        self.probes.end();
    }
}

#[derive(Default)]
struct Inner {
    filter: Filter,
    running: Option<Running>,
}

enum Running {
    Calls {
        registered: Registered,
        target: Arc<Target>,
    },
    /// `function_graph`.
    Graph,
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
    if !recorder.shared.threads.traces(common.pid) || recorder.ended.load(Relaxed) {
        return;
    }
    let recorded = recorder.instance.record_as(common, words(ip, parent));
    if recorded && recorder.shared.stacks.load(Relaxed) {
        stack::record_from(&recorder.instance, ip);
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
                recorder.instance.set_special(Special::ENDED, true);
            }
            self.running = Some(Running::Calls { registered, target });
        }
    }

    /// As the tracer `function_graph`.
    fn begin_graph(&mut self, instance: &Arc<Instance>, shared: &Arc<Settings>) -> Result<(), Errno> {
        let set = handling(|| self.filter.effective()).map_err(errno)?;
        instance.set_special(Special::ENDED, false);
        graph::record(instance, set, shared)?;
        self.running = Some(Running::Graph);
        Ok(())
    }

    fn begin(&mut self, instance: &Arc<Instance>, shared: &Arc<Settings>) -> Result<(), Errno> {
        self.end();
        if self.running.is_some() {
            return Err(Errno::ENOMEM);
        }
        instance.set_special(Special::ENDED, false);
        let recorder = Recorder::new(instance, shared.clone());
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
        let inner = self.inner.lock();
        handling(|| inner.filter.hash(which).try_clone()).map_err(errno)
    }

    /// Calls `f` with the filters.
    pub fn with_filter<R>(&self, f: impl FnOnce(&Filter) -> R) -> R {
        f(&self.inner.lock().filter)
    }

    /// A file of filters that was written is closed. On an error the filters are those of before.
    pub fn set_hash(&self, instance: &Arc<Instance>, which: Which, mut hash: Hash) -> Result<(), Errno> {
        let mut inner = self.inner.lock();
        let names = names::known()?;
        handling(|| hash.settle(&names)).map_err(errno)?;
        let set = handling(|| inner.filter.effective_with(which, &hash)).map_err(errno)?;
        match &inner.running {
            None => {}
            Some(Running::Calls { registered, .. }) => ops::change(registered, set)?,
            Some(Running::Graph) => graph::record(instance, set, &self.shared)?,
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
        let mut inner = self.inner.lock();
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
            Some(Running::Graph) => graph::record(instance, set()?, &self.shared)?,
            _ => {}
        }
        inner.filter = filter;
        Ok(())
    }

    /// Sites are gone with their module.
    pub(super) fn forget(&self, sites: &[Site]) {
        let mut inner = self.inner.lock();
        sites.iter().for_each(|site| inner.filter.forget(*site));
        drop(inner);
        self.probes.forget(sites);
    }

    /// Begins to record as `function_graph`.
    pub(super) fn begin_graph(&self, instance: &Arc<Instance>) -> Result<(), Errno> {
        let mut inner = self.inner.lock();
        inner.end();
        if inner.running.is_some() {
            return Err(Errno::ENOMEM);
        }
        inner.begin_graph(instance, &self.shared)
    }

    /// Ends that.
    pub(super) fn end_graph(&self, instance: &Arc<Instance>) {
        let mut inner = self.inner.lock();
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
    let recorder = Recorder::new(instance, Arc::default());
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
        let functions = Functions::of(instance)?;
        functions.inner.lock().begin(instance, &functions.shared)
    }
    fn stop(&self, instance: &Arc<Instance>) {
        if let Ok(functions) = Functions::of(instance) {
            functions.inner.lock().end();
        }
    }
    fn options(&self) -> &'static [&'static str] {
        &["func_stack_trace"]
    }
    fn option(&self, instance: &Instance, _: usize) -> bool {
        Functions::of(instance).is_ok_and(|functions| functions.shared.stacks.load(Relaxed))
    }
    fn set_option(&self, instance: &Arc<Instance>, _: usize, on: bool) -> Result<(), Errno> {
        Functions::of(instance)?.shared.stacks.store(on, Relaxed);
        instance.set_special(Special::STACKS, on);
        Ok(())
    }
}

/// The tracer can be chosen from now on. Boot.
pub fn init() {
    super::threads::init();
    tracers::register(&Function);
}
