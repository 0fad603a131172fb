//! The symbols of an image, by address: what an address is in, and how long that is.

use std::collections::BTreeMap;
use std::ops::Range;

struct Symbol {
    /// 0 if it is only a label.
    size: u64,
    name: String,
}

/// The symbols of an image.
#[derive(Default)]
pub struct Symbols(BTreeMap<u64, Vec<Symbol>>);

/// What lies at an address: the linker may give it several names.
pub struct Object<'a> {
    pub range: Range<u64>,
    pub names: Vec<&'a str>,
}

impl Symbols {
    pub fn insert(&mut self, address: u64, size: u64, name: String) {
        self.0.entry(address).or_default().push(Symbol { size, name });
    }

    /// Whether something with a name begins there.
    pub fn is_start(&self, address: u64) -> bool {
        self.0.contains_key(&address)
    }

    /// The symbols with a size that begin last before an address, or there.
    fn last(&self, address: u64) -> Option<(u64, impl Iterator<Item = &Symbol>)> {
        let sized = |symbol: &&Symbol| symbol.size > 0;
        let mut before = self.0.range(..=address).rev();
        let (&start, list) = before.find(|(_, list)| list.iter().any(|symbol| symbol.size > 0))?;
        Some((start, list.iter().filter(sized)))
    }

    /// What has this address among its own.
    pub fn object(&self, address: u64) -> Option<Object<'_>> {
        let (start, symbols) = self.last(address)?;
        let symbols: Vec<_> = symbols.filter(|symbol| address - start < symbol.size).collect();
        let size = symbols.iter().map(|symbol| symbol.size).max()?;
        Some(Object {
            range: start..start + size,
            names: symbols.iter().map(|symbol| symbol.name.as_str()).collect(),
        })
    }

    /// Where the last object before an address ends.
    pub fn end_before(&self, address: u64) -> u64 {
        self.last(address).map_or(0, |(start, symbols)| {
            start + symbols.map(|symbol| symbol.size).max().unwrap_or(0)
        })
    }

    /// The names of everything with a size in a range.
    pub fn names(&self, range: Range<u64>) -> impl Iterator<Item = &str> {
        let lists = self.0.range(range).flat_map(|(_, list)| list);
        lists
            .filter(|symbol| symbol.size > 0)
            .map(|symbol| symbol.name.as_str())
    }

    /// A name for messages: of what the address is in, or else of the last thing before it.
    pub fn name(&self, address: u64) -> &str {
        let object = self.object(address);
        let label = || Some(self.0.range(..=address).next_back()?.1.first()?.name.as_str());
        object.map(|object| object.names[0]).or_else(label).unwrap_or("?")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_labels() {
        let mut symbols = Symbols::default();
        for (at, size, name) in [
            (0x1000, 0, "label"),
            (0x1000, 0x10, "one"),
            (0x1000, 0x8, "shorter"),
            (0x1004, 0, "inside"),
            (0x1020, 0, "behind"),
        ] {
            symbols.insert(at, size, name.to_string());
        }
        let names = |at| symbols.object(at).map(|object| object.names);
        assert_eq!(names(0x1000), Some(vec!["one", "shorter"]));
        assert_eq!(names(0x1008), Some(vec!["one"]));
        assert_eq!(symbols.object(0x1008).unwrap().range, 0x1000..0x1010);
        assert!(names(0x1010).is_none() && names(0xfff).is_none());
        assert_eq!((symbols.name(0x1005), symbols.name(0x1024)), ("one", "behind"));
        assert_eq!(
            (symbols.end_before(0x1024), symbols.end_before(0x10)),
            (0x1010, 0)
        );
        assert!(symbols.is_start(0x1020) && !symbols.is_start(0x1021));
        assert_eq!(symbols.names(0x1000..0x2000).count(), 2);
    }
}
