//! All modules: which there are, what each has, and who uses it.
//!
//! Whoever changes the list, or a module's state, holds [`CHANGING`]. Everybody may look at the list without
//! a lock, even in a panic: a change makes a new one, and waits until nobody looks at the old one.

use super::image::Image;
use super::params::Named;
use crate::arch::irq;
use crate::ftrace::modules::Loaded;
use crate::mm::reserve::room_exact;
use crate::mm::symbols::{Modules, Outside};
use crate::sched::WaitQueue;
use crate::sync::{Mutex, Once, without_preemption};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use limen_linux_abi::Errno;

/// Where a module is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Only its name is known.
    Unformed,
    /// It is linked, and its `init` runs.
    Coming,
    /// It can be used.
    Live,
    /// It is about to be gone.
    Going,
    /// It is in the list no more, but somebody has a file of it open.
    Gone,
}

/// A module.
pub struct Module {
    /// Its name.
    pub name: String,
    state: AtomicU8,
    /// How many use it, and [`CLOSED`].
    users: AtomicU32,
    /// A tracer has sent a call to one of its functions.
    sent_to: AtomicBool,
    body: Once<Body>,
}

/// In a module's `users`: nobody can use it any more.
const CLOSED: u32 = 1 << 31;

/// A symbol that a module exports.
pub struct Export {
    /// Its name.
    pub name: Vec<u8>,
    /// Its address.
    pub address: u64,
    /// Whether it is only for modules with a licence compatible with the GPL.
    pub gpl_only: bool,
}

/// What a module has once it is linked.
pub struct Body {
    /// Its memory, until it is unloaded.
    pub image: Mutex<Option<Image>>,
    /// The addresses of what stays.
    pub core: Range<usize>,
    /// The addresses of what is freed when `init` has run.
    pub init: Range<usize>,
    /// Whether that was freed.
    pub init_gone: AtomicBool,
    /// All symbols, also those in what was freed.
    pub symbols: limen_module::Symbols,
    /// What others may use, by name.
    pub exports: Vec<Export>,
    /// Which of its instructions may fault, by address.
    pub faults: Vec<limen_module::MayFault>,
    /// The parameters.
    pub parameters: Vec<Named>,
    /// The sections' names and addresses.
    pub sections: Vec<(Vec<u8>, u64)>,
    /// Texts to which parameters point.
    pub texts: Mutex<Vec<Box<[u8]>>>,
    /// The modules whose exports it uses.
    pub uses: Vec<Arc<Module>>,
    /// `init_module`.
    pub start: Option<u64>,
    /// `cleanup_module`.
    pub exit: Option<u64>,
    /// Its functions that can be traced: those that stay, and those that only `init` needs.
    pub traced: Mutex<[Option<Loaded>; 2]>,
    /// The letters of the marks that it puts on the kernel.
    pub taints: &'static str,
}

impl Body {
    /// Bytes of memory that it has now, without those that `init` needed: what stays, and what does not.
    pub fn sizes(&self) -> (usize, usize) {
        let init = if self.init_gone.load(Relaxed) {
            0
        } else {
            self.init.len()
        };
        (self.core.len(), init)
    }
}

impl Module {
    /// A module of which only the name is known.
    pub fn new(name: String) -> Arc<Self> {
        Arc::new(Self {
            name,
            state: AtomicU8::new(State::Unformed as u8),
            users: AtomicU32::new(0),
            sent_to: AtomicBool::new(false),
            body: Once::new(),
        })
    }

    /// Where it is in its life.
    pub fn state(&self) -> State {
        match self.state.load(Acquire) {
            0 => State::Unformed,
            1 => State::Coming,
            2 => State::Live,
            3 => State::Going,
            _ => State::Gone,
        }
    }

    /// Whether its `init` has not returned yet.
    pub fn is_coming(&self) -> bool {
        matches!(self.state(), State::Unformed | State::Coming)
    }

    /// It goes on. The caller holds [`CHANGING`].
    pub fn set_state(&self, state: State) {
        self.state.store(state as u8, Release);
        CHANGED.wake_all();
    }

