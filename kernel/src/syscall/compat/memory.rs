//! Memory: what these calls map lies where 32-bit addresses reach.

use super::super::mm::{do_mmap, mmap_bytes, process_vm, space};
use crate::mm::MapFlags;
use crate::mm::user::UserPtr;

/// What [`MapFlags::LOW_2G`] means, where there are no such flags.
const LIMIT: usize = 1 << 31;

/// What the kernel chooses lies low.
fn low(flags: usize) -> usize {
    flags | MapFlags::LOW_2G.bits() as usize
}

crate::syscalls! {
    fn mmap(at: UserPtr<[u32; 6]>) {
        let [addr, len, prot, flags, fd, offset] = at.read()?.map(|word| word as usize);
        mmap_bytes([addr, len, prot, low(flags)], fd as i32, offset)
    }
    fn mmap2(addr: usize, len: usize, prot: usize, flags: usize, fd: i32, offset: u32) {
        do_mmap(addr, len, prot, low(flags), fd, u64::from(offset) << 12)
    }
    fn mremap(addr: usize, old_len: usize, new_len: usize, flags: u32, new_addr: usize) {
        space()?.mremap(addr, old_len, new_len, flags, new_addr, LIMIT)
    }
    fn process_vm_readv(pid: i32, local: usize, n_local: usize, remote: usize, n_remote: usize,
        flags: usize) {
        process_vm::<u32>(pid, (local, n_local), (remote, n_remote), flags, false)
    }
    fn process_vm_writev(pid: i32, local: usize, n_local: usize, remote: usize, n_remote: usize,
        flags: usize) {
        process_vm::<u32>(pid, (local, n_local), (remote, n_remote), flags, true)
    }
}
