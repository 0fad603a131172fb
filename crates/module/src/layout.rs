//! Which section comes where, before anything has an address.

use alloc::vec::Vec;

use crate::machine::{Machine, Target};
use crate::object::{ALLOC, EXECUTE, FUNC, Home, Object, Section, WRITE};
use crate::read::{push, room};
use crate::sites::SITES;
use crate::{Error, Fault};

/// What has memory of its own, with permissions of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Part {
    /// Read and executed. Veneers are at its end.
    Text,
    /// Only read.
    Rodata,
    /// Written until `init` has run, then only read (`.data..ro_after_init`).
    AfterInit,
    /// Read and written; zeros at its end.
    Data,
    /// As [`Part::Text`], freed when `init` has run.
    InitText,
    /// As [`Part::Data`] with constants among it, freed when `init` has run.
    InitData,
}

impl Part {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; PARTS] = [
        Self::Text,
        Self::Rodata,
        Self::AfterInit,
        Self::Data,
        Self::InitText,
        Self::InitData,
    ];
    /// Whether it is freed when `init` has run.
    pub const fn is_init(self) -> bool {
        matches!(self, Self::InitText | Self::InitData)
    }
    /// Whether it is executed.
    pub const fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::InitText)
    }
    /// Whether the module may write it before and while `init` runs.
    pub const fn is_written(self) -> bool {
        matches!(self, Self::AfterInit | Self::Data | Self::InitData)
    }
}

/// How many parts there are.
pub const PARTS: usize = 6;

/// A place in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The part.
    pub part: Part,
    /// The offset in it, in bytes.
    pub offset: u64,
}

/// A branch that may need a veneer. Branches of a kind and a part to the same place share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub init: bool,
    pub symbol: u32,
    pub variant: u8,
    pub addend: i64,
}

/// Where everything goes.
#[derive(Debug)]
pub struct Layout {
    /// By section.
    places: Vec<Option<Place>>,
    /// Bytes that are used of each part.
    used: [u64; PARTS],
    page: u64,
    /// Sorted: those of [`Part::Text`] first.
    pub(crate) veneers: Vec<Key>,
    /// Where the first veneer of [`Part::Text`] and of [`Part::InitText`] is.
    pub(crate) veneers_at: [u64; 2],
    /// Where those are in each that sites may need, one for each trampoline.
    pub(crate) trampolines_at: [Option<u64>; 2],
}

