//! What all objects have: an id, and a state with permissions under a lock of its own.

use super::perm::Perm;
use crate::sync::SpinLock;
use crate::task::current;
use core::sync::atomic::AtomicI32;
use limen_linux_abi::Errno;

/// What an object's lock protects.
pub trait State: Send {
    /// Its permissions.
    fn perm(&mut self) -> &mut Perm;
}

/// An object of a table.
pub trait Object: Send + Sync {
    /// What its lock protects.
    type State: State;

    /// Where the table keeps the object's id.
    fn id(&self) -> &AtomicI32;
    /// Its state.
    fn state(&self) -> &SpinLock<Self::State>;

    /// Calls `f` with the object locked. `EACCES`: the running thread may not do what the bits of `wanted`
    /// say; `EIDRM`: it was removed.
    fn with<R>(&self, wanted: u32, f: impl FnOnce(&mut Self::State) -> Result<R, Errno>) -> Result<R, Errno> {
        let creds = current().creds();
        let mut state = self.state().lock();
        state.perm().check(&creds, wanted)?;
        f(&mut state)
    }

    /// Lets its owner change it. What `f` gives is dropped without its lock. `EPERM`, `EIDRM`.
    fn changing<R>(&self, f: impl FnOnce(&mut Self::State) -> Result<R, Errno>) -> Result<(), Errno> {
        let creds = current().creds();
        let gone = {
            let mut state = self.state().lock();
            state.perm().check_owner(&creds)?;
            f(&mut state)?
        };
        drop(gone);
        Ok(())
    }
}

/// Which object a command describes, and for whom.
#[derive(Clone, Copy)]
pub struct Stat {
    /// The one with this index, whose id is the result.
    pub by_index: bool,
    /// Whatever its permissions are.
    pub any: bool,
}
