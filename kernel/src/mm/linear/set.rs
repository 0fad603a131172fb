//! What other rooms ask of the map: pages become read-only, writable, executable, or are not there at all.
//! What is read-only in `mm::vmap` is so in the linear map, too (`rodata=full`).

use super::{Live, MAP, Merge, Reason, Wanted, attempts, change, change_linear, map, range};
use crate::arch::{kernel_map, mmu};
use crate::cmdline;
use crate::mm::frame::FrameList;
use crate::mm::{PAGE_SIZE, PhysAddr, table, vmap};
use limen_linear_map::{Access, Edit};
use limen_linux_abi::Errno;

/// What a [`change_linear`] does that takes `clear` and gives `set`.
const fn edit(clear: Access, set: Access) -> Edit {
    Edit { clear, set }
}

/// Memory of `vmap` and what maps it elsewhere: `pages` pages at `at`.
fn change_mapping(at: usize, pages: usize, edit: Edit, alias: Edit, why: Reason) -> Result<(), Errno> {
    let (start, end) = (
        kernel_map::address(at),
        kernel_map::address(at + pages * PAGE_SIZE),
    );
    change(&map(), (start, end), edit, Merge::No, why)?;
    let changes = alias.clear.union(alias.set) != Access::empty();
    if changes && aliases() {
        each_run(at, pages, |phys, pages| change_linear(phys, pages, alias, why))?;
    }
    Ok(())
}

/// Calls `f` with each run of pages of `vmap`'s that follow each other in memory.
pub(in crate::mm) fn each_run(
    at: usize,
    pages: usize,
    mut f: impl FnMut(PhysAddr, usize) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut run: Option<(u64, usize)> = None;
    for n in 0..pages {
        let slot = table::find(mmu::kernel_root(), at + n * PAGE_SIZE).ok_or(Errno::EINVAL)?;
        let phys = table::load(slot).phys().as_u64();
        match &mut run {
            Some((start, count)) if *start + (*count * PAGE_SIZE) as u64 == phys => *count += 1,
            _ => {
                if let Some((start, count)) = run.replace((phys, 1)) {
                    f(PhysAddr::new(start), count)?;
                }
            }
        }
    }
    match run {
        Some((start, count)) => f(PhysAddr::new(start), count),
        None => Ok(()),
    }
}

/// `pages` pages at `at`, in the linear map or in `mm::vmap`, become read-only; what is read-only there is so
/// in the linear map, too. Errors: `EINVAL`: not mapped; `ENOMEM`; `EBUSY` (as [`change_linear`]). After an
/// error a part may have been changed: memory of `vmap` is then to be given to [`reset`] before it is freed.
pub fn set_read_only(at: usize, pages: usize, why: Reason) -> Result<(), Errno> {
    both(at, pages, edit(Access::WRITE, Access::empty()), why)
}

/// They become writable; they must not be executable there (`EINVAL`; other mappings of the same memory are
/// not asked). Other errors as [`set_read_only`].
pub fn set_writable(at: usize, pages: usize, why: Reason) -> Result<(), Errno> {
    both(at, pages, edit(Access::empty(), Access::WRITE), why)
}

/// They become executable; they must not be writable (`EINVAL`). Other errors as [`set_read_only`].
pub fn set_executable(at: usize, pages: usize, why: Reason) -> Result<(), Errno> {
    both(at, pages, edit(Access::empty(), Access::EXECUTE), why)
}

/// They are not executable any more. Errors as [`set_read_only`].
pub fn set_no_exec(at: usize, pages: usize, why: Reason) -> Result<(), Errno> {
    both(at, pages, edit(Access::EXECUTE, Access::empty()), why)
}

/// The pages of the linear map from `phys` on come back, or cannot be accessed any more by anybody in the
/// kernel. Errors as [`change_linear`].
pub fn set_present(phys: PhysAddr, pages: usize, present: bool, why: Reason) -> Result<(), Errno> {
    let edit = if present {
        edit(Access::empty(), Access::PRESENT)
    } else {
        edit(Access::PRESENT, Access::empty())
    };
    change_linear(phys, pages, edit, why)
}

