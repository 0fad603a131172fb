//! Cross-CPU calls: run a function on other CPUs and wait until all of them have run it ([`on_each_cpu`]), or
//! send a CPU to do so and do not wait ([`Errand`]).

use super::CpuSet;
use super::cpu::{self, CpuData, online, this_cpu};
use crate::arch::interrupt::{Ipi, send_ipi};
use crate::arch::irq;
use crate::sched::preempt;
use crate::sync::{MAX_CPUS, Mutex};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// A call.
struct Call {
    f: *const (dyn Fn() + Sync),
    /// CPUs that have not finished yet.
    pending: AtomicUsize,
}

/// One call for one CPU. Like the call, it lies on the caller's stack until `pending` is zero, or is part of
/// an [`Errand`].
struct Node {
    next: *mut Node,
    call: *const Call,
}

/// The calls that wait for a CPU: a stack onto which any CPU pushes, and which its own CPU takes as a whole.
pub struct CallQueue {
    head: AtomicPtr<Node>,
}

impl CallQueue {
    /// Nothing waits.
    pub const fn new() -> Self {
        Self {
            head: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

/// Runs what other CPUs asked this one to run. The architecture calls it in its handler of [`Ipi::Call`],
/// with interrupts off.
pub fn run_calls() {
    let mut at = this_cpu().calls.head.swap(ptr::null_mut(), Ordering::AcqRel);
    while !at.is_null() {
        // SAFETY: the caller keeps node and function alive until `pending` is zero. `next` is read before
        // this CPU counts `pending` down.
        unsafe {
            let next = (*at).next;
            let call = (*at).call;
            (*(*call).f)();
            (*call).pending.fetch_sub(1, Ordering::Release);
            at = next;
        }
    }
}

/// Runs `f` on every online CPU of `cpus`, this one included if it is in the set, and returns when all have
/// finished. On the others `f` runs in an interrupt. May be called with interrupts off: while it waits, it
/// serves calls for this CPU. The caller must hold no lock that `f`, or an interrupt handler of another CPU,
/// takes.
pub fn on_each_cpu(cpus: CpuSet, f: &(dyn Fn() + Sync)) {
    preempt::disable();
    let here = crate::arch::smp::cpu_id();
    let others = cpus.and(online()).without(here);
    if !others.is_empty() {
        crate::sync::lockdep::waits_for_cpus();
        // SAFETY: the lifetime is widened only until `pending` is zero, and this function does not return
        // before.
        let f_widened: *const (dyn Fn() + Sync) =
            unsafe { core::mem::transmute::<&(dyn Fn() + Sync), &'static (dyn Fn() + Sync)>(f) };
        let call = Call {
            f: f_widened,
            pending: AtomicUsize::new(others.count()),
        };
        let nodes: [UnsafeCell<MaybeUninit<Node>>; MAX_CPUS] =
            [const { UnsafeCell::new(MaybeUninit::uninit()) }; MAX_CPUS];
        for n in others.iter() {
            let Some(cpu) = cpu::cpu(n) else { continue };
            let node = nodes[n].get().cast::<Node>();
            // SAFETY: the node and the call stay here until `pending` is zero.
            unsafe { push(cpu, node, &raw const call) };
        }
        if cpus.contains(here) {
            crate::sync::without_interrupts(f);
        }
        while call.pending.load(Ordering::Acquire) != 0 {
            if !irq::enabled() {
                run_calls();
            }
            irq::spin_hint();
        }
    } else if cpus.contains(here) {
        crate::sync::without_interrupts(f);
    }
    preempt::enable();
}

/// Runs `f` here, with interrupts off, while every other CPU waits, with interrupts off, in code that uses
/// nothing but its stack and words of the image. Nor do NMIs come, which would use more, where they can be
/// held off; elsewhere nobody calls this. One at a time. Thread; the caller holds no spinlock.
pub fn alone(f: &mut (dyn FnMut() + Send)) {
    /// Only one CPU may be waited for by all others.
    static ONE: Mutex<()> = Mutex::new(());
    /// How many wait, and whether they may go on: changes when they may.
    static WAITING: AtomicUsize = AtomicUsize::new(0);
    static ROUND: AtomicUsize = AtomicUsize::new(0);

    /// A CPU that does not come waits, with interrupts off, for a lock that one which waits here has: after
    /// so long all go on, and it is tried again.
    const PATIENCE_NS: u64 = 100_000_000;

    /// What only the caller's CPU uses.
    struct Work<'a>(UnsafeCell<&'a mut (dyn FnMut() + Send)>);
    // SAFETY: see above.
    unsafe impl Sync for Work<'_> {}
    impl Work<'_> {
        /// # Safety
        /// Once, on the caller's CPU.
        unsafe fn run(&self) {
            // SAFETY: as the caller promises.
            (unsafe { &mut *self.0.get() })();
        }
    }

    let _one = ONE.lock();
    let work = Work(UnsafeCell::new(f));
    let done = AtomicBool::new(false);
    while !done.load(Ordering::Relaxed) {
        preempt::disable();
        let here = crate::arch::smp::cpu_id();
        let cpus = online().with(here);
        let others = cpus.count() - 1;
        let round = ROUND.load(Ordering::Relaxed);
        WAITING.store(0, Ordering::Relaxed);
        let deadline = crate::arch::time::now_ns() + PATIENCE_NS;
        on_each_cpu(cpus, &|| {
            let nmis = irq::raw_save_nmis();
            if crate::arch::smp::cpu_id() != here {
                WAITING.fetch_add(1, Ordering::AcqRel);
                while ROUND.load(Ordering::Acquire) == round {
                    irq::spin_hint();
                }
                return irq::raw_restore(nmis);
            }
            let mut late = false;
            while WAITING.load(Ordering::Acquire) != others && !late {
                irq::spin_hint();
                late = crate::arch::time::now_ns() > deadline;
            }
            if !late {
                // SAFETY: the one call on this CPU.
                unsafe { work.run() };
                done.store(true, Ordering::Relaxed);
            }
            ROUND.store(round.wrapping_add(1), Ordering::Release);
            irq::raw_restore(nmis);
        });
        preempt::enable();
    }
}

/// Lets `cpu` run `call`, soon.
///
/// # Safety
/// `node`, which no CPU knows, and `call` stay where they are until the CPU has counted `pending` down.
#[inline]
unsafe fn push(cpu: &CpuData, node: *mut Node, call: *const Call) {
    let mut head = cpu.calls.head.load(Ordering::Relaxed);
    loop {
        // SAFETY: no other CPU knows the node before the exchange publishes it.
        unsafe { node.write(Node { next: head, call }) };
        match cpu
            .calls
            .head
            .compare_exchange_weak(head, node, Ordering::AcqRel, Ordering::Relaxed)
        {
            Ok(_) => break,
            Err(now) => head = now,
        }
    }
    // Only the caller that finds the stack empty sends the interrupt; one interrupt serves all nodes.
    if head.is_null() {
        send_ipi(cpu.id, Ipi::Call);
    }
}

/// A function that another CPU is sent to run, in an interrupt, while the sender goes on.
pub struct Errand {
    call: Call,
    node: UnsafeCell<MaybeUninit<Node>>,
}

// SAFETY: `pending` decides who may use the node: the sender that makes it one, then the CPU that was sent.
unsafe impl Sync for Errand {}

impl Errand {
    /// To run `f`.
    pub const fn new(f: &'static (dyn Fn() + Sync)) -> Self {
        Self {
            call: Call {
                f,
                pending: AtomicUsize::new(0),
            },
            node: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Sends CPU `n`. `false`: it, or another CPU, has not come back from this errand. In any context but an
    /// NMI handler.
    pub fn send(&'static self, n: usize) -> bool {
        let Some(cpu) = cpu::cpu(n) else { return false };
        let pending = &self.call.pending;
        if pending
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            return false;
        }
        // SAFETY: both are static, and this caller alone has made `pending` one.
        unsafe { push(cpu, self.node.get().cast(), &raw const self.call) };
        true
    }
}
