//! The memory room's self-tests (see `boot::selftest`).

use super::cache::{Sink, Source};
use super::frame::{self, For};
use super::{AddressSpace, FaultError, KernelStack, MapFlags, PAGE_SIZE, Page, PageCache, Prot, stack, vmap};
use crate::arch::mmu::USER_END;
use crate::check;
use crate::selftest::Test;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// The tests.
pub const TESTS: &[Test] = &[
    ("frames come and go", frames),
    ("heap blocks are disjoint and aligned", heap),
    ("large blocks", large),
    ("large blocks freed under spinlocks", large_atomic),
    ("kernel stacks", stacks),
    ("page cache", page_cache),
    ("anonymous memory", anonymous),
    ("copy on write", copy_on_write),
    ("private and shared file mappings", file_mappings),
    ("mremap moves and grows", remap),
    ("errors of mmap", errors),
    ("many mappings", many),
    ("everything comes back", comes_back),
];

const RW: Prot = Prot::READ.union(Prot::WRITE);
const ANON: MapFlags = MapFlags::PRIVATE.union(MapFlags::ANONYMOUS);

fn frames() -> Result<(), &'static str> {
    let before = frame::free_count();
    let mut held = Vec::new();
    for i in 0..200usize {
        let page = Page::alloc_zeroed(For::Kernel).ok_or("no page")?;
        check!(page.bytes().iter().all(|&b| b == 0));
        page.bytes()[i] = 1;
        held.push(page.clone());
        check!(page.count() == 2);
    }
    for (i, page) in held.iter().enumerate() {
        check!(page.bytes()[i] == 1 && page.is_sole());
    }
    let block = frame::alloc_block(4, For::Kernel).ok_or("no block")?;
    check!(block.is_multiple_of(16));
    frame::free_block(block, 4);
    drop(held);
    check!(frame::free_count().abs_diff(before) < 16);
    Ok(())
}

fn heap() -> Result<(), &'static str> {
    let mut map: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
    let mut seed = 1u32;
    for step in 0..3000usize {
        seed = seed.wrapping_mul(1664525).wrapping_add(1013904223);
        let size = (seed >> 8) as usize % if step % 7 == 0 { 5000 } else { 300 } + 1;
        let key = (seed >> 20) as usize % 64;
        if let Some(old) = map.insert(key, vec![key as u8; size]) {
            check!(old.iter().all(|&b| b == key as u8));
        }
    }
    for (key, block) in &map {
        check!(block.iter().all(|&b| b == *key as u8));
    }
    for align in [32usize, 64, 256, 1024, 4096] {
        let layout = core::alloc::Layout::from_size_align(align + 8, align).map_err(|_| "layout")?;
        // SAFETY: the layout has a size; the block is freed with the same layout.
        let ptr = unsafe { alloc::alloc::alloc(layout) };
        check!(!ptr.is_null() && (ptr as usize).is_multiple_of(align));
        // SAFETY: it was allocated with this layout, and is used no more.
        unsafe { alloc::alloc::dealloc(ptr, layout) };
    }
    Ok(())
}

fn large() -> Result<(), &'static str> {
    let before = frame::free_count();
    let n = (frame::free_count() / 4).min(512) * PAGE_SIZE;
    for _ in 0..4 {
        let mut v: Vec<u8> = Vec::new();
        super::reserve::room_exact(&mut v, n).map_err(|_| "no room")?;
        v.resize(n, 0);
        v[0] = 1;
        v[n - 1] = 2;
        check!(v.iter().map(|&b| b as usize).sum::<usize>() == 3);
    }
    vmap::purge();
    check!(frame::free_count().abs_diff(before) < 64);
    Ok(())
}

/// Very many areas are freed where sleeping is not allowed, several times the batch that is freed together.
/// Their memory comes back when it is needed, and before the thread goes to user mode.
fn large_atomic() -> Result<(), &'static str> {
    let before = frame::free_count();
    // One page each, fewer areas where there is little memory; there are always addresses for 5,100.
    let count = 5100.min(frame::free_count() / 4);
    let lock = crate::sync::SpinLock::new(());
    for _ in 0..2 {
        let mut areas = Vec::new();
        super::reserve::room_exact(&mut areas, count).map_err(|_| "no room")?;
        for _ in 0..count {
            let at = vmap::alloc_pages(1);
            check!(!at.is_null());
            areas.push(at);
        }
        {
            let _atomic = lock.lock();
            for at in areas {
                vmap::free(at);
            }
            // Refused here, since it would have to wait for other CPUs.
            check!(!vmap::purge());
        }
        check!(frame::free_count() + count <= before + 64);
        vmap::before_user();
        check!(frame::free_count().abs_diff(before) < 64);
    }
    // The addresses are free again.
    let at = vmap::alloc_pages(count);
    check!(!at.is_null());
    vmap::free(at);
    vmap::purge();
    check!(frame::free_count().abs_diff(before) < 64);
    Ok(())
}

