//! A small world for the validator: named locks, threads with contexts, and the reports it makes.

#![allow(dead_code)] // each test file uses its part

use limen_lockdep::{
    Acquire, ClassId, Context, Environment, Graph, Key, Kind, Mode, Report, Site, Validator,
};
use std::cell::RefCell;
use std::panic::Location;

pub const C: usize = 128;
pub const E: usize = 512;

pub struct World {
    graph: RefCell<Graph<C, E>>,
    pub reports: RefCell<Vec<String>>,
}

impl Environment<C, E> for &World {
    fn with_graph<R>(&self, f: impl FnOnce(&mut Graph<C, E>) -> R) -> R {
        f(&mut self.graph.borrow_mut())
    }
    fn report(&self, report: &Report<'_, C, E>) {
        self.reports.borrow_mut().push(report.to_string());
    }
}

impl World {
    pub fn new() -> Self {
        Self {
            graph: RefCell::new(Graph::new()),
            reports: RefCell::default(),
        }
    }
}

pub type TestValidator<'a> = Validator<&'a World, C, E, 64>;

#[track_caller]
pub fn here() -> Site {
    Location::caller()
}

/// A lock; its address is its number.
#[derive(Clone, Copy)]
pub struct Lock {
    pub class: ClassId,
    pub instance: usize,
    pub kind: Kind,
    pub allocator: bool,
}

pub struct Machine<'a> {
    pub world: &'a World,
    pub v: TestValidator<'a>,
    next: usize,
}

impl<'a> Machine<'a> {
    pub fn new(world: &'a World) -> Self {
        Self {
            world,
            v: Validator::new(world),
            next: 0x1000,
        }
    }
    /// A lock of the class of this name.
    #[track_caller]
    pub fn lock_of(&mut self, kind: Kind, name: &'static str) -> Lock {
        static SITE: &Location<'static> = Location::caller();
        let key = Key {
            site: SITE,
            kind,
            name,
        };
        let class = self.v.class(&Context::new(), &key).expect("room for a class");
        self.next += 16;
        Lock {
            class,
            instance: self.next,
            kind,
            allocator: false,
        }
    }
    pub fn spin(&mut self, name: &'static str) -> Lock {
        self.lock_of(Kind::Spin, name)
    }
    #[track_caller]
    pub fn take_as(&self, c: &mut Context, lock: Lock, mode: Mode, attempt: bool, subclass: usize) {
        let a = Acquire {
            instance: lock.instance,
            class: lock.class.subclass(subclass),
            mode,
            attempt,
            sleeps: lock.kind.sleeps(),
            allocator: lock.allocator,
            site: here(),
        };
        self.v.acquire(c, &a);
    }
    #[track_caller]
    pub fn take(&self, c: &mut Context, lock: Lock) {
        self.take_as(c, lock, Mode::Exclusive, false, 0);
    }
    #[track_caller]
    pub fn drop(&self, c: &mut Context, lock: Lock) {
        self.v.release(c, lock.instance, here());
    }
    /// Takes all in order, then gives them back.
    #[track_caller]
    pub fn nest(&self, c: &mut Context, locks: &[Lock]) {
        for lock in locks {
            self.take(c, *lock);
        }
        for lock in locks.iter().rev() {
            self.drop(c, *lock);
        }
    }
    pub fn said(&self) -> Vec<String> {
        self.world.reports.borrow().clone()
    }
    /// The only report made.
    #[track_caller]
    pub fn report(&self) -> String {
        let said = self.said();
        assert_eq!(said.len(), 1, "{said:#?}");
        said[0].clone()
    }
    #[track_caller]
    pub fn silent(&self) {
        assert!(self.said().is_empty(), "{}", self.said()[0]);
    }
}

/// A thread with interrupts on.
pub fn thread() -> Context {
    let mut c = Context::new();
    c.irqs_on = true;
    c
}