/// For `debug_pagealloc`: the pages of the linear map from `phys` on leave it, because they are free, or come
/// back. Only the tables in reserve are used, and `surplus` gets those that are not needed any more: nothing
/// is allocated or freed. In any context. `ENOMEM`: the reserve is empty; a part may have been changed.
pub(in crate::mm) fn set_free(
    phys: PhysAddr,
    pages: usize,
    free: bool,
    surplus: &mut FrameList,
) -> Result<(), Errno> {
    let mut pages = pages;
    if mmu::HIGH_MEMORY {
        let room = mmu::linear_end().saturating_sub(phys.as_u64()) / PAGE_SIZE as u64;
        pages = pages.min(usize::try_from(room).unwrap_or(usize::MAX));
    }
    if pages == 0 {
        return Ok(());
    }
    let (map, (start, end)) = (map(), range(phys, pages));
    let is_so = {
        let _lock = MAP.lock();
        map.at(&Live, start).is_some_and(|found| {
            found.leaf.is_present() != free && end <= found.addr.saturating_add(found.size)
        })
    };
    if is_so {
        return Ok(());
    }
    let edit = if free {
        edit(Access::PRESENT, Access::empty())
    } else {
        edit(Access::empty(), Access::PRESENT)
    };
    match attempts(&map, (start, end), edit, Merge::Yes, Reason::PageAlloc, surplus) {
        Ok(()) => Ok(()),
        Err(Wanted::Tables(_)) => Err(Errno::ENOMEM),
        Err(Wanted::Nothing(errno)) => Err(errno),
    }
}

/// `pages` pages of the image from `phys` on become memory as any other: writable and not executable in the
/// linear map; where the image is linked apart from it, they are not there any more. Errors as
/// [`change_linear`].
pub(in crate::mm) fn set_ordinary(phys: PhysAddr, pages: usize) -> Result<(), Errno> {
    let image = kernel_map::image();
    if image.linked != mmu::phys_to_virt(PhysAddr::new(image.text)) as usize {
        let at = image.linked + (phys.as_u64() - image.text) as usize;
        let (start, end) = (
            kernel_map::address(at),
            kernel_map::address(at + pages * PAGE_SIZE),
        );
        let absent = edit(Access::PRESENT, Access::empty());
        change(&map(), (start, end), absent, Merge::No, Reason::Init)?;
    }
    // In one change: nothing is writable and executable in between.
    change_linear(phys, pages, edit(Access::EXECUTE, Access::WRITE), Reason::Init)
}

fn both(at: usize, pages: usize, change: Edit, why: Reason) -> Result<(), Errno> {
    if vmap::contains(at) {
        // The linear map is never executable.
        let alias = edit(
            change.clear.intersection(Access::WRITE),
            change.set.intersection(Access::WRITE),
        );
        return change_mapping(at, pages, change, alias, why);
    }
    change_linear(mmu::virt_to_phys(at as *const u8), pages, change, why)
}

/// The linear map's part of memory of `vmap` is as other memory's again: `pages` pages at `at`, which are
/// still mapped there. Called before their frames are free. Errors as [`set_read_only`]: then they must not
/// be freed.
pub fn reset(at: usize, pages: usize) -> Result<(), Errno> {
    if !aliases() {
        return Ok(());
    }
    let edit = edit(Access::empty(), Access::WRITE);
    each_run(at, pages, |phys, pages| {
        // Not where all is so already: that needs no table, which may be all that is wanted of this.
        if is_writable(phys, pages) {
            return Ok(());
        }
        change_linear(phys, pages, edit, Reason::Alias)
    })
}

/// Whether these pages of the linear map are writable throughout, or not in it.
fn is_writable(phys: PhysAddr, pages: usize) -> bool {
    if mmu::HIGH_MEMORY && phys.as_u64() >= mmu::linear_end() {
        return true;
    }
    let (map, (mut at, end)) = (map(), range(phys, pages));
    while at < end {
        let _lock = MAP.lock();
        let Some(found) = map
            .at(&Live, at)
            .filter(|found| found.leaf.attributes.access.contains(Access::WRITE))
        else {
            return false;
        };
        at = found.addr.saturating_add(found.size);
    }
    true
}

/// Whether what is read-only in one place is so in the linear map, which is the default.
pub fn aliases() -> bool {
    !matches!(rodata(), Some(Rodata::NoAlias))
}

/// What `rodata=` can ask for.
enum Rodata {
    Full,
    NoAlias,
}

/// What the command line's last `rodata=` asks for, in words of Linux before and since 7.2 (there what was
/// `full` is `on`). `None`: nothing, or nothing that is known.
fn rodata() -> Option<Rodata> {
    let word = cmdline::value("rodata")?;
    match word {
        "full" => Some(Rodata::Full),
        "noalias" => Some(Rodata::NoAlias),
        _ => cmdline::truth(word).map(|on| if on { Rodata::Full } else { Rodata::NoAlias }),
    }
}

/// Says so if the word is not known: then it is as if it were not there. At boot, once there is a log.
pub(super) fn complain() {
    if let Some(word) = cmdline::value("rodata")
        && rodata().is_none()
    {
        warning!("Invalid option string for rodata: '{word}'; known are full, on, noalias, off");
    }
}
