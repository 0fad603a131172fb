//! What functions with sites are called. The names are made at first use, and stay.

use super::site;
use crate::mm::reserve::room_exact;
use crate::sync::Once;
use crate::trace::symbols::Symbol;
use alloc::string::String;
use alloc::vec::Vec;
use limen_linux_abi::Errno;
use limen_trace_sites::{Name, Names, Site};

static ALL: Once<Vec<String>> = Once::new();

/// The names of all sites, in their order.
#[derive(Clone, Copy)]
pub struct Known(&'static [String]);

/// The names. `ENOMEM`. May sleep.
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
    ALL.get().map(|all| Known(all)).ok_or(Errno::ENOMEM)
}

impl Names for Known {
    fn bound(&self) -> u32 {
        self.0.len() as u32
    }
    fn name(&self, site: Site) -> Option<Name<'_>> {
        let function = self.0.get(site.0 as usize)?;
        Some(Name {
            function,
            module: None,
        })
    }
    fn module_exists(&self, _module: &[u8]) -> bool {
        false
    }
}
