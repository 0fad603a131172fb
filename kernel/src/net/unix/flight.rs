//! Files in flight: sent with a message and not received yet. How many a user may have, and how they are
//! dropped with the socket in which they wait.

use super::{Sock, cycles};
use crate::fs::closing::{self, Emptied};
use crate::fs::file::File;
use crate::sync::SpinLock;
use crate::task::creds::cap;
use crate::task::{current, rlimit};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// How many files in flight each user has, by the sender's real user id.
static COUNTS: SpinLock<BTreeMap<u32, usize>> = SpinLock::new(BTreeMap::new());

/// Files that are sent with a message.
#[derive(Default)]
pub struct Flight {
    files: Vec<Arc<File>>,
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
        Ok(Self {
            files,
            uid: creds.uid,
        })
    }
    /// The files, which stay in flight.
    pub fn files(&self) -> &[Arc<File>] {
        &self.files
    }
    /// References to the files, which stay in flight.
    pub fn copy(&self) -> Vec<Arc<File>> {
        cycles::copy(self)
    }
    /// The files, which have been received.
    pub fn land(&mut self) -> Vec<Arc<File>> {
        let files = core::mem::take(&mut self.files);
        if !files.is_empty() {
            cycles::while_nobody_looks(&files, -1, || {});
            let mut counts = COUNTS.lock();
            if let Some(count) = counts.get_mut(&self.uid) {
                *count -= files.len().min(*count);
                if *count == 0 {
                    counts.remove(&self.uid);
                }
            }
        }
        files
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.land();
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
