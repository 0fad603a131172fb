//! Timers: one-shot callbacks in interrupt context at a monotonic time, kept per CPU in a heap; and the CPU's tick, which exists only
//! while something runs that could be preempted or must be accounted for.
//!
//! A timer is queued on the CPU that arms it. Locks: a timer's own, then a CPU's heap.

use crate::arch::time::set_event;
use crate::sched::{self, CpuData, this_cpu};
use crate::sync::pairing::{ArcHeap, HeapNode};
use crate::sync::{IrqSpinGuard, IrqSpinLock, without_interrupts};
use crate::time::now_ns;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Tick while tasks compete, nanoseconds.
const TICK_BUSY: u64 = 4_000_000;
/// Tick while one task runs alone (only for accounting user and system time), nanoseconds.
const TICK_ALONE: u64 = 20_000_000;

const NO_CPU: u32 = u32::MAX;

struct Data {
    /// Serialises arming and cancelling.
    arming: IrqSpinLock<()>,
    /// The CPU in whose heap it may be.
    cpu: AtomicU32,
    /// The CPU that runs the callback.
    running: AtomicU32,
    callback: Box<dyn Fn() + Send + Sync>,
}

type Node = Arc<HeapNode<Data>>;

/// A one-shot timer. The callback runs in interrupt context with interrupts off: it may wake tasks, send signals, arm timers, take
/// `IrqSpinLock`s. Dropping the timer cancels it (a callback under way on another CPU is not waited for).
pub struct Timer {
    node: Node,
}

impl Timer {
    /// A timer that is not armed.
    pub fn new(callback: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            node: Arc::new(HeapNode::new(Data {
                arming: IrqSpinLock::new(()),
                cpu: AtomicU32::new(NO_CPU),
                running: AtomicU32::new(NO_CPU),
                callback: Box::new(callback),
            })),
        }
    }

    /// Sets it to fire once when CLOCK_MONOTONIC reaches `deadline_ns` (at once if that has passed). A deadline set before is replaced.
    pub fn arm(&self, deadline_ns: u64) {
        let arming = self.node.value.arming.lock();
        self.put_in(&arming, deadline_ns);
    }

    /// [`Self::arm`] inside of a lock of the caller's.
    pub fn arm_under<U>(&self, outer: &IrqSpinGuard<'_, U>, deadline_ns: u64) {
        let _arming = self.node.value.arming.lock_under(outer);
        self.put_in(outer, deadline_ns);
    }

    /// Unsets it. `true` if it was armed and has not fired. The callback may still be running on another CPU.
    pub fn cancel(&self) -> bool {
        if !self.is_armed() {
            return false;
        }
        let arming = self.node.value.arming.lock();
        self.take_out(&arming).is_some()
    }

    /// [`Self::cancel`] inside of a lock of the caller's.
    pub fn cancel_under<U>(&self, outer: &IrqSpinGuard<'_, U>) -> bool {
        let _arming = self.node.value.arming.lock_under(outer);
        self.take_out(outer).is_some()
    }

    fn is_armed(&self) -> bool {
        self.node.value.cpu.load(Ordering::Acquire) != NO_CPU
    }

    /// With `arming` held, `lock` or one outside of it.
    #[inline]
    fn put_in<U>(&self, lock: &IrqSpinGuard<'_, U>, deadline_ns: u64) {
        let old = self.take_out(lock);
        let cpu = this_cpu();
        let node = old.unwrap_or_else(|| self.node.clone());
        node.value.cpu.store(cpu.id as u32, Ordering::Relaxed);
        cpu.timers.heap.lock_under(lock).insert(node, deadline_ns);
        cpu.timers.event_at_most(deadline_ns);
    }

    /// With `arming` held, `lock` or one outside of it: the heap's count of the node, if it was there.
    #[inline]
    fn take_out<U>(&self, lock: &IrqSpinGuard<'_, U>) -> Option<Node> {
        let n = self.node.value.cpu.load(Ordering::Relaxed);
        let cpu = sched::cpu(n as usize)?;
        let mut heap = cpu.timers.heap.lock_under(lock);
        let found = heap.remove(&self.node);
        if found.is_some() {
            self.node.value.cpu.store(NO_CPU, Ordering::Release);
        }
        found
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// A CPU's timers and its one-shot hardware event.
pub struct TimerBase {
    heap: IrqSpinLock<ArcHeap<Data>>,
    /// What the hardware event is set to. This and the tick are changed by this CPU only, interrupts off.
    programmed: AtomicU64,
    /// When the next tick is due; `u64::MAX`: none.
    tick: AtomicU64,
    /// A tick is set, and it is a short one.
    tick_short: AtomicBool,
}

impl TimerBase {
    /// Nothing armed.
    pub const fn new() -> Self {
        Self {
            heap: IrqSpinLock::new(ArcHeap::new()),
            programmed: AtomicU64::new(u64::MAX),
            tick: AtomicU64::new(u64::MAX),
            tick_short: AtomicBool::new(false),
        }
    }

    /// Makes sure the hardware event comes at `deadline` or before.
    #[inline]
    fn event_at_most(&self, deadline: u64) {
        if deadline < self.programmed.load(Ordering::Relaxed) {
            self.programmed.store(deadline, Ordering::Relaxed);
            set_event(deadline);
        }
    }
}

/// `running` tasks are runnable on this CPU: makes sure its tick comes if they need it. Interrupts off, this CPU's own data. A tick
/// that is no longer needed is not taken back: it comes once, finds nothing, and stays away.
#[inline]
pub fn tick_needed(cpu: &CpuData, running: u32) {
    let base = &cpu.timers;
    if base.tick_short.load(Ordering::Relaxed) {
        return;
    }
    if running == 0 || running == 1 && base.tick.load(Ordering::Relaxed) != u64::MAX {
        return;
    }
    let at = now_ns() + if running > 1 { TICK_BUSY } else { TICK_ALONE };
    base.tick_short.store(running > 1, Ordering::Relaxed);
    base.tick.store(at, Ordering::Relaxed);
    base.event_at_most(at);
}

/// This CPU's timer event fired. Called by the architecture inside `threshold::interrupt`.
pub fn timer_interrupt() {
    if !sched::ready() {
        return;
    }
    let cpu = this_cpu();
    let base = &cpu.timers;
    base.programmed.store(u64::MAX, Ordering::Relaxed);
    crate::log::late_wake();
    let mut now = now_ns();
    if base.tick.load(Ordering::Relaxed) <= now {
        base.tick.store(u64::MAX, Ordering::Relaxed);
        base.tick_short.store(false, Ordering::Relaxed);
        sched::tick(cpu, now);
        tick_needed(cpu, cpu.rq.running());
    }
    loop {
        let due = {
            let mut heap = base.heap.lock();
            let due = heap.pop_until(now);
            if let Some(node) = &due {
                node.value.running.store(cpu.id as u32, Ordering::Relaxed);
                node.value.cpu.store(NO_CPU, Ordering::Release);
            }
            due
        };
        match due {
            Some(node) => {
                (node.value.callback)();
                node.value.running.store(NO_CPU, Ordering::Release);
            }
            None => {
                let before = now;
                now = now_ns();
                let next = base.heap.lock().least_key().unwrap_or(u64::MAX);
                if next <= now && now > before {
                    continue;
                }
                let next = next.min(base.tick.load(Ordering::Relaxed));
                // Callbacks may have programmed something earlier or later already: the heap knows all.
                base.programmed.store(next, Ordering::Relaxed);
                without_interrupts(|| set_event(next));
                return;
            }
        }
    }
}
