//! System calls on memory: `mmap` and others, `brk`, `madvise`, locking, and access to other processes'
//! memory.

use super::SysResult;
use crate::arch::mmu::USER_END;
use crate::fs::map::file_map;
use crate::fs::mount::MS_NOEXEC;
use crate::mm::copy::{self, IoVec};
use crate::mm::user::{self, UserPtr, Word};
use crate::mm::{AddressSpace, MapFlags, PAGE_SHIFT, PAGE_SIZE, Prot, current_space, implied};
use crate::syscalls;
use crate::task::access::{self, By};
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;
use limen_linux_abi::native::{self, mman};

/// `PROT_GROWSDOWN`.
const PROT_GROWSDOWN: usize = 0x0100_0000;
/// `PROT_GROWSUP`.
const PROT_GROWSUP: usize = 0x0200_0000;
/// `PROT_SEM`: accepted without effect.
const PROT_SEM: usize = 8;
/// `MAP_TYPE`.
const MAP_TYPE: usize = 0xf;
/// `MAP_SHARED_VALIDATE`: like `MAP_SHARED`, but unknown flags are errors.
const MAP_SHARED_VALIDATE: usize = 3;
/// `MAP_HUGETLB`.
const MAP_HUGETLB: usize = mman::MAP_HUGETLB as usize;
/// `MAP_SYNC`.
const MAP_SYNC: usize = 0x8_0000;
/// All flags that `MAP_SHARED_VALIDATE` knows, without the type (`LEGACY_MAP_MASK`) and with `MAP_32BIT`.
const MAP_LEGACY: usize = 0x3
    | 0x10
    | 0x20
    | native::MAP_32BIT as usize
    | mman::MAP_GROWSDOWN as usize
    | mman::MAP_DENYWRITE as usize
    | mman::MAP_EXECUTABLE as usize
    | mman::MAP_LOCKED as usize
    | mman::MAP_NORESERVE as usize
    | mman::MAP_POPULATE as usize
    | mman::MAP_NONBLOCK as usize
    | mman::MAP_STACK as usize
    | MAP_HUGETLB
    | 0x400_0000;

/// The permissions among `PROT_*` bits.
fn prot_bits(prot: usize) -> Prot {
    Prot::from_bits_truncate(prot as u8 & 7)
}

pub(super) fn space() -> Result<crate::mm::CurrentSpace, Errno> {
    current_space().ok_or(Errno::ENOMEM)
}

/// `ENOMEM`: `len` does not fit into whole pages. `EOVERFLOW`: the index of the file's last page does not fit
/// into a machine word.
fn check_end(len: usize, offset: u64) -> Result<(), Errno> {
    let len = len.checked_next_multiple_of(PAGE_SIZE).ok_or(Errno::ENOMEM)?;
    let pages = (offset >> PAGE_SHIFT) + (len >> PAGE_SHIFT) as u64;
    usize::try_from(pages).map_err(|_| Errno::EOVERFLOW)?;
    Ok(())
}

/// `mmap` with an offset in bytes.
#[inline(always)]
pub(super) fn mmap_bytes([addr, len, prot, flags]: [usize; 4], fd: i32, offset: usize) -> SysResult {
    if offset & (PAGE_SIZE - 1) != 0 {
        return Err(Errno::EINVAL);
    }
    do_mmap(addr, len, prot, flags, fd, offset as u64)
}

