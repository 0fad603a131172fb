//! The kernel's side of the lock validator (`crates/lockdep`), for kernels built with the feature `lockdep`.
//! In others everything here is empty and takes no memory. See `docs/lockdep.md`.
//!
//! It is called by the locks of this room (each has a [`Dep`]), by the threshold and the architecture's
//! interrupt flag (interrupt state), and by the scheduler (sleeping, hand-over of run-queue locks, ends of
//! threads).

#[cfg(feature = "lockdep")]
mod on;
#[cfg(feature = "lockdep")]
pub use on::*;

#[cfg(not(feature = "lockdep"))]
mod off;
#[cfg(not(feature = "lockdep"))]
pub use off::*;
