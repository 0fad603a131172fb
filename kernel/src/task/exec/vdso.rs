//! Mapping the vDSO into a new program.

use crate::mm::{AddressSpace, PAGE_SIZE, Page, SpecialPages};
use crate::sync::Once;
use crate::task::current;
use crate::task::ns::time;
use crate::time::vdso;
use alloc::sync::Arc;
use limen_linux_abi::Errno;

/// Clock data and image as mappable pages. Made once.
static PAGES: Once<(Arc<SpecialPages>, Arc<SpecialPages>)> = Once::new();

/// What the data's mapping is called.
pub const DATA: &str = "[vvar]";

fn pages() -> Option<&'static (Arc<SpecialPages>, Arc<SpecialPages>)> {
    let vdso = vdso::get()?;
    Some(PAGES.get_or_init(|| {
        let special = |name, pages| Arc::new(SpecialPages { name, pages });
        (
            special(DATA, alloc::vec![vdso.data.clone(), vdso.data.clone()]),
            special("[vdso]", vdso.image.clone()),
        )
    }))
}

/// The clock data of programs in the initial time namespace. `None`: there is no vDSO.
pub fn initial_data() -> Option<Arc<SpecialPages>> {
    pages().map(|(data, _)| data.clone())
}

/// The clock data of programs in a time namespace which has this page. `None`: there is no vDSO.
pub fn data_with(page: &Page) -> Option<Arc<SpecialPages>> {
    let pages = alloc::vec![vdso::get()?.data.clone(), page.clone()];
    Some(Arc::new(SpecialPages { name: DATA, pages }))
}

/// Maps the clock data and, directly behind it, the image. Returns the image's address, 0 if there is no
/// vDSO. The data is that of the time namespace in which the running thread will be when it runs the program.
pub(super) fn map(mm: &AddressSpace) -> Result<usize, Errno> {
    let Some((data, image)) = pages() else {
        return Ok(0);
    };
    let data = time::data_for_children(&current()).unwrap_or_else(|| data.clone());
    // Asks for room for both: there may be a gap that only one of them fits into.
    let below = mm.room_for((image.pages.len() + data.pages.len()) * PAGE_SIZE)?;
    let at = below + data.pages.len() * PAGE_SIZE;
    mm.map_special(below, false, data)?;
    if mm.map_special(at, true, image.clone())? != at {
        return Err(Errno::ENOMEM);
    }
    Ok(at)
}
