//! Sites: room at the beginning of functions that the compiler leaves (`-fpatchable-function-entry`), where
//! the kernel can call a tracer. The compiler lists them in [`SITES`]. Each is made what those of the kernel
//! are: its instructions do nothing, and its *slot*, a word beside it, says which tracer there is.

use alloc::vec::Vec;

use crate::Error;
use crate::layout::{Layout, Part};
use crate::machine::{Class, Machine};
use crate::memory::{Parts, at_mut, locate};
use crate::object::Object;
use crate::read::{push, u32_at, u64_at};

/// The section that lists them, as addresses.
pub const SITES: &str = "__patchable_function_entries";

/// What the kernel says of its tracers.
#[derive(Clone, Copy, Debug)]
pub struct Tracing {
    /// What sites call. The second is for functions that make the address of their table of contents
    /// (powerpc64).
    pub trampolines: [u64; 2],
    /// What a slot holds as long as nobody traces the function.
    pub nothing: u64,
}

/// A function that can be traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traceable {
    /// The site, as the kernel takes it: its first instruction's address, whose lowest bits may say more.
    pub site: u64,
    /// What it is to call: a trampoline, or a veneer that goes there.
    pub to: u64,
    /// Whether it is gone when `init` has run.
    pub init: bool,
}

/// Finds what a site calls: of a trampoline's number, and where the distance begins, the address.
pub type WayOf<'w> = &'w mut dyn FnMut(usize, u64) -> Option<u64>;

/// Makes the sites ready. Returns them by address, and how many are left out, because they are not aligned or
/// have other instructions.
pub(crate) fn make<'a, M: Machine>(
    object: &Object<'a, M>,
    layout: &Layout,
    parts: &mut Parts<'_>,
    tracing: &Tracing,
) -> Result<(Vec<Traceable>, usize), Error<'a>> {
    let (mut all, mut left_out) = (Vec::new(), 0);
    let word = M::CLASS.word();
    // Which veneers are used.
    let mut used = [[false; 2]; 2];
    for (index, section) in object.sections().iter().enumerate() {
        let Some(list) = layout.place(index).filter(|_| section.name == SITES.as_bytes()) else {
            continue;
        };
        let wrong = |what| Error::Section {
            section: section.name,
            index,
            what,
        };
        if section.data.len() % word != 0 {
            return Err(wrong("has entries of another size"));
        }
        for at in (0..section.data.len()).step_by(word) {
            let bytes = at_mut(parts, list);
            let address = match M::CLASS {
                Class::Bits32 => u32_at(bytes, at).map(u64::from),
                Class::Bits64 => u64_at(bytes, at),
            }
            .unwrap_or(0);
            let place = locate(layout, parts, address, 1).filter(|place| place.part.is_text());
            let place = place.ok_or(wrong("lists what is no code"))?;
            let init = place.part.is_init();
            let start = parts[place.part as usize].address;
            let veneers = layout.trampolines_at[usize::from(init)].map(|offset| start.wrapping_add(offset));
            let mut way = |n: usize, from: u64| {
                let reaches = |to: &u64| {
                    let distance = to.wrapping_sub(from) as i64;
                    (-M::SITE_REACH..M::SITE_REACH).contains(&distance)
                };
                let direct = *tracing.trampolines.get(n)?;
                if reaches(&direct) {
                    return Some(direct);
                }
                let veneer = veneers?.wrapping_add(n as u64 * M::VENEER.0);
                *used.get_mut(usize::from(init))?.get_mut(n)? = true;
                Some(veneer).filter(reaches)
            };
            match M::make_site(at_mut(parts, place), address, tracing.nothing, &mut way) {
                Some((site, to)) => push(&mut all, Traceable { site, to, init })?,
                None => left_out += 1,
            }
        }
    }
    for (part, n) in [
        (Part::Text, 0),
        (Part::Text, 1),
        (Part::InitText, 0),
        (Part::InitText, 1),
    ] {
        let init = usize::from(part.is_init());
        let Some(offset) = layout.trampolines_at[init].filter(|_| used[init][n]) else {
            continue;
        };
        let place = crate::Place {
            part,
            offset: offset + n as u64 * M::VENEER.0,
        };
        if let Some(bytes) = at_mut(parts, place).get_mut(..M::VENEER.0 as usize) {
            M::write_veneer(bytes, M::SITE_VENEER, tracing.trampolines[n]);
        }
    }
    all.sort_unstable_by_key(|one| one.site);
    Ok((all, left_out))
}