/// Into which part a section goes, `None` if it is not loaded.
fn part_of<M: Machine>(section: &Section<'_>) -> Result<Option<Part>, &'static str> {
    if section.flags & ALLOC == 0 || section.name == b".modinfo" {
        return Ok(None);
    }
    let init = M::is_init(section.name);
    let (execute, write) = (section.flags & EXECUTE != 0, section.flags & WRITE != 0);
    Ok(Some(match (execute, write) {
        (true, true) => return Err("is to be both written and executed"),
        (true, false) if init => Part::InitText,
        (true, false) => Part::Text,
        // It is read when the module is linked, and then no more.
        _ if init || section.name == SITES.as_bytes() => Part::InitData,
        _ if section.name.starts_with(b".data..ro_after_init") => Part::AfterInit,
        // Constants that hold addresses, which are known when the module is linked.
        _ if section.name.starts_with(b".data.rel.ro") => Part::Rodata,
        (_, true) => Part::Data,
        _ => Part::Rodata,
    }))
}

impl Layout {
    /// Lays out `object`'s sections in pages of `page` bytes, a power of two. All parts together, rounded up
    /// to pages, may have `limit` bytes.
    pub fn new<'a, M: Machine>(object: &Object<'a, M>, page: u64, limit: u64) -> Result<Self, Error<'a>> {
        if !page.is_power_of_two() {
            return Err(Error::Buffer);
        }
        let sections = object.sections();
        let mut layout = Self {
            places: room(sections.len())?,
            used: [0; PARTS],
            page,
            veneers: Vec::new(),
            veneers_at: [0; 2],
            trampolines_at: [None; 2],
        };
        layout.places.resize(sections.len(), None);
        // Zeros come last, so that the file's content of a part is at its start.
        for zeros in [false, true] {
            for (index, section) in sections.iter().enumerate() {
                if section.is_zeros() != zeros {
                    continue;
                }
                let wrong = |what| Error::Section {
                    section: section.name,
                    index,
                    what,
                };
                let Some(part) = part_of::<M>(section).map_err(wrong)? else {
                    continue;
                };
                if section.align > page {
                    return Err(wrong("has an alignment larger than a page"));
                }
                let offset = layout.append(part, section.align, section.size, limit)?;
                if let Some(place) = layout.places.get_mut(index) {
                    *place = Some(Place { part, offset });
                }
            }
        }
        layout.plan_veneers(object)?;
        let first = layout.veneers.partition_point(|key| !key.init);
        let (size, align) = M::VENEER;
        for (n, part, count) in [
            (0, Part::Text, first),
            (1, Part::InitText, layout.veneers.len() - first),
        ] {
            if count > 0 {
                let bytes = size.checked_mul(count as u64).ok_or(Error::TooLarge)?;
                layout.veneers_at[n] = layout.append(part, align, bytes, limit)?;
            }
        }
        let listed = sections.iter().any(|section| section.name == SITES.as_bytes());
        for (n, part) in [(0, Part::Text), (1, Part::InitText)] {
            if listed && M::SITE_VENEERS > 0 && layout.used(part) > 0 {
                let at = layout.append(part, align, size * M::SITE_VENEERS, limit)?;
                layout.trampolines_at[n] = Some(at);
            }
        }
        Ok(layout)
    }

    /// Makes a part larger, and says where.
    fn append<'a>(&mut self, part: Part, align: u64, size: u64, limit: u64) -> Result<u64, Error<'a>> {
        let used = self.used[part as usize];
        let offset = used.checked_next_multiple_of(align).ok_or(Error::TooLarge)?;
        let end = offset.checked_add(size).ok_or(Error::TooLarge)?;
        self.used[part as usize] = end;
        let pages = |sum: u64, used: &u64| sum.checked_add(used.checked_next_multiple_of(self.page)?);
        match self.used.iter().try_fold(0, pages) {
            Some(sum) if sum <= limit => Ok(offset),
            _ => Err(Error::TooLarge),
        }
    }

    /// Lists the branches that may need a veneer: those that leave their part, and those within it that do
    /// not reach.
    fn plan_veneers<'a, M: Machine>(&mut self, object: &Object<'a, M>) -> Result<(), Error<'a>> {
        if M::VENEER.0 == 0 {
            return Ok(());
        }
        let mut keys = Vec::new();
        let text = |index| self.place(index).is_some_and(|place| place.part.is_text());
        for table in object.relocated(text) {
            let (index, table) = table?;
            let section = object.get(index)?;
            let Some(place) = self.place(index) else { continue };
            for relocation in Object::<M>::relocations(table) {
                let bytes = usize::try_from(relocation.offset)
                    .ok()
                    .and_then(|offset| section.data.get(offset..))
                    .ok_or_else(|| object.fault(index, &relocation, Fault::Outside))?;
                let (target, part) = self.target(object, relocation.symbol)?;
                let Some(branch) = M::branch(relocation.kind, bytes, relocation.addend, &target) else {
                    continue;
                };
                let distance = branch.distance(&target, place.offset.wrapping_add(relocation.offset));
                if part == Some(place.part) && branch.near(distance) {
                    continue;
                }
                let key = Key {
                    init: place.part.is_init(),
                    symbol: relocation.symbol as u32,
                    variant: branch.variant,
                    addend: branch.addend,
                };
                push(&mut keys, key)?;
            }
        }
        keys.sort_unstable();
        keys.dedup();
        self.veneers = keys;
        Ok(())
    }

    /// A symbol with its value as an offset in its part, and that part.
    fn target<'a, M: Machine>(
        &self,
        object: &Object<'a, M>,
        index: usize,
    ) -> Result<(Target, Option<Part>), Error<'a>> {
        let symbol = object.symbol(index)?;
        let home = object.home(index, &symbol)?;
        let place = match home {
            Home::Section(section) => self.place(section),
            _ => None,
        };
        let target = Target {
            value: symbol.value.wrapping_add(place.map_or(0, |place| place.offset)),
            own: matches!(home, Home::Section(_)),
            code: home == Home::Undefined || symbol.kind() == FUNC,
            other: symbol.other,
        };
        Ok((target, place.map(|place| place.part)))
    }

    /// Where section `index` goes, `None` if it is not loaded.
    pub fn place(&self, index: usize) -> Option<Place> {
        self.places.get(index).copied().flatten()
    }

    /// How many bytes of a part are used.
    pub fn used(&self, part: Part) -> u64 {
        self.used[part as usize]
    }

    /// The size of a part in bytes, whole pages; 0 if there is none.
    pub fn size(&self, part: Part) -> u64 {
        self.used(part).next_multiple_of(self.page)
    }

    /// How many veneers may be needed.
    pub fn veneer_count(&self) -> usize {
        self.veneers.len()
    }

    pub(crate) fn page(&self) -> u64 {
        self.page
    }
}
