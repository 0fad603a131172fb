//! Each kind of report, and what must not be reported.

mod common;

use common::*;
use limen_lockdep::{Context, Key, Kind, MAX_HELD, Mode};

fn irqs_off(c: &mut Context) {
    c.irqs_on = false;
}

#[test]
fn two_locks_in_both_orders() {
    let world = World::new();
    let mut m = Machine::new(&world);
    let (a, b) = (m.spin("A"), m.spin("B"));
    let mut c = thread();
    m.nest(&mut c, &[a, b]);
    m.nest(&mut c, &[a, b]);
    m.silent();
    m.nest(&mut c, &[b, a]);
    let text = m.report();
    assert!(
        text.starts_with("WARNING: possible circular locking dependency detected\n"),
        "{text}"
    );
    assert!(
        text.contains("SpinLock<A>") && text.contains("SpinLock<B>"),
        "{text}"
    );
    assert!(text.contains("tests/reports.rs"), "{text}");
    assert!(
        text.contains("turning off the locking correctness validator"),
        "{text}"
    );
    assert!(!m.v.is_on());
}

#[test]
fn a_circle_of_four_shows_the_whole_chain() {
    let world = World::new();
    let mut m = Machine::new(&world);
    let l = ["A", "B", "C", "D"].map(|n| m.spin(n));
    let mut c = thread();
    for i in 0..3 {
        m.nest(&mut c, &[l[i], l[i + 1]]);
    }
    m.nest(&mut c, &[l[0], l[3]]);
    m.silent();
    m.nest(&mut c, &[l[3], l[1]]);
    let text = m.report();
    // From what is wanted (B) over C to what is held (D).
    let order: Vec<usize> = ["B> of", "-> (SpinLock<C>", "-> (SpinLock<D>"]
        .map(|n| text.find(n).expect(n))
        .to_vec();
    assert!(order.is_sorted(), "{text}");
    assert!(!text.contains("SpinLock<A>"), "{text}");
}

#[test]
fn a_lock_let_go_in_between_is_no_dependency() {
    let world = World::new();
    let mut m = Machine::new(&world);
    let (a, b, d) = (m.spin("A"), m.spin("B"), m.spin("D"));
    let mut c = thread();
    // Hand over hand: B was held while D was taken, A was not.
    m.take(&mut c, a);
    m.take(&mut c, b);
    m.drop(&mut c, a);
    m.take(&mut c, d);
    m.drop(&mut c, b);
    m.drop(&mut c, d);
    m.nest(&mut c, &[d, a]);
    let text = m.report();
    assert!(
        text.contains("SpinLock<B>"),
        "A -> B -> D -> A is one, through B: {text}"
    );
    let mut c = thread();

    let world = World::new();
    let mut m = Machine::new(&world);
    let (a, b, d) = (m.spin("A"), m.spin("B"), m.spin("D"));
    m.take(&mut c, b);
    m.take(&mut c, a);
    m.drop(&mut c, b);
    m.take(&mut c, d);
    m.drop(&mut c, a);
    m.drop(&mut c, d);
    m.nest(&mut c, &[d, b]);
    // B -> A -> D -> B.
    assert!(m.report().contains("circular"));
    let mut c = thread();

    let world = World::new();
    let mut m = Machine::new(&world);
    let (a, b) = (m.spin("A"), m.spin("B"));
    m.take(&mut c, a);
    m.drop(&mut c, a);
    m.take(&mut c, b);
    m.take(&mut c, a);
    m.drop(&mut c, b);
    m.drop(&mut c, a);
    m.silent();
    assert!(c.is_empty());
}

#[test]
fn trying_waits_for_nothing() {
    let world = World::new();
    let mut m = Machine::new(&world);
    let (a, b, d) = (m.spin("A"), m.spin("B"), m.spin("D"));
    let mut c = thread();
    m.nest(&mut c, &[a, b]);
    m.take(&mut c, b);
    m.take_as(&mut c, a, Mode::Exclusive, true, 0);
    m.silent();
    // But what was got by trying is held like any other.
    m.take(&mut c, d);
    m.drop(&mut c, d);
    m.drop(&mut c, a);
    m.drop(&mut c, b);
    m.nest(&mut c, &[d, a]);
    assert!(m.report().contains("circular"));
}

#[test]
fn recursion() {
    let world = World::new();
    let mut m = Machine::new(&world);
    let (one, other) = (m.spin("A"), m.spin("A"));
    let mut c = thread();
    m.nest(&mut c, &[one, other]);
    let text = m.report();
    assert!(
        text.starts_with("WARNING: possible recursive locking detected\n"),
        "{text}"
    );
}

