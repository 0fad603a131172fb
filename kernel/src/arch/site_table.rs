//! The table of sites: where functions of the kernel can call tracers. The build makes it after linking
//! (`tools/symbols/src/sites.rs`): how many there are, then for each its distance from the table, ascending.

use super::imp::exits::Exit;
use super::imp::sites::Entry;
use crate::arch::irq;
use crate::sched::preempt::{self, Still};
use crate::sched::switch_preempted;
use crate::sync::Once;
use core::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Release},
};
use limen_entry::ThreadFlags;

unsafe extern "C" {
    static __sites_start: u32;
}

/// The kernel's own sites.
pub struct Table;

/// The kernel's own sites.
pub static TABLE: Table = Table;

impl Table {
    /// A word of it.
    #[inline(always)]
    fn word(&self, n: usize) -> u32 {
        // SAFETY: the linker script puts the table there, the build fills it, and it has one word more than
        // its first says.
        unsafe { (&raw const __sites_start).add(n).read() }
    }

    /// How many there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.word(0) as usize
    }

    /// Site `n`, as [`super::sites`] takes it: an address, whose lowest bits may say more.
    #[inline(always)]
    pub fn site(&self, n: usize) -> Option<usize> {
        (n < self.len()).then(|| {
            let distance = self.word(n + 1) as i32 as isize;
            (&raw const __sites_start as usize).wrapping_add_signed(distance)
        })
    }

    /// The number of the first site that is not below `site`. Any context; before the threshold as well.
    #[inline(always)]
    pub fn search(&self, site: usize) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.site(middle).is_some_and(|at| at < site) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

// SAFETY: the code behind a site makes it, and turns preemption off until the tracer has returned.
unsafe impl Still for Entry {}

// SAFETY: as above, with the code that functions return to.
unsafe impl Still for Exit {}

/// Sites of modules that are just being changed, by address. Null: there are none.
static CHANGING: AtomicPtr<Changing<'static>> = AtomicPtr::new(core::ptr::null_mut());

#[allow(dead_code, reason = "not all processors need breakpoints")]
struct Changing<'a>(&'a [usize]);

/// Calls `f`, which changes the sites of modules `sites`, ascending: meanwhile CPUs that meet a breakpoint
/// there know it ([`is_changing`]). When `f` has returned none does any more; `settle` waits until all CPUs
/// have been outside of exceptions. The caller keeps others away.
pub fn while_changing(sites: &[usize], settle: impl FnOnce(), f: impl FnOnce()) {
    if sites.is_empty() {
        return f();
    }
    let changing = Changing(sites);
    CHANGING.store((&raw const changing).cast_mut().cast(), Release);
    f();
    CHANGING.store(core::ptr::null_mut(), Release);
    settle();
}

/// Whether the site of a module is being changed. In exceptions, with interrupts off; before the threshold as
/// well.
#[allow(dead_code, reason = "not all processors need breakpoints")]
#[inline(always)]
pub fn is_changing(site: usize) -> bool {
    // SAFETY: whoever stored it waits until this CPU has left its exception before it goes.
    let Some(Changing(sites)) = (unsafe { CHANGING.load(Acquire).as_ref() }) else {
        return false;
    };
    let (mut low, mut high) = (0, sites.len());
    while low < high {
        let middle = low.midpoint(high);
        match sites.get(middle) {
            Some(at) if *at < site => low = middle + 1,
            _ => high = middle,
        }
    }
    sites.get(low) == Some(&site)
}

/// Who knows where functions return to.
static RETURNED: Once<fn(&Exit) -> usize> = Once::new();

/// From now on functions can be sent to `exits::return_address`: when they return there `f` says where they
/// really return to. It is called with preemption off, in any context. Boot.
pub fn when_functions_return(f: fn(&Exit) -> usize) {
    let _ = RETURNED.set(f);
}

/// A function has returned to `exits::return_address`.
pub(super) extern "C" fn returned(exit: &Exit) -> usize {
    let Some(returned) = RETURNED.get() else {
        panic!("a function returned to nowhere");
    };
    returned(exit)
}

/// A tracer has returned, and the running thread is due to be rescheduled. What is called here may be traced
/// itself: preemption stays off until it is done, so that it does not come here again.
pub(super) extern "C" fn resched() {
    if preempt::count() != 0 || !irq::enabled() {
        return;
    }
    loop {
        preempt::disable();
        switch_preempted();
        preempt::enable_no_resched();
        if !preempt::current_info().work.has(ThreadFlags::NEED_RESCHED) {
            return;
        }
    }
}
