//! What a site calls: a tracer, or all the tracers of its function in turn.

use super::site::{trace_each, trace_saved};
use crate::arch::sites::Entry;
use crate::mm::reserve::room_exact;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use limen_linux_abi::Errno;
use limen_trace_sites::sets::Kind;

/// What the code behind a site calls: with the site's address, the address that the function returns to, the
/// target itself, and what the function was called with. Preemption is off; it may be in any context, an NMI
/// as well, and must not sleep. It is called again for a traced function that it calls itself.
pub type Handler = extern "C" fn(usize, usize, &Target, &Entry);

/// What a site calls. The handler is the first word, the list the second: the code behind a site knows that.
#[repr(C)]
pub struct Target {
    call: Handler,
    /// Where the addresses of all targets are that `trace_each` calls, at least two, and a 0; or 0.
    list: usize,
    kind: Kind,
    /// What the handler works with.
    pub data: Data,
}

/// What most tracers need of their sites.
const PLAIN: Kind = Kind {
    regs: false,
    ip_modify: false,
    direct: None,
};

/// What a handler works with.
#[repr(u8)]
pub enum Data {
    /// Nothing.
    None,
    /// All of these are called, in this order; and the list of their addresses.
    Many(
        Vec<Arc<Target>>,
        #[expect(dead_code, reason = "what `trace_each` reads")] Vec<usize>,
    ),
    /// Calls are recorded.
    Record(super::function::Recorder),
    /// Something is done.
    Probe(super::probes::Probe),
    /// A module's function is called.
    Outside(super::outside::Outside),
    /// A module's function is called directly.
    Direct(super::direct::Called),
    /// The same, at the end of a list.
    Last(super::direct::Last),
    /// Another function may run instead.
    Patch(super::patch::Replacements),
    /// How often it was called.
    Count(AtomicU64),
}

impl Target {
    /// With this handler.
    pub const fn new(call: Handler, data: Data) -> Self {
        Self::of(PLAIN, call, data)
    }

    /// With this handler, which needs something of its sites. If that is all registers, sites do not call it,
    /// but a [`Target::many`] of it.
    pub const fn of(kind: Kind, call: Handler, data: Data) -> Self {
        let list = 0;
        Self {
            call,
            list,
            kind,
            data,
        }
    }

    /// What it needs.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// One that calls all of `targets`, in their order, those that are called directly last; with all
    /// registers if one of them needs them. `ENOMEM`.
    pub fn many(mut targets: Vec<Arc<Target>>) -> Result<Self, Errno> {
        // There is one at most.
        if let Some(direct) = targets.iter().position(|target| target.kind.direct.is_some()) {
            let last = Arc::new(super::direct::last(targets.remove(direct)));
            targets.push(last);
        }
        let saves = targets.iter().any(|target| target.kind.needs_regs());
        let mut list = Vec::new();
        room_exact(&mut list, targets.len().max(LEAST) + 1)?;
        list.extend(targets.iter().map(|target| Arc::as_ptr(target) as usize));
        while list.len() < LEAST {
            list.push(&raw const NOTHING as usize);
        }
        list.push(0);
        Ok(Self {
            call: if saves { trace_saved } else { trace_each },
            list: list.as_ptr() as usize,
            kind: PLAIN,
            data: Data::Many(targets, list),
        })
    }

    /// One that does nothing: for a CPU that has begun to call a tracer which is no longer there.
    pub const fn nothing() -> Self {
        Self::new(nothing, Data::None)
    }
}

/// So many targets a list has at least.
const LEAST: usize = 2;

/// What sites without a target refer to.
pub static NOTHING: Target = Target::nothing();

extern "C" fn nothing(_ip: usize, _parent: usize, _target: &Target, _entry: &Entry) {}
