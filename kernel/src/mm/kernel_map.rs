//! The kernel's own map, as it is at this moment: how large its leaves are, what they allow, and whether any
//! of them allows to write and to execute.

use super::Prot;
use super::linear::{Stretch, each_stretch};
use crate::arch::kernel_map;
use crate::arch::mmu::Entry;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use limen_linear_map::{self as linear_map, Access, Leaf, MAX_LEVELS, Mapped, Report};

/// A part of the kernel's addresses.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    /// The first address, as the tables count.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// Its name in the list of leaves, with Linux's words.
    pub name: &'static str,
}

impl Area {
    /// Of these addresses.
    pub fn new(start: usize, end: usize, name: &'static str) -> Self {
        Self {
            start: kernel_map::address(start),
            end: kernel_map::address(end),
            name,
        }
    }
}

/// Where the image lies in memory: physical addresses.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    /// Its text.
    pub text: u64,
    /// Its constants, up to which text goes.
    pub rodata: u64,
    /// Text that only boot needs.
    pub init: u64,
    /// Its data; first those that only boot needs.
    pub data: u64,
    /// The end of what only boot needs.
    pub init_end: u64,
    /// In it, the page below the boot stack, which nobody may touch.
    pub guard: u64,
    /// Its end.
    pub end: u64,
    /// Where its text is linked: in the linear map, or apart from it.
    pub linked: usize,
}

impl Image {
    /// With these bounds, in their order, linked at that address.
    pub fn new([text, rodata, init, data, init_end, guard, end]: [u64; 7], linked: usize) -> Self {
        Self {
            text,
            rodata,
            init,
            data,
            init_end,
            guard,
            end,
            linked,
        }
    }

    /// What the linear map has, from its beginning to its end. Text is executable there if that is where it
    /// runs; constants, and text that runs elsewhere, are read-only. The guard page is left out where the
    /// stack is used by these addresses.
    ///
    /// `block`: how many bytes around the image are of pages, because the code that changes the size of a
    /// block, and what that needs, must not be in one. 1 where sizes change live: what is alike is one part
    /// there, but for what is given back after boot. By then a CPU may have come with which they do not.
    pub fn parts(&self, runs_here: bool, block: u64) -> impl Iterator<Item = Part> {
        let page = super::PAGE_SIZE as u64;
        let (write, read) = (Prot::READ | Prot::WRITE, Prot::READ);
        let text = if runs_here { read | Prot::EXEC } else { read };
        let guard = if runs_here { self.guard } else { self.end };
        let behind = if runs_here { guard + page } else { guard };
        let (low, high) = (self.text & !(block - 1), self.end.next_multiple_of(block));
        let part = |start, end, prot| Part {
            start,
            end,
            prot,
            pages: block > 1 && start >= low && end <= high,
        };
        let parts = [
            part(0, low, write),
            part(low, self.text, write),
            part(self.text, self.rodata, text),
            part(self.rodata, self.init, read),
            part(self.init, self.data, text),
            part(self.data, self.init_end, write),
            part(self.init_end, guard, write),
            part(behind, self.end, write),
            part(self.end, high, write),
            part(high, u64::MAX, write),
        ];
        let bounds = [self.init, self.init_end];
        let mut at = 0;
        core::iter::from_fn(move || {
            let mut part = *parts.get(at)?;
            at += 1;
            while block == 1
                && let Some(next) = parts.get(at)
                && (next.start, next.prot) == (part.end, part.prot)
                && !bounds.contains(&next.start)
            {
                part.end = next.end;
                at += 1;
            }
            Some(part)
        })
    }
}

/// A part of the linear map, as it is built.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The first physical address.
    pub start: u64,
    /// One past the last; not after the first if there is nothing.
    pub end: u64,
    /// What may be done there.
    pub prot: Prot,
    /// Whether it is of pages only.
    pub pages: bool,
}

/// Leaves that follow each other and say the same.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// The first address, as the tables count.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// The first leaf.
    pub leaf: Leaf,
    /// The level of all of them.
    pub level: usize,
}

/// An entry of `level` as a number, and what is to be added for each that follows it: leaves follow each
/// other in memory.
pub fn numbers(entry: linear_map::Entry, level: usize) -> (u64, u64) {
    let number = |entry| Entry::of_kernel(entry, level).number();
    let first = number(entry);
    let linear_map::Entry::Leaf(mut next) = entry else {
        return (first, 0);
    };
    next.phys += kernel_map::map().geometry.level(level).size();
    (first, number(linear_map::Entry::Leaf(next)).wrapping_sub(first))
}

/// Bytes as Linux's lists of leaves have them: a number in nine columns, and its unit.
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut size, mut units) = (self.0 >> 10, "KMGTPE".chars());
        let mut unit = units.next();
        while size & 1023 == 0 && size > 0 {
            size >>= 10;
            unit = units.next();
        }
        write!(f, "{size:9}{}", unit.unwrap_or('?'))
    }
}

