//! Timers: callbacks that run once, in interrupt context, at a time of `CLOCK_MONOTONIC`. Each CPU has a heap
//! of them. Also the CPU's tick, which exists only while a task runs that could be preempted or whose time
//! must be charged.
//!
//! A timer is queued on the CPU that arms it. Lock order: a timer's own lock, then that of a CPU's heap.

use crate::arch::time::set_event;
use crate::sched::{self, CpuData, this_cpu};
use crate::sync::pairing::{ArcHeap, HeapNode};
use crate::sync::{IrqSpinGuard, IrqSpinLock, without_interrupts};
use crate::time::{event_time, now_ns, raw_ns};
use crate::tracepoint;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The period of the tick while several tasks want to run, nanoseconds.
const TICK_BUSY: u64 = 4_000_000;
/// The period of the tick while one task runs alone, nanoseconds. It only samples user and system time.
pub const TICK_ALONE: u64 = 20_000_000;

const NO_CPU: u32 = u32::MAX;

struct Data {
    /// Arming and cancelling take it.
    arming: IrqSpinLock<()>,
    /// The CPU in whose heap the timer may be.
    cpu: AtomicU32,
    callback: Box<dyn Fn() + Send + Sync>,
    /// Where the code is that the callback is called by.
    code: usize,
}

impl Data {
    /// What it calls, for events: the code is one function for each kind of callback.
    fn function(&self) -> usize {
        self.code
    }
}

type Node = Arc<HeapNode<Data>>;

/// Calls a callback; where this is tells events which one it is.
fn call<F: Fn()>(callback: &F) {
    callback();
}

/// A timer that expires once. The callback runs in interrupt context with interrupts off: it may wake tasks,
/// send signals, arm timers and take `IrqSpinLock`s. Dropping the timer cancels it, but does not wait for a
/// callback that runs on another CPU.
pub struct Timer {
    node: Node,
}

