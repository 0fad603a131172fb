//! The map's self-tests (see `boot::selftest`): blocks become pages and blocks again while other CPUs read
//! them.

use super::{Live, MAP, Reason, map, set_executable, set_present, set_read_only, set_writable};
use crate::arch::mmu;
use crate::check;
use crate::cmdline;
use crate::mm::frame::{self, For, debug_pagealloc};
use crate::mm::{PAGE_SIZE, PhysAddr, kernel_map, vmap};
use crate::sched::{online, spawn_kthread};
use crate::selftest::Test;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use limen_linear_map::{Access, Mapped};
use limen_linux_abi::Errno;

/// The tests.
pub const TESTS: &[Test] = &[
    (
        "a page of a block is read-only, and the block comes back",
        one_page,
    ),
    ("pages that are not there", absent),
    ("what vmap has read-only, the linear map has", aliases),
    ("the map changes with interrupts off", without_interrupts),
    ("CPUs read while blocks are split and merged", while_read),
    ("the map is what it was", as_before),
];

/// log2 of the pages of a block that surely has a block of the map in it.
const ORDER: usize = 10;
const PAGES: usize = 1 << ORDER;

/// A block of memory, filled with a pattern.
pub(super) struct Block(frame::Pfn);

impl Block {
    pub(super) fn new() -> Result<Self, &'static str> {
        let block = Self(frame::alloc_block(ORDER, For::Kernel).ok_or("no block")?);
        for (n, word) in block.words().iter().enumerate() {
            word.store(pattern(n), Relaxed);
        }
        Ok(block)
    }
    pub(super) fn at(&self) -> usize {
        frame::virt(self.0) as usize
    }
    fn words(&self) -> &'static [AtomicU64] {
        // SAFETY: the block is the test's, and stays until its readers have ended.
        unsafe { core::slice::from_raw_parts(self.at() as *const AtomicU64, PAGES * PAGE_SIZE / 8) }
    }
    pub(super) fn is_whole(&self) -> bool {
        let mut words = self.words().iter().enumerate();
        words.all(|(n, word)| word.load(Relaxed) == pattern(n))
    }
    pub(super) fn phys(&self, page: usize) -> PhysAddr {
        PhysAddr::new(frame::phys(self.0).as_u64() + (page * PAGE_SIZE) as u64)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        frame::free_block(self.0, ORDER);
    }
}

fn pattern(n: usize) -> u64 {
    (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The first word of a page of a [`Block`].
pub(super) fn pattern_word(page: usize) -> u32 {
    let bytes = pattern(page * PAGE_SIZE / 8).to_ne_bytes();
    u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

pub(super) fn found(at: usize) -> Option<Mapped> {
    let _lock = MAP.lock();
    map().at(&Live, crate::arch::kernel_map::address(at))
}

fn allows(at: usize, access: Access) -> bool {
    found(at).is_some_and(|found| found.leaf.attributes.access.contains(access))
}

/// Leaves of the linear map by size, and tables without those in reserve. Nothing with `debug_pagealloc`:
/// then they change with every page that anybody allocates.
fn figures() -> (Vec<(u64, u64)>, usize) {
    if debug_pagealloc::is_on() {
        return (Vec::new(), 0);
    }
    (kernel_map::direct().collect(), super::tables())
}

fn one_page() -> Result<(), &'static str> {
    let block = Block::new()?;
    let before = figures();
    let middle = block.at() + PAGES / 2 * PAGE_SIZE + 5 * PAGE_SIZE;
    let large = found(middle).ok_or("not mapped")?;
    check!(set_read_only(middle, 1, Reason::Test).is_ok());
    let page = found(middle).ok_or("not mapped any more")?;
    check!(page.size == PAGE_SIZE as u64 && !page.leaf.grouped);
    check!(page.leaf.phys == mmu::virt_to_phys(middle as *const u8).as_u64());
    check!(!allows(middle, Access::WRITE) && allows(middle, Access::READ | Access::PRESENT));
    check!(allows(middle - PAGE_SIZE, Access::WRITE) && allows(middle + PAGE_SIZE, Access::WRITE));
    check!(block.is_whole());
    let same = large.level == 0 && !large.leaf.grouped || debug_pagealloc::is_on();
    check!(same || figures().0 != before.0);
    check!(set_writable(middle, 1, Reason::Test).is_ok());
    check!(found(middle) == Some(large));
    check!(figures() == before);
    // A part that has neither end on a block's border, all of it, and one page after the other.
    check!(set_read_only(block.at() + PAGE_SIZE, PAGES - 2, Reason::Test).is_ok());
    check!(!allows(middle, Access::WRITE) && allows(block.at(), Access::WRITE));
    check!(set_read_only(block.at(), PAGES, Reason::Test).is_ok());
    for page in 0..PAGES {
        check!(set_writable(block.at() + page * PAGE_SIZE, 1, Reason::Test).is_ok());
    }
    check!(figures() == before && block.is_whole());
    check!(set_executable(middle, 1, Reason::Test) == Err(Errno::EINVAL));
    check!(figures() == before);
    Ok(())
}

fn absent() -> Result<(), &'static str> {
    let block = Block::new()?;
    let before = figures();
    let page = PAGES / 2 + 3;
    let at = block.at() + page * PAGE_SIZE;
    let kept = found(at).ok_or("not mapped")?;
    check!(set_present(block.phys(page), 2, false, Reason::Test).is_ok());
    check!(!allows(at, Access::PRESENT) && !allows(at + PAGE_SIZE, Access::PRESENT));
    check!(allows(at - PAGE_SIZE, Access::PRESENT) && allows(at + 2 * PAGE_SIZE, Access::PRESENT));
    check!(set_present(block.phys(page), 2, true, Reason::Test).is_ok());
    check!(found(at) == Some(kept));
    check!(figures() == before);
    check!(block.is_whole());
    Ok(())
}

fn aliases() -> Result<(), &'static str> {
    let before = figures().0;
    let at = vmap::alloc_pages(3) as usize;
    check!(at != 0);
    let alias = |n: usize| found(at + n * PAGE_SIZE).map(|page| page.leaf.phys);
    let linear = |n: usize| alias(n).map_or(0, |phys| mmu::phys_to_virt(PhysAddr::new(phys)) as usize);
    let aliases: [usize; 3] = core::array::from_fn(linear);
    check!(aliases.iter().all(|&at| allows(at, Access::WRITE)));
    check!(set_read_only(at, 2, Reason::Test).is_ok());
    check!(!allows(at, Access::WRITE) && !allows(at + PAGE_SIZE, Access::WRITE));
    check!(!super::aliases() || !allows(aliases[0], Access::WRITE) && !allows(aliases[1], Access::WRITE));
    check!(allows(at + 2 * PAGE_SIZE, Access::WRITE) && allows(aliases[2], Access::WRITE));
    check!(set_executable(at, 2, Reason::Test).is_ok());
    check!(set_writable(at, 2, Reason::Test) == Err(Errno::EINVAL));
    check!(!allows(aliases[0], Access::EXECUTE));
    check!(super::set_no_exec(at, 2, Reason::Test).is_ok());
    check!(super::reset(at, 3).is_ok());
    check!(aliases.iter().all(|&at| allows(at, Access::WRITE)));
    vmap::free(at as *mut u8);
    check!(figures().0 == before);
    Ok(())
}

