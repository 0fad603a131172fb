//! Timers of modules.

use crate::arch::irq;
use crate::mm::reserve;
use crate::module::list::{self, Module};
use crate::sync::Mutex;
use crate::time::{Timer, now_ns};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};

/// `void expired(void *data)`: runs in interrupt context, with interrupts off.
type Expired = unsafe extern "C" fn(*mut c_void);

/// What the timer's callback has.
struct Call {
    expired: Expired,
    data: *mut c_void,
    /// When it is to be called, nanoseconds; 0: not at all. An expiry that was under way when that changed is
    /// none any more.
    due: AtomicU64,
    /// How many CPUs are in the callback.
    running: AtomicU32,
    deleted: AtomicBool,
}

// SAFETY: the pointer is the module's, which gets it back on whatever CPU the timer expires.
unsafe impl Send for Call {}
// SAFETY: as for `Send`.
unsafe impl Sync for Call {}

/// A timer.
pub struct Entry {
    timer: Timer,
    call: Arc<Call>,
    owner: Option<Arc<Module>>,
}

static ENTRIES: Mutex<Vec<Arc<Entry>>> = Mutex::new(Vec::new());

impl Call {
    fn run(&self) {
        self.running.fetch_add(1, SeqCst);
        let due = self.due.load(SeqCst);
        let is_due = (1..=now_ns()).contains(&due);
        // Whoever cancels or deletes it says so before it looks whether it runs.
        if is_due && self.due.compare_exchange(due, 0, SeqCst, SeqCst).is_ok() {
            // SAFETY: the module's function, which stays until the timer is deleted and does not run.
            unsafe { (self.expired)(self.data) };
        }
        self.running.fetch_sub(1, SeqCst);
    }
}

impl Entry {
    /// Whether a module made it.
    fn is_of(&self, module: &Arc<Module>) -> bool {
        self.owner
            .as_ref()
            .is_some_and(|owner| Arc::ptr_eq(owner, module))
    }

    /// It is not armed. Waits until its callback does not run. Not from the callback.
    fn stop(&self) -> bool {
        let mut armed = false;
        loop {
            armed |= self.call.due.swap(0, SeqCst) != 0;
            self.timer.cancel();
            while self.call.running.load(SeqCst) != 0 {
                irq::spin_hint();
            }
            // The callback may have armed it again.
            if !self.timer.is_armed() && self.call.due.load(SeqCst) == 0 {
                return armed;
            }
        }
    }

    /// It cannot be armed any more.
    fn shut(&self) {
        self.call.deleted.store(true, SeqCst);
    }
}

/// `struct limen_timer *limen_timer_create(void (*expired)(void *), void *data)`: a timer that is not armed.
/// Null: no memory. May sleep.
pub extern "C" fn create(expired: Expired, data: *mut c_void) -> *const Entry {
    let mut entries = ENTRIES.lock();
    if reserve::room(&mut *entries, 1).is_err() {
        return ptr::null();
    }
    let call = Arc::new(Call {
        expired,
        data,
        due: AtomicU64::new(0),
        running: AtomicU32::new(0),
        deleted: AtomicBool::new(false),
    });
    let called = call.clone();
    let entry = Arc::new(Entry {
        timer: Timer::new(move || called.run()),
        call,
        owner: list::at(expired as usize),
    });
    let handle = Arc::as_ptr(&entry);
    entries.push(entry);
    handle
}

/// `void limen_timer_start(struct limen_timer *timer, unsigned long long ns)`: it expires in `ns`
/// nanoseconds, once, and not when it was to expire before. In any context, also in its own function.
pub unsafe extern "C" fn start(timer: *const Entry, ns: u64) {
    // SAFETY: the module's promise: it has not deleted it.
    let entry = unsafe { &*timer };
    if !entry.call.deleted.load(SeqCst) {
        let due = now_ns().saturating_add(ns);
        entry.call.due.store(due, SeqCst);
        entry.timer.arm(due);
    }
}

/// `int limen_timer_cancel(struct limen_timer *timer)`: it does not expire, and its function does not run any
/// more; whether it was to expire. Not in its function.
pub unsafe extern "C" fn cancel(timer: *const Entry) -> i32 {
    // SAFETY: the module's promise: it has not deleted it.
    unsafe { &*timer }.stop().into()
}

/// `void limen_timer_delete(struct limen_timer *timer)`: cancels and frees it, or does nothing if that is
/// null. Not in its function. May sleep.
pub extern "C" fn delete(timer: *const Entry) {
    let found = {
        let mut entries = ENTRIES.lock();
        let index = entries.iter().position(|entry| Arc::as_ptr(entry) == timer);
        index.map(|index| entries.swap_remove(index))
    };
    if let Some(entry) = found {
        entry.shut();
        entry.stop();
    }
}

/// Deletes what a module has left. Their functions may start each other: all are shut before one is stopped,
/// and stopped once more when none of them runs.
pub fn clean(module: &Arc<Module>) {
    let mut entries = ENTRIES.lock();
    let left = || entries.iter().filter(|entry| entry.is_of(module));
    left().for_each(|entry| entry.shut());
    for _ in 0..2 {
        left().for_each(|entry| {
            entry.stop();
        });
    }
    left().for_each(|_| warning!("{}: a timer was not deleted", module.name));
    entries.retain(|entry| !entry.is_of(module));
}