impl Timer {
    /// A timer that is not armed.
    pub fn new<F: Fn() + Send + Sync + 'static>(callback: F) -> Self {
        Self {
            node: Arc::new(HeapNode::new(Data {
                arming: IrqSpinLock::new(()),
                cpu: AtomicU32::new(NO_CPU),
                callback: Box::new(move || call(&callback)),
                code: call::<F> as fn(&F) as usize,
            })),
        }
    }

    /// Sets it to expire when `CLOCK_MONOTONIC` reaches `deadline_ns`, or at once if that has passed.
    /// Replaces an earlier deadline. In any context.
    pub fn arm(&self, deadline_ns: u64) {
        let arming = self.node.value.arming.lock();
        self.put_in(&arming, deadline_ns);
    }

    /// [`Self::arm`] while the caller holds a lock.
    pub fn arm_under<U>(&self, outer: &IrqSpinGuard<'_, U>, deadline_ns: u64) {
        let _arming = self.node.value.arming.lock_under(outer);
        self.put_in(outer, deadline_ns);
    }

    /// Disarms it. `true`: it was armed and had not expired. Its callback may still be running on another
    /// CPU.
    pub fn cancel(&self) -> bool {
        if !self.is_armed() {
            return false;
        }
        let arming = self.node.value.arming.lock();
        self.disarm(&arming)
    }

    /// [`Self::cancel`] while the caller holds a lock.
    pub fn cancel_under<U>(&self, outer: &IrqSpinGuard<'_, U>) -> bool {
        let _arming = self.node.value.arming.lock_under(outer);
        self.disarm(outer)
    }

    /// Whether it is armed and has not expired. `false` before its callback runs. While
    /// another thread arms it again it stays armed.
    #[inline]
    pub fn is_armed(&self) -> bool {
        self.node.value.cpu.load(Ordering::Acquire) != NO_CPU
    }

    /// The caller holds `arming`; `lock` is that lock, or one that was taken before it.
    #[inline]
    fn put_in<U>(&self, lock: &IrqSpinGuard<'_, U>, deadline_ns: u64) {
        let old = self.take_out(lock);
        tracepoint!(timer::HrtimerStart {
            hrtimer: self.address(),
            function: self.node.value.function(),
            expires: deadline_ns as i64,
            softexpires: deadline_ns as i64,
            mode: 0,
            was_armed: old.is_some(),
        });
        let cpu = this_cpu();
        let node = old.unwrap_or_else(|| self.node.clone());
        node.value.cpu.store(cpu.id as u32, Ordering::Relaxed);
        cpu.timers.heap.lock_under(lock).insert(node, deadline_ns);
        cpu.timers.event_at_most(deadline_ns);
    }

    /// As for `put_in`. Whether the node was in a heap.
    #[inline]
    fn disarm<U>(&self, lock: &IrqSpinGuard<'_, U>) -> bool {
        let armed = self.take_out(lock).is_some();
        if armed {
            tracepoint!(timer::HrtimerCancel {
                hrtimer: self.address()
            });
            self.node.value.cpu.store(NO_CPU, Ordering::Release);
        }
        armed
    }

    /// By what events know it.
    fn address(&self) -> usize {
        Arc::as_ptr(&self.node).addr()
    }

    /// As for `put_in`. Returns the heap's reference to the node, if the node was in a heap.
    #[inline]
    fn take_out<U>(&self, lock: &IrqSpinGuard<'_, U>) -> Option<Node> {
        let n = self.node.value.cpu.load(Ordering::Relaxed);
        let cpu = sched::cpu(n as usize)?;
        cpu.timers.heap.lock_under(lock).remove(&self.node)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// A CPU's timers, and its hardware timer.
pub struct TimerBase {
    heap: IrqSpinLock<ArcHeap<Data>>,
    /// What the hardware timer is set to. Only this CPU changes this and the tick, with interrupts off.
    programmed: AtomicU64,
    /// When the next tick comes. `u64::MAX`: there is none.
    tick: AtomicU64,
    /// The next tick is set, and it is one of the shorter period.
    tick_short: AtomicBool,
    /// No tick is needed for one task (`sched::nohz`).
    full: bool,
}

impl TimerBase {
    /// Without timers. `full`: of a CPU that has no tick while one task runs.
    pub const fn new(full: bool) -> Self {
        Self {
            heap: IrqSpinLock::new(ArcHeap::new()),
            programmed: AtomicU64::new(u64::MAX),
            tick: AtomicU64::new(u64::MAX),
            tick_short: AtomicBool::new(false),
            full,
        }
    }

    /// Whether the tick runs that several tasks need, or comes once more. In any context.
    pub fn ticks(&self) -> bool {
        self.tick_short.load(Ordering::Relaxed)
    }

    /// Sets the hardware timer to `deadline` if it is set to a later time.
    #[inline]
    fn event_at_most(&self, deadline: u64) {
        if deadline < self.programmed.load(Ordering::Relaxed) {
            self.programmed.store(deadline, Ordering::Relaxed);
            set_event(event_time(deadline));
        }
    }
}

/// `running` tasks are runnable on this CPU: sets its tick if they need one. Interrupts are off; `cpu` is
/// this CPU's data. A tick that is no longer needed is not cancelled: it comes once more, sees that, and does
/// not set the next.
#[inline]
pub fn tick_needed(cpu: &CpuData, running: u32) {
    let base = &cpu.timers;
    if base.tick_short.load(Ordering::Relaxed) {
        return;
    }
    if running == 0 || running == 1 && base.tick.load(Ordering::Relaxed) != u64::MAX {
        return;
    }
    if running == 1 && base.full {
        return;
    }
    let at = now_ns() + if running > 1 { TICK_BUSY } else { TICK_ALONE };
    base.tick_short.store(running > 1, Ordering::Relaxed);
    base.tick.store(at, Ordering::Relaxed);
    base.event_at_most(at);
}

/// The clock's rate has changed: sets this CPU's hardware timer again.
pub(super) fn program_again() {
    without_interrupts(|| {
        if sched::ready() {
            set_event(event_time(this_cpu().timers.programmed.load(Ordering::Relaxed)));
        }
    });
}

/// This CPU's hardware timer expired. The architecture calls it inside of `threshold::interrupt`.
pub fn timer_interrupt() {
    let cpu = this_cpu();
    let base = &cpu.timers;
    base.programmed.store(u64::MAX, Ordering::Relaxed);
    crate::log::late_wake();
    let mut now = now_ns();
    if base.tick.load(Ordering::Relaxed) <= now {
        base.tick.store(u64::MAX, Ordering::Relaxed);
        // Until it has been done no other CPU does its work (`sched::nohz`).
        sched::scheduler_tick(cpu, raw_ns());
        base.tick_short.store(false, Ordering::Relaxed);
        tick_needed(cpu, cpu.rq.running());
    }
    loop {
        let due = {
            let mut heap = base.heap.lock();
            let due = heap.pop_until(now);
            if let Some(node) = &due {
                node.value.cpu.store(NO_CPU, Ordering::Release);
            }
            due
        };
        match due {
            Some(node) => {
                tracepoint!(timer::HrtimerExpireEntry {
                    hrtimer: Arc::as_ptr(&node).addr(),
                    now: now as i64,
                    function: node.value.function(),
                });
                (node.value.callback)();
                tracepoint!(timer::HrtimerExpireExit {
                    hrtimer: Arc::as_ptr(&node).addr()
                });
            }
            None => {
                let before = now;
                now = now_ns();
                let next = base.heap.lock().least_key().unwrap_or(u64::MAX);
                if next <= now && now > before {
                    continue;
                }
                let next = next.min(base.tick.load(Ordering::Relaxed));
                // Callbacks may have set the hardware timer already; the heap has all deadlines.
                base.programmed.store(next, Ordering::Relaxed);
                without_interrupts(|| set_event(event_time(next)));
                return;
            }
        }
    }
}
