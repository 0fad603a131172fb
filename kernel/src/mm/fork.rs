//! `fork` of an address space: the child gets the parent's mappings and shares its private pages until one of
//! the two writes to them. Called by `task::fork`.

use super::frame::{self, For};
use super::gather::Gather;
use super::space::{AddressSpace, Regions};
use super::vma::VmFlags;
use super::{PAGE_SHIFT, PAGE_SIZE, page, table};
use crate::arch::mmu::{self, Slot};
use crate::sched::membarrier::Registrations;
use crate::sync::lockdep::fallible;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use limen_linux_abi::Errno;
use limen_region_map::Region;

impl AddressSpace {
    /// A copy for a child. Private memory is shared until one of the two writes to it. `ENOMEM`. Sleeps.
    pub fn fork(&self) -> Result<Arc<Self>, Errno> {
        super::oom::ensure()?;
        let root = table::new_table(For::Kernel).ok_or(Errno::ENOMEM)?;
        mmu::init_user_root(frame::phys(root));
        let context = self.processor().copied();
        let mut parent = self.regions.write();
        let mut regions = Regions::new(parent.mmap_base);
        (regions.brk_start, regions.brk) = (parent.brk_start, parent.brk);
        let child = Self::build(
            root,
            context,
            regions,
            self.layout(),
            Registrations::forked(&self.membarrier),
        );
        child.set_dump_mode(self.dump_mode());
        if let Some(owner) = self.owner() {
            child.set_owner(owner.clone());
        }
        child.set_dump_filter(self.dump_filter());
        let auxv = self.auxv.lock().clone();
        *child.auxv.lock() = auxv;
        let mut gather = Gather::new();
        let copied = self.copy_regions(&mut parent, &child, &mut gather);
        // Entries of the parent have lost the permission to write, even if the copy failed.
        let dead = gather.finish(self);
        drop(parent);
        drop(dead);
        copied?;
        Ok(child)
    }

    fn copy_regions(
        &self,
        parent: &mut Regions,
        child: &Arc<Self>,
        gather: &mut Gather,
    ) -> Result<(), Errno> {
        // No other thread knows the child yet.
        let mut regions = child.regions.write_nested(1);
        if !fallible(|| regions.map.reserve_like(&parent.map)) {
            return Err(Errno::ENOMEM);
        }
        let (mut anon, mut file) = (0, 0);
        for Region { start, end, value } in parent.map.iter() {
            let (start, end) = (*start, *end);
            if value.flags.contains(VmFlags::DONTFORK) {
                continue;
            }
            let pages = (end - start) >> PAGE_SHIFT;
            if value.flags.contains(VmFlags::ACCOUNT) {
                super::commit::check(pages)?;
            }
            let mut vma = value.clone();
            vma.flags.remove(VmFlags::LOCKED | VmFlags::LOCKONFAULT);
            if let Some(cache) = vma.cache() {
                cache.map_added(child, vma.flags);
            }
            regions.count(vma.flags, pages, true);
            let (shared, wipe) = (
                vma.flags.contains(VmFlags::SHARED),
                vma.flags.contains(VmFlags::WIPEONFORK),
            );
            let file_only = vma.cache().is_some() && !vma.private.any();
            regions.map.insert(start, end, vma);
            // Faults find pages of files again, so their entries need not be copied.
            if !(shared || wipe || file_only) {
                self.copy_pages(
                    child,
                    start,
                    end,
                    value.flags.is_cow(),
                    gather,
                    &mut anon,
                    &mut file,
                )?;
            }
        }
        child.anon.store(anon, Relaxed);
        child.file.store(file, Relaxed);
        Ok(())
    }

    /// Copies the entries of a range; if it copies on write, write-protects both sides.
    #[allow(clippy::too_many_arguments, reason = "a recursion over two trees at once")]
    fn copy_pages(
        &self,
        child: &Self,
        start: usize,
        end: usize,
        protect: bool,
        gather: &mut Gather,
        anon: &mut usize,
        file: &mut usize,
    ) -> Result<(), Errno> {
        let mut failed = false;
        table::for_each_part(self.root, start, end, |addr, from| {
            if failed || !table::any_there(from) {
                return;
            }
            let Some(leaf) = child.leaf(addr) else {
                failed = true;
                return;
            };
            let first = table::index(addr, 0);
            let copied = copy_entries(from, &leaf[first..first + from.len()], protect);
            *anon += copied.anon;
            *file += copied.file;
            if let Some((first, last)) = copied.protected {
                gather.note(addr + first * PAGE_SIZE);
                gather.note(addr + last * PAGE_SIZE);
            }
        });
        if failed { Err(Errno::ENOMEM) } else { Ok(()) }
    }

    /// The leaf table that covers `addr`. Tables that are missing are made.
    fn leaf(&self, addr: usize) -> Option<&'static table::Table> {
        let span = 1usize << table::level_shift(1);
        let first = self.slot(addr & !(span - 1))?;
        Some(table::table_of(first))
    }
}

/// What [`copy_entries`] did.
#[derive(Default)]
struct Copied {
    /// Private pages and pages of files, as they are counted.
    anon: usize,
    file: usize,
    /// The first and the last entry that lost its permission to write.
    protected: Option<(usize, usize)>,
}

/// Copies entries to the empty ones of a child's table. `protect`: the range copies on write, so both sides
/// are write-protected. This is most of the work of a fork; it is not inlined so that it has all registers
/// for itself.
#[inline(never)]
fn copy_entries(from: &[Slot], to: &[Slot], protect: bool) -> Copied {
    let zero = super::zero_page().pfn();
    let mut copied = Copied::default();
    let (mut first, mut last) = (usize::MAX, 0);
    table::each_of(from, |i, slot, mut entry| {
        if protect && let Some(protected) = entry.write_protected() {
            entry = protected;
            table::store(slot, entry);
            first = first.min(i);
            last = i;
        }
        let pfn = frame::pfn(entry.phys());
        if pfn != zero {
            page::get(pfn);
            if page::is_cache(pfn) {
                copied.file += 1;
            } else {
                copied.anon += 1;
            }
        }
        if let Some(to) = to.get(i) {
            table::store(to, entry);
        }
    });
    copied.protected = (first <= last).then_some((first, last));
    copied
}