fn stacks() -> Result<(), &'static str> {
    let before = frame::free_count();
    let mut all = Vec::new();
    for i in 0..20usize {
        let s = KernelStack::new().ok_or("no stack")?;
        check!(stack::is_guard(s.bottom() - 8));
        // SAFETY: the stack is mapped and belongs to this test; nothing runs on it.
        unsafe { ((s.top() - 8) as *mut usize).write(i) };
        all.push(s);
    }
    for (i, s) in all.iter().enumerate() {
        // SAFETY: the stack is still mapped, and its word was written.
        check!(unsafe { ((s.top() - 8) as *const usize).read() } == i);
    }
    drop(all);
    stack::trim(0);
    // The page tables of the stacks' range are kept.
    check!(frame::free_count().abs_diff(before) < 64);
    Ok(())
}

struct Bytes<'a>(&'a mut [u8], usize);
impl Sink for Bytes<'_> {
    fn remaining(&self) -> usize {
        self.0.len() - self.1
    }
    fn put(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        self.0[self.1..self.1 + bytes.len()].copy_from_slice(bytes);
        self.1 += bytes.len();
        Ok(bytes.len())
    }
}
impl Source for Bytes<'_> {
    fn remaining(&self) -> usize {
        self.0.len() - self.1
    }
    fn take(&mut self, to: &mut [u8]) -> Result<usize, Errno> {
        to.copy_from_slice(&self.0[self.1..self.1 + to.len()]);
        self.1 += to.len();
        Ok(to.len())
    }
}

fn page_cache() -> Result<(), &'static str> {
    let cache = PageCache::new();
    let mut data: Vec<u8> = (0..3 * PAGE_SIZE).map(|i| (i * 7) as u8).collect();
    check!(
        cache
            .writing()
            .write_at(100, &mut Bytes(&mut data, 0), 3 * PAGE_SIZE)
            == Ok(3 * PAGE_SIZE)
    );
    check!(cache.size() == (100 + 3 * PAGE_SIZE) as u64 && cache.resident() == 4);
    let mut back = vec![0xffu8; 100 + 3 * PAGE_SIZE];
    check!(cache.read_at(0, &mut Bytes(&mut back, 0)) == Ok(100 + 3 * PAGE_SIZE));
    check!(back[..100].iter().all(|&b| b == 0) && back[100..] == data);
    // A write far behind the end leaves a hole.
    let mut one = [9u8];
    let far = 1u64 << 40;
    check!(cache.writing().write_at(far, &mut Bytes(&mut one, 0), 1) == Ok(1));
    check!(cache.next_data(4) == Some(far >> super::PAGE_SHIFT) && cache.next_hole(0) == 4);
    cache
        .writing()
        .punch_hole(PAGE_SIZE as u64, 2 * PAGE_SIZE as u64 + 1);
    let mut hole = vec![1u8; PAGE_SIZE + 1];
    check!(cache.read_at(PAGE_SIZE as u64, &mut Bytes(&mut hole, 0)) == Ok(PAGE_SIZE + 1));
    check!(hole.iter().all(|&b| b == 0));
    cache.writing().truncate(150);
    check!(cache.resident() == 1);
    cache.writing().truncate(PAGE_SIZE as u64);
    let mut tail = vec![1u8; PAGE_SIZE];
    check!(cache.read_at(0, &mut Bytes(&mut tail, 0)) == Ok(PAGE_SIZE));
    check!(tail[150..].iter().all(|&b| b == 0) && tail[149] == data[49]);
    Ok(())
}

fn space() -> Result<alloc::sync::Arc<AddressSpace>, &'static str> {
    AddressSpace::new().map_err(|_| "no address space")
}

fn read(space: &AddressSpace, addr: usize) -> Option<u8> {
    let mut b = [0];
    space.read_bytes(addr, &mut b).ok().map(|()| b[0])
}

