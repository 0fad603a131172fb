//! The room's own tests (see `boot::selftest`).

use super::buffer::Buffer;
use super::record::common;
use super::{Instance, Tracer, make, read, remove, tracers};
use crate::check;
use crate::sched::{CpuSet, WaitQueue, current, on_each_cpu, online, policy, spawn_kthread, yield_now};
use crate::sync::MAX_CPUS;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use limen_linux_abi::Errno;
use limen_trace_text::entry::{COMMON, LONG};
use limen_trace_text::graph::GraphOptions;
use limen_trace_text::{Entry, Flags, Kind, Options};

/// The room's tests.
pub const TESTS: &[crate::selftest::Test] = &[
    ("without tracing there are no buffers", nothing),
    ("records say in which context they were made", contexts),
    (
        "a reader beside writers finds every record, or that it is lost",
        reader,
    ),
    ("snapshots beside writers lose nothing", snapshots),
    ("buffers change their size with their records", sizes),
    ("an instance that is used stays", used),
    ("a tracer records as long as it is the tracer", tracer),
    ("a size that cannot be had changes nothing", no_memory),
    ("the last reports are kept", reports),
    ("a chain of calls shows nothing that was recorded before", chain),
];

/// An instance that is removed at the end.
struct Made(Arc<Instance>);

impl Made {
    /// With buffers of `size` bytes.
    fn new(name: &[u8], size: usize) -> Result<Self, &'static str> {
        let instance = make(name).map_err(|_| "no instance")?;
        instance.resize(size, None).map_err(|_| "no buffers")?;
        Ok(Self(instance))
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = remove(&self.0.name);
    }
}

fn nothing() -> Result<(), &'static str> {
    let made = Made(make(b"nothing").map_err(|_| "no instance")?);
    check!(!made.0.main.is_there() && !made.0.has_snapshot());
    check!(!made.0.record(Kind::RAW_DATA, [1]));
    check!(read::is_empty(&made.0.main, None));
    check!(read::counts(&made.0.main, None) == (0, 0));
    Ok(())
}

fn chain() -> Result<(), &'static str> {
    let made = Made::new(b"chain", 1 << 13)?;
    let instance = &made.0;
    // Until each page of each CPU has been written on.
    on_each_cpu(online(), &|| {
        for _ in 0..1 << 10 {
            instance.record(Kind::RAW_DATA, [u32::MAX; 8]);
        }
    });
    crate::sync::without_preemption(|| super::event::stack::record(instance));
    let (mut chains, mut wrong) = (0, 0);
    let mut look = |entry: &Entry<'_>, _| {
        if entry.common.kind == Kind::STACK {
            chains += 1;
            // Between `int size` and the first address.
            let gap = entry.data.get(COMMON + 4..COMMON + LONG).unwrap_or_default();
            wrong += gap.iter().filter(|byte| **byte != 0).count();
        }
        true
    };
    while read::consume(&instance.main, None, &mut look).is_some() {}
    check!(chains == 1 && wrong == 0);
    Ok(())
}

/// Calls `f` with the only record.
fn only<R>(instance: &Instance, f: impl FnOnce(&Entry<'_>) -> R) -> Option<R> {
    let mut result = None;
    read::consume(&instance.main, None, |entry, _| {
        result = Some(f(entry));
        true
    });
    result.filter(|_| read::is_empty(&instance.main, None))
}

fn contexts() -> Result<(), &'static str> {
    let made = Made::new(b"contexts", 1 << 16)?;
    let instance = &made.0;
    let tid = current().tid();
    check!(instance.is_recording() && instance.record(Kind::RAW_DATA, [7]));
    let thread = only(instance, |entry| (entry.common, entry.u32(COMMON)));
    check!(thread.is_some_and(|(common, body)| {
        common.flags & (Flags::IRQS_OFF | Flags::HARDIRQ | Flags::NMI) == Flags::empty()
            && common.preempt_count == 0
            && common.pid == tid
            && body == 7
    }));
    crate::sync::without_preemption(|| instance.record(Kind::RAW_DATA, [7]));
    let held = only(instance, |entry| entry.common);
    check!(held.is_some_and(|common| common.preempt_count == 1));
    crate::sync::without_interrupts(|| instance.record(Kind::RAW_DATA, [7]));
    let off = only(instance, |entry| entry.common);
    check!(off.is_some_and(|common| common.flags.contains(Flags::IRQS_OFF)));
    let other = online().iter().last().unwrap_or(0);
    let first = online().iter().next().unwrap_or(0);
    let _ = policy::set_affinity(&current(), CpuSet::single(first));
    on_each_cpu(CpuSet::single(other), &|| {
        instance.record(Kind::RAW_DATA, [8]);
    });
    let _ = policy::set_affinity(&current(), online());
    let interrupt = only(instance, |entry| (entry.common, entry.cpu));
    check!(interrupt.is_some_and(|(common, cpu)| {
        cpu == other && (other == 0 || common.flags.contains(Flags::HARDIRQ | Flags::IRQS_OFF))
    }));
    instance.turn(false);
    check!(!instance.record_as(common(Kind::RAW_DATA, 0), [7]));
    instance.turn(true);
    instance.set_mask(0);
    check!(!instance.record(Kind::RAW_DATA, [7]));
    Ok(())
}

