//! Files in flight: sent with a message and not received yet. How many a user may have, and how they are
//! dropped with the socket in which they wait.

use super::{Sock, cycles};
use crate::fs::closing::{self, Emptied};
use crate::fs::file::File;
use crate::sync::SpinLock;
use crate::task::creds::cap;
use crate::task::{current, rlimit};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// How many files in flight each user has, by the sender's real user id.
static COUNTS: SpinLock<BTreeMap<u32, usize>> = SpinLock::new(BTreeMap::new());

/// Files that are sent with a message. Most messages have none, and carry no list.
#[derive(Default)]
pub struct Flight(Option<Box<Files>>);

struct Files {
    list: Vec<Arc<File>>,
    /// The user for whom they count.
    uid: u32,
}

impl Flight {
    /// Counts files that the running thread sends. `ETOOMANYREFS`: its user has more in flight than a process
    /// may have open.
    pub fn new(files: Vec<Arc<File>>) -> Result<Self, Errno> {
        if files.is_empty() {
            return Ok(Self::default());
        }
        cycles::collect_if_many();
        let task = current();
        let creds = task.creds();
        let mut counts = COUNTS.lock();
        let count = counts.entry(creds.uid).or_insert(0);
        if *count as u64 > rlimit(crate::fs::RLIMIT_NOFILE)
            && !creds.capable(cap::SYS_RESOURCE)
            && !creds.capable(cap::SYS_ADMIN)
        {
            // The files are dropped without the lock.
            drop(counts);
            return Err(Errno::ETOOMANYREFS);
        }
        *count += files.len();
        drop(counts);
        cycles::while_nobody_looks(&files, 1, || {});
        Ok(Self(Some(Box::new(Files {
            list: files,
            uid: creds.uid,
        }))))
    }
    /// Whether there are any.
    #[inline]
    pub fn any(&self) -> bool {
        self.0.is_some()
    }
    /// The files, which stay in flight.
    pub fn files(&self) -> &[Arc<File>] {
        self.0.as_ref().map_or(&[], |files| &files.list)
    }
    /// References to the files, which stay in flight.
    pub fn copy(&self) -> Vec<Arc<File>> {
        cycles::copy(self)
    }
    /// The files, which have been received.
    #[inline]
    pub fn land(&mut self) -> Vec<Arc<File>> {
        self.0.take().map_or_else(Vec::new, |files| files.land())
    }
}

impl Files {
    #[cold]
    #[inline(never)]
    fn land(self) -> Vec<Arc<File>> {
        cycles::while_nobody_looks(&self.list, -1, || {});
        let mut counts = COUNTS.lock();
        if let Some(count) = counts.get_mut(&self.uid) {
            *count -= self.list.len().min(*count);
            if *count == 0 {
                counts.remove(&self.uid);
            }
        }
        drop(counts);
        self.list
    }
}

impl Drop for Flight {
    #[inline]
    fn drop(&mut self) {
        if self.any() {
            drop(self.land());
        }
    }
}

impl Emptied for Sock {
    fn link(&self, next: Option<Arc<dyn Emptied>>) {
        self.state.lock().next_closing = next;
    }
    fn unlink(&self) -> Option<Arc<dyn Emptied>> {
        self.state.lock().next_closing.take()
    }
    fn empty(&self) {
        let queue = core::mem::take(&mut self.state.lock().queue);
        drop(queue);
    }
}

/// Drops the messages of a closed socket, and those of sockets that are closed by that.
pub(super) fn empty(sock: &Arc<Sock>) {
    if !sock.state.lock().queue.is_empty() {
        closing::empty(sock.clone());
    }
}
