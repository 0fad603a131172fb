//! Loading: the sections' content, the symbols' values, and the relocations.

use alloc::vec::Vec;

use crate::info::Info;
use crate::layout::{Key, Layout, Part, Place};
use crate::machine::{Branch, Machine, Site, Target};
use crate::memory::{self, Parts, at_mut};
use crate::object::{FUNC, Home, NOTYPE, Object, Relocation};
use crate::params::Parameters;
use crate::read::{push, room};
use crate::sites::{self, Traceable, Tracing};
use crate::symbols::{Named, Symbols};
use crate::tables::{self, Export, Format, MayFault};
use crate::{Error, Fault};

/// What the kernel and modules export.
pub trait Exports {
    /// A loaded module.
    type Owner: Copy + Ord;

    /// Finds an exported symbol.
    fn find(&mut self, name: &[u8]) -> Option<Exported<Self::Owner>>;

    /// What sites call. `None`: functions of modules are not traced.
    fn tracing(&self) -> Option<Tracing> {
        None
    }
}

/// An exported symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exported<O> {
    /// Its address; in processors that have two instruction sets, that of a function says which.
    pub address: u64,
    /// Whether it is only for modules with a licence compatible with the GPL.
    pub gpl_only: bool,
    /// The module that exports it, `None` for the kernel.
    pub owner: Option<O>,
}

/// A module whose memory is ready to run.
#[derive(Debug)]
pub struct Linked<O> {
    /// The address of `init_module`.
    pub init: Option<u64>,
    /// The address of `cleanup_module`: a module without cannot be unloaded.
    pub exit: Option<u64>,
    /// Whose exports it uses, each once.
    pub uses: Vec<O>,
    /// Its own functions and objects.
    pub symbols: Symbols,
    /// What it exports.
    pub exports: Vec<Export>,
    /// Which of its instructions may fault, by address.
    pub faults: Vec<MayFault>,
    /// Texts to which its records in traces refer.
    pub formats: Vec<Format>,
    /// What can be set.
    pub parameters: Parameters,
    /// How many veneers its branches use.
    pub veneers: usize,
    /// Its functions that can be traced, by address.
    pub sites: Vec<Traceable>,
    /// How many cannot, although the compiler has listed them: they are not aligned, or not what they should
    /// be.
    pub untraceable: usize,
}

/// The state of the work.
struct Linker<'l, 'a, 'b, M> {
    object: &'l Object<'a, M>,
    layout: &'l Layout,
    parts: &'l mut Parts<'b>,
    /// The symbols' values.
    values: Vec<u64>,
    /// Where the veneers go to that are used.
    veneers: Vec<Option<u64>>,
    base: u64,
}

/// Fills the parts with the module: contents, values, relocations and veneers. All that is left to do are
/// permissions, caches, parameters, and to call `init`. After an error the parts hold anything.
pub fn link<'a, M: Machine, E: Exports>(
    object: &Object<'a, M>,
    info: &Info<'a>,
    layout: &Layout,
    parts: &mut Parts<'_>,
    exports_of: &mut E,
) -> Result<Linked<E::Owner>, Error<'a>> {
    memory::check(layout, M::CLASS, parts)?;
    let mut linker = Linker {
        object,
        layout,
        parts,
        values: room(object.symbol_count())?,
        veneers: room(layout.veneer_count())?,
        base: 0,
    };
    linker.veneers.resize(layout.veneer_count(), None);
    linker.fill();
    linker.base = M::base(&|name| linker.section_address(name));
    let uses = linker.resolve(info.is_gpl(), exports_of)?;
    linker.relocate()?;
    let veneers = linker.write_veneers();
    let (init, exit, symbols) = linker.list()?;
    let exports = tables::exports(object, layout, linker.parts)?;
    let parameters = tables::parameters(object, info, layout, linker.parts)?;
    let faults = tables::faults(object, layout, linker.parts)?;
    let formats = tables::formats(object, layout, linker.parts)?;
    let (sites, untraceable) = match exports_of.tracing() {
        Some(tracing) => sites::make(object, layout, linker.parts, &tracing)?,
        None => (Vec::new(), 0),
    };
    Ok(Linked {
        init,
        exit,
        uses,
        symbols,
        exports,
        faults,
        formats,
        parameters,
        veneers,
        sites,
        untraceable,
    })
}

