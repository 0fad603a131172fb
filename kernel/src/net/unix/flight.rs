//! Files in flight: sent along with a message and not received yet. How many a user may have, and how they end with the socket they wait in.

use super::Sock;
use crate::fs::file::File;
use crate::sync::SpinLock;
use crate::task::creds::cap;
use crate::task::{current, rlimit};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// How many files each user has in flight, by the real id of who sent them.
static COUNTS: SpinLock<BTreeMap<u32, usize>> = SpinLock::new(BTreeMap::new());

/// Files that travel along with a message.
#[derive(Default)]
pub struct Flight {
    files: Vec<Arc<File>>,
    /// Whom they count for.
    uid: u32,
}

impl Flight {
    /// Counts files that the running thread sends; `ETOOMANYREFS` if its user has more in flight already than a process may have open.
    pub fn new(files: Vec<Arc<File>>) -> Result<Self, Errno> {
        if files.is_empty() {
            return Ok(Self::default());
        }
        let task = current();
        let creds = task.creds();
        let mut counts = COUNTS.lock();
        let count = counts.entry(creds.uid).or_insert(0);
        if *count as u64 > rlimit(crate::fs::RLIMIT_NOFILE)
            && !creds.capable(cap::SYS_RESOURCE)
            && !creds.capable(cap::SYS_ADMIN)
        {
            // The files go after the lock.
            drop(counts);
            return Err(Errno::ETOOMANYREFS);
        }
        *count += files.len();
        Ok(Self {
            files,
            uid: creds.uid,
        })
    }
    /// The files, which stay where they are.
    pub fn files(&self) -> &[Arc<File>] {
        &self.files
    }
    /// The files, which have arrived.
    pub fn land(&mut self) -> Vec<Arc<File>> {
        let files = core::mem::take(&mut self.files);
        if !files.is_empty() {
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

/// The closed sockets that a thread has yet to empty.
///
/// A message may have the last reference of a socket, whose messages may have those of others, and so on without end. So a socket that is closed
/// while its thread empties another one is only put on this list: the stack stays as it is, however long the chain, and still all of it is
/// closed when the call that closed the first one returns.
pub struct Closing {
    first: Option<Arc<Sock>>,
    /// It is emptying one.
    busy: bool,
}

impl Closing {
    /// A new thread's: none.
    pub const fn new() -> Self {
        Self {
            first: None,
            busy: false,
        }
    }
}

/// Drops the messages of a closed socket, and of those that are closed thereby.
pub(super) fn empty(sock: &Arc<Sock>) {
    if sock.state.lock().queue.is_empty() {
        return;
    }
    let task = current();
    {
        let mut closing = task.closing.lock();
        let next = closing.first.replace(sock.clone());
        sock.state.lock().next_closing = next;
        if core::mem::replace(&mut closing.busy, true) {
            return;
        }
    }
    loop {
        let mut closing = task.closing.lock();
        let Some(sock) = closing.first.take() else {
            closing.busy = false;
            return;
        };
        let queue = {
            let mut s = sock.state.lock();
            closing.first = s.next_closing.take();
            core::mem::take(&mut s.queue)
        };
        drop(closing);
        drop(queue);
    }
}