fn anonymous() -> Result<(), &'static str> {
    let s = space()?;
    let at = s.mmap(0, 10 * PAGE_SIZE, RW, ANON, None).map_err(|_| "mmap")?;
    check!(read(&s, at) == Some(0));
    check!(s.usage().anon == 0);
    s.write_bytes(at + PAGE_SIZE - 1, &[1, 2]).map_err(|_| "write")?;
    check!(read(&s, at + PAGE_SIZE) == Some(2) && s.usage().anon == 2);
    check!(
        s.mprotect(at, PAGE_SIZE, (Prot::READ, Prot::empty()), false)
            .is_ok()
    );
    check!(s.fault(at, Prot::WRITE) == Err(FaultError::Access));
    check!(s.munmap(at + PAGE_SIZE, PAGE_SIZE).is_ok());
    check!(s.fault(at + PAGE_SIZE, Prot::READ) == Err(FaultError::NotMapped));
    check!(s.usage().anon == 1 && s.usage().total == 9);
    check!(s.madvise(at, PAGE_SIZE, 4).is_ok() && read(&s, at) == Some(0) && s.usage().anon == 0);
    check!(s.fault(at - PAGE_SIZE, Prot::READ) == Err(FaultError::NotMapped));
    check!(s.munmap(at, 10 * PAGE_SIZE).is_ok() && s.usage().total == 0);
    Ok(())
}

fn copy_on_write() -> Result<(), &'static str> {
    let s = space()?;
    let at = s.mmap(0, 4 * PAGE_SIZE, RW, ANON, None).map_err(|_| "mmap")?;
    s.write_bytes(at, &[1]).map_err(|_| "write")?;
    check!(read(&s, at + PAGE_SIZE) == Some(0));
    let child = s.fork().map_err(|_| "fork")?;
    check!(read(&child, at) == Some(1));
    s.write_bytes(at, &[2]).map_err(|_| "write")?;
    check!(read(&child, at) == Some(1) && read(&s, at) == Some(2));
    child.write_bytes(at, &[3]).map_err(|_| "write")?;
    child.write_bytes(at + PAGE_SIZE, &[4]).map_err(|_| "write")?;
    check!(read(&s, at) == Some(2) && read(&s, at + PAGE_SIZE) == Some(0));
    let grandchild = child.fork().map_err(|_| "fork")?;
    drop(child);
    check!(read(&grandchild, at) == Some(3) && read(&grandchild, at + PAGE_SIZE) == Some(4));
    grandchild.write_bytes(at, &[5]).map_err(|_| "write")?;
    check!(read(&grandchild, at) == Some(5) && read(&s, at) == Some(2));
    Ok(())
}

fn file_mappings() -> Result<(), &'static str> {
    let cache = PageCache::new();
    let mut data = vec![7u8; 2 * PAGE_SIZE + 10];
    check!(
        cache
            .writing()
            .write_at(0, &mut Bytes(&mut data, 0), 2 * PAGE_SIZE + 10)
            .is_ok()
    );
    let file = super::FileMap {
        cache: Some(cache.clone()),
        file: None,
        offset: 0,
        may: RW,
    };
    let s = space()?;
    let len = 4 * PAGE_SIZE;
    let private = s
        .mmap(0, len, RW, MapFlags::PRIVATE, Some(file.clone()))
        .map_err(|_| "mmap")?;
    let shared = s
        .mmap(0, len, RW, MapFlags::SHARED, Some(file))
        .map_err(|_| "mmap")?;
    check!(read(&s, private) == Some(7) && read(&s, shared + PAGE_SIZE) == Some(7));
    s.write_bytes(shared, &[8]).map_err(|_| "write")?;
    check!(read(&s, private) == Some(8));
    s.write_bytes(private, &[9]).map_err(|_| "write")?;
    check!(read(&s, shared) == Some(8) && read(&s, private) == Some(9));
    // The rest of the last page is zeros; behind it nothing is mapped.
    check!(read(&s, shared + 2 * PAGE_SIZE + 10) == Some(0));
    check!(s.fault(shared + 3 * PAGE_SIZE, Prot::READ) == Err(FaultError::Bus));
    let child = s.fork().map_err(|_| "fork")?;
    child
        .write_bytes(shared + PAGE_SIZE, &[11])
        .map_err(|_| "write")?;
    check!(read(&s, shared + PAGE_SIZE) == Some(11));
    cache.writing().truncate(1);
    check!(s.fault(shared + PAGE_SIZE, Prot::READ) == Err(FaultError::Bus));
    check!(child.fault(private + PAGE_SIZE, Prot::READ) == Err(FaultError::Bus));
    check!(read(&s, private) == Some(9) && read(&s, shared) == Some(8) && read(&s, shared + 1) == Some(0));
    check!(s.munmap(private, 10 * len).is_ok());
    drop(child);
    drop(s);
    check!(!cache.is_mapped());
    Ok(())
}

