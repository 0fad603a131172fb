//! What one file of filters holds: sites, and patterns for modules that are not loaded yet. A file that is
//! open for writing has a copy, which replaces the tracer's when it is closed. If modules come and go
//! meanwhile, all copies are told ([`Hash::loaded`], [`Hash::forget`]).

use crate::command::{Functions, Module, Pattern, Select};
use crate::{Error, Name, Names, Site, SiteSet};
use alloc::vec::Vec;
use core::fmt;

/// A set of sites that patterns have chosen.
#[derive(Debug, Default)]
pub struct Hash {
    sites: SiteSet,
    /// Sites that were in it are gone with their module: even without any it is not empty, or else a filter
    /// for a module would let everything through once the module is unloaded.
    forgot: bool,
    /// The latest last.
    pending: Vec<Pending>,
}

/// A pattern for a module that is not loaded.
#[derive(Debug)]
struct Pending {
    functions: Vec<u8>,
    module: Vec<u8>,
}

fn copy(text: &[u8]) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(text.len())?;
    bytes.extend_from_slice(text);
    Ok(bytes)
}

impl Hash {
    /// Nothing: a file that was truncated.
    pub const fn new() -> Self {
        Self {
            sites: SiteSet::new(),
            forgot: false,
            pending: Vec::new(),
        }
    }
    /// A copy: a file that was opened to append.
    pub fn try_clone(&self) -> Result<Self, Error> {
        let mut pending = Vec::new();
        pending.try_reserve_exact(self.pending.len())?;
        for one in &self.pending {
            pending.push(Pending {
                functions: copy(&one.functions)?,
                module: copy(&one.module)?,
            });
        }
        Ok(Self {
            sites: self.sites.try_clone()?,
            forgot: self.forgot,
            pending,
        })
    }
    /// Whether nothing was ever chosen, or all of it was taken away: a filter that lets everything through.
    pub fn is_empty(&self) -> bool {
        !self.forgot && self.sites.is_empty()
    }
    /// The sites.
    pub fn sites(&self) -> &SiteSet {
        &self.sites
    }

    /// Puts sites in or takes them away. If no site matches, and a module is asked for that is not loaded,
    /// the pattern waits for it.
    ///
    /// # Errors
    /// [`Error::Invalid`]: nothing matches.
    pub fn apply(&mut self, names: &impl Names, select: &Select<'_>) -> Result<(), Error> {
        if self.choose(names, select)? {
            return Ok(());
        }
        match (&select.module, select.remove) {
            (None, _) => Err(Error::Invalid),
            (Some(module), true) => self.no_longer_wait(&select.functions, module),
            (Some(module), false) => {
                if names.module_exists(module.text) {
                    return Err(Error::Invalid);
                }
                let one = Pending {
                    functions: copy(select.functions.text)?,
                    module: copy(module.text)?,
                };
                self.pending.try_reserve(1)?;
                self.pending.push(one);
                Ok(())
            }
        }
    }
    /// Whether a site matches, and can be put in or taken away.
    fn choose(&mut self, names: &impl Names, select: &Select<'_>) -> Result<bool, Error> {
        if !select.remove {
            self.sites.reserve(names.bound())?;
        }
        let by_number = matches!(select.functions.pattern, Pattern::Line(_));
        let mut found = false;
        for (line, (site, name)) in names.named().enumerate() {
            if select.matches(name, line) {
                let there = select.remove && self.sites.remove(site);
                found |= there || !(select.remove && select.strict);
                if !select.remove {
                    self.sites.put(site);
                }
                if by_number {
                    break;
                }
            }
        }
        Ok(found)
    }
    fn no_longer_wait(&mut self, functions: &Functions<'_>, module: &Module<'_>) -> Result<(), Error> {
        let before = self.pending.len();
        let any = functions.text == b"*";
        self.pending
            .retain(|one| one.module != module.text || !(any || one.functions == functions.text));
        if self.pending.len() < before {
            Ok(())
        } else {
            Err(Error::Invalid)
        }
    }

    /// Makes room for all sites: [`Hash::loaded`] cannot fail then.
    pub(crate) fn reserve(&mut self, names: &impl Names) -> Result<(), Error> {
        self.sites.reserve(names.bound())
    }
    /// Applies what waited for `module`, whose sites are in `names` now. Says whether the sites have changed.
    pub fn loaded(&mut self, names: &impl Names, module: &str) -> Result<bool, Error> {
        self.come(names, |one| one.module == module.as_bytes())
    }
    /// A copy takes the place of what it was made of: sites of modules that went meanwhile are forgotten, and
    /// what waited for those that came is applied. On an error it has only
    /// forgotten.
    pub fn settle(&mut self, names: &impl Names) -> Result<(), Error> {
        for index in 0..64 * self.sites.word_count() as u32 {
            if self.sites.contains(Site(index)) && names.name(Site(index)).is_none() {
                self.forget(Site(index));
            }
        }
        self.come(names, |one| names.module_exists(&one.module)).map(drop)
    }
    /// Applies what waited for modules that are there now.
    fn come(&mut self, names: &impl Names, waits: impl Fn(&Pending) -> bool) -> Result<bool, Error> {
        if !self.pending.iter().any(&waits) {
            return Ok(false);
        }
        self.sites.reserve(names.bound())?;
        let mut changed = false;
        for one in self.pending.extract_if(.., |one| waits(one)) {
            let functions = Functions::new(&one.functions);
            let select = Select {
                remove: false,
                strict: false,
                functions,
                module: Some(Module::new(&one.module)),
            };
            for (line, (site, name)) in names.named().enumerate() {
                changed |= select.matches(name, line) && self.sites.put(site);
            }
        }
        Ok(changed)
    }
    /// Forgets a site whose module is unloaded. Allocates nothing.
    pub fn forget(&mut self, site: Site) {
        self.forgot |= self.sites.remove(site);
    }

    /// Writes the names of the sites, in order, then what waits for modules, the latest first, as the file
    /// shows it. If there are no sites `empty` comes first.
    pub fn list(&self, names: &impl Names, empty: &str, out: &mut impl fmt::Write) -> fmt::Result {
        if self.is_empty() {
            writeln!(out, "{empty}")?;
        }
        for name in self.sites.iter().filter_map(|site| names.name(site)) {
            writeln!(out, "{name}")?;
        }
        for one in self.pending.iter().rev() {
            let (functions, module) = (
                crate::report::Text(&one.functions),
                crate::report::Text(&one.module),
            );
            writeln!(out, "{functions}:mod:{module}")?;
        }
        Ok(())
    }
}

/// `schedule`, or `open [ext4]`.
impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.function)?;
        self.module.map_or(Ok(()), |module| write!(f, " [{module}]"))
    }
}
