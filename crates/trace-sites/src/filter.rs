//! The filters of one tracer: which functions it is to trace (`set_ftrace_filter`), which not
//! (`set_ftrace_notrace`), and what both come to.

use crate::hash::Hash;
use crate::{Error, Names, Site, SiteSet};
use core::fmt;

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// What is traced; empty means everything.
    Filter,
    /// What is not traced all the same.
    Notrace,
}

impl Which {
    /// What the file says when it holds nothing.
    pub fn empty_text(self) -> &'static str {
        match self {
            Self::Filter => "#### all functions enabled ####",
            Self::Notrace => "#### no functions disabled ####",
        }
    }
}

/// The filters of a tracer.
#[derive(Debug, Default)]
pub struct Filter {
    filter: Hash,
    notrace: Hash,
}

/// Which sites a tracer is to trace.
#[derive(Debug)]
pub enum Effective {
    /// All but these, and all that come later.
    All {
        /// What is not traced.
        except: SiteSet,
    },
    /// These.
    Only(SiteSet),
}

impl Effective {
    /// Whether `site` is to be traced.
    #[inline]
    pub fn contains(&self, site: Site) -> bool {
        match self {
            Self::All { except } => !except.contains(site),
            Self::Only(sites) => sites.contains(site),
        }
    }
    /// 64 sites, of which the first is 64 × `index`.
    pub(crate) fn word(&self, index: usize) -> u64 {
        match self {
            Self::All { except } => !except.word(index),
            Self::Only(sites) => sites.word(index),
        }
    }
    /// Forgets a site. Allocates nothing.
    pub(crate) fn forget(&mut self, site: Site) {
        let (Self::All { except: sites } | Self::Only(sites)) = self;
        sites.remove(site);
    }
    /// Leaves only sites that are in `present`. Allocates nothing.
    pub(crate) fn confine(&mut self, present: &SiteSet) {
        let (Self::All { except: sites } | Self::Only(sites)) = self;
        sites.intersect(present);
    }
}

impl Filter {
    /// Everything is traced.
    pub const fn new() -> Self {
        Self {
            filter: Hash::new(),
            notrace: Hash::new(),
        }
    }
    /// A copy.
    pub fn try_clone(&self) -> Result<Self, Error> {
        Ok(Self {
            filter: self.filter.try_clone()?,
            notrace: self.notrace.try_clone()?,
        })
    }
    /// What `which` holds.
    pub fn hash(&self, which: Which) -> &Hash {
        match which {
            Which::Filter => &self.filter,
            Which::Notrace => &self.notrace,
        }
    }
    /// The same, to be changed.
    pub fn hash_mut(&mut self, which: Which) -> &mut Hash {
        match which {
            Which::Filter => &mut self.filter,
            Which::Notrace => &mut self.notrace,
        }
    }
    /// What both come to: the filter without what is not to be traced.
    pub fn effective(&self) -> Result<Effective, Error> {
        self.effective_with(Which::Filter, &self.filter)
    }
    /// The same, with `hash` in the place of `which`: before it replaces it, so that nothing has changed if
    /// the tracer cannot be changed.
    pub fn effective_with(&self, which: Which, hash: &Hash) -> Result<Effective, Error> {
        let (filter, notrace) = match which {
            Which::Filter => (hash, &self.notrace),
            Which::Notrace => (&self.filter, hash),
        };
        if filter.is_empty() {
            return Ok(Effective::All {
                except: notrace.sites().try_clone()?,
            });
        }
        let mut sites = filter.sites().try_clone()?;
        sites.subtract(notrace.sites());
        Ok(Effective::Only(sites))
    }
    /// Applies what waited for `module`, which has been loaded. Says whether that changes what is traced.
    pub fn loaded(&mut self, names: &impl Names, module: &str) -> Result<bool, Error> {
        // So that neither has changed if there is no room for the other.
        self.filter.reserve(names)?;
        self.notrace.reserve(names)?;
        Ok(self.filter.loaded(names, module)? | self.notrace.loaded(names, module)?)
    }
    /// Forgets a site whose module is unloaded. Allocates nothing.
    pub fn forget(&mut self, site: Site) {
        self.filter.forget(site);
        self.notrace.forget(site);
    }
    /// Writes what the file `which` shows. Probes come behind it.
    pub fn list(&self, which: Which, names: &impl Names, out: &mut impl fmt::Write) -> fmt::Result {
        self.hash(which).list(names, which.empty_text(), out)
    }
}
