//! What hangs in a mount that was unmounted: mounts that are locked to it, and went with it. They still cover
//! what they covered, for whoever is still in there, until nobody is.

use super::Mount;
use crate::fs::dentry::Dentry;
use crate::fs::moves::Moving;
use crate::rcu::Shared;

/// A mount's place in the list of those that are stuck in one above it, and the list of those in it.
pub(super) struct Stuck {
    /// The first one in it.
    first: Option<Shared<Mount>>,
    /// The next one behind it.
    next: Option<Shared<Mount>>,
    /// The name that it covers.
    on: Option<Shared<Dentry>>,
}

impl Stuck {
    pub(super) const NOTHING: Self = Self {
        first: None,
        next: None,
        on: None,
    };
}

impl Mount {
    /// `mnt` stays on `on` in this mount, which is no longer mounted. The caller has locked all mounts.
    pub(super) fn keep_stuck(&self, mnt: &Shared<Mount>, on: Shared<Dentry>) {
        let next = self.stuck.lock().first.take();
        {
            let mut its = mnt.stuck.lock();
            its.next = next;
            its.on = Some(on);
        }
        self.stuck.lock().first = Some(mnt.clone());
    }

    /// Nobody uses this mount any more: nothing is stuck in it, nor in what goes with that. As chains of
    /// mounts may be long, this does not recurse.
    pub(super) fn let_stuck_go(&self) {
        if self.stuck.lock().first.is_none() {
            return;
        }
        let mut todo = None;
        self.unstick(&mut todo);
        while let Some(mnt) = todo {
            todo = mnt.stuck.lock().next.take();
            if let Some(last) = Shared::release(mnt) {
                last.unstick(&mut todo);
            }
        }
    }

    /// Takes the first one out.
    fn first_stuck(&self) -> Option<Shared<Mount>> {
        self.stuck.lock().first.take()
    }

    /// Uncovers what is covered in it, and puts what covered it in front of `todo`.
    fn unstick(&self, todo: &mut Option<Shared<Mount>>) {
        let here = core::ptr::from_ref(self).addr();
        // A walk that found this mount before sees that something moves.
        let _moving = Moving::begin();
        while let Some(mnt) = self.first_stuck() {
            let (next, on) = {
                let mut its = mnt.stuck.lock();
                (core::mem::replace(&mut its.next, todo.take()), its.on.take())
            };
            self.stuck.lock().first = next;
            if let Some(on) = on {
                on.mounted.remove_at(here);
                on.unpin();
            }
            *todo = Some(mnt);
        }
    }
}
