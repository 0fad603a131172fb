//! Memory of an address space that is not (yet) the running one: exec's arguments, `/proc/pid/mem`, ptrace, `process_vm_readv`.

use super::fault::FaultError;
use super::space::AddressSpace;
use super::vma::VmFlags;
use super::{PAGE_SHIFT, PAGE_SIZE};
use limen_linux_abi::Errno;

impl AddressSpace {
    /// Copies bytes out or in, as far as possible; returns how many. `force`: regardless of permissions, as debuggers may.
    pub fn access_remote(&self, addr: usize, buf: &mut [u8], write: bool, force: bool) -> usize {
        let mut done = 0;
        while done < buf.len() {
            let Some(at) = addr.checked_add(done) else { break };
            let Ok(page) = self.page_for(at, write, force) else {
                break;
            };
            let offset = at & (PAGE_SIZE - 1);
            let n = (buf.len() - done).min(PAGE_SIZE - offset);
            if write {
                page.written();
                page.write(offset, &buf[done..done + n]);
            } else {
                page.read(offset, &mut buf[done..done + n]);
            }
            done += n;
        }
        done
    }

    /// Reads bytes with the program's own permissions; all or nothing useful.
    pub fn read_bytes(&self, addr: usize, to: &mut [u8]) -> Result<(), FaultError> {
        if self.access_remote(addr, to, false, false) == to.len() {
            Ok(())
        } else {
            Err(FaultError::NotMapped)
        }
    }

    /// Writes bytes regardless of the program's own permissions on private memory (exec sets up a program that is not running yet).
    pub fn write_bytes(&self, addr: usize, from: &[u8]) -> Result<(), FaultError> {
        let mut done = 0;
        while done < from.len() {
            let at = addr.checked_add(done).ok_or(FaultError::NotMapped)?;
            let page = self.page_for(at, true, true)?;
            let offset = at & (PAGE_SIZE - 1);
            let n = (from.len() - done).min(PAGE_SIZE - offset);
            page.written();
            page.write(offset, &from[done..done + n]);
            done += n;
        }
        Ok(())
    }

    /// What identifies the futex word at `addr` among all address spaces: (number of the memory object, offset in it) of a shared mapping; (address
    /// of this address space, `addr`) for private memory. `EFAULT` if nothing is mapped there. A waiter does not keep the object, so its
    /// address will not do: another one may be there next.
    pub fn futex_key(&self, addr: usize) -> Result<(usize, u64), Errno> {
        let regions = self.regions.read();
        let region = regions.map.containing(addr).ok_or(Errno::EFAULT)?;
        match region.value.cache() {
            Some(cache) if region.value.flags.contains(VmFlags::SHARED) => {
                let index = region.value.index_at(addr - region.start);
                let number = cache.number();
                // What a word of 32 bits has no room for goes above all offsets that such a machine can map.
                let rest = number >> (usize::BITS - 1) >> 1 << 44;
                Ok((
                    number as usize,
                    (index << PAGE_SHIFT) + (addr & (PAGE_SIZE - 1)) as u64 + rest,
                ))
            }
            _ => Ok((core::ptr::from_ref(self).addr(), addr as u64)),
        }
    }
}
