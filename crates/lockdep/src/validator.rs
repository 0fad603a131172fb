//! The validator: what locks, interrupts and the way to user mode tell it, and which rule it checks for each.
//!
//! Taking a lock in a way that was seen before needs no shared lock: a table has its usage, another the chain
//! of locks held. Only new ways go to the [`Graph`].

use crate::cache::ChainCache;
use crate::class::{ClassId, Key, Site, Usage};
use crate::context::{Acquire, Context, Held, chain_key};
use crate::graph::{End, Found, Full, Graph};
use crate::report::{Problem, Report};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

/// What the validator needs. `C` and `E` are those of [`Graph`].
pub trait Environment<const C: usize, const E: usize> {
    /// Runs `f` with exclusive access to the graph. The validator does not know the lock that this takes.
    fn with_graph<R>(&self, f: impl FnOnce(&mut Graph<C, E>) -> R) -> R;
    /// Shows a report. Nothing that this does may call the validator.
    fn report(&self, report: &Report<'_, C, E>);
}

/// The validator. `N` is the size of the cache of chains, a power of two.
pub struct Validator<V, const C: usize, const E: usize, const N: usize> {
    environment: V,
    on: AtomicBool,
    /// How many reports may still be made. The last one ends validation.
    reports: AtomicU32,
    usage: [AtomicU8; C],
    /// Classes whose recursion was reported. Needed only if several reports are wanted.
    recursive: [AtomicBool; C],
    chains: ChainCache<N>,
}

impl<V: Environment<C, E>, const C: usize, const E: usize, const N: usize> Validator<V, C, E, N> {
    /// Validates until something is reported.
    pub const fn new(environment: V) -> Self {
        Self {
            environment,
            on: AtomicBool::new(true),
            reports: AtomicU32::new(1),
            usage: [const { AtomicU8::new(0) }; C],
            recursive: [const { AtomicBool::new(false) }; C],
            chains: ChainCache::new(),
        }
    }
    /// Whether it still validates.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }
    /// Ends validation.
    pub fn turn_off(&self) {
        self.on.store(false, Ordering::Relaxed);
    }
    /// Validates until `n` problems were reported: for finding several at once. Those after the first may be
    /// its consequences.
    pub fn set_reports(&self, n: u32) {
        self.reports.store(n, Ordering::Relaxed);
    }

    /// The class with this key, for the caller to remember. `None`: validation has ended.
    pub fn class(&self, context: &Context, key: &Key) -> Option<ClassId> {
        if !self.is_on() {
            return None;
        }
        self.environment.with_graph(|graph| match graph.class(key) {
            Ok(class) => Some(class),
            Err(full) => {
                self.complain(graph, context, Problem::Full(full));
                None
            }
        })
    }

    /// Makes a report, unless enough have been made.
    fn complain(&self, graph: &Graph<C, E>, context: &Context, problem: Problem) {
        let left = self.reports.load(Ordering::Relaxed);
        if left == 0 || !self.is_on() {
            return;
        }
        self.reports.store(left - 1, Ordering::Relaxed);
        let last = left == 1 || matches!(problem, Problem::Full(_));
        if last {
            self.turn_off();
        }
        self.environment.report(&Report {
            problem,
            graph,
            context,
            last,
        });
    }
    fn complain_alone(&self, context: &Context, problem: Problem) {
        self.environment
            .with_graph(|graph| self.complain(graph, context, problem));
    }