pub(super) fn do_mmap(addr: usize, len: usize, prot: usize, flags: usize, fd: i32, offset: u64) -> SysResult {
    let space = space()?;
    let anonymous = flags & MapFlags::ANONYMOUS.bits() as usize != 0;
    let file = match anonymous {
        true => {
            check_end(len, offset)?;
            None
        }
        false => {
            let file = crate::sched::current().file(fd)?;
            if len == 0 || flags & MAP_HUGETLB != 0 {
                return Err(Errno::EINVAL);
            }
            check_end(len, offset)?;
            space.check_place(addr, len, MapFlags::from_bits_truncate(flags as u32))?;
            Some(file)
        }
    };
    let kind = flags & MAP_TYPE;
    let shared = match kind {
        1 | MAP_SHARED_VALIDATE => true,
        2 => false,
        _ => return Err(Errno::EINVAL),
    };
    let mut map_flags = MapFlags::from_bits_truncate((flags & !MAP_TYPE) as u32);
    map_flags |= if shared {
        MapFlags::SHARED
    } else {
        MapFlags::PRIVATE
    };
    let mut prot_bits = prot_bits(prot);
    if implied(prot_bits).contains(Prot::EXEC)
        && file
            .as_ref()
            .is_none_or(|file| file.path.mnt.flags() & MS_NOEXEC == 0)
    {
        prot_bits |= Prot::EXEC;
    }
    let Some(file) = file else {
        if flags & MAP_HUGETLB != 0 {
            return Err(Errno::ENOMEM);
        }
        return space.mmap(addr, len, prot_bits, map_flags, None);
    };
    if kind == MAP_SHARED_VALIDATE && flags & !MAP_LEGACY & !MapFlags::FIXED_NOREPLACE.bits() as usize != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if flags & MAP_SYNC != 0 && kind == MAP_SHARED_VALIDATE {
        return Err(Errno::EOPNOTSUPP);
    }
    let map = file_map(&file, offset, shared, prot_bits)?;
    space.mmap(addr, len, prot_bits, map_flags, Some(map))
}

/// The address space of another process for `process_vm_*`. `ESRCH`: there is none; `EPERM`: the caller may
/// not inspect it. The caller's own is always allowed.
fn remote_space(pid: i32) -> Result<Arc<AddressSpace>, Errno> {
    let task = crate::task::pid::find_task_here(pid).ok_or(Errno::ESRCH)?;
    let mm = task.mm().ok_or(Errno::ESRCH)?;
    if crate::sched::current()
        .mm()
        .is_some_and(|own| Arc::ptr_eq(&own, &mm))
    {
        return Ok(mm);
    }
    access::look(&task, By::Real, |mm| mm.cloned())?.ok_or(Errno::ESRCH)
}

/// Copies between the local and the remote list, of words `W`, until an error. `EFAULT` only if nothing could
/// be copied.
pub(super) fn process_vm<W: Word>(
    pid: i32,
    local: (usize, usize),
    remote: (usize, usize),
    flags: usize,
    write: bool,
) -> SysResult {
    if flags != 0 {
        return Err(Errno::EINVAL);
    }
    let local = copy::read_iovecs::<W>(local.0, local.1)?;
    if local.iter().all(|v| v.len == 0) {
        return Ok(0);
    }
    if remote.1 > 1024 {
        return Err(Errno::EINVAL);
    }
    let mut list: Vec<IoVec> = Vec::new();
    crate::mm::reserve::room_exact(&mut list, remote.1)?;
    for i in 0..remote.1 {
        let [addr, len] = UserPtr::<[W; 2]>::new(remote.0).add(i).read()?.map(W::get);
        if len > W::LONGEST {
            return Err(Errno::EINVAL);
        }
        list.push(IoVec { addr, len });
    }
    if list.iter().all(|v| v.len == 0) {
        return Ok(0);
    }
    let space = remote_space(pid)?;
    let mut buffer = Vec::new();
    crate::mm::reserve::room_exact(&mut buffer, PAGE_SIZE)?;
    buffer.resize(PAGE_SIZE, 0u8);
    let mut done = 0;
    let mut local = local.into_iter().filter(|v| v.len != 0);
    let mut here = local.next();
    'all: for mut there in list {
        while there.len > 0 {
            let Some(mine) = &mut here else { break 'all };
            let n = there.len.min(mine.len).min(PAGE_SIZE);
            let chunk = &mut buffer[..n];
            let moved = if write {
                let got = copy::copy_in(chunk, mine.addr);
                space.access_remote(there.addr, &mut chunk[..got], true, false)
            } else {
                let got = space.access_remote(there.addr, chunk, false, false);
                copy::copy_out(mine.addr, &chunk[..got])
            };
            done += moved;
            if moved < n {
                break 'all;
            }
            there.addr = there.addr.wrapping_add(n);
            there.len -= n;
            mine.addr += n;
            mine.len -= n;
            if mine.len == 0 {
                here = local.next();
            }
        }
    }
    if done == 0 { Err(Errno::EFAULT) } else { Ok(done) }
}