    /// What it has, once it is linked.
    pub fn body(&self) -> Option<&Body> {
        self.body.get()
    }

    /// It is linked. Once.
    pub fn set_body(&self, body: Body) {
        let _ = self.body.set(body);
    }

    /// Counts a user. `false`: it is about to be gone.
    pub fn get(&self) -> bool {
        let more = |users: u32| (users < CLOSED - 1).then(|| users + 1);
        let counted = self.users.fetch_update(Acquire, Relaxed, more).is_ok();
        if counted {
            super::events::used(self, true);
        }
        counted
    }

    /// The inverse of [`Module::get`].
    pub fn put(&self) {
        super::events::used(self, false);
        self.users.fetch_sub(1, Release);
    }

    /// How many use it.
    pub fn users(&self) -> u32 {
        self.users.load(Relaxed) & !CLOSED
    }

    /// The same as programs are told: loading it counts as a use, and when it is about to be gone, less than
    /// none is left.
    pub fn shown_users(&self) -> i64 {
        match self.state() {
            State::Unformed | State::Coming => i64::from(self.users()) + 1,
            State::Live => i64::from(self.users()),
            State::Going | State::Gone => -1,
        }
    }

    /// Nobody can use it from now on. `false`: somebody does.
    pub fn shut(&self) -> bool {
        self.users.compare_exchange(0, CLOSED, Acquire, Relaxed).is_ok()
    }

    /// A tracer sends a call to one of its functions. In any context.
    pub fn is_sent_to(&self) {
        self.sent_to.store(true, Release);
    }

    /// Waits until nobody executes its functions who does not count as a user: whom a tracer has sent there,
    /// which has ended. May sleep.
    pub fn wait_until_left(&self) {
        if self.sent_to.load(Acquire)
            && let Some(body) = self.body()
        {
            crate::livepatch::wait_until_left(&[body.core.clone(), body.init.clone()]);
        }
    }

    /// Whether it uses `other`'s exports.
    pub fn is_user_of(&self, other: &Arc<Self>) -> bool {
        let uses = self.body().map_or(&[][..], |body| &body.uses);
        uses.iter().any(|used| Arc::ptr_eq(used, other))
    }

    /// Whether `address` is in its memory.
    pub fn has(&self, address: usize) -> bool {
        self.body().is_some_and(|body| {
            body.core.contains(&address) || body.init.contains(&address) && !body.init_gone.load(Acquire)
        })
    }
}

/// Held by whoever changes the list or a state.
pub static CHANGING: Mutex<()> = Mutex::new(());
/// Woken when a state has changed, or a module is gone.
pub static CHANGED: WaitQueue = WaitQueue::new();

type List = Vec<Arc<Module>>;

/// The list, the newest first; null if there never was a module.
static LIST: AtomicPtr<List> = AtomicPtr::new(core::ptr::null_mut());
/// How many look at the list.
static LOOKING: AtomicUsize = AtomicUsize::new(0);

/// Calls `f` with the list. In any context; `f` does not sleep, nor drop a module.
pub fn look<R>(f: impl FnOnce(&[Arc<Module>]) -> R) -> R {
    without_preemption(|| {
        LOOKING.fetch_add(1, SeqCst);
        // SAFETY: a list is freed only when nobody looked after it was replaced: this one is counted, and
        // found the list afterwards.
        let list = unsafe { LIST.load(SeqCst).as_ref() };
        let result = f(list.map_or(&[], |list| list));
        LOOKING.fetch_sub(1, SeqCst);
        result
    })
}

/// The modules now. `ENOMEM`.
pub fn all() -> Result<List, Errno> {
    loop {
        let count = look(|list| list.len());
        let mut all = Vec::new();
        room_exact(&mut all, count)?;
        let whole = look(|list| {
            if list.len() > all.capacity() {
                return false;
            }
            all.extend(list.iter().cloned());
            true
        });
        if whole {
            return Ok(all);
        }
    }
}

/// The module with this name.
pub fn named(name: &[u8]) -> Option<Arc<Module>> {
    look(|list| {
        let found = list.iter().find(|module| module.name.as_bytes() == name);
        found.cloned()
    })
}

