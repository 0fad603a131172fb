//! Local descriptor tables: segments of a program's own. An address space has at most one; a table never
//! changes, a new one takes its place ([`super::segments`] makes it, `tlb` brings it to the CPUs).
//!
//! What holds a hostile program: every entry is code or data for user mode (no gate, nothing of the
//! processor's own), never 64-bit code, and what a selector may be used for the processor checks whenever
//! user mode loads it. The kernel loads only what it has asked the processor about (`selector`).

use crate::sync::SpinLock;
use crate::sync::lockdep::fallible;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::arch::asm;
use core::mem::MaybeUninit;
use core::ptr::null;
use core::sync::atomic::{AtomicPtr, Ordering};
use limen_linux_abi::Errno;

/// The most entries of a table (`LDT_ENTRIES`), as many as selectors can tell apart.
pub const ENTRIES: usize = 8192;

/// A table.
#[derive(Debug)]
pub struct Table(Vec<u64>);

impl Table {
    /// A copy of `old` with the entry at `index` (below [`ENTRIES`]) as given. `ENOMEM`. May sleep.
    pub fn changed(old: Option<&Self>, index: usize, entry: u64) -> Result<Arc<Self>, Errno> {
        let old = old.map_or(&[][..], |table| &table.0);
        let len = old.len().max(index + 1);
        let mut all = Vec::new();
        fallible(|| all.try_reserve_exact(len)).map_err(|_| Errno::ENOMEM)?;
        all.extend_from_slice(old);
        all.resize(len, 0);
        all[index] = entry;
        Ok(Arc::new(Self(all)))
    }

    /// Its entries, as programs read them.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the memory of integers.
        unsafe { core::slice::from_raw_parts(self.0.as_ptr().cast(), size_of_val(self.0.as_slice())) }
    }
}

/// An address space's.
pub struct Slot {
    owner: SpinLock<Option<Arc<Table>>>,
    /// The same, for CPUs that load it. One that is replaced lives until they have all been told.
    shown: AtomicPtr<Table>,
}

impl core::fmt::Debug for Slot {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Slot").field(&self.shown).finish()
    }
}

/// What [`Slot::replace`] found.
pub enum Replaced {
    /// What was there, to be dropped when no CPU has it any more.
    Old(Option<Arc<Table>>),
    /// Another thread has replaced it meanwhile: nothing was done.
    Changed,
}

impl Slot {
    /// Without a table.
    pub const fn new() -> Self {
        Self::of(None, null())
    }

    /// With `table`.
    const fn of(table: Option<Arc<Table>>, shown: *const Table) -> Self {
        Self {
            owner: SpinLock::new(table),
            shown: AtomicPtr::new(shown.cast_mut()),
        }
    }

    /// The same table, for an address space that is a copy.
    pub fn copied(&self) -> Self {
        let table = self.get();
        let shown = table.as_ref().map_or(null(), Arc::as_ptr);
        Self::of(table, shown)
    }

    /// The table.
    pub fn get(&self) -> Option<Arc<Table>> {
        if self.is_empty() {
            return None;
        }
        self.owner.lock().clone()
    }

    /// Whether there is none. Once there is one, there always is.
    pub fn is_empty(&self) -> bool {
        self.shown.load(Ordering::SeqCst).is_null()
    }

    /// `new` takes the place of `old`. The caller then tells all CPUs that may have the old one.
    pub fn replace(&self, old: Option<&Arc<Table>>, new: Arc<Table>) -> Replaced {
        let mut owner = self.owner.lock();
        if owner.as_ref().map(Arc::as_ptr) != old.map(Arc::as_ptr) {
            return Replaced::Changed;
        }
        self.shown.store(Arc::as_ptr(&new).cast_mut(), Ordering::SeqCst);
        Replaced::Old(owner.replace(new))
    }

    /// Makes the table this CPU's. Interrupts are off; the address space is loaded here, so that whoever
    /// replaces the table waits for this CPU.
    pub fn load(&self) {
        // SAFETY: it is there until this CPU has been told of another.
        let table = unsafe { self.shown.load(Ordering::SeqCst).as_ref() };
        if let Some(table) = table {
            // SAFETY: interrupts are off, and the table lives as long as this CPU has it.
            unsafe { load(&table.0) };
        }
    }
}

/// Selector of what describes this CPU's local table: two entries of its global one.
const SELECTOR: usize = 0x50;

/// What `sgdt` tells: two bytes of limit, the address.
#[repr(C, packed)]
struct Pointer(u16, u64);

/// Makes `entries` this CPU's local table.
///
/// # Safety
/// Interrupts are off, and the entries live until another table is loaded, or until nothing loads a selector
/// of the local table any more. There is at least one, and there are at most [`ENTRIES`], of no kind but code
/// and data for user mode.
unsafe fn load(entries: &[u64]) {
    let base = entries.as_ptr() as u64;
    let limit = size_of_val(entries) as u64 - 1;
    let mut global = MaybeUninit::<Pointer>::uninit();
    // SAFETY: the two entries of this CPU's table are for this, and nothing else changes them; the
    // instructions store and load only what is said.
    unsafe {
        asm!("sgdt [{}]", in(reg) global.as_mut_ptr(), options(nostack, preserves_flags));
        let Pointer(_, global) = global.assume_init();
        let at = (global as *mut u64).add(SELECTOR / 8);
        // At most 64 KiB, so the limit has no more bits.
        at.write(limit | (base & 0x00ff_ffff) << 16 | 0x82 << 40 | (base >> 24 & 0xff) << 56);
        at.add(1).write(base >> 32);
        asm!("lldt {:x}", in(reg) SELECTOR, options(nostack, preserves_flags));
    }
}

/// This CPU has no local table.
pub fn unload() {
    // SAFETY: nothing of user mode's is loaded from one in the kernel.
    unsafe { asm!("lldt {:x}", in(reg) 0, options(nostack, preserves_flags)) };
}