    /// A lock is about to be taken (or, if it was only tried, has been). Interrupts are off in the processor,
    /// whatever the context says.
    pub fn acquire(&self, context: &mut Context, a: &Acquire) {
        if !self.is_on() {
            return;
        }
        let in_interrupt = context.irq_depth() > 0;
        let usage = match (in_interrupt, context.irqs_on) {
            (false, true) => Usage::held_with_interrupts(a.mode),
            _ if a.attempt => Usage::NONE,
            (false, false) => Usage::waited_deaf(a.mode),
            (true, _) => Usage::waited_in_interrupt(a.mode).and(Usage::waited_deaf(a.mode)),
        };
        if a.sleeps && !a.attempt && (in_interrupt || context.held().any(|h| !h.sleeps)) {
            self.complain_alone(context, Problem::InvalidWait { wanted: *a });
        }
        let again = context
            .here()
            .find(|h| h.class == a.class && !(h.mode.is_shared() && a.mode.is_recursive()))
            .copied();
        if let Some(held) = again
            && !a.attempt
            && !self.recursive[a.class.number()].swap(true, Ordering::Relaxed)
        {
            self.complain_alone(context, Problem::Recursion { held, wanted: *a });
        }
        let chain = chain_key(context.chain(), a.class, a.mode);
        let usage_known = usage.0 & !self.usage[a.class.number()].load(Ordering::Relaxed) == 0;
        let chain_known =
            a.attempt || context.chain() == crate::context::CHAIN_START || self.chains.has(chain);
        if !(usage_known && chain_known) {
            self.learn(context, a, usage, chain);
        }
        let held = Held {
            instance: a.instance,
            class: a.class,
            mode: a.mode,
            irq: context.irq_depth(),
            sleeps: a.sleeps,
            allocator: a.allocator,
            site: a.site,
            chain,
        };
        if !context.push(held) {
            self.complain_alone(context, Problem::Full(Full::Held));
        }
    }

    /// A part of this is new.
    #[cold]
    fn learn(&self, context: &Context, a: &Acquire, usage: Usage, chain: u64) {
        self.environment.with_graph(|graph| {
            for usage in usage.each() {
                self.mark(graph, context, a.class, usage, a.site);
            }
            if a.attempt {
                return;
            }
            let wanted = End {
                class: a.class,
                mode: a.mode,
                site: a.site,
            };
            for h in context.here() {
                if h.class == a.class {
                    continue;
                }
                let held = End {
                    class: h.class,
                    mode: h.mode,
                    site: h.site,
                };
                match graph.depend(held, wanted) {
                    Some(Found::Circle { held }) => {
                        self.complain(graph, context, Problem::Circular { held, wanted });
                    }
                    Some(found) => self.complain_found(graph, context, found),
                    None => {}
                }
            }
            self.chains.add(chain);
        });
    }

    fn complain_found(&self, graph: &Graph<C, E>, context: &Context, found: Found) {
        let problem = match found {
            Found::Full(full) => Problem::Full(full),
            Found::Circle { .. } => return,
            Found::Inversion {
                safe,
                safe_use,
                unsafe_,
                unsafe_use,
            } => Problem::Inversion {
                safe,
                safe_use,
                unsafe_,
                unsafe_use,
            },
        };
        self.complain(graph, context, problem);
    }

    /// A class is used in a way that may be new.
    fn mark(&self, graph: &mut Graph<C, E>, context: &Context, class: ClassId, usage: Usage, site: Site) {
        match graph.mark(class, usage, site) {
            Some(Found::Inversion {
                safe,
                safe_use,
                unsafe_,
                unsafe_use,
            }) if safe == unsafe_ && safe == class => {
                let was = if usage == safe_use { unsafe_use } else { safe_use };
                self.complain(
                    graph,
                    context,
                    Problem::Inconsistent {
                        class,
                        was,
                        now: usage,
                    },
                );
            }
            Some(found) => self.complain_found(graph, context, found),
            None => {}
        }
        self.usage[class.number()].fetch_or(usage.0, Ordering::Relaxed);
    }

    /// A lock was released.
    pub fn release(&self, context: &mut Context, instance: usize, site: Site) {
        if self.is_on() && !context.remove(instance) {
            self.complain_alone(context, Problem::NotHeld { instance, site });
        }
    }

