//! Self-tests of functions that run instead of others (see `boot::selftest`).

use super::ops;
use super::patch::{self, Place, Replacement};
use super::site;
use crate::arch::stack_calls::OnStack;
use crate::arch::switch::call_on_stack;
use crate::check;
use crate::mm::KernelStack;
use crate::sched::selftest::{PROBED, ProbeOnStack};
use crate::selftest::{Test, probe};
use core::sync::atomic::Ordering::Relaxed;
use limen_trace_sites::filter::Effective;
use limen_trace_sites::{Site, SiteSet};

/// The tests.
pub const TESTS: &[Test] = &[
    ("a function at the top of a stack is replaced", at_the_top),
    (
        "what a removal without memory leaves is not in the way",
        left_over,
    ),
];

/// How many bytes of a function are surely its own.
const OWN: usize = 16;

fn place(function: usize) -> Result<Place, &'static str> {
    let site = site::find(function, function + OWN).ok_or("no site")?;
    let address = site::address(site).ok_or("no address")?;
    Ok(Place::new(Site(site as u32), address))
}

extern "C" fn new(data: *mut u8) {
    PROBED.store(data.addr() + 1, Relaxed);
}

/// Nothing is mapped above the stack: whoever looks there for arguments faults.
fn at_the_top() -> Result<(), &'static str> {
    let stack = KernelStack::new().ok_or("no memory")?;
    let call = || {
        let data = core::ptr::without_provenance_mut(4);
        // SAFETY: a stack of its own, on which preemption is off, as nobody would know this thread's there.
        crate::sync::without_interrupts(|| unsafe {
            call_on_stack::<ProbeOnStack>(stack.top(), data);
        });
        PROBED.load(Relaxed)
    };
    check!(call() == 4);
    let place = place(ProbeOnStack::run as *const () as usize)?;
    let replacement = Replacement::new(new as *const () as usize);
    patch::push(place, &replacement).map_err(|_| "not replaced")?;
    let result = call();
    patch::remove(place, &replacement);
    check!(result == 5);
    check!(call() == 4);
    Ok(())
}

#[inline(never)]
fn instead(_a: usize, b: usize, _c: usize, _d: usize) -> usize {
    core::hint::black_box(b) + 2_000_000
}

fn left_over() -> Result<(), &'static str> {
    let place = place(probe as *const () as usize)?;
    let to = instead as *const () as usize;
    let first = Replacement::new(to);
    patch::push(place, &first).map_err(|_| "not replaced")?;
    check!(probe(1, 2, 3, 4) == 2_000_002);
    // There was no memory to take it out, and its module is gone.
    first.is_gone();
    patch::with_registered(place, |registered| {
        ops::change(registered, Effective::Only(SiteSet::new())).map_err(|_| "not changed")
    })?;
    let second = Replacement::new(to);
    patch::push(place, &second).map_err(|_| "not replaced again")?;
    let result = probe(1, 2, 3, 4);
    patch::remove(place, &second);
    check!(result == 2_000_002);
    check!(probe(1, 2, 3, 4) != 2_000_002);
    check!(patch::with_registered(place, |_| Ok(())) == Err("not registered"));
    Ok(())
}
