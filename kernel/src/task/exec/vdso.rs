//! Mapping the vDSO into a new program.

use crate::mm::{AddressSpace, PAGE_SIZE, SpecialPages};
use crate::sync::Once;
use crate::time::vdso;
use alloc::sync::Arc;
use limen_linux_abi::Errno;

/// Clock data and image as mappable pages. Made once.
static PAGES: Once<(Arc<SpecialPages>, Arc<SpecialPages>)> = Once::new();

/// Maps the clock data and, directly behind it, the image. Returns the image's address, 0 if there is no
/// vDSO.
pub(super) fn map(mm: &AddressSpace) -> Result<usize, Errno> {
    let Some(vdso) = vdso::get() else { return Ok(0) };
    let (data, image) = PAGES.get_or_init(|| {
        let special = |name, pages| Arc::new(SpecialPages { name, pages });
        (
            special("[vvar]", alloc::vec![vdso.data.clone()]),
            special("[vdso]", vdso.image.clone()),
        )
    });
    // Asks for room for both: there may be a gap that only one of them fits into.
    let below = mm.room_for((image.pages.len() + data.pages.len()) * PAGE_SIZE)?;
    mm.map_special(below, false, data.clone())?;
    let at = below + data.pages.len() * PAGE_SIZE;
    if mm.map_special(at, true, image.clone())? != at {
        return Err(Errno::ENOMEM);
    }
    Ok(at)
}