/// The module in whose memory `address` is.
pub fn at(address: usize) -> Option<Arc<Module>> {
    look(|list| list.iter().find(|module| module.has(address)).cloned())
}

/// The module that exports `name`.
pub fn exporter(name: &[u8]) -> Option<(Arc<Module>, u64, bool)> {
    look(|list| {
        list.iter().find_map(|module| {
            let exports = &module.body()?.exports;
            let at = exports
                .binary_search_by(|export| export.name.as_slice().cmp(name))
                .ok()?;
            let export = exports.get(at)?;
            Some((module.clone(), export.address, export.gpl_only))
        })
    })
}

/// The list before this one, empty: the next that is shorter is made in it, since a removal cannot fail. By
/// whoever holds [`CHANGING`].
static FORMER: AtomicPtr<List> = AtomicPtr::new(core::ptr::null_mut());

/// Puts another list in place. The caller holds [`CHANGING`].
fn replace(list: Box<List>) {
    let old = LIST.swap(Box::into_raw(list), SeqCst);
    // Whoever looks is not preempted, and soon ready.
    while LOOKING.load(SeqCst) != 0 {
        irq::spin_hint();
    }
    let mut old = match old.is_null() {
        true => Box::default(),
        // SAFETY: it came from `into_raw`, and nobody can find it any more.
        false => unsafe { Box::from_raw(old) },
    };
    old.clear();
    drop(take_former());
    FORMER.store(Box::into_raw(old), Relaxed);
}

/// The former list. The caller holds [`CHANGING`].
fn take_former() -> Box<List> {
    let former = FORMER.swap(core::ptr::null_mut(), Relaxed);
    match former.is_null() {
        true => Box::default(),
        // SAFETY: it came from `into_raw`, and is taken once.
        false => unsafe { Box::from_raw(former) },
    }
}

/// Adds a module. The caller holds [`CHANGING`]. `ENOMEM`.
pub fn add(module: &Arc<Module>) -> Result<(), Errno> {
    let old = all()?;
    let mut new = Vec::new();
    room_exact(&mut new, old.len() + 1)?;
    new.push(module.clone());
    new.extend(old);
    replace(Box::new(new));
    Ok(())
}

/// Removes a module. The caller holds [`CHANGING`].
pub fn remove(module: &Arc<Module>) {
    // The list was made longer by one since, or shorter: there is room.
    let mut new = take_former();
    look(|list| new.extend(list.iter().filter(|m| !Arc::ptr_eq(m, module)).cloned()));
    replace(new);
    module.set_state(State::Gone);
}

/// The symbols of all modules.
pub struct Symbols;

impl Modules for Symbols {
    fn find(&self, address: usize, f: &mut dyn FnMut(Outside<'_>)) -> bool {
        look(|list| {
            let module = list.iter().find(|module| module.has(address));
            let found = module.and_then(|m| Some((m, m.body()?.symbols.find(address as u64)?)));
            let Some((module, symbol)) = found else {
                return false;
            };
            f(Outside {
                name: symbol.name,
                address: symbol.address as usize,
                letter: symbol.letter,
                module: &module.name,
            });
            true
        })
    }

    fn fixup(&self, ip: usize) -> Option<usize> {
        look(|list| {
            let module = list.iter().find(|module| module.has(ip))?;
            let faults = &module.body()?.faults;
            let behind = faults.partition_point(|entry| entry.from <= ip as u64);
            let entry = faults.get(behind.checked_sub(1)?)?;
            ((ip as u64) < entry.until).then_some(entry.to as usize)
        })
    }

    fn each(&self, f: &mut dyn FnMut(Outside<'_>)) {
        for module in all().unwrap_or_default() {
            let Some(body) = module.body() else { continue };
            for symbol in body.symbols.iter() {
                if symbol.part.is_init() && body.init_gone.load(Acquire) {
                    continue;
                }
                f(Outside {
                    name: symbol.name,
                    address: symbol.address as usize,
                    letter: symbol.letter,
                    module: &module.name,
                });
            }
        }
    }
}
