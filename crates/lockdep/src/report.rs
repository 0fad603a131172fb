//! Problems as text. The first line of each report is the one that people, and tests, know from Linux.

use crate::class::{ClassId, Mode, SUBCLASSES, Site, Usage, UsageMarks};
use crate::context::{Acquire, Context, Held};
use crate::graph::{Edge, End, Full, Graph};
use core::fmt::{self, Display, Formatter};

/// What went wrong.
#[derive(Clone, Copy, Debug)]
pub enum Problem {
    /// Taking `wanted` while `held` is held closes a circle. The graph's path leads from `wanted` to `held`.
    Circular {
        /// What is held.
        held: End,
        /// What is wanted.
        wanted: End,
    },
    /// A chain (the graph's path) leads from a class that was waited for in some way to one that was held as
    /// that forbids.
    Inversion {
        /// The class that was waited for.
        safe: ClassId,
        /// How it was waited for.
        safe_use: Usage,
        /// The class that was held.
        unsafe_: ClassId,
        /// How it was held.
        unsafe_use: Usage,
    },
    /// One class was used in both ways.
    Inconsistent {
        /// The class.
        class: ClassId,
        /// How it was used before.
        was: Usage,
        /// How it is used now.
        now: Usage,
    },
    /// A lock of the class is held already.
    Recursion {
        /// What is held.
        held: Held,
        /// What is wanted.
        wanted: Acquire,
    },
    /// A sleeping lock is taken where sleeping is not allowed.
    InvalidWait {
        /// The sleeping lock.
        wanted: Acquire,
    },
    /// A lock is released that is not held.
    NotHeld {
        /// Its address.
        instance: usize,
        /// Where it was released.
        site: Site,
    },
    /// A lock is still held on the way to user mode.
    HeldAtUser,
    /// A lock is still held by a thread that ends.
    HeldAtEnd,
    /// An interrupt ends and still holds a lock.
    HeldAtInterruptEnd,
    /// A function that may sleep was called where sleeping is not allowed.
    Sleeping {
        /// Where.
        site: Site,
    },
    /// The scheduler is called where that is not allowed.
    Scheduling {
        /// Where.
        site: Site,
    },
    /// A lock is freed while it is held.
    Freed {
        /// The lock.
        held: Held,
    },
    /// Interrupts are not in the state of which the validator was told.
    InterruptState {
        /// Where that was seen.
        site: Site,
    },
    /// The heap is used while an allocator's lock is held.
    HeapUnderAllocator {
        /// The lock.
        held: Held,
    },
    /// A large block of memory is allocated without handling failure.
    MustHave {
        /// Its size in bytes.
        size: usize,
    },
    /// A table is full.
    Full(Full),
}

/// A problem, and what is needed to describe it.
pub struct Report<'a, const C: usize, const E: usize> {
    /// What went wrong.
    pub problem: Problem,
    /// All that is known.
    pub graph: &'a Graph<C, E>,
    /// The thread on which it was seen.
    pub context: &'a Context,
    /// Whether validation ends with this report.
    pub last: bool,
}

/// The name of a class, `/n` for a subclass.
struct Name<'a, const C: usize, const E: usize>(&'a Graph<C, E>, ClassId);

impl<const C: usize, const E: usize> Display for Name<'_, C, E> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0.key(self.1) {
            Some(key) => write!(f, "{key}")?,
            None => write!(f, "class {}", self.1.to_bits())?,
        }
        match self.1.number() % SUBCLASSES {
            0 => Ok(()),
            n => write!(f, "/{n}"),
        }
    }
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "",
        Mode::Shared => " (read)",
        Mode::SharedRecursive => " (recursive read)",
    }
}