/// Calls `f` for each run of `area`. What changes meanwhile is seen before or after the change.
fn runs(area: &Area, mut f: impl FnMut(&Run)) {
    let mut run: Option<Run> = None;
    each_stretch(area.start, area.end, |found| {
        let Mapped {
            addr,
            size,
            level,
            leaf,
        } = found.first;
        let size = size * found.count as u64;
        if let Some(now) = &mut run {
            let same = now.level == level
                && now.end == addr
                && now.leaf.attributes == leaf.attributes
                && now.leaf.grouped == leaf.grouped
                && (!kernel_map::SHOWS_MEMORY || now.leaf.phys + (addr - now.start) == leaf.phys);
            if same {
                now.end = addr + size;
                return;
            }
            f(now);
        }
        run = Some(Run {
            start: addr,
            end: addr + size,
            leaf,
            level,
        });
    });
    if let Some(last) = run {
        f(&last);
    }
}

/// Writes the list of all leaves, in the format of Linux's `kernel_page_tables` on this processor.
pub fn show(out: &mut impl Write) {
    for area in kernel_map::areas() {
        let _ = writeln!(out, "---[ {} ]---", area.name);
        runs(&area, |run| {
            let _ = kernel_map::show(out, run);
        });
    }
}

/// How many of its pages can be written and executed.
fn wrong(found: &Stretch) -> u64 {
    let both = Access::PRESENT | Access::WRITE | Access::EXECUTE;
    if found.first.leaf.attributes.access.contains(both) {
        found.first.size / crate::mm::PAGE_SIZE as u64 * found.count as u64
    } else {
        0
    }
}

/// How many pages can be written and executed.
pub fn writable_and_executable() -> u64 {
    let mut pages = 0;
    for area in kernel_map::areas() {
        each_stretch(area.start, area.end, |found| pages += wrong(found));
    }
    pages
}

/// Looks for such pages; the log has the verdict, with Linux's words. Returns whether there are none.
pub fn check() -> bool {
    match writable_and_executable() {
        0 => {
            info!("Checked W+X mappings: passed, no W+X pages found");
            true
        }
        pages => {
            crate::log!(Warning, "Checked W+X mappings: FAILED, {pages} W+X pages found");
            false
        }
    }
}

/// Leaves of the linear map: those of each level on their own, and those in groups.
static DIRECT: [[AtomicI64; 2]; MAX_LEVELS] = [const { [const { AtomicI64::new(0) }; 2] }; MAX_LEVELS];
/// Blocks that became tables since boot, by their level, and tables that became blocks.
static SPLITS: [AtomicU64; MAX_LEVELS] = [const { AtomicU64::new(0) }; MAX_LEVELS];
static COLLAPSES: [AtomicU64; MAX_LEVELS] = [const { AtomicU64::new(0) }; MAX_LEVELS];

/// Counts leaves.
fn count(counts: &mut [[i64; 2]; MAX_LEVELS], found: &Stretch) {
    counts[found.first.level][usize::from(found.first.leaf.grouped)] += found.count as i64;
}

/// Counts the leaves of the linear map. Boot, before there are other CPUs; from now on changes are counted.
pub(super) fn init() {
    for (level, counts) in DIRECT.iter().zip(counted()) {
        for (leaves, count) in level.iter().zip(counts) {
            leaves.store(count, Relaxed);
        }
    }
}

/// The leaves of the linear map, as they are now.
fn counted() -> [[i64; 2]; MAX_LEVELS] {
    let area = &kernel_map::areas()[0];
    let mut counts = [[0; 2]; MAX_LEVELS];
    each_stretch(area.start, area.end, |found| count(&mut counts, found));
    counts
}

/// Whether the counts of leaves are those of the tables, now.
pub fn counts_are_true() -> bool {
    let counts = counted();
    counts
        == DIRECT
            .each_ref()
            .map(|level| level.each_ref().map(|leaves| leaves.load(Relaxed)))
}

/// Counts what a change has done; `direct`: to the linear map.
pub(super) fn note(report: &Report, direct: bool) {
    for level in 0..MAX_LEVELS {
        let leaves = report.leaves[level];
        if direct && (leaves.single, leaves.grouped) != (0, 0) {
            DIRECT[level][0].fetch_add(leaves.single, Relaxed);
            DIRECT[level][1].fetch_add(leaves.grouped, Relaxed);
        }
        if report.splits[level] != 0 {
            SPLITS[level].fetch_add(u64::from(report.splits[level]), Relaxed);
        }
        if report.collapses[level] != 0 {
            COLLAPSES[level].fetch_add(u64::from(report.collapses[level]), Relaxed);
        }
    }
}

/// The linear map by the size of its leaves, for `/proc/meminfo`: bytes of a leaf (of a group, as the
/// processor keeps it), and KiB mapped by such.
pub fn direct() -> impl Iterator<Item = (u64, u64)> {
    let map = kernel_map::map();
    let levels = map.geometry.levels().iter().enumerate().take(map.largest + 1);
    levels.flat_map(move |(level, form)| {
        let kib = |grouped: usize| {
            let leaves = DIRECT[level][grouped].load(Relaxed);
            u64::try_from(leaves).unwrap_or(0) * (form.size() >> 10)
        };
        let group = (map.groups && form.group > 0).then(|| (form.group_size(), kib(1)));
        [Some((form.size(), kib(0))), group].into_iter().flatten()
    })
}

/// Splits and collapses of blocks of the linear map at the levels above pages, from the lowest.
pub fn changes() -> impl Iterator<Item = (u64, u64)> {
    let count = |n: &AtomicU64| n.load(Relaxed);
    (1..3).map(move |level| (count(&SPLITS[level]), count(&COLLAPSES[level])))
}
