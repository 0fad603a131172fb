//! Unloading: `delete_module`.

use super::events;
use super::interface;
use super::list::{self, CHANGING, State};
use super::load::forget;
use limen_linux_abi::Errno;

/// Unloads the module called `name`. Errors: `ENOENT` if there is none, `EAGAIN` if it is used, `EBUSY` if
/// its `init` has not returned, it is being unloaded, or cannot be; `EINTR`.
///
/// It never waits for users (`O_NONBLOCK` changes nothing, as on Linux), and never takes from them what they
/// use (`O_TRUNC` changes nothing, as on a Linux without `CONFIG_MODULE_FORCE_UNLOAD`).
pub fn unload(name: &[u8]) -> Result<(), Errno> {
    let changing = CHANGING.lock_interruptible().map_err(|_| Errno::EINTR)?;
    let module = list::named(name).ok_or(Errno::ENOENT)?;
    let used = list::look(|list| list.iter().any(|other| other.is_user_of(&module)));
    if used {
        return Err(Errno::EAGAIN);
    }
    let body = module.body().filter(|_| module.state() == State::Live);
    let body = body.ok_or(Errno::EBUSY)?;
    if body.start.is_some() && body.exit.is_none() {
        return Err(Errno::EBUSY);
    }
    if !module.shut() {
        return Err(Errno::EAGAIN);
    }
    module.set_state(State::Going);
    drop(changing);
    if let Some(exit) = body.exit {
        interface::call_exit(exit);
    }
    interface::clean(&module);
    module.wait_until_left();
    let changing = CHANGING.lock();
    list::remove(&module);
    drop(changing);
    events::freed(&module.name);
    forget(&module);
    Ok(())
}