    /// Interrupts are about to be turned on: from now on the holders of these locks can be interrupted.
    pub fn irqs_on(&self, context: &mut Context) {
        if !self.is_on() || context.irqs_on {
            return;
        }
        if context.irq_depth() == 0 && !context.is_empty() {
            for h in context.held() {
                let usage = Usage::held_with_interrupts(h.mode);
                if self.usage[h.class.number()].load(Ordering::Relaxed) & usage.0 == 0 {
                    self.environment
                        .with_graph(|graph| self.mark(graph, context, h.class, usage, h.site));
                }
            }
        }
        context.irqs_on = true;
    }

    /// The thread is about to wait until other CPUs have answered an interrupt. No CPU may wait for the locks
    /// held here with interrupts off.
    pub fn waits_for_cpus(&self, context: &Context) {
        if !self.is_on() {
            return;
        }
        for h in context.held() {
            let usage = Usage::held_in_call(h.mode);
            if !Usage(self.usage[h.class.number()].load(Ordering::Relaxed)).has(usage) {
                self.environment
                    .with_graph(|graph| self.mark(graph, context, h.class, usage, h.site));
            }
        }
    }

    /// A hardware interrupt begins.
    #[inline]
    pub fn enter_irq(&self, context: &mut Context) {
        context.enter_irq();
    }
    /// A hardware interrupt ends. It must have released its locks.
    pub fn leave_irq(&self, context: &mut Context) {
        if self.is_on() && context.here().next().is_some() {
            self.complain_alone(context, Problem::HeldAtInterruptEnd);
        }
        context.leave_irq();
    }

    /// The thread enters user mode. It must hold no lock.
    pub fn at_user(&self, context: &mut Context) {
        if self.is_on() && !context.is_empty() {
            self.complain_alone(context, Problem::HeldAtUser);
            context.clear();
        }
    }
    /// The thread ends. It must hold no lock.
    pub fn at_thread_end(&self, context: &mut Context) {
        if self.is_on() && !context.is_empty() {
            self.complain_alone(context, Problem::HeldAtEnd);
            context.clear();
        }
    }
    /// The thread may sleep at `site`, or does so now (`now`). It must hold no spinlock, and be in no
    /// interrupt and no other state (`atomic`) that forbids sleeping.
    pub fn sleeps(&self, context: &Context, atomic: bool, now: bool, site: Site) {
        if !self.is_on() {
            return;
        }
        let in_interrupt = context.irq_depth() > 0;
        if atomic || in_interrupt || context.held().any(|h| !h.sleeps) {
            let problem = if now {
                Problem::Scheduling { site }
            } else {
                Problem::Sleeping { site }
            };
            self.complain_alone(context, problem);
        }
    }
    /// The thread allocates or frees memory of the heap. It must hold no lock that the allocators take,
    /// whether they take it this time or not.
    #[inline]
    pub fn uses_heap(&self, context: &Context) {
        if !self.is_on() || context.is_empty() {
            return;
        }
        let found = context.held().find(|h| h.allocator).copied();
        if let Some(held) = found {
            self.complain_alone(context, Problem::HeapUnderAllocator { held });
        }
    }
    /// The thread allocates `size` bytes, a large block, without handling failure.
    pub fn must_have(&self, context: &Context, size: usize) {
        if self.is_on() {
            self.complain_alone(context, Problem::MustHave { size });
        }
    }
    /// The lock at `instance` is freed. The thread must not hold it.
    pub fn freed(&self, context: &Context, instance: usize) {
        if !self.is_on() {
            return;
        }
        let found = context.held().find(|h| h.instance == instance).copied();
        if let Some(held) = found {
            self.complain_alone(context, Problem::Freed { held });
        }
    }
    /// The processor says that interrupts are on, or off. The validator should have been told.
    pub fn check_irqs(&self, context: &mut Context, on: bool, site: Site) {
        if self.is_on() && context.irqs_on != on {
            self.complain_alone(context, Problem::InterruptState { site });
            context.irqs_on = on;
        }
    }
}