syscalls! {
    fn mmap(addr: usize, len: usize, prot: usize, flags: usize, fd: i32, offset: usize) {
        mmap_bytes([addr, len, prot, flags], fd, offset)
    }
    fn mmap2(addr: usize, len: usize, prot: usize, flags: usize, fd: i32, offset: usize) {
        // In units of 4096 bytes, whatever the page size.
        let bytes = (offset as u64) << 12;
        if bytes & (PAGE_SIZE as u64 - 1) != 0 {
            return Err(Errno::EINVAL);
        }
        do_mmap(addr, len, prot, flags, fd, bytes)
    }
    fn munmap(addr: usize, len: usize) {
        space()?.munmap(addr, len)
    }
    fn mprotect(addr: usize, len: usize, prot: usize) {
        let grows = prot & (PROT_GROWSDOWN | PROT_GROWSUP);
        // No stack grows upwards on these architectures.
        let unknown = grows == PROT_GROWSUP || prot & !(7 | PROT_SEM | PROT_GROWSDOWN | PROT_GROWSUP) != 0;
        if grows == PROT_GROWSDOWN | PROT_GROWSUP || unknown && len != 0 {
            return Err(Errno::EINVAL);
        }
        let prot = prot_bits(prot);
        space()?.mprotect(addr, len, (prot, implied(prot)), grows == PROT_GROWSDOWN)
    }
    fn mremap(addr: usize, old_len: usize, new_len: usize, flags: usize, new_addr: usize) {
        let flags = u32::try_from(flags).map_err(|_| Errno::EINVAL)?;
        space()?.mremap(addr, old_len, new_len, flags, new_addr, USER_END)
    }
    fn brk(addr: usize) {
        Ok(space()?.brk(addr))
    }
    fn madvise(addr: usize, len: usize, advice: i32) {
        space()?.madvise(addr, len, advice)
    }
    fn mlock(addr: usize, len: usize) {
        space()?.mlock(addr, len, false)
    }
    fn mlock2(addr: usize, len: usize, flags: usize) {
        if flags & !1 != 0 {
            return Err(Errno::EINVAL);
        }
        space()?.mlock(addr, len, flags == 1)
    }
    fn munlock(addr: usize, len: usize) {
        space()?.munlock(addr, len)
    }
    fn mlockall(flags: u32) {
        space()?.mlockall(Some(flags))
    }
    fn munlockall() {
        space()?.mlockall(None)
    }
    fn msync(addr: usize, len: usize, flags: u32) {
        space()?.msync(addr, len, flags)
    }
    fn mincore(addr: usize, len: usize, out: usize) {
        if addr & (PAGE_SIZE - 1) != 0 {
            return Err(Errno::EINVAL);
        }
        user::check(addr, len).map_err(|_| Errno::ENOMEM)?;
        let pages = len.div_ceil(PAGE_SIZE);
        user::check(out, pages)?;
        let mut done = 0;
        let mut bits = [0u8; 256];
        while done < pages {
            if crate::sched::current().fatal_signal_pending() {
                return Err(Errno::EINTR);
            }
            let n = (pages - done).min(bits.len());
            let n = space()?.mincore(addr + (done << PAGE_SHIFT), &mut bits[..n])?;
            user::write_bytes(out + done, &bits[..n])?;
            done += n;
        }
        Ok(0)
    }
    fn remap_file_pages(addr: usize, size: usize, prot: usize, pgoff: usize, flags: usize) {
        let nonblock = MapFlags::from_bits_truncate(flags as u32).contains(MapFlags::NONBLOCK);
        if prot != 0 {
            return Err(Errno::EINVAL);
        }
        space()?.remap_file_pages(addr, size, pgoff as u64, !nonblock)
    }
    fn process_vm_readv(pid: i32, local: usize, n_local: usize, remote: usize, n_remote: usize,
        flags: usize) {
        process_vm::<usize>(pid, (local, n_local), (remote, n_remote), flags, false)
    }
    fn process_vm_writev(pid: i32, local: usize, n_local: usize, remote: usize, n_remote: usize,
        flags: usize) {
        process_vm::<usize>(pid, (local, n_local), (remote, n_remote), flags, true)
    }
}
