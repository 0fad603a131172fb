//! Classes of locks: which locks are the same to the validator, and what it remembers of their use.

use core::fmt;
use core::panic::Location;

/// A place in the source at which a lock was made or taken.
pub type Site = &'static Location<'static>;

/// Subclasses a class can have (0 is the class itself).
pub const SUBCLASSES: usize = 4;

/// A class with its subclass; small, so that locks and threads can remember it. Never zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ClassId(pub(crate) u16);

impl ClassId {
    /// As a number a lock can keep in an atomic; never zero.
    #[inline(always)]
    pub fn to_bits(self) -> u16 {
        self.0
    }
    /// From [`ClassId::to_bits`]; `None` for zero.
    #[inline(always)]
    pub fn from_bits(bits: u16) -> Option<Self> {
        if bits == 0 { None } else { Some(Self(bits)) }
    }
    /// Subclass `n` of a class whose own subclass is 0. Numbers beyond [`SUBCLASSES`] share the last one.
    #[inline(always)]
    pub fn subclass(self, n: usize) -> Self {
        Self(self.0 + if n < SUBCLASSES { n } else { SUBCLASSES - 1 } as u16)
    }
    pub(crate) fn number(self) -> usize {
        self.0 as usize
    }
}

/// The kind of a lock. It is a part of the class's identity, because a lock may contain another one that is
/// made at the same place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A spinlock that interrupt handlers do not take.
    Spin,
    /// A spinlock that turns interrupts off.
    IrqSpin,
    /// A spinlock of the scheduler, which one thread hands to the next.
    Raw,
    /// A sleeping lock.
    Mutex,
    /// A sleeping lock that can be shared.
    RwLock,
    /// Not a lock, but something for which threads wait like for one.
    Wait,
}

impl Kind {
    /// Whether its waiters sleep.
    #[inline]
    pub fn sleeps(self) -> bool {
        matches!(self, Kind::Mutex | Kind::RwLock)
    }
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Spin => "SpinLock",
            Kind::IrqSpin => "IrqSpinLock",
            Kind::Raw => "SchedLock",
            Kind::Mutex => "Mutex",
            Kind::RwLock => "RwLock",
            Kind::Wait => "wait for",
        }
    }
}

/// What identifies a class.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Where locks of the class are made.
    pub site: Site,
    /// Their kind.
    pub kind: Kind,
    /// What they protect (a type's name); two types at one place of generic code are two classes.
    pub name: &'static str,
}

impl PartialEq for Key {
    // Compares the contents: the compiler may keep several copies of one place.
    fn eq(&self, other: &Self) -> bool {
        self.site.line() == other.site.line()
            && self.kind == other.kind
            && self.site.column() == other.site.column()
            && self.name == other.name
            && self.site.file() == other.site.file()
    }
}

impl Key {
    pub(crate) fn hash(&self) -> usize {
        let mut hash = self.site.line() as usize * 31 + self.site.column() as usize;
        hash = hash * 31 + self.kind as usize;
        hash * 31 + self.site.file().len() * 7 + self.name.len()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, line) = (self.site.file(), self.site.line());
        write!(f, "{}<{}> of {file}:{line}", self.kind.name(), self.name)
    }
}

/// How a lock is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Exclusively.
    Exclusive,
    /// Shared. A waiting writer keeps new readers out, so a reader that holds it must not take it again.
    Shared,
    /// Shared. Readers never wait for a writer that is itself waiting.
    SharedRecursive,
}

impl Mode {
    /// Whether others may share it.
    #[inline]
    pub fn is_shared(self) -> bool {
        self != Mode::Exclusive
    }
    /// Whether it waits only for a holder that holds it exclusively.
    #[inline]
    pub fn is_recursive(self) -> bool {
        self == Mode::SharedRecursive
    }
}

/// How a class was waited for and held: a set of the constants below. There are two families with a rule
/// each: a class that was waited for as the first two constants say must not be, nor lead to, a class that
/// was held as the other two say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage(pub(crate) u8);

