//! What a site calls: a tracer, or all the tracers of its function in turn.

use crate::arch::sites::Entry;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::AtomicU64;

/// What the code behind a site calls: with the site's address, the address that the function returns to, the
/// target itself, and what the function was called with. Preemption is off; it may be in any context, an NMI
/// as well, and must not sleep. It is called again for a traced function that it calls itself.
pub type Handler = extern "C" fn(usize, usize, &Target, &mut Entry);

/// What a site calls. The handler is the first word: the code behind a site knows that.
#[repr(C)]
pub struct Target {
    call: Handler,
    /// What the handler works with.
    pub data: Data,
}

/// What a handler works with.
pub enum Data {
    /// Nothing.
    None,
    /// All of these are called, in this order.
    Many(Box<[Arc<Target>]>),
    /// Calls are recorded.
    Record(super::function::Recorder),
    /// Something is done.
    Probe(super::probes::Probe),
    /// How often it was called.
    Count(AtomicU64),
}

impl Target {
    /// With this handler.
    pub const fn new(call: Handler, data: Data) -> Self {
        Self { call, data }
    }

    /// One that calls all of `targets`, in their order.
    pub const fn many(targets: Box<[Arc<Target>]>) -> Self {
        Self::new(each, Data::Many(targets))
    }

    /// One that does nothing: for a CPU that has begun to call a tracer which is no longer there.
    pub const fn nothing() -> Self {
        Self::new(nothing, Data::None)
    }
}

extern "C" fn nothing(_ip: usize, _parent: usize, _target: &Target, _entry: &mut Entry) {}

extern "C" fn each(ip: usize, parent: usize, target: &Target, entry: &mut Entry) {
    if let Data::Many(targets) = &target.data {
        for target in targets {
            (target.call)(ip, parent, target, entry);
        }
    }
}
