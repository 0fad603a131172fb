//! Memory for modules.

use super::Status;
use crate::arch::mmu::USER_END;
use crate::arch::nofault::put_kernel_nofault;
use crate::mm::linear::Reason;
use crate::mm::vmap::{self, Zone};
use crate::mm::{PAGE_SHIFT, PAGE_SIZE, Prot, reserve};
use crate::sync::Mutex;
use alloc::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ptr::null_mut;
use limen_linux_abi::Errno;

/// In front of a block of the heap: its size. As long as the heap's alignment.
const HEAD: usize = 16;

fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(HEAD)?, HEAD).ok()
}

/// A block of the heap, by one of its functions.
fn block(size: usize, from: unsafe fn(Layout) -> *mut u8) -> *mut u8 {
    let Some(layout) = layout(size) else {
        return null_mut();
    };
    // SAFETY: the layout has a size.
    let block = unsafe { from(layout) };
    if block.is_null() {
        return block;
    }
    // SAFETY: the block begins with room for a word.
    unsafe {
        block.cast::<usize>().write(size);
        block.add(HEAD)
    }
}

/// `void *limen_kmalloc(size_t size)`: memory aligned to 16 bytes, or null. In any context; more than 16 KiB
/// only where sleeping is allowed.
pub extern "C" fn kmalloc(size: usize) -> *mut u8 {
    block(size, alloc)
}

/// `void *limen_kzalloc(size_t size)`: the same, all zeros.
pub extern "C" fn kzalloc(size: usize) -> *mut u8 {
    block(size, alloc_zeroed)
}

/// `void limen_kfree(void *block)`: frees what `limen_kmalloc` gave, or nothing if that is null.
pub unsafe extern "C" fn kfree(block: *mut u8) {
    if block.is_null() {
        return;
    }
    // SAFETY: the module's promise: the block has a head, and nobody uses it any more.
    unsafe {
        let block = block.sub(HEAD);
        if let Some(layout) = layout(block.cast::<usize>().read()) {
            dealloc(block, layout);
        }
    }
}

/// Mapped pages, and what each allows now.
struct Mapped {
    at: usize,
    pages: Box<[Prot]>,
}

static MAPPED: Mutex<Vec<Mapped>> = Mutex::new(Vec::new());

const READ_WRITE: Prot = Prot::READ.union(Prot::WRITE);

/// `void *limen_vmalloc(size_t size)`: whole pages with consecutive addresses, or null. May sleep.
pub extern "C" fn vmalloc(size: usize) -> *mut u8 {
    let count = size.div_ceil(PAGE_SIZE);
    let mut pages = Vec::new();
    let mut mapped = MAPPED.lock();
    if count == 0
        || reserve::room_exact(&mut pages, count).is_err()
        || reserve::room(&mut *mapped, 1).is_err()
    {
        return null_mut();
    }
    pages.resize(count, READ_WRITE);
    let at = vmap::alloc(count, Zone::General);
    if !at.is_null() {
        mapped.push(Mapped {
            at: at as usize,
            pages: pages.into_boxed_slice(),
        });
    }
    at
}

/// `void limen_vfree(void *at)`: frees what `limen_vmalloc` gave, or nothing if that is null. May sleep.
pub extern "C" fn vfree(at: *mut u8) {
    if at.is_null() {
        return;
    }
    let mut mapped = MAPPED.lock();
    let Some(index) = mapped.iter().position(|mapped| mapped.at == at as usize) else {
        drop(mapped);
        return warning!("limen_vfree() of {at:p}, which is nothing that limen_vmalloc() gave");
    };
    let freed = mapped.swap_remove(index);
    drop(mapped);
    drop(freed);
    vmap::free(at);
}

/// Changes what pages that `limen_vmalloc` gave allow.
fn change(at: *mut u8, count: i32, now: impl Fn(Prot) -> Prot) -> Result<(), Errno> {
    let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
    let at = at as usize;
    if !at.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    let mut mapped = MAPPED.lock();
    let found = mapped.iter_mut().find_map(|mapped| {
        let first = at.checked_sub(mapped.at)? >> PAGE_SHIFT;
        mapped.pages.get_mut(first..first.checked_add(count)?)
    });
    let pages = found.ok_or(Errno::EINVAL)?;
    let both = Prot::WRITE | Prot::EXEC;
    if pages.iter().any(|page| now(*page).contains(both)) {
        return Err(Errno::EINVAL);
    }
    // Pages that allow the same are changed together.
    let mut first = 0;
    for run in pages.chunk_by(|a, b| a == b) {
        let prot = now(run[0]);
        vmap::protect(at + (first << PAGE_SHIFT), run.len(), prot, Reason::Alias)?;
        first += run.len();
    }
    pages.iter_mut().for_each(|page| *page = now(*page));
    Ok(())
}

fn status(result: Result<(), Errno>) -> Status {
    result.map_or_else(|error| -i32::from(error.get()), |()| 0)
}

/// `int limen_set_memory_ro(void *at, int pages)`: whole pages of one `limen_vmalloc` cannot be written any
/// more. This and the next three may sleep. `-EINVAL`: they are not such pages, or could be written and
/// executed then.
pub extern "C" fn set_ro(at: *mut u8, pages: i32) -> Status {
    status(change(at, pages, |prot| prot - Prot::WRITE))
}

/// `int limen_set_memory_rw(void *at, int pages)`: they can be written.
pub extern "C" fn set_rw(at: *mut u8, pages: i32) -> Status {
    status(change(at, pages, |prot| prot | Prot::WRITE))
}

/// `int limen_set_memory_x(void *at, int pages)`: what is in them can be executed.
pub extern "C" fn set_x(at: *mut u8, pages: i32) -> Status {
    status(change(at, pages, |prot| prot | Prot::EXEC))
}

/// `int limen_set_memory_nx(void *at, int pages)`: it cannot.
pub extern "C" fn set_nx(at: *mut u8, pages: i32) -> Status {
    status(change(at, pages, |prot| prot - Prot::EXEC))
}

/// `int limen_probe_write(unsigned int *at, unsigned int value)`: writes a word of the kernel's memory if
/// that is allowed. `-EFAULT`: it is not, or it is no address of the kernel's. In any context.
pub unsafe extern "C" fn probe_write(at: *mut u32, value: u32) -> Status {
    let at = at as usize;
    // SAFETY: the module's promise: what is there may be overwritten.
    if at <= USER_END || !at.is_multiple_of(4) || !unsafe { put_kernel_nofault(at, value) } {
        return -i32::from(Errno::EFAULT.get());
    }
    0
}

/// `unsigned long limen_total_pages(void)`: how many pages of memory there are. In any context.
pub extern "C" fn total_pages() -> usize {
    crate::mm::stats().total
}

/// `unsigned long limen_free_pages(void)`: how many are free. In any context.
pub extern "C" fn free_pages() -> usize {
    crate::mm::stats().free
}