/// Writers: a thread on each CPU, and interrupts that come to it.
struct Writers {
    instance: Arc<Instance>,
    over: AtomicBool,
    ended: AtomicUsize,
    wait: WaitQueue,
    /// Records that threads and interrupts have made.
    threads: [AtomicU32; MAX_CPUS],
    interrupts: [AtomicU32; MAX_CPUS],
}

impl Writers {
    fn start(instance: &Arc<Instance>) -> Arc<Self> {
        let this = Arc::new(Self {
            instance: instance.clone(),
            over: AtomicBool::new(false),
            ended: AtomicUsize::new(0),
            wait: WaitQueue::new(),
            threads: [const { AtomicU32::new(0) }; MAX_CPUS],
            interrupts: [const { AtomicU32::new(0) }; MAX_CPUS],
        });
        for cpu in online().iter() {
            let this = this.clone();
            spawn_kthread("selftest", move || {
                let _ = policy::set_affinity(&current(), CpuSet::single(cpu));
                let mut n = 0;
                while !this.over.load(Ordering::Acquire) {
                    if this.instance.record(Kind::RAW_DATA, [0, n]) {
                        n += 1;
                    }
                    if n % 32 == 0 {
                        yield_now();
                    }
                }
                this.threads[cpu].store(n, Ordering::Relaxed);
                this.ended.fetch_add(1, Ordering::Release);
                this.wait.wake_all();
            });
        }
        this
    }

    /// Waits until all threads have ended.
    fn end(&self) {
        self.over.store(true, Ordering::Release);
        let all = online().count();
        self.wait
            .wait_until_uninterruptible(|| self.ended.load(Ordering::Acquire) == all);
    }

    fn interrupt(&self) {
        on_each_cpu(online(), &|| {
            let made = &self.interrupts[crate::arch::smp::cpu_id()];
            let n = made.load(Ordering::Relaxed);
            if self.instance.record(Kind::RAW_DATA, [1, n]) {
                made.store(n + 1, Ordering::Relaxed);
            }
        });
    }

    fn all(&self) -> u64 {
        let all = self.threads.iter().chain(&self.interrupts);
        all.map(|n| u64::from(n.load(Ordering::Relaxed))).sum()
    }
}

/// What a reader has found.
struct Found {
    /// The next number of each CPU's thread and interrupts.
    next: [[u32; 2]; MAX_CPUS],
    /// Numbers of each CPU that were left out, and records that are lost.
    left_out: [(u64, u64); MAX_CPUS],
    records: u64,
    lost: u64,
    wrong: u64,
}

impl Found {
    fn new() -> Self {
        Self {
            next: [[0; 2]; MAX_CPUS],
            left_out: [(0, 0); MAX_CPUS],
            records: 0,
            lost: 0,
            wrong: 0,
        }
    }

    /// A record was read.
    fn note(&mut self, entry: &Entry<'_>, lost: u64) -> bool {
        let (who, n) = (entry.u32(COMMON) as usize, entry.u32(COMMON + 4));
        let Some(next) = self.next[entry.cpu].get_mut(who) else {
            self.wrong += 1;
            return true;
        };
        // Numbers are left out only where records are lost, and none comes twice.
        let (left_out, all_lost) = &mut self.left_out[entry.cpu];
        *all_lost += lost;
        *left_out += u64::from(n.saturating_sub(*next));
        if n < *next || left_out > all_lost {
            self.wrong += 1;
        }
        *next = n + 1;
        self.records += 1;
        self.lost += lost;
        true
    }

    /// Reads what is there, at most `most` records.
    fn read_some(&mut self, buffer: &Buffer, most: u64) {
        let end = self.records.saturating_add(most);
        while self.records < end
            && read::consume(buffer, None, |entry, lost| self.note(entry, lost)).is_some()
        {}
    }
}

fn reader() -> Result<(), &'static str> {
    let made = Made::new(b"reader", 1 << 15)?;
    let writers = Writers::start(&made.0);
    let mut found = Found::new();
    for round in 0..200 {
        writers.interrupt();
        // Sometimes the writers overtake.
        if round % 3 == 0 {
            yield_now();
        }
        found.read_some(&made.0.main, 500);
    }
    writers.end();
    found.read_some(&made.0.main, u64::MAX);
    check!(found.wrong == 0);
    check!(found.records + found.lost == writers.all());
    Ok(())
}

fn snapshots() -> Result<(), &'static str> {
    let made = Made::new(b"snapshots", 1 << 15)?;
    let instance = &made.0;
    instance.allocate_snapshot().map_err(|_| "no snapshot")?;
    let writers = Writers::start(instance);
    let mut found = Found::new();
    for _ in 0..20 {
        writers.interrupt();
        instance.snapshot(None).map_err(|_| "not taken")?;
        found.read_some(&instance.spare, u64::MAX);
    }
    writers.end();
    found.read_some(&instance.main, u64::MAX);
    check!(found.wrong == 0);
    check!(found.records != 0 && found.records + found.lost == writers.all());
    instance.free_snapshot();
    check!(!instance.has_snapshot());
    Ok(())
}