impl<'a, M: Machine> Linker<'_, 'a, '_, M> {
    fn address(&self, place: Place) -> u64 {
        self.parts[place.part as usize].address.wrapping_add(place.offset)
    }

    fn section_address(&self, name: &[u8]) -> Option<u64> {
        let index = self.object.sections().iter().position(|s| s.name == name)?;
        self.layout.place(index).map(|place| self.address(place))
    }

    /// Copies the sections' contents; everything else of the parts becomes zero.
    fn fill(&mut self) {
        for part in Part::ALL {
            let size = usize::try_from(self.layout.size(part)).unwrap_or(0);
            if let Some(bytes) = self.parts[part as usize].bytes.get_mut(..size) {
                bytes.fill(0);
            }
        }
        for (index, section) in self.object.sections().iter().enumerate() {
            if let Some(place) = self.layout.place(index)
                && let Some(bytes) = at_mut(self.parts, place).get_mut(..section.data.len())
            {
                bytes.copy_from_slice(section.data);
            }
        }
    }

    /// Gives all symbols their values.
    fn resolve<E: Exports>(&mut self, gpl: bool, exports: &mut E) -> Result<Vec<E::Owner>, Error<'a>> {
        let mut uses = Vec::new();
        for index in 0..self.object.symbol_count() {
            let symbol = self.object.symbol(index)?;
            let value = match self.object.home(index, &symbol)? {
                Home::Absolute => symbol.value,
                Home::Section(section) => match self.layout.place(section) {
                    Some(place) => symbol.value.wrapping_add(self.address(place)),
                    None => 0,
                },
                Home::Undefined if index == 0 => 0,
                Home::Undefined => {
                    let name = self.object.symbol_name(&symbol);
                    if name.is_empty() {
                        return Err(Error::Symbol {
                            symbol: b"",
                            what: "is undefined and has no name, or one that is too long",
                        });
                    }
                    if name == M::BASE_SYMBOL {
                        self.base
                    } else {
                        match exports.find(name) {
                            Some(found) if gpl || !found.gpl_only => {
                                if let Some(owner) = found.owner
                                    && uses.last() != Some(&owner)
                                {
                                    push(&mut uses, owner)?;
                                }
                                found.address
                            }
                            _ if symbol.is_weak() || M::is_ignored(name) => 0,
                            Some(_) => return Err(Error::GplOnly(name)),
                            None => return Err(Error::Unknown(name)),
                        }
                    }
                }
            };
            self.values.push(value);
        }
        uses.sort_unstable();
        uses.dedup();
        Ok(uses)
    }

    /// Makes the relocations of all sections that are loaded.
    fn relocate(&mut self) -> Result<(), Error<'a>> {
        let (object, layout) = (self.object, self.layout);
        for table in object.relocated(|index| layout.place(index).is_some()) {
            let (index, table) = table?;
            for relocation in Object::<M>::relocations(table) {
                self.relocate_one(index, &relocation)?;
            }
        }
        Ok(())
    }

    fn relocate_one(&mut self, index: usize, relocation: &Relocation) -> Result<(), Error<'a>> {
        let (object, layout) = (self.object, self.layout);
        let wrong = |fault| object.fault(index, relocation, fault);
        let symbol = object.symbol(relocation.symbol)?;
        let home = object.home(relocation.symbol, &symbol)?;
        if let Home::Section(section) = home
            && layout.place(section).is_none()
        {
            return Err(wrong(Fault::Refused("is to a section that is not loaded")));
        }
        let target = Target {
            value: self.values.get(relocation.symbol).copied().unwrap_or(0),
            own: matches!(home, Home::Section(_)),
            code: home == Home::Undefined || symbol.kind() == FUNC,
            other: symbol.other,
        };
        let section = object.get(index)?;
        let Some(place) = layout.place(index) else {
            return Ok(());
        };
        let address = self.address(place).wrapping_add(relocation.offset);
        let part = place.part;
        // Veneers are written in the end: their bytes are in the same part.
        let (starts, init, bases) = (&layout.veneers_at, part.is_init(), &mut self.veneers);
        let start = self.parts[part as usize]
            .address
            .wrapping_add(starts[usize::from(init)]);
        let mut veneer = |branch: &Branch, to: u64| {
            let key = Key {
                init,
                symbol: relocation.symbol as u32,
                variant: branch.variant,
                addend: branch.addend,
            };
            let found = layout.veneers.binary_search(&key).ok()?;
            *bases.get_mut(found)? = Some(to);
            Some(start.wrapping_add(Self::veneer_offset(layout, found)))
        };
        let bytes = at_mut(self.parts, place).get_mut(..section.data.len());
        let bytes = usize::try_from(relocation.offset)
            .ok()
            .and_then(|offset| bytes?.get_mut(offset..))
            .ok_or_else(|| wrong(Fault::Outside))?;
        let mut site = Site {
            bytes,
            address,
            addend: relocation.addend,
            base: self.base,
        };
        M::relocate(&mut site, relocation.kind, &target, &mut veneer).map_err(wrong)
    }

    /// Where a veneer is after the first of its part.
    fn veneer_offset(layout: &Layout, index: usize) -> u64 {
        let first = layout.veneers.partition_point(|key| !key.init);
        let nth = if index < first { index } else { index - first };
        nth as u64 * M::VENEER.0
    }

    /// Writes the veneers that are used, and returns how many.
    fn write_veneers(&mut self) -> usize {
        let layout = self.layout;
        let mut count = 0;
        for (index, (key, to)) in layout.veneers.iter().zip(&self.veneers).enumerate() {
            let Some(to) = *to else { continue };
            let part = if key.init { Part::InitText } else { Part::Text };
            let start = layout.veneers_at[usize::from(key.init)];
            let place = Place {
                part,
                offset: start + Self::veneer_offset(layout, index),
            };
            if let Some(bytes) = at_mut(self.parts, place).get_mut(..M::VENEER.0 as usize) {
                M::write_veneer(bytes, key.variant, to);
                count += 1;
            }
        }
        count
    }

    /// The addresses of `init_module` and `cleanup_module`, and the list of functions and objects.
    fn list(&self) -> Result<(Option<u64>, Option<u64>, Symbols), Error<'a>> {
        let (object, layout) = (self.object, self.layout);
        let (mut init, mut exit) = (None, None);
        let mut list = Vec::new();
        for (index, &value) in self.values.iter().enumerate() {
            let symbol = object.symbol(index)?;
            let Home::Section(section) = object.home(index, &symbol)? else {
                continue;
            };
            let Some(place) = layout.place(section) else {
                continue;
            };
            let (name, section) = (object.symbol_name(&symbol), object.get(section)?);
            if !Object::<M>::is_listed(&symbol, name, place.part.is_text()) || symbol.value >= section.size {
                continue;
            }
            let code = place.part.is_text() && matches!(symbol.kind(), FUNC | NOTYPE);
            if code && !symbol.is_local() {
                if name == b"cleanup_module" && place.part.is_init() {
                    return Err(Error::Symbol {
                        symbol: name,
                        what: "does not stay",
                    });
                }
                match name {
                    b"init_module" => init = Some(value),
                    b"cleanup_module" => exit = Some(value),
                    _ => {}
                }
            }
            let named = Named {
                address: if code { M::code_address(value) } else { value },
                size: symbol.size.min(section.size - symbol.value),
                part: place.part,
                global: !symbol.is_local(),
                zeros: section.is_zeros(),
                name: symbol.name as u32,
            };
            push(&mut list, named)?;
        }
        Ok((init, exit, Symbols::new(list, object.names())?))
    }
}
