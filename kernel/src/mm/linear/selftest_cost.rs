//! What a change of the map costs, for `limen bench --map`: with `limen.map_costs` beside `limen.selftest`.
//! One page in a block of each size is made read-only and writable again, so that the block is split and
//! merged.

use super::selftest::found;
use super::{Reason, set_read_only, set_writable};
use crate::arch::time::now_ns;
use crate::check;
use crate::cmdline;
use crate::mm::PAGE_SIZE;
use crate::mm::frame::{self, For, Pfn};
use crate::selftest::Test;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// The tests.
pub const TESTS: &[Test] = &[("what changes cost", costs)];

/// log2 of the pages that are allocated at once on the way to the largest block.
const ORDER: usize = 10;
/// How often each change is made: the clock of some processors does not tell single instructions.
const ROUNDS: u64 = 128;

/// Memory, given back at the end.
struct Held(Vec<Pfn>);

impl Drop for Held {
    fn drop(&mut self) {
        for block in self.0.drain(..) {
            frame::free_block(block, ORDER);
        }
    }
}

fn costs() -> Result<(), &'static str> {
    if !cmdline::flag("limen.map_costs") {
        return Ok(());
    }
    let mut held = Held(Vec::new());
    let mut seen = BTreeSet::new();
    // All but an eighth of the memory: large blocks are where nothing else is.
    let most = (crate::mm::stats().free / 8 * 7) >> ORDER;
    while held.0.len() < most
        && let Some(block) = frame::alloc_block(ORDER, For::Kernel)
    {
        held.0.push(block);
        let page = frame::virt(block) as usize + 5 * PAGE_SIZE;
        let leaf = found(page).ok_or("not mapped")?;
        if seen.insert((leaf.size, leaf.leaf.grouped)) {
            let [split, merge] = cost(page)?;
            check!(found(page) == Some(leaf));
            crate::info!(
                "map cost: a page of a leaf of {} KiB{}: read-only {split} ns, writable {merge} ns",
                leaf.size >> 10,
                if leaf.leaf.grouped { " in a group" } else { "" }
            );
        }
    }
    Ok(())
}

/// Of one change, and of its opposite: nanoseconds, which are instructions under QEMU's `-icount shift=0`.
fn cost(page: usize) -> Result<[u64; 2], &'static str> {
    // The first finds the reserve as it is.
    check!(set_read_only(page, 1, Reason::Test).is_ok() && set_writable(page, 1, Reason::Test).is_ok());
    let mut all = [0, 0];
    for _ in 0..ROUNDS {
        let start = now_ns();
        let split = set_read_only(page, 1, Reason::Test);
        let middle = now_ns();
        let merged = set_writable(page, 1, Reason::Test);
        let end = now_ns();
        check!(split.is_ok() && merged.is_ok());
        all = [all[0] + middle - start, all[1] + end - middle];
    }
    Ok(all.map(|sum| sum / ROUNDS))
}