#[test]
fn subclasses_nest_and_have_an_order() {
    let world = World::new();
    let mut m = Machine::new(&world);
    let (parent, child, other) = (m.spin("dir"), m.spin("dir"), m.spin("X"));
    let mut c = thread();
    let nested = |m: &Machine<'_>, c: &mut Context| {
        m.take(c, parent);
        m.take_as(c, child, Mode::Exclusive, false, 1);
        m.take(c, other);
        m.drop(c, other);
        m.drop(c, child);
        m.drop(c, parent);
    };
    nested(&m, &mut c);
    nested(&m, &mut c);
    m.silent();
    m.take_as(&mut c, parent, Mode::Exclusive, false, 1);
    m.take(&mut c, child);
    assert!(m.report().contains("/1"));
}

#[test]
fn readers() {
    for (mode, text) in [
        (Mode::Shared, Some("possible recursive locking")),
        (Mode::SharedRecursive, None),
    ] {
        let world = World::new();
        let mut m = Machine::new(&world);
        let a = m.lock_of(Kind::RwLock, "A");
        let mut c = thread();
        m.take_as(&mut c, a, mode, false, 0);
        m.take_as(&mut c, a, mode, false, 0);
        match text {
            Some(text) => assert!(m.report().contains(text)),
            None => m.silent(),
        }
    }
    // A recursive reader waits only for writers: two readers in opposite orders are fine.
    let world = World::new();
    let mut m = Machine::new(&world);
    let (a, b) = (m.spin("A"), m.spin("B"));
    let mut c = thread();
    let pair = |m: &Machine<'_>, c: &mut Context, x: (Lock, Mode), y: (Lock, Mode)| {
        m.take_as(c, x.0, x.1, false, 0);
        m.take_as(c, y.0, y.1, false, 0);
        m.drop(c, y.0);
        m.drop(c, x.0);
    };
    let r = Mode::SharedRecursive;
    pair(&m, &mut c, (a, r), (b, Mode::Exclusive));
    pair(&m, &mut c, (b, Mode::Exclusive), (a, r));
    m.silent();
    // A writer of A closes it.
    pair(&m, &mut c, (b, Mode::Exclusive), (a, Mode::Exclusive));
    assert!(m.report().contains("circular"));
}

#[test]
fn used_in_interrupt_and_held_with_interrupts_on() {
    for interrupt_first in [false, true] {
        let world = World::new();
        let mut m = Machine::new(&world);
        let a = m.spin("A");
        let mut c = thread();
        let in_interrupt = |m: &Machine<'_>, c: &mut Context| {
            irqs_off(c);
            m.v.enter_irq(c);
            m.nest(c, &[a]);
            m.v.leave_irq(c);
            c.irqs_on = true;
        };
        if interrupt_first {
            in_interrupt(&m, &mut c);
        }
        m.nest(&mut c, &[a]);
        if !interrupt_first {
            m.silent();
            in_interrupt(&m, &mut c);
        }
        let text = m.report();
        assert!(text.starts_with("WARNING: inconsistent lock state\n"), "{text}");
        let usage = if interrupt_first {
            "inconsistent {IN-HARDIRQ-W} -> {HARDIRQ-ON-W} usage."
        } else {
            "inconsistent {HARDIRQ-ON-W} -> {IN-HARDIRQ-W} usage."
        };
        assert!(text.contains(usage), "{text}");
    }
}

#[test]
fn interrupts_turned_on_over_a_held_lock() {
    let world = World::new();
    let mut m = Machine::new(&world);
    let a = m.spin("A");
    let mut c = Context::new();
    m.v.enter_irq(&mut c);
    m.nest(&mut c, &[a]);
    m.v.leave_irq(&mut c);
    m.take(&mut c, a);
    m.silent();
    m.v.irqs_on(&mut c);
    assert!(c.irqs_on);
    assert!(m.report().contains("{IN-HARDIRQ-W} -> {HARDIRQ-ON-W}"));
}

#[test]
fn an_interrupt_waits_for_what_waits_for_something_held_with_interrupts_on() {
    let world = World::new();
    let mut m = Machine::new(&world);
    let (safe, middle, loose) = (m.spin("safe"), m.spin("middle"), m.spin("loose"));
    let mut c = Context::new();
    m.v.enter_irq(&mut c);
    m.nest(&mut c, &[safe]);
    m.v.leave_irq(&mut c);
    m.nest(&mut c, &[middle, loose]);
    m.v.irqs_on(&mut c);
    m.nest(&mut c, &[loose]);
    m.silent();
    irqs_off(&mut c);
    m.nest(&mut c, &[safe, middle]);
    let text = m.report();
    assert!(
        text.starts_with("WARNING: possible irq lock inversion dependency detected\n"),
        "{text}"
    );
    assert!(text.contains("the HARDIRQ-safe lock (SpinLock<safe>"), "{text}");
    assert!(
        text.contains("the HARDIRQ-unsafe lock (SpinLock<loose>"),
        "{text}"
    );
}

