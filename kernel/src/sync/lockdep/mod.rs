//! The kernel's side of the lock validator (`crates/lockdep`), for kernels built with the feature `lockdep`; in others everything here is
//! empty and takes no room. See `docs/lockdep.md`.
//!
//! Who calls it: the locks of this room (a [`Dep`] in each), the threshold and the architecture's interrupt flag (interrupt state), the
//! scheduler (sleeping, hand-over of run queue locks, ends of threads).

#[cfg(feature = "lockdep")]
mod on;
#[cfg(feature = "lockdep")]
pub use on::*;
#[cfg(feature = "lockdep")]
pub mod selftest;

#[cfg(not(feature = "lockdep"))]
mod off;
#[cfg(not(feature = "lockdep"))]
pub use off::*;