impl<const C: usize, const E: usize> Report<'_, C, E> {
    fn name(&self, class: ClassId) -> Name<'_, C, E> {
        Name(self.graph, class)
    }
    fn end(&self, f: &mut Formatter<'_>, end: &End) -> fmt::Result {
        let (name, mode) = (self.name(end.class), mode(end.mode));
        writeln!(f, "  ({name}){mode}, at {}", end.site)
    }
    fn edge(&self, f: &mut Formatter<'_>, edge: &Edge) -> fmt::Result {
        let (from, to) = (self.name(ClassId(edge.from)), self.name(ClassId(edge.to)));
        writeln!(f, "  ({from})\n    -> ({to})")?;
        match edge.sites {
            Some((held, wanted)) => writeln!(f, "      first taken at {held}, second at {wanted}"),
            None => Ok(()),
        }
    }
    fn held(&self, f: &mut Formatter<'_>, held: &Held) -> fmt::Result {
        let (name, mode) = (self.name(held.class), mode(held.mode));
        let marks = UsageMarks(self.graph.usage(held.class));
        let irq = if held.irq > 0 { ", in interrupt" } else { "" };
        writeln!(
            f,
            "  {:#x} ({name}){{{marks}}}{mode}{irq}, at {}",
            held.instance, held.site
        )
    }
    fn wanted(&self, f: &mut Formatter<'_>, a: &Acquire) -> fmt::Result {
        writeln!(f, "the thread is taking lock {:#x}:", a.instance)?;
        let (name, mode) = (self.name(a.class), mode(a.mode));
        writeln!(f, "  ({name}){mode}, at {}", a.site)
    }
    fn used(&self, f: &mut Formatter<'_>, class: ClassId, usage: Usage) -> fmt::Result {
        write!(f, "{{{}}} state was registered at ", usage.name())?;
        match self.graph.usage_site(class, usage) {
            Some(site) => writeln!(f, "{site}"),
            None => writeln!(f, "an unknown place"),
        }
    }
    fn chain(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for edge in self.graph.path() {
            self.edge(f, edge)?;
        }
        Ok(())
    }

    fn problem(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Problem::Circular { held, wanted } => {
                writeln!(f, "WARNING: possible circular locking dependency detected")?;
                writeln!(f, "the thread is taking a lock of")?;
                self.end(f, wanted)?;
                writeln!(f, "but already holds one of")?;
                self.end(f, held)?;
                writeln!(
                    f,
                    "which new lock already depends on: the existing dependency chain is:"
                )?;
                self.chain(f)
            }
            Problem::Inversion {
                safe,
                safe_use,
                unsafe_,
                unsafe_use,
            } => {
                let (what, from, to) = if safe_use.forbids()[0] == Usage::ON {
                    ("irq lock inversion dependency", "HARDIRQ-safe", "HARDIRQ-unsafe")
                } else {
                    ("deadlock with a call of other CPUs", "waited-for", "held")
                };
                writeln!(f, "WARNING: possible {what} detected")?;
                writeln!(f, "{from} -> {to} lock order:")?;
                self.chain(f)?;
                writeln!(f, "the {from} lock ({}):", self.name(*safe))?;
                self.used(f, *safe, *safe_use)?;
                writeln!(f, "the {to} lock ({}):", self.name(*unsafe_))?;
                self.used(f, *unsafe_, *unsafe_use)
            }
            Problem::Inconsistent { class, was, now } => {
                writeln!(f, "WARNING: inconsistent lock state")?;
                writeln!(f, "inconsistent {{{}}} -> {{{}}} usage.", was.name(), now.name())?;
                writeln!(f, "  ({})", self.name(*class))?;
                self.used(f, *class, *was)?;
                self.used(f, *class, *now)
            }
            Problem::Recursion { held, wanted } => {
                writeln!(f, "WARNING: possible recursive locking detected")?;
                self.wanted(f, wanted)?;
                writeln!(f, "but already holds lock:")?;
                self.held(f, held)
            }
            Problem::InvalidWait { wanted } => {
                writeln!(f, "[ BUG: Invalid wait context ]")?;
                self.wanted(f, wanted)?;
                writeln!(f, "whose waiters sleep, where sleeping is not allowed")
            }
            Problem::NotHeld { instance, site } => {
                writeln!(f, "WARNING: bad unlock balance detected!")?;
                writeln!(f, "lock {instance:#x} is released at {site} but not held")
            }
            Problem::HeldAtUser => writeln!(f, "WARNING: lock held when returning to user space!"),
            Problem::HeldAtEnd => writeln!(f, "WARNING: lock held at task exit time!"),
            Problem::HeldAtInterruptEnd => writeln!(f, "WARNING: lock held at the end of an interrupt!"),
            Problem::Sleeping { site } => {
                writeln!(f, "BUG: sleeping function called from invalid context at {site}")
            }
            Problem::Scheduling { site } => writeln!(f, "BUG: scheduling while atomic at {site}"),
            Problem::Freed { held } => {
                writeln!(f, "WARNING: held lock freed!")?;
                self.held(f, held)
            }
            Problem::HeapUnderAllocator { held } => {
                writeln!(f, "BUG: the heap is used under a lock of the allocators")?;
                self.held(f, held)
            }
            Problem::MustHave { size } => {
                writeln!(f, "BUG: allocation of {size} bytes that cannot fail")
            }
            Problem::InterruptState { site } => writeln!(
                f,
                "WARNING: interrupt state mismatch at {site}: tracked as {}",
                if self.context.irqs_on { "on" } else { "off" }
            ),
            Problem::Full(full) => {
                let what = match full {
                    Full::Classes => "MAX_LOCKDEP_KEYS",
                    Full::Dependencies => "MAX_LOCKDEP_ENTRIES",
                    Full::Held => "MAX_LOCK_DEPTH",
                };
                writeln!(f, "BUG: {what} too low!")
            }
        }
    }
}

impl<const C: usize, const E: usize> Display for Report<'_, C, E> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.problem(f)?;
        match self.context.held().count() {
            0 => writeln!(f, "no locks held by this thread.")?,
            n => writeln!(f, "{n} locks held by this thread:")?,
        }
        for held in self.context.held() {
            self.held(f, held)?;
        }
        let on = if self.context.irqs_on { "on" } else { "off" };
        let depth = self.context.irq_depth();
        writeln!(f, "interrupts {on}, interrupt depth {depth}")?;
        if self.last {
            let (classes, dependencies) = self.graph.size();
            write!(f, "turning off the locking correctness validator ")?;
            writeln!(f, "({classes} classes, {dependencies} dependencies).")?;
        }
        Ok(())
    }
}
