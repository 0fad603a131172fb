//! Memory of an address space that is not the running thread's: for exec's arguments, `/proc/pid/mem`,
//! ptrace, `process_vm_readv`.

use super::fault::FaultError;
use super::space::AddressSpace;
use super::vma::{Backing, VmFlags, Vma};
use super::{PAGE_SHIFT, PAGE_SIZE, Prot, frame, page, table};
use crate::arch::mmu::{self, Entry};
use limen_linux_abi::Errno;
use limen_region_map::Region;

/// What user mode sees of the kernel's part at these addresses of a page. Nobody can write there.
fn in_gate(at: usize, len: usize) -> Option<&'static [u8]> {
    let offset = at.checked_sub(mmu::GATE?.0)?;
    mmu::gate().get(offset..)?.get(..len)
}

impl AddressSpace {
    /// Copies bytes out or in until an error. Returns how many. `force`: whatever the permissions, as
    /// debuggers may. Sleeps.
    pub fn access_remote(&self, addr: usize, buf: &mut [u8], write: bool, force: bool) -> usize {
        let mut done = 0;
        while done < buf.len() && !crate::sched::current().fatal_signal_pending() {
            let Some(at) = addr.checked_add(done) else { break };
            let offset = at & (PAGE_SIZE - 1);
            let n = (buf.len() - done).min(PAGE_SIZE - offset);
            let part = &mut buf[done..done + n];
            // As on Linux, that is no memory for debuggers.
            if !write
                && !force
                && let Some(there) = in_gate(at, n)
            {
                part.copy_from_slice(there);
                done += n;
                continue;
            }
            let copied = self.with_page(at, write, force, |page| {
                if write {
                    page.written();
                    page.write(offset, part);
                    if force {
                        // It may be a breakpoint.
                        mmu::sync_instructions(page.phys());
                    }
                } else {
                    page.read(offset, part);
                }
            });
            if copied.is_err() {
                break;
            }
            done += n;
        }
        done
    }

    /// Reads bytes with the permissions that the program has. After an error `to` may have been written in
    /// part.
    pub fn read_bytes(&self, addr: usize, to: &mut [u8]) -> Result<(), FaultError> {
        if self.access_remote(addr, to, false, false) == to.len() {
            Ok(())
        } else {
            Err(FaultError::NotMapped)
        }
    }

    /// Writes bytes, even to private memory that the program may not write. For exec, whose program does not
    /// run yet.
    pub fn write_bytes(&self, addr: usize, from: &[u8]) -> Result<(), FaultError> {
        let mut done = 0;
        while done < from.len() {
            let at = addr.checked_add(done).ok_or(FaultError::NotMapped)?;
            let offset = at & (PAGE_SIZE - 1);
            let n = (from.len() - done).min(PAGE_SIZE - offset);
            self.with_page(at, true, true, |page| {
                page.written();
                page.write(offset, &from[done..done + n]);
            })?;
            done += n;
        }
        Ok(())
    }

    /// Whether `[start, start + len)` has memory that only its programs can reach (`memfd_secret`).
    pub fn has_secret(&self, start: usize, len: usize) -> bool {
        let end = start.saturating_add(len);
        let regions = self.regions.read();
        regions
            .map
            .range(start, end)
            .any(|region| region.value.is_secret())
    }

    /// What identifies the futex word at `addr` among all address spaces. For a page of a file: (number of
    /// the file's page cache, offset in the file). For private memory: (address of this address space, `addr`
    /// with a mark). Faults the page in, writable if the mapping allows it. `EFAULT`: it is not mapped,
    /// cannot be written although `write`, or could never be changed by anyone. A waiter does not keep the
    /// page cache alive, so its address would not identify it: another could get the same address.
    pub fn futex_key(&self, addr: usize, write: bool) -> Result<(usize, u64), Errno> {
        loop {
            let regions = self.regions.read();
            // A stack may be able to grow down to an unmapped address.
            let missing = match regions.map.containing(addr) {
                Some(region) => match self.word_key(region, addr, write)? {
                    Ok(key) => return Ok(key),
                    Err(access) => access,
                },
                None => Prot::READ,
            };
            drop(regions);
            self.fault(addr, missing).map_err(|_| Errno::EFAULT)?;
            if super::is_dying() {
                return Err(Errno::EFAULT);
            }
        }
    }

    /// [`AddressSpace::futex_key`] if the page is present, or the access with which to fault it in.
    fn word_key(
        &self,
        region: &Region<Vma>,
        addr: usize,
        write: bool,
    ) -> Result<Result<(usize, u64), Prot>, Errno> {
        let vma = &region.value;
        if vma.is_secret() {
            return Err(Errno::EFAULT);
        }
        let writable = vma.flags.contains(VmFlags::WRITE);
        if !writable && (write || !vma.flags.contains(VmFlags::READ)) {
            return Err(Errno::EFAULT);
        }
        // The mark makes it different from the key of a private futex at the same address.
        let own = (core::ptr::from_ref(self).addr(), addr as u64 | 2);
        let cache = match &vma.backing {
            Backing::Anonymous if writable => return Ok(Ok(own)),
            Backing::Anonymous | Backing::Special(_) => return Err(Errno::EFAULT),
            Backing::File { cache, .. } => cache,
        };
        let entry = table::find(self.root, addr & !(PAGE_SIZE - 1)).map(table::load);
        let there = |entry: &Entry| !entry.is_empty() && (!writable || entry.prot().contains(Prot::WRITE));
        let Some(entry) = entry.filter(there) else {
            return Ok(Err(if writable { Prot::WRITE } else { Prot::READ }));
        };
        if !vma.flags.contains(VmFlags::SHARED) {
            if writable {
                return Ok(Ok(own));
            }
            if !page::is_cache(frame::pfn(entry.phys())) {
                return Err(Errno::EFAULT);
            }
        }
        let number = cache.number();
        // A 32-bit word holds only part of the number: the rest goes above all offsets that such a machine
        // can map.
        let rest = number >> (usize::BITS - 1) >> 1 << 44;
        let index = vma.index_at(addr - region.start);
        Ok(Ok((
            number as usize,
            (index << PAGE_SHIFT) + (addr & (PAGE_SIZE - 1)) as u64 + rest,
        )))
    }
}
