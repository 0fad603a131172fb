//! What functions with sites are called. The names of the image's are made at first use, and stay.

use super::site;
use super::texts::{self, Text};
use crate::mm::reserve::room_exact;
use crate::sync::Once;
use crate::trace::symbols::Symbol;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;
use limen_trace_sites::{Name, Names, Site};

static ALL: Once<Vec<String>> = Once::new();

/// The names of all sites, in their order.
pub struct Known {
    image: &'static [String],
    texts: Vec<Arc<Text>>,
}

/// The names as they are now. `ENOMEM`. May sleep.
pub fn known() -> Result<Known, Errno> {
    if ALL.get().is_none() {
        let mut all = Vec::new();
        room_exact(&mut all, site::count())?;
        all.extend((0..site::count()).filter_map(site::address).map(|address| {
            let mut name = String::new();
            // Writing to a string does not fail.
            let _ = Symbol(address).write_short(false, &mut name);
            name
        }));
        // Somebody else may have been faster.
        let _ = ALL.set(all);
    }
    Ok(Known {
        image: ALL.get().ok_or(Errno::ENOMEM)?,
        texts: texts::all()?,
    })
}

impl Names for Known {
    fn bound(&self) -> u32 {
        let end = self.texts.iter().map(|text| text.range().end).max();
        end.unwrap_or(0).max(self.image.len()) as u32
    }
    fn name(&self, site: Site) -> Option<Name<'_>> {
        let n = site.0 as usize;
        if let Some(function) = self.image.get(n) {
            return Some(Name {
                function,
                module: None,
            });
        }
        // A module without sites has the same first number as another.
        self.texts.iter().find_map(|text| text.name(n))
    }
    fn module_exists(&self, module: &[u8]) -> bool {
        self.texts.iter().any(|text| text.module().as_bytes() == module)
    }
}