fn remap() -> Result<(), &'static str> {
    let s = space()?;
    let at = s.mmap(0, 4 * PAGE_SIZE, RW, ANON, None).map_err(|_| "mmap")?;
    s.write_bytes(at + PAGE_SIZE, &[1]).map_err(|_| "write")?;
    // A neighbour leaves no room, so the mapping has to move.
    let fixed = ANON.union(MapFlags::FIXED);
    s.mmap(at + 4 * PAGE_SIZE, PAGE_SIZE, Prot::READ, fixed, None)
        .map_err(|_| "mmap")?;
    check!(s.mremap(at, 4 * PAGE_SIZE, 8 * PAGE_SIZE, 0, 0, USER_END) == Err(Errno::ENOMEM));
    let to = s
        .mremap(at, 4 * PAGE_SIZE, 8 * PAGE_SIZE, 1, 0, USER_END)
        .map_err(|_| "mremap")?;
    check!(to != at && read(&s, to + PAGE_SIZE) == Some(1) && read(&s, at).is_none());
    check!(s.mremap(to, 8 * PAGE_SIZE, 2 * PAGE_SIZE, 0, 0, USER_END) == Ok(to));
    check!(read(&s, to + PAGE_SIZE) == Some(1) && read(&s, to + 2 * PAGE_SIZE).is_none());
    check!(s.mremap(to, 2 * PAGE_SIZE, 3 * PAGE_SIZE, 0, 0, USER_END) == Ok(to));
    check!(s.usage().total == 4 && s.usage().anon == 1);
    Ok(())
}

fn errors() -> Result<(), &'static str> {
    let s = space()?;
    let fixed = ANON.union(MapFlags::FIXED);
    let once = ANON.union(MapFlags::FIXED_NOREPLACE);
    check!(s.mmap(0, 0, RW, ANON, None) == Err(Errno::EINVAL));
    check!(s.mmap(0, usize::MAX, RW, ANON, None) == Err(Errno::ENOMEM));
    check!(s.mmap(0x10001, PAGE_SIZE, RW, fixed, None) == Err(Errno::EINVAL));
    check!(s.mmap(usize::MAX & !(PAGE_SIZE - 1), PAGE_SIZE, RW, fixed, None) == Err(Errno::ENOMEM));
    let at = s.mmap(0, PAGE_SIZE, RW, ANON, None).map_err(|_| "mmap")?;
    check!(s.mmap(at, PAGE_SIZE, RW, once, None) == Err(Errno::EEXIST));
    check!(s.munmap(at + 1, PAGE_SIZE) == Err(Errno::EINVAL));
    check!(s.mprotect(at + PAGE_SIZE, PAGE_SIZE, (RW, Prot::empty()), false) == Err(Errno::ENOMEM));
    check!(s.madvise(at, 2 * PAGE_SIZE, 4) == Err(Errno::ENOMEM));
    check!(s.madvise(at, PAGE_SIZE, 77) == Err(Errno::EINVAL));
    check!(s.mremap(at + PAGE_SIZE, PAGE_SIZE, PAGE_SIZE * 2, 1, 0, USER_END) == Err(Errno::EFAULT));
    check!(s.msync(at, PAGE_SIZE, 5) == Err(Errno::EINVAL));
    Ok(())
}

fn many() -> Result<(), &'static str> {
    let s = space()?;
    let n = 3000;
    let at = s
        .mmap(0, 2 * n * PAGE_SIZE, Prot::empty(), ANON, None)
        .map_err(|_| "mmap")?;
    for i in 0..n {
        check!(
            s.mprotect(at + 2 * i * PAGE_SIZE, PAGE_SIZE, (RW, Prot::empty()), false)
                .is_ok()
        );
    }
    let count = || core::iter::successors(s.next_vma(0), |vma| s.next_vma(vma.end)).count();
    check!(count() == 2 * n);
    check!(
        s.mprotect(at, 2 * n * PAGE_SIZE, (RW, Prot::empty()), false)
            .is_ok()
    );
    check!(count() == 1);
    Ok(())
}

fn comes_back() -> Result<(), &'static str> {
    let round = || -> Result<(), &'static str> {
        let s = space()?;
        let at = s.mmap(0, 600 * PAGE_SIZE, RW, ANON, None).map_err(|_| "mmap")?;
        for i in 0..100 {
            s.write_bytes(at + i * 6 * PAGE_SIZE, &[1]).map_err(|_| "write")?;
        }
        let child = s.fork().map_err(|_| "fork")?;
        child.write_bytes(at, &[2]).map_err(|_| "write")?;
        Ok(())
    };
    round()?;
    let before = frame::free_count();
    for _ in 0..20 {
        round()?;
    }
    check!(frame::free_count().abs_diff(before) < 8);
    Ok(())
}
