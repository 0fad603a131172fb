//! Events that something other than a trigger turns on and off while it is there: actions of functions.

use super::list;
use super::state::Soft;
use crate::tracing::Instance;
use alloc::sync::Arc;
use limen_linux_abi::Errno;

impl Instance {
    /// Keeps an event attached, so that its [`Soft`] can be changed in any context. Returns its number, too.
    /// `EINVAL`: there is none; `ENOMEM`. The caller has seen to it that there are buffers. May sleep.
    pub fn hold_event(self: &Arc<Self>, system: &[u8], name: &[u8]) -> Result<(u16, Arc<Soft>), Errno> {
        list::all()?;
        let event = list::named(system, name).ok_or(Errno::EINVAL)?;
        let mut states = self.events.states();
        let state = states.of(event.id)?;
        state.hold();
        let soft = state.soft.clone();
        event
            .publish(self, Some(state))
            .inspect_err(|_| state.release())?;
        Ok((event.id, soft))
    }

    /// Undoes [`Self::hold_event`] of the event with this number. May sleep.
    pub fn release_event(self: &Arc<Self>, id: u16) {
        let mut states = self.events.states();
        let (Some(event), Ok(state)) = (list::numbered(id), states.of(id)) else {
            return;
        };
        if state.softly != 0 {
            state.release();
            // Without memory it stays attached, and records as little as before.
            let _ = event.publish(self, Some(state));
        }
    }
}
