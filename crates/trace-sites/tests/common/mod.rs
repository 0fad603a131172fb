//! What several tests need: a table of names, a registry that is driven by operations.

#![allow(dead_code, reason = "each test uses a part")]

pub mod engine;

use limen_trace_sites::command::{self, Command, File};
use limen_trace_sites::filter::Filter;
use limen_trace_sites::hash::Hash;
use limen_trace_sites::{Error, Name, Names, Site};

/// Functions, with the modules that they are in; free indexes are `None`.
#[derive(Clone, Default)]
pub struct Table(pub Vec<Option<(&'static str, Option<&'static str>)>>);

impl Names for Table {
    fn bound(&self) -> u32 {
        self.0.len() as u32
    }
    fn name(&self, site: Site) -> Option<Name<'_>> {
        let (function, module) = (*self.0.get(site.0 as usize)?)?;
        Some(Name { function, module })
    }
    fn module_exists(&self, module: &[u8]) -> bool {
        let mut modules = self.0.iter().flatten().filter_map(|&(_, module)| module);
        modules.any(|other| other.as_bytes() == module)
    }
}

impl Table {
    pub fn new(kernel: &[&'static str], modules: &[(&'static str, &'static str)]) -> Self {
        let kernel = kernel.iter().map(|&function| Some((function, None)));
        let modules = modules
            .iter()
            .map(|&(function, module)| Some((function, Some(module))));
        Self(kernel.chain(modules).collect())
    }
}

/// Applies one word.
pub fn apply(hash: &mut Hash, names: &Table, word: &str) -> Result<(), Error> {
    match command::parse(word.as_bytes(), File::Filter)? {
        Command::Select(select) => hash.apply(names, &select),
        Command::Probe { .. } => Err(Error::Invalid),
    }
}

/// What a file shows.
pub fn listed(filter: &Filter, which: limen_trace_sites::filter::Which, names: &Table) -> String {
    let mut text = String::new();
    filter.list(which, names, &mut text).unwrap();
    text
}
