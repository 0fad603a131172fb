//! Tracers that are functions of modules: called as the kernel's own are ([`Handler`]), or with what the
//! traced function was called with ([`Direct`]).

use super::guard::Guard;
use super::modules::Copy;
use super::names;
use super::ops::{self, Registered, errno};
use super::site;
use super::target::{Data, Target};
use crate::arch::sites::Entry;
use crate::mm::reserve::{handling, room};
use crate::rcu;
use crate::sync::Mutex;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use limen_linux_abi::Errno;
use limen_trace_sites::command::{self, Command, File};
use limen_trace_sites::filter::Effective;
use limen_trace_sites::hash::Hash;
use limen_trace_sites::sets::Kind;

/// What a tracer may ask of the call that it traces.
pub struct Registers<'a> {
    target: &'a Target,
    entry: &'a Entry,
}

impl Registers<'_> {
    /// Argument `n` of the function, from 0; `None` if it is not in a register.
    pub fn argument(&self, n: usize) -> Option<usize> {
        self.entry.arg(n)
    }

    /// The register with DWARF's number `n`, at the function's beginning. `None`: it was not saved.
    pub fn register(&self, n: usize) -> Option<usize> {
        site::register(self.target, self.entry, n)
    }

    /// The function at `ip` runs instead. `false`: the tracer has not said that it would do that.
    pub fn set_ip(&self, ip: usize) -> bool {
        let may = self.target.kind().ip_modify;
        if may {
            self.entry.set_ip(ip);
        }
        may
    }
}

/// Is called with the site's address, the address that the function returns to, the tracer's own word, and
/// the registers. Preemption is off; it may be in any context, an NMI as well, and must not sleep.
pub type Handler = extern "C" fn(usize, usize, usize, &mut Registers<'_>);

/// Is called with the function's arguments, as many as are in registers; in the context of a [`Handler`].
pub type Direct = extern "C" fn(usize, usize, usize, usize, usize, usize, usize, usize);

/// What is called.
enum Call {
    Handler(Handler, usize),
    Direct(Direct),
}

/// What a target needs to call a module's function.
pub struct Outside {
    call: Call,
    guard: Guard,
    /// It was to end, and there was no memory to take it out of the sites.
    ended: AtomicBool,
}

extern "C" fn met(ip: usize, parent: usize, target: &Target, entry: &Entry) {
    let Data::Outside(outside) = &target.data else {
        return;
    };
    let Some(_inside) = outside.guard.enter() else {
        return;
    };
    if outside.ended.load(Relaxed) {
        return;
    }
    match &outside.call {
        Call::Handler(handler, own) => handler(ip, parent, *own, &mut Registers { target, entry }),
        Call::Direct(direct) => {
            let [a, b, c, d, e, f, g, h] = core::array::from_fn(|n| entry.arg(n).unwrap_or(0));
            direct(a, b, c, d, e, f, g, h);
        }
    }
}

/// A registered tracer. [`Tracer::end`] ends it; what it calls must be there until then.
pub struct Tracer {
    registered: Registered,
    target: Arc<Target>,
}

/// Tracers that have ended, and could not be taken out of the sites yet.
static LEFT: Mutex<Vec<Registered>> = Mutex::new(Vec::new());

/// Takes out what was left.
fn sweep() {
    let mut left = LEFT.lock();
    while let Some(registered) = left.pop() {
        if let Err((registered, _)) = ops::remove(registered) {
            left.push(registered);
            return;
        }
    }
}

fn target(call: Call, kind: Kind) -> Arc<Target> {
    let outside = Outside {
        call,
        guard: Guard::new(),
        ended: AtomicBool::new(false),
    };
    Arc::new(Target::of(kind, met, Data::Outside(outside)))
}

/// The functions that a word of `set_ftrace_filter` names. `ENOENT`: there are none; `EINVAL`: it is no such
/// word; `ENOMEM`.
fn named(word: &[u8]) -> Result<Hash, Errno> {
    let Command::Select(select) = command::parse(word, File::Notrace).map_err(errno)? else {
        return Err(Errno::EINVAL);
    };
    let names = names::known()?;
    let mut hash = Hash::new();
    let chosen = handling(|| hash.apply(&names, &select)).map_err(errno);
    chosen.map_err(|error| {
        if error == Errno::EINVAL {
            Errno::ENOENT
        } else {
            error
        }
    })?;
    if hash.sites().is_empty() {
        return Err(Errno::ENOENT);
    }
    Ok(hash)
}

impl Tracer {
    /// `handler` is called with `own` for all functions that `word` names, as in `set_ftrace_filter`.
    /// `ENOENT`: there are none; `EBUSY`: one of them has a tracer that changes where it goes, as this one;
    /// `EINVAL`: `word`; `ENOMEM`. May sleep.
    pub fn new(
        word: &[u8],
        handler: Handler,
        own: usize,
        regs: bool,
        ip_modify: bool,
    ) -> Result<Self, Errno> {
        let kind = Kind {
            regs,
            ip_modify,
            direct: None,
        };
        Self::begin(word, target(Call::Handler(handler, own), kind))
    }

    /// `direct`, at this address, is called with the arguments of the one function that `word` names, after
    /// its tracers. `ENOENT`: there is none; `EINVAL`: there are several, or `word`; `EBUSY`: it has such a
    /// call already; `ENOMEM`. May sleep.
    pub fn direct(word: &[u8], direct: Direct) -> Result<Self, Errno> {
        Self::begin(word, target(Call::Direct(direct), Self::kind_of(direct)))
    }

    fn kind_of(direct: Direct) -> Kind {
        Kind {
            regs: false,
            ip_modify: false,
            direct: Some(direct as *const () as usize),
        }
    }

    fn begin(word: &[u8], target: Arc<Target>) -> Result<Self, Errno> {
        sweep();
        // As long as it is there the numbers in the set are those of the same functions.
        let _copy = Copy::new();
        let hash = named(word)?;
        if target.kind().direct.is_some() && hash.sites().len() != 1 {
            return Err(Errno::EINVAL);
        }
        let sites = handling(|| hash.sites().try_clone()).map_err(errno)?;
        let registered = ops::add(target.clone(), Effective::Only(sites))?;
        Ok(Self { registered, target })
    }

    /// Another function is called from now on; when this returns no CPU is in the former. No call is without
    /// one of them. `EINVAL`: it is no direct call; `ENOMEM`: it is the former. May sleep.
    pub fn modify(&mut self, direct: Direct) -> Result<(), Errno> {
        if self.target.kind().direct.is_none() {
            return Err(Errno::EINVAL);
        }
        let new = target(Call::Direct(direct), Self::kind_of(direct));
        ops::replace(&self.registered, new.clone())?;
        self.target = new;
        Ok(())
    }

    /// It ends: when this returns no CPU is in its function. May sleep.
    pub fn end(self) {
        let Err((registered, _)) = ops::remove(self.registered) else {
            return;
        };
        if let Data::Outside(outside) = &self.target.data {
            outside.ended.store(true, Relaxed);
        }
        rcu::synchronize();
        let mut left = LEFT.lock();
        if room(&mut *left, 1).is_ok() {
            left.push(registered);
        }
    }
}
