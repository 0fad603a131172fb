//! Tracers that are functions of modules: called as the kernel's own are ([`Handler`]), or with what the
//! traced function was called with ([`direct`]).

use super::direct::{self, Direct};
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

/// What a target needs to call a module's function.
pub struct Outside {
    handler: Handler,
    /// The tracer's own word.
    own: usize,
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
    if !outside.ended.load(Relaxed) {
        (outside.handler)(ip, parent, outside.own, &mut Registers { target, entry });
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

fn target(handler: Handler, own: usize, kind: Kind) -> Arc<Target> {
    let outside = Outside {
        handler,
        own,
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
        Self::begin(word, target(handler, own, kind))
    }

    /// `direct`, at this address, is called with the arguments of the one function that `word` names, after
    /// its tracers. `ENOENT`: there is none; `EINVAL`: there are several, or `word`; `EBUSY`: it has such a
    /// call already; `ENOMEM`. May sleep.
    pub fn direct(word: &[u8], direct: Direct) -> Result<Self, Errno> {
        Self::begin(word, Arc::new(direct::target(direct)))
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

    /// Another function is called from now on; no call is without one of them. Until the result has settled
    /// the former may still run. `EINVAL`: it is no direct call; `ENOMEM`: it is the former. May sleep.
    pub fn modify(&mut self, direct: Direct) -> Result<Former, Errno> {
        if self.target.kind().direct.is_none() {
            return Err(Errno::EINVAL);
        }
        let new = Arc::new(direct::target(direct));
        ops::replace(&self.registered, new.clone())?;
        Ok(Former(core::mem::replace(&mut self.target, new)))
    }

    /// It ends: when this returns nobody is in its function. May sleep, as long as that does if it is called
    /// directly.
    pub fn end(self) {
        if let Err((registered, _)) = ops::remove(self.registered) {
            match &self.target.data {
                Data::Outside(outside) => outside.ended.store(true, Relaxed),
                _ => direct::end(&self.target),
            }
            rcu::synchronize();
            let mut left = LEFT.lock();
            if room(&mut *left, 1).is_ok() {
                left.push(registered);
            }
        }
        direct::settle(&self.target);
    }
}

/// What was called directly before.
#[must_use]
pub struct Former(Arc<Target>);

impl Former {
    /// When this returns nobody is in it. May sleep, as long as it does.
    pub fn settle(self) {
        direct::settle(&self.0);
    }
}
