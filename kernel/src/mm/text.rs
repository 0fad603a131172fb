//! Changing the kernel's text while it is executed. It stays read-only and executable where it is; it is
//! written through a second mapping, which is never executed and lasts as long as the change.

use super::linear::each_run;
use super::{PAGE_SHIFT, PAGE_SIZE, PhysAddr, vmap};
use crate::arch::kernel_map;
use crate::arch::sites::Word;
use crate::arch::{mmu, patch};
use crate::sched::{on_each_cpu, online};
use crate::sync::Mutex;
use core::ops::Range;
use core::sync::atomic::{AtomicU8, AtomicUsize};
use limen_linux_abi::Errno;

/// Held while instructions are exchanged: a word may hold those of two owners.
static EXCHANGING: Mutex<()> = Mutex::new(());

/// Pages of text that can be written.
pub struct Writable {
    /// The mapping.
    at: usize,
    /// Addresses of the text.
    text: Range<usize>,
}

impl Writable {
    /// Those with the bytes at `text`, of the image or of one module. Thread, interrupts on. `ENOMEM`.
    pub fn new(text: Range<usize>) -> Result<Self, Errno> {
        let text = text.start & !(PAGE_SIZE - 1)..text.end.next_multiple_of(PAGE_SIZE);
        let pages = (text.end - text.start) >> PAGE_SHIFT;
        let at = vmap::map(pages, |map| each_page(&text, map)).ok_or(Errno::ENOMEM)?;
        Ok(Self { at, text })
    }

    /// Where that text can be written.
    fn place(&self, text: usize, size: usize) -> usize {
        assert!(self.text.contains(&text) && text.is_multiple_of(size));
        self.at + (text - self.text.start)
    }

    /// A word of instructions.
    ///
    /// # Safety
    /// What is stored there may be executed at any time; see `arch::sites`.
    pub unsafe fn word(&self, text: usize) -> &Word {
        // SAFETY: mapped as long as `self` lives, aligned, and written only as atomic words.
        unsafe { &*(self.place(text, size_of::<Word>()) as *const Word) }
    }

    /// A byte of instructions.
    ///
    /// # Safety
    /// As for [`Self::word`].
    #[allow(dead_code, reason = "only x86_64 exchanges them by bytes")]
    pub unsafe fn byte(&self, text: usize) -> &AtomicU8 {
        // SAFETY: as in `word`.
        unsafe { &*(self.place(text, 1) as *const AtomicU8) }
    }

    /// A pointer between instructions.
    ///
    /// # Safety
    /// What is stored there may be followed at any time.
    pub unsafe fn pointer(&self, text: usize) -> &AtomicUsize {
        // SAFETY: as in `word`.
        unsafe { &*(self.place(text, size_of::<usize>()) as *const AtomicUsize) }
    }

    /// What was written to the page with the text at `at` is what CPUs fetch from now on, but for what they
    /// have fetched already.
    pub fn written(&self, at: usize) {
        let page = at & !(PAGE_SIZE - 1);
        each_page(&(page..page + PAGE_SIZE), |phys| {
            mmu::sync_instructions(phys);
            true
        });
    }
}

/// Exchanges instructions while all CPUs may execute them. `store` stores what one phase stores of one
/// element of
/// `list`; `at` says where its instruction is, and which pages show its text: in ascending order of both.
/// When this returns all CPUs execute what the last phase has stored. Thread, interrupts on, and no lock held
/// that an interrupt handler takes; may sleep.
pub fn exchange<'a, T>(
    phases: usize,
    list: &[T],
    at: impl Fn(&T) -> (&'a Writable, usize),
    mut store: impl FnMut(&T, usize),
) {
    if list.is_empty() {
        return;
    }
    let _exchanging = EXCHANGING.lock();
    // The last phase comes twice: an emulator (QEMU before 8.1) may have read what was there before while it
    // translated, and keep that until there is another store. After all CPUs were interrupted none still
    // does.
    for phase in (0..phases).chain([phases - 1]) {
        for (n, item) in list.iter().enumerate() {
            store(item, phase);
            // Once for each page, with its last.
            let (pages, place) = at(item);
            let next = list.get(n + 1).map(|item| at(item).1 / PAGE_SIZE);
            if next != Some(place / PAGE_SIZE) {
                pages.written(place);
            }
        }
        on_each_cpu(online(), &patch::synchronize);
    }
}

impl Drop for Writable {
    fn drop(&mut self) {
        vmap::unmap(self.at);
    }
}

/// Calls `f` with each page of text, until it says `false`. Returns whether there was no such page.
fn each_page(text: &Range<usize>, mut f: impl FnMut(PhysAddr) -> bool) -> bool {
    let pages = (text.end - text.start) >> PAGE_SHIFT;
    let mut run = |phys: PhysAddr, pages: usize| {
        let all = (0..pages).all(|n| f(PhysAddr::new(phys.as_u64() + (n << PAGE_SHIFT) as u64)));
        all.then_some(()).ok_or(Errno::ENOMEM)
    };
    if vmap::contains(text.start) {
        return each_run(text.start, pages, run).is_ok();
    }
    let image = kernel_map::image();
    let from = image.text + (text.start - image.linked) as u64;
    run(PhysAddr::new(from), pages).is_ok()
}
