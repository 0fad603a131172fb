//! Loads of one file that come at once: only the first loads it, and all get what it gets, as on Linux since
//! 6.5. Where many ask for the driver of the same device, each would read and lay out the file to be refused.

use crate::fs::inode::Inode;
use crate::mm::reserve::room;
use crate::sched::WaitQueue;
use crate::sync::{Mutex, Once};
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// A load that has not ended.
struct Load {
    /// The address of the inode, which the loader holds.
    inode: usize,
    result: Once<Result<(), Errno>>,
}

static LOADS: Mutex<Vec<Arc<Load>>> = Mutex::new(Vec::new());
/// Woken when a load has ended.
static ENDED: WaitQueue = WaitQueue::new();

/// Calls `load`, which loads the module in the file with this inode, unless another thread does so now: then
/// it waits for that one's result. `EINTR`: a signal came while it waited; `ENOMEM`; else what `load`
/// returned to whoever called it. May sleep.
pub fn together(inode: &Inode, load: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
    let inode = core::ptr::from_ref(inode) as usize;
    loop {
        let mut loads = LOADS.lock();
        let Some(other) = loads.iter().find(|load| load.inode == inode).cloned() else {
            room(&mut *loads, 1)?;
            let own = Arc::new(Load {
                inode,
                result: Once::new(),
            });
            loads.push(own.clone());
            drop(loads);
            let result = load();
            LOADS.lock().retain(|load| !Arc::ptr_eq(load, &own));
            let _ = own.result.set(result);
            ENDED.wake_all();
            return result;
        };
        drop(loads);
        let ended = ENDED.wait_until(|| other.result.get().is_some());
        ended.map_err(|_| Errno::EINTR)?;
        match other.result.get() {
            // The signal was the other thread's.
            None | Some(Err(Errno::ERESTARTSYS)) => {}
            Some(result) => return *result,
        }
    }
}