fn sizes() -> Result<(), &'static str> {
    let made = Made::new(b"sizes", 1 << 14)?;
    let instance = &made.0;
    let _ = policy::set_affinity(&current(), CpuSet::single(0));
    for n in 0..100 {
        check!(instance.record(Kind::RAW_DATA, [0, n]));
    }
    instance.resize(1 << 16, None).map_err(|_| "not larger")?;
    check!(instance.size(0) == (1 << 16, None));
    check!(read::counts(&instance.main, None) == (100, 100));
    instance.resize(1 << 13, Some(0)).map_err(|_| "not smaller")?;
    check!(instance.size(0) == (1 << 13, None));
    check!(read::counts(&instance.main, None) == (100, 100));
    let mut found = Found::new();
    found.read_some(&instance.main, u64::MAX);
    check!(found.records == 100 && found.wrong == 0 && found.lost == 0);
    check!(instance.set_option(Options::OVERWRITE, false).is_ok());
    for n in 0..2000 {
        instance.record(Kind::RAW_DATA, [0, n]);
    }
    let first = read::consume(&instance.main, None, |entry, lost| {
        entry.u32(COMMON + 4) == 0 && lost == 0
    });
    check!(first == Some(true));
    instance.clear(None).map_err(|_| "not emptied")?;
    check!(read::counts(&instance.main, None) == (0, 0));
    let _ = policy::set_affinity(&current(), online());
    Ok(())
}

fn used() -> Result<(), &'static str> {
    let instance = make(b"used").map_err(|_| "no instance")?;
    check!(matches!(make(b"used"), Err(Errno::EEXIST)));
    let user = instance.get().map_err(|_| "not to be used")?;
    check!(remove(b"used") == Err(Errno::EBUSY));
    drop(user);
    check!(remove(b"used").is_ok() && remove(b"used") == Err(Errno::ENOENT));
    check!(instance.get().is_err() && !instance.record(Kind::RAW_DATA, [1]));
    Ok(())
}

/// A tracer that records that it was started.
struct Probe(AtomicBool);

static PROBE: Probe = Probe(AtomicBool::new(false));

impl Tracer for Probe {
    fn name(&self) -> &'static str {
        "selftest"
    }
    fn start(&self, instance: &Arc<Instance>) -> Result<(), Errno> {
        self.0.store(true, Ordering::Relaxed);
        if instance.record(EVENT, [1]) {
            Ok(())
        } else {
            Err(Errno::EIO)
        }
    }
    fn stop(&self, _: &Arc<Instance>) {
        self.0.store(false, Ordering::Relaxed);
    }
}

const EVENT: Kind = Kind(0x7fff);

fn tracer() -> Result<(), &'static str> {
    tracers::register(&PROBE);
    let made = Made::new(b"tracer", 1 << 14)?;
    let instance = &made.0;
    let probe = tracers::named("selftest").ok_or("not registered")?;
    check!(instance.expand().is_ok() && instance.set_tracer(probe).is_ok());
    check!(PROBE.0.load(Ordering::Relaxed) && instance.tracer().name() == "selftest");
    check!(only(instance, |entry| entry.common.kind) == Some(EVENT));
    check!(instance.set_tracer(tracers::NOP).is_ok() && !PROBE.0.load(Ordering::Relaxed));
    check!(instance.set_tracer(probe).is_ok());
    instance.set_graph_option(GraphOptions::TAIL, true);
    check!(instance.graph_options() == GraphOptions::DEFAULT | GraphOptions::TAIL);
    drop(made);
    check!(!PROBE.0.load(Ordering::Relaxed));
    Ok(())
}

fn no_memory() -> Result<(), &'static str> {
    let made = Made(make(b"no_memory").map_err(|_| "no instance")?);
    let instance = &made.0;
    let size = instance.size(0);
    check!(instance.resize(usize::MAX / 4, None).is_err());
    check!(instance.size(0) == size);
    // What failed does not stand in the way of what is traced later.
    check!(instance.expand().is_ok() && instance.size(0).1.is_none());
    let page = instance.main.layout();
    check!(instance.set_order(40).is_err() && instance.main.layout() == page);
    check!(instance.record(EVENT, [1]) && only(instance, |entry| entry.common.kind) == Some(EVENT));
    Ok(())
}

fn reports() -> Result<(), &'static str> {
    let made = Made(make(b"reports").map_err(|_| "no instance")?);
    for n in 0..20 {
        made.0.report("selftest", "wrong", b"a command\n", n);
    }
    let mut seen = 0;
    let mut next = 12;
    made.0.each_report(|report| {
        seen += usize::from(report.at == next && report.command == b"a command");
        next += 1;
    });
    check!(seen == 8 && next == 20);
    made.0.forget_reports();
    made.0.each_report(|_| seen = 0);
    check!(seen == 8);
    Ok(())
}
