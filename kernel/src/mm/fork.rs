//! `fork` of an address space: the child gets the parent's mappings, and shares its private pages until either writes. Called by
//! `task::fork`.

use super::frame::{self, For};
use super::space::{AddressSpace, Gather, Regions};
use super::vma::VmFlags;
use super::{PAGE_SHIFT, page, table};
use crate::arch::mmu;
use crate::sched::membarrier::Registrations;
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use limen_linux_abi::Errno;
use limen_region_map::Region;

impl AddressSpace {
    /// A copy for a child: private memory is shared until either writes. `ENOMEM`.
    pub fn fork(&self) -> Result<Arc<Self>, Errno> {
        super::oom::ensure()?;
        let root = table::new_table(For::Kernel).ok_or(Errno::ENOMEM)?;
        mmu::init_user_root(frame::phys(root));
        let mut parent = self.regions.write();
        let mut regions = Regions::new(parent.mmap_base);
        (regions.brk_start, regions.brk) = (parent.brk_start, parent.brk);
        let child = Self::build(
            root,
            regions,
            self.layout(),
            Registrations::forked(&self.membarrier),
        );
        let mut gather = Gather::new();
        let copied = self.copy_regions(&mut parent, &child, &mut gather);
        // Entries were write-protected, whether all went well or not.
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
        // Nobody else knows the child yet.
        let mut regions = child.regions.write_nested(1);
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
                cache.map_added(&child.this);
            }
            regions.count(vma.flags, pages, true);
            let (shared, wipe) = (
                vma.flags.contains(VmFlags::SHARED),
                vma.flags.contains(VmFlags::WIPEONFORK),
            );
            let file_only = vma.cache().is_some() && !vma.private.any();
            regions.map.insert(start, end, vma);
            // Pages of files are found again by faulting.
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

    /// Copies the entries of a range, write-protecting both sides if the range copies on write.
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
        let zero = super::zero_page().pfn();
        let span = 1usize << table::level_shift(1);
        // The child's leaf table for the span that begins at `leaf_at`.
        let mut leaf_at = usize::MAX;
        let mut leaf: Option<&'static table::Table> = None;
        let mut failed = false;
        table::for_each(self.root, start, end, |addr, slot, entry| {
            if addr & !(span - 1) != leaf_at && !failed {
                leaf_at = addr & !(span - 1);
                leaf = child.leaf(addr);
                failed = leaf.is_none();
            }
            // After a failure it stays none.
            let Some(to) = leaf else {
                return;
            };
            let mut entry = entry;
            if protect && let Some(protected) = entry.write_protected() {
                entry = protected;
                table::store(slot, entry);
                gather.note(addr);
            }
            let pfn = frame::pfn(entry.phys());
            if pfn != zero {
                page::get(pfn);
                *(if page::is_cache(pfn) {
                    &mut *file
                } else {
                    &mut *anon
                }) += 1;
            }
            table::store(&to[table::index(addr, 0)], entry);
        });
        if failed { Err(Errno::ENOMEM) } else { Ok(()) }
    }

    /// The leaf table that covers `addr`, made if need be.
    fn leaf(&self, addr: usize) -> Option<&'static table::Table> {
        let span = 1usize << table::level_shift(1);
        let first = self.slot(addr & !(span - 1))?;
        Some(table::table_of(first))
    }
}