#[test]
fn a_call_of_other_cpus_with_what_they_wait_for_deaf() {
    let world = World::new();
    let mut m = Machine::new(&world);
    let (a, b) = (m.spin("A"), m.spin("B"));
    let mut c = thread();
    m.take(&mut c, b);
    m.v.waits_for_cpus(&c);
    m.drop(&mut c, b);
    irqs_off(&mut c);
    m.nest(&mut c, &[a]);
    m.silent();
    c.irqs_on = true;
    m.nest(&mut c, &[a, b]);
    let text = m.report();
    assert!(
        text.starts_with("WARNING: possible deadlock with a call of other CPUs detected"),
        "{text}"
    );
    assert!(
        text.contains("the held lock (SpinLock<B>") && text.contains("{CPU-CALL-W}"),
        "{text}"
    );
}

#[test]
fn what_an_interrupt_takes_depends_not_on_what_it_interrupted() {
    let world = World::new();
    let mut m = Machine::new(&world);
    let (a, b) = (m.spin("A"), m.spin("B"));
    let mut c = thread();
    m.take(&mut c, a);
    irqs_off(&mut c);
    m.v.enter_irq(&mut c);
    m.nest(&mut c, &[b]);
    m.v.leave_irq(&mut c);
    m.drop(&mut c, a);
    m.v.enter_irq(&mut c);
    m.take(&mut c, b);
    m.drop(&mut c, b);
    m.v.leave_irq(&mut c);
    m.nest(&mut c, &[b, a]);
    m.silent_or_inversion();
}

trait Quiet {
    fn silent_or_inversion(&self);
}

impl Quiet for Machine<'_> {
    /// B is used in interrupts, A is held with interrupts on: `B -> A` is an inversion, but no circle.
    fn silent_or_inversion(&self) {
        assert!(self.report().contains("inversion"));
    }
}

#[test]
fn sleeping_lock_under_a_spinlock_or_in_an_interrupt() {
    let world = World::new();
    let mut m = Machine::new(&world);
    let (spin, mutex) = (m.spin("S"), m.lock_of(Kind::Mutex, "M"));
    let mut c = thread();
    m.nest(&mut c, &[mutex, spin]);
    m.take(&mut c, spin);
    m.take_as(&mut c, mutex, Mode::Exclusive, true, 0);
    m.drop(&mut c, mutex);
    m.silent();
    m.take(&mut c, mutex);
    assert!(m.report().starts_with("[ BUG: Invalid wait context ]\n"));

    let world = World::new();
    let mut m = Machine::new(&world);
    let mutex = m.lock_of(Kind::Mutex, "M");
    let mut c = Context::new();
    m.v.enter_irq(&mut c);
    m.take(&mut c, mutex);
    assert!(m.report().starts_with("[ BUG: Invalid wait context ]\n"));
}

#[test]
fn giving_back_what_is_not_held() {
    let world = World::new();
    let mut m = Machine::new(&world);
    let a = m.spin("A");
    let mut c = thread();
    m.nest(&mut c, &[a]);
    m.drop(&mut c, a);
    assert!(m.report().starts_with("WARNING: bad unlock balance detected!\n"));
}

