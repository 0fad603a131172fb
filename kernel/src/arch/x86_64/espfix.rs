//! The return to 32-bit or 16-bit code with a 16-bit stack segment.
//!
//! Then `iretq` restores only the lower half of ESP: the upper one keeps what the kernel's stack pointer had,
//! so the program would lose its own and learn the kernel's. So the last `iretq` is made on a stack of its
//! own, which is at such an address that bits 16 to 31 are already the program's: [`BASE`] has the same page
//! at the start of each 64 KiB of 4 GiB, by three tables that point to one another many times. (The bits
//! above are [`BASE`]'s. Only 64-bit code that comes behind can see them, and they tell nothing.)
//!
//! There the page can only be read, so an `iretq` that faults finds no room for the exception's frame and
//! ends in a double fault, which has a stack of its own: its stub (`trap_double` of `entry`) makes it the
//! general protection fault in user mode that it would have been, as Linux does.
//!
//! Whether a return needs this is asked only of threads that can have such a stack segment
//! (`ThreadFlags::RETURN`): those with a local table; and after each NMI in user mode, which does no other
//! work on its way back. The global table has no 16-bit data. Then every stack segment of the local table is
//! taken for one, as on Linux; what 64-bit code goes on with is whole either way.

use super::cpus;
use super::mmu::{self, ACCESSED, DIRTY, NO_EXECUTE, PRESENT, WRITE};
use crate::mm::frame::For;
use crate::mm::{Page, PhysAddr};
use crate::sync::{MAX_CPUS, SpinLock};
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use limen_linux_abi::Errno;

/// Where the program's bits are added; 4 GiB that nothing else uses.
const BASE: usize = 0xffff_ff80_0000_0000;
/// Bits 16 to 31.
const UPPER_HALF: usize = 0xffff_0000;

/// What an `iretq` takes; the size is that of a line of the cache.
type Stack = [usize; 8];
const _: () = assert!(MAX_CPUS * size_of::<Stack>() <= 4096);

/// The page where it can be written: a [`Stack`] for each CPU. Null: there is none yet.
static STACKS: AtomicPtr<Stack> = AtomicPtr::new(core::ptr::null_mut());

/// Held by who maps the page.
static MAPPING: SpinLock<()> = SpinLock::new(());

unsafe extern "C" {
    /// Exchanges GS and returns to user mode by what the stack pointer points to.
    fn espfix_return();
}

/// The table of `level` that holds the entry for [`BASE`] at `index`, by its address here.
fn entry(table: PhysAddr, index: usize) -> *const AtomicU64 {
    mmu::phys_to_virt(table).cast::<AtomicU64>().wrapping_add(index)
}

/// Maps the page, unless it is mapped. `ENOMEM`. Thread.
pub fn init() -> Result<(), Errno> {
    if !STACKS.load(Ordering::Acquire).is_null() {
        return Ok(());
    }
    let new = || Page::alloc_zeroed(For::Kernel).ok_or(Errno::ENOMEM);
    let (stacks, pages, tables) = (new()?, new()?, new()?);
    let _held = MAPPING.lock();
    if !STACKS.load(Ordering::Relaxed).is_null() {
        return Ok(());
    }
    let store = |at: *const AtomicU64, value: u64| {
        // SAFETY: an entry of a table, one of those above or the kernel's own, which live for ever.
        unsafe { (*at).store(value, Ordering::Release) };
    };
    const TABLE: u64 = PRESENT | WRITE | ACCESSED;
    let leaf = stacks.phys().as_u64() | PRESENT | ACCESSED | DIRTY | NO_EXECUTE;
    for index in 0..512usize {
        if index.is_multiple_of(16) {
            store(entry(pages.phys(), index), leaf);
        }
        store(entry(tables.phys(), index), pages.phys().as_u64() | TABLE);
    }
    let root = entry(mmu::kernel_root(), BASE >> 39 & 511);
    // SAFETY: the image is under the same entry of the root, so there is a table.
    let top = mmu::Entry(unsafe { (*root).load(Ordering::Relaxed) }).phys();
    for gigabyte in 0..4 {
        store(
            entry(top, (BASE >> 30 & 511) + gigabyte),
            tables.phys().as_u64() | TABLE,
        );
    }
    STACKS.store(mmu::phys_to_virt(stacks.phys()).cast(), Ordering::Release);
    core::mem::forget((stacks, pages, tables));
    Ok(())
}

/// Puts what the last `iretq` of a return takes (RIP, CS, RFLAGS, RSP, SS) onto this CPU's stack, and returns
/// where the kernel goes for it, with which stack pointer. Interrupts stay off until then.
pub fn prepare(words: [usize; 5]) -> [usize; 2] {
    let cpu = cpus::cpu_id();
    // SAFETY: whoever made the first local table has mapped the page, and this element is this CPU's.
    let at = unsafe { &mut *STACKS.load(Ordering::Acquire).add(cpu) };
    at[..words.len()].copy_from_slice(&words);
    let [_, _, _, rsp, _] = words;
    [
        espfix_return as *const () as usize,
        BASE + (rsp & UPPER_HALF) + cpu * size_of::<Stack>(),
    ]
}