fn without_interrupts() -> Result<(), &'static str> {
    let block = Block::new()?;
    let before = figures();
    let at = block.at() + PAGES / 2 * PAGE_SIZE;
    let rule = map().rule;
    let splits = found(at).is_some_and(|found| found.level > 0);
    let (first, second) = crate::sync::without_interrupts(|| {
        let first = set_read_only(at + PAGE_SIZE, 1, Reason::Test);
        (first, set_writable(at + PAGE_SIZE, 1, Reason::Test))
    });
    if rule.parks(rule.table) && splits {
        // Where others would have to wait it is refused, and nothing is changed.
        check!(first == Err(Errno::EBUSY));
    } else {
        check!(first.is_ok() && second.is_ok());
    }
    check!(figures() == before && block.is_whole());
    // What others must wait for is merged later.
    check!(set_read_only(at + PAGE_SIZE, 1, Reason::Test).is_ok());
    crate::sync::without_interrupts(|| set_writable(at + PAGE_SIZE, 1, Reason::Test))
        .map_err(|_| "still split")?;
    super::merge_put_off();
    check!(figures() == before && block.is_whole());
    Ok(())
}

/// What readers and the changer share.
struct Shared {
    words: &'static [AtomicU64],
    stop: AtomicBool,
    wrong: AtomicUsize,
    rounds: AtomicUsize,
    running: AtomicUsize,
}

fn while_read() -> Result<(), &'static str> {
    let block = Block::new()?;
    let before = figures();
    let shared = Arc::new(Shared {
        words: block.words(),
        stop: AtomicBool::new(false),
        wrong: AtomicUsize::new(0),
        rounds: AtomicUsize::new(0),
        running: AtomicUsize::new(0),
    });
    let readers = online().count().saturating_sub(1).min(3);
    for _ in 0..readers {
        let shared = shared.clone();
        shared.running.fetch_add(1, Relaxed);
        spawn_kthread("map-reader", move || read(&shared));
    }
    let rounds = cmdline::value("limen.map_rounds").and_then(|n| n.parse().ok());
    let rounds = rounds.unwrap_or(20);
    let mut changed = change_all(&block, rounds);
    while changed.is_ok() && readers > 0 && shared.rounds.load(Relaxed) == 0 {
        changed = change_all(&block, rounds);
    }
    shared.stop.store(true, Relaxed);
    while shared.running.load(Relaxed) > 0 {
        crate::sched::yield_now();
    }
    changed?;
    check!(shared.wrong.load(Relaxed) == 0);
    check!(readers == 0 || shared.rounds.load(Relaxed) > 0);
    check!(figures() == before && block.is_whole());
    Ok(())
}

/// Reads all words, again and again.
fn read(shared: &Shared) {
    while !shared.stop.load(Relaxed) {
        for (n, word) in shared.words.iter().enumerate() {
            if word.load(Relaxed) != pattern(n) {
                shared.wrong.fetch_add(1, Relaxed);
            }
        }
        shared.rounds.fetch_add(1, Relaxed);
    }
    shared.running.fetch_sub(1, Relaxed);
}

fn change_all(block: &Block, rounds: usize) -> Result<(), &'static str> {
    let mut seed = 1u32;
    for _ in 0..rounds {
        seed = seed.wrapping_mul(1664525).wrapping_add(1013904223);
        let page = (seed >> 12) as usize % PAGES;
        let count = 1 + (seed >> 28) as usize % (PAGES - page).min(3);
        let at = block.at() + page * PAGE_SIZE;
        check!(set_read_only(at, count, Reason::Test).is_ok());
        check!(!allows(at, Access::WRITE));
        check!(set_writable(at, count, Reason::Test).is_ok());
    }
    Ok(())
}

/// After all of it: no W+X page, and all counts are those of the tables.
fn as_before() -> Result<(), &'static str> {
    check!(kernel_map::writable_and_executable() == 0);
    // Other CPUs may change the map while its leaves are counted.
    let tries = if debug_pagealloc::is_on() { 1000 } else { 1 };
    check!((0..tries).any(|_| kernel_map::counts_are_true()));
    Ok(())
}