#[test]
fn leaving_with_a_lock() {
    type End = fn(&Machine<'_>, &mut Context);
    let ends: [(End, &str); 4] = [
        (|m, c| m.v.at_user(c), "lock held when returning to user space!"),
        (|m, c| m.v.at_thread_end(c), "lock held at task exit time!"),
        (
            |m, c| m.v.sleeps(c, false, true, here()),
            "BUG: scheduling while atomic",
        ),
        (
            |m, c| m.v.sleeps(c, false, false, here()),
            "BUG: sleeping function called from invalid context at ",
        ),
    ];
    for (end, text) in ends {
        let world = World::new();
        let mut m = Machine::new(&world);
        let (spin, mutex) = (m.spin("S"), m.lock_of(Kind::Mutex, "M"));
        let mut c = thread();
        end(&m, &mut c);
        m.nest(&mut c, &[mutex]);
        m.silent();
        m.take(&mut c, spin);
        end(&m, &mut c);
        assert!(m.report().contains(text));
        assert!(m.report().contains("SpinLock<S>"));
    }
    let world = World::new();
    let m = Machine::new(&world);
    m.v.sleeps(&thread(), true, false, here());
    assert!(m.report().contains("sleeping function"));
}

#[test]
fn an_interrupt_that_keeps_a_lock() {
    let world = World::new();
    let mut m = Machine::new(&world);
    let (a, b) = (m.spin("A"), m.spin("B"));
    let mut c = Context::new();
    m.take(&mut c, a);
    m.v.enter_irq(&mut c);
    m.take(&mut c, b);
    m.v.leave_irq(&mut c);
    assert!(m.report().contains("lock held at the end of an interrupt!"));
    assert_eq!(c.held().count(), 1);
}

#[test]
fn a_lock_that_goes_away() {
    let world = World::new();
    let mut m = Machine::new(&world);
    let (a, b) = (m.spin("A"), m.spin("B"));
    let mut c = thread();
    m.take(&mut c, a);
    m.v.freed(&c, b.instance);
    m.silent();
    m.v.freed(&c, a.instance);
    assert!(m.report().starts_with("WARNING: held lock freed!\n"));
}

#[test]
fn interrupts_that_nobody_told_of() {
    let world = World::new();
    let m = Machine::new(&world);
    let mut c = thread();
    m.v.check_irqs(&mut c, true, here());
    m.silent();
    m.v.check_irqs(&mut c, false, here());
    assert!(m.report().starts_with("WARNING: interrupt state mismatch"));
}

#[test]
fn full_tables_are_said_and_end_validation() {
    let world = World::new();
    let mut m = Machine::new(&world);
    let names: Vec<&'static str> = (0..C).map(|i| &*i.to_string().leak()).collect();
    let site = here();
    let got = names
        .iter()
        .take_while(|&&name| {
            let kind = Kind::Spin;
            m.v.class(&Context::new(), &Key { site, kind, name }).is_some()
        })
        .count();
    assert_eq!(got, C / 4 - 1);
    assert!(m.report().starts_with("BUG: MAX_LOCKDEP_KEYS too low!\n"));
    assert!(m.report().contains("turning off"));
    assert!(!m.v.is_on());

    let world = World::new();
    m = Machine::new(&world);
    let locks: Vec<Lock> = names[..C / 4 - 1].iter().map(|n| m.spin(n)).collect();
    let mut c = thread();
    for subclasses in 0..4 {
        for (i, a) in locks.iter().enumerate() {
            for b in &locks[i + 1..] {
                m.take_as(&mut c, *a, Mode::Exclusive, false, subclasses);
                m.take_as(&mut c, *b, Mode::Exclusive, false, subclasses);
                m.drop(&mut c, *b);
                m.drop(&mut c, *a);
            }
        }
    }
    assert!(m.report().starts_with("BUG: MAX_LOCKDEP_ENTRIES too low!\n"));

    let world = World::new();
    m = Machine::new(&world);
    let a = m.spin("A");
    for _ in 0..MAX_HELD + 1 {
        m.take_as(&mut c, a, Mode::Exclusive, true, 0);
    }
    assert!(m.report().starts_with("BUG: MAX_LOCK_DEPTH too low!\n"));
}

#[test]
fn several_reports_when_asked_for() {
    let world = World::new();
    let mut m = Machine::new(&world);
    m.v.set_reports(2);
    let (a, b, d) = (m.spin("A"), m.spin("B"), m.spin("D"));
    let mut c = thread();
    for pair in [[a, b], [b, a], [b, a], [b, d], [d, b], [a, d], [d, a]] {
        m.nest(&mut c, &pair);
    }
    assert_eq!(m.said().len(), 2);
    assert!(m.said()[1].contains("turning off") && !m.said()[0].contains("turning off"));
}

#[test]
fn the_heap_is_not_used_under_its_own_locks() {
    let world = World::new();
    let mut m = Machine::new(&world);
    let (plain, mut own) = (m.spin("A"), m.spin("AREAS"));
    own.allocator = true;
    let mut c = thread();
    m.v.uses_heap(&c);
    m.take(&mut c, plain);
    m.v.uses_heap(&c);
    m.take(&mut c, own);
    m.drop(&mut c, own);
    m.v.uses_heap(&c);
    m.silent();
    m.take(&mut c, own);
    m.v.uses_heap(&c);
    let text = m.report();
    assert!(
        text.starts_with("BUG: the heap is used under a lock of the allocators\n"),
        "{text}"
    );
    assert!(text.contains("SpinLock<AREAS>"), "{text}");
}

#[test]
fn much_memory_that_must_be_had() {
    let world = World::new();
    let m = Machine::new(&world);
    m.v.must_have(&thread(), 1 << 20);
    let text = m.report();
    assert!(
        text.starts_with("BUG: allocation of 1048576 bytes that cannot fail\n"),
        "{text}"
    );
}