impl Usage {
    /// Waited for in an interrupt.
    pub const IN: Usage = Usage(1);
    /// Waited for in an interrupt, by readers that wait only for a writer which holds it.
    pub const IN_READ: Usage = Usage(2);
    /// Held exclusively with interrupts on.
    pub const ON: Usage = Usage(4);
    /// Held shared with interrupts on.
    pub const ON_READ: Usage = Usage(8);
    /// Waited for with interrupts off: meanwhile the CPU answers no other CPU.
    pub const DEAF: Usage = Usage(0x10);
    /// Waited for with interrupts off, by readers that wait only for a writer which holds it.
    pub const DEAF_READ: Usage = Usage(0x20);
    /// Held exclusively while waiting for answers of other CPUs.
    pub const CALL: Usage = Usage(0x40);
    /// Held shared while waiting for answers of other CPUs.
    pub const CALL_READ: Usage = Usage(0x80);

    pub(crate) const NONE: Usage = Usage(0);
    const READERS: u8 = 0xaa;

    #[inline]
    pub(crate) fn has(self, other: Usage) -> bool {
        self.0 & other.0 != 0
    }
    #[inline]
    pub(crate) fn and(self, other: Usage) -> Usage {
        Usage(self.0 | other.0)
    }
    /// The constants in the set.
    pub(crate) fn each(self) -> impl Iterator<Item = Usage> {
        (0..8).map(|i| Usage(1 << i)).filter(move |u| self.has(*u))
    }
    /// The number of a constant, as an index.
    pub(crate) fn index(self) -> usize {
        self.0.trailing_zeros() as usize
    }
    /// Whether it is a way of waiting.
    pub(crate) fn waits(self) -> bool {
        self.0 & 0x33 != 0
    }
    /// Whether it is a reader's.
    pub(crate) fn is_read(self) -> bool {
        self.0 & Self::READERS != 0
    }
    /// How a class to which this one leads must not be held: exclusively, and shared.
    pub(crate) fn forbids(self) -> [Usage; 2] {
        if self.0 & 0xf != 0 {
            [Usage::ON, Usage::ON_READ]
        } else {
            [Usage::CALL, Usage::CALL_READ]
        }
    }
    fn of(exclusive: Usage, read: bool) -> Usage {
        if read { Usage(exclusive.0 << 1) } else { exclusive }
    }
    /// Waiting for a lock in this mode in an interrupt.
    pub(crate) fn waited_in_interrupt(mode: Mode) -> Usage {
        Self::of(Usage::IN, mode.is_recursive())
    }
    /// Holding a lock in this mode with interrupts on.
    pub(crate) fn held_with_interrupts(mode: Mode) -> Usage {
        Self::of(Usage::ON, mode.is_shared())
    }
    /// Waiting for a lock in this mode with interrupts off.
    pub(crate) fn waited_deaf(mode: Mode) -> Usage {
        Self::of(Usage::DEAF, mode.is_recursive())
    }
    /// Holding a lock in this mode while waiting for other CPUs.
    pub(crate) fn held_in_call(mode: Mode) -> Usage {
        Self::of(Usage::CALL, mode.is_shared())
    }
    /// The name of one state.
    pub(crate) fn name(self) -> &'static str {
        const NAMES: [&str; 8] = [
            "IN-HARDIRQ-W",
            "IN-HARDIRQ-R",
            "HARDIRQ-ON-W",
            "HARDIRQ-ON-R",
            "HARDIRQ-OFF-WAIT-W",
            "HARDIRQ-OFF-WAIT-R",
            "CPU-CALL-W",
            "CPU-CALL-R",
        ];
        NAMES[self.index() % 8]
    }
}

/// The usage of a class as four characters. For writers and then for readers: interrupts on (`+`: held so),
/// in interrupts (`-`: waited for so).
pub(crate) struct UsageMarks(pub Usage);

impl fmt::Display for UsageMarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (on, used) in [(Usage::ON, Usage::IN), (Usage::ON_READ, Usage::IN_READ)] {
            f.write_str(match (self.0.has(on), self.0.has(used)) {
                (false, false) => ".",
                (true, false) => "+",
                (false, true) => "-",
                (true, true) => "?",
            })?;
        }
        Ok(())
    }
}
