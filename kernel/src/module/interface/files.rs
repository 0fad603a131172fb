//! Files of modules in procfs: a function of the module writes their text.

use super::Status;
use crate::fs::procfs;
use crate::fs::pseudo::{Node, Text};
use crate::mm::reserve;
use crate::module::list::{self, Module};
use crate::sched::WaitQueue;
use crate::sync::Mutex;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
use limen_linux_abi::Errno;

/// `int show(struct limen_text *out, void *data)`.
type Show = unsafe extern "C" fn(*mut Text, *mut c_void) -> Status;

/// A file.
pub struct Entry {
    name: String,
    show: Show,
    data: *mut c_void,
    /// The module of `show`.
    owner: Option<Arc<Module>>,
    /// How many read it, and [`REMOVED`].
    readers: AtomicU32,
    idle: WaitQueue,
}

// SAFETY: the pointer is the module's, which gets it back from whatever thread reads the file.
unsafe impl Send for Entry {}
// SAFETY: as for `Send`.
unsafe impl Sync for Entry {}

const REMOVED: u32 = 1 << 31;

static ENTRIES: Mutex<Vec<Arc<Entry>>> = Mutex::new(Vec::new());

impl Entry {
    /// Whether a module made it.
    fn is_of(&self, module: &Arc<Module>) -> bool {
        self.owner
            .as_ref()
            .is_some_and(|owner| Arc::ptr_eq(owner, module))
    }

    /// Lets the module write the text. `EIO`: the file has been removed.
    fn read(&self, out: &mut Text) -> Result<(), Errno> {
        let more = |readers: u32| (readers < REMOVED - 1).then(|| readers + 1);
        if self.readers.fetch_update(SeqCst, SeqCst, more).is_err() {
            return Err(Errno::EIO);
        }
        // SAFETY: the module's function, which stays until nobody reads.
        let status = unsafe { (self.show)(out, self.data) };
        if self.readers.fetch_sub(1, SeqCst) == REMOVED + 1 {
            self.idle.wake_all();
        }
        match Errno::from_return_value(status as isize as usize) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Nobody reads it from now on. Sleeps until nobody does.
    fn remove(&self) {
        procfs::TREE.remove(self.name.as_bytes());
        self.readers.fetch_or(REMOVED, SeqCst);
        self.idle
            .wait_until_uninterruptible(|| self.readers.load(SeqCst) == REMOVED);
    }
}

/// `struct limen_proc *limen_proc_create(const char *name, unsigned int mode, show, void *data)`: a file at
/// the top of procfs. Null: there is such a name, or no memory. May sleep.
pub unsafe extern "C" fn create(
    name: *const c_char,
    mode: u32,
    show: Show,
    data: *mut c_void,
) -> *const Entry {
    // SAFETY: the module's promise.
    let name = unsafe { CStr::from_ptr(name) };
    let Some(name) = name
        .to_str()
        .ok()
        .filter(|name| !name.is_empty() && !name.contains('/'))
    else {
        return core::ptr::null();
    };
    let mut entries = ENTRIES.lock();
    let number = name.bytes().all(|b| b.is_ascii_digit());
    if number || procfs::TREE.find(name.as_bytes()).is_some() || reserve::room(&mut *entries, 1).is_err() {
        return core::ptr::null();
    }
    let entry = Arc::new(Entry {
        name: String::from(name),
        show,
        data,
        owner: list::at(show as usize),
        readers: AtomicU32::new(0),
        idle: WaitQueue::new(),
    });
    let read = entry.clone();
    let text = move |out: &mut Text| read.read(out);
    procfs::TREE.add(name, Node::File(mode & 0o444, Arc::new(text), None));
    let handle = Arc::as_ptr(&entry);
    entries.push(entry);
    handle
}

/// `void limen_proc_remove(struct limen_proc *file)`: removes a file, or nothing if that is null. It waits
/// for whoever reads it. May sleep.
pub extern "C" fn remove(file: *const Entry) {
    let found = {
        let mut entries = ENTRIES.lock();
        let index = entries.iter().position(|entry| Arc::as_ptr(entry) == file);
        index.map(|index| entries.swap_remove(index))
    };
    if let Some(entry) = found {
        entry.remove();
    }
}

/// `void limen_text_add(struct limen_text *out, const char *text, size_t length)`: adds to the text of a file
/// that is read.
pub unsafe extern "C" fn text_add(out: *mut Text, text: *const u8, length: usize) {
    // SAFETY: the module's promise: it got `out` from the kernel, and has not yet returned.
    let (out, text) = unsafe { (&mut *out, core::slice::from_raw_parts(text, length)) };
    out.add(text);
}

/// Removes what a module has left.
pub fn clean(module: &Arc<Module>) {
    loop {
        let left = {
            let mut entries = ENTRIES.lock();
            let index = entries.iter().position(|entry| entry.is_of(module));
            index.map(|index| entries.swap_remove(index))
        };
        let Some(entry) = left else { return };
        warning!("{}: /proc/{} was not removed", module.name, entry.name);
        entry.remove();
    }
}
