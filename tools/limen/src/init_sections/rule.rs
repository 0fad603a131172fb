//! Who may refer to what only boot has, and what that is of the image.

use std::collections::BTreeSet;
use std::ops::Range;

use super::symbols::Symbols;

/// Who may: the way from the first instruction to boot's Rust code, and what calls boot's parts.
const CALLERS: [&str; 5] = [
    // x86_64: a pointer in data, powerpc64: the first instructions.
    "limen_kernel::arch::imp::head::START",
    "_start",
    // arm64, arm.
    "limen_kernel::arch::imp::head::primary",
    "<limen_kernel::boot::Limen as limen_kernel::arch::above::Above>::start",
    // The compressed table of symbols has no pointers, but may look like it.
    "__kallsyms_start",
];

/// What only boot has, and the names of everything.
#[derive(Default)]
pub struct Init {
    /// All that is given back, with what the linker puts between the sections.
    pub freed: Range<u64>,
    /// What of it is code.
    pub text: Range<u64>,
    /// Where nothing lies, although somebody may ask for the address.
    pub bounds: Vec<u64>,
    /// Where something lies, with a name or without. What else is given back only fills pages; an address in
    /// it has been put together of two halves that have nothing to do with each other.
    pub contents: Vec<Range<u64>>,
    /// Sections of code that stay.
    pub code: Vec<Range<u64>>,
    pub symbols: Symbols,
}

impl Init {
    fn is_bound(&self, address: u64) -> bool {
        self.bounds.contains(&address)
    }

    fn is_filler(&self, address: u64) -> bool {
        let lies_in = |range: &Range<u64>| range.contains(&address);
        self.freed.contains(&address)
            && !self.contents.iter().any(lies_in)
            && self.symbols.object(address).is_none()
    }

    /// Whether a word of data with this value is taken for a pointer. What leads into the midst of a function
    /// is of its table of jumps, and text may look like an address between two objects.
    pub fn is_pointer(&self, value: u64) -> bool {
        let is_code = self.text.contains(&value) || self.code.iter().any(|range| range.contains(&value));
        if is_code {
            self.symbols.is_start(value)
        } else {
            !self.freed.contains(&value) || self.symbols.object(value).is_some()
        }
    }

    /// A line for each pair of names between which a reference must not be.
    ///
    /// A closure of one of boot's functions counts as boot's, too, where it stays, and what is made for such
    /// a closure only: but then nobody else may refer to *it*. The same holds for data that have no name,
    /// such as the table of functions through which it is called: whose they are is what refers to their
    /// beginning.
    pub fn errors(&self, found: &[(u64, u64)]) -> BTreeSet<String> {
        let boot: Vec<&str> = self.symbols.names(self.freed.clone()).collect();
        let mut errors = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut todo = vec![self.freed.clone()];
        while let Some(goes) = todo.pop() {
            for &(from, to) in found {
                let inside = self.freed.contains(&from) || goes.contains(&from);
                if !goes.contains(&to) || inside || self.is_bound(to) || self.is_filler(to) {
                    continue;
                }
                let part = match self.symbols.object(from) {
                    Some(object) if object.names.iter().all(|name| CALLERS.contains(name)) => continue,
                    Some(object) if object.names.iter().all(|name| is_made_for(name, &boot)) => {
                        Some(object.range)
                    }
                    None if !self.code.iter().any(|range| range.contains(&from)) => {
                        self.nameless(from, found)
                    }
                    _ => None,
                };
                if let Some(part) = part {
                    if seen.insert(part.start) {
                        todo.push(part);
                    }
                    continue;
                }
                let (from, to) = (self.symbols.name(from), self.symbols.name(to));
                errors.insert(if goes == self.freed {
                    format!(
                        "{from} stays after boot, but refers to {to}, which does not (.init.text, .init.data)"
                    )
                } else {
                    format!(
                        "{from} stays after boot, but refers to {to}, which is of a function that does not"
                    )
                });
            }
        }
        errors
    }

    /// From the beginning of the nameless data around `address` to behind it: that is the last address before
    /// it to which anything refers, if no named object lies between.
    fn nameless(&self, address: u64, found: &[(u64, u64)]) -> Option<Range<u64>> {
        let least = self.symbols.end_before(address);
        let targets = found.iter().map(|&(_, to)| to);
        let start = targets.filter(|to| (least..=address).contains(to)).max()?;
        Some(start..address + 1)
    }
}

/// Whether a name is that of a closure of one of `functions`, or of what was made for one.
fn is_made_for(name: &str, functions: &[&str]) -> bool {
    functions.iter().any(|function| {
        name.match_indices(function).any(|(at, _)| {
            let is_whole = !name[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            is_whole && name[at + function.len()..].starts_with("::{")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: u64 = 0x6000;

    fn init() -> Init {
        let mut symbols = Symbols::default();
        for (at, size, name) in [
            (0x1000, 0x80, "limen_kernel::arch::imp::head::primary"),
            (0x1100, 0x80, "stays"),
            (0x1200, 0x80, "core::call::<goes::{closure#0}>"),
            (0x1280, 0x80, "core::call::<foregoes::{closure#0}>"),
            (0x1300, 0x80, "goes_too"),
            (0x1400, 0x80, "goes::{closure#0}"),
            // The same bytes for two.
            (0x1500, 0x80, "goes::{closure#1}"),
            (0x1500, 0x80, "stays_as_well"),
            (0x2010, 0x100, "goes"),
            (0x3000, 0, "__vectors_load"),
            (0x3010, 0x100, "vectors"),
            (0x4010, 0xff0, "TABLE"),
            (0x5ff0, 0x10, "NAMED"),
        ] {
            symbols.insert(at, size, name.to_string());
        }
        Init {
            freed: 0x2000..0x5000,
            text: 0x2000..0x3000,
            bounds: vec![0x2000, 0x3000, 0x4000],
            contents: Vec::from_iter([(0x2000, 0x2200), (0x4000, 0x5000)].map(|(start, end)| start..end)),
            code: Vec::from_iter([(0x1000, 0x2000)].map(|(start, end)| start..end)),
            symbols,
        }
    }

    fn errors(found: &[(u64, u64)]) -> Vec<String> {
        init().errors(found).into_iter().collect()
    }

    #[test]
    fn what_stays_may_not_refer_to_what_goes() {
        assert_eq!(
            errors(&[
                (0x1104, 0x2010),
                (0x1104, 0x2000),
                (0x1104, 0x5000),
                (0x1108, 0x2020)
            ]),
            ["stays stays after boot, but refers to goes, which does not (.init.text, .init.data)"]
        );
        assert_eq!(errors(&[(0x1304, 0x4ff8)]).len(), 1);
        // What the linker puts between the sections, but not its beginning.
        assert_eq!(errors(&[(0x1304, 0x3020)]).len(), 1);
        assert!(errors(&[(0x1304, 0x3000), (0x1304, 0x4000)]).is_empty());
    }

    #[test]
    fn what_fills_pages_is_nothing() {
        // Behind the functions of .init.text, and between the sections.
        assert!(errors(&[(0x1104, 0x2200), (0x1104, 0x3200)]).is_empty());
        // Of .init.text, with a name or without.
        assert_eq!(errors(&[(0x1104, 0x2108)]).len(), 1);
        assert_eq!(errors(&[(0x1104, 0x21fc)]).len(), 1);
    }

    #[test]
    fn boot_itself_its_callers_and_its_closures_may() {
        assert!(
            errors(&[
                (0x1004, 0x2010),
                (0x2014, 0x4010),
                (0x1204, 0x2010),
                (0x2010, 0x1100)
            ])
            .is_empty()
        );
        // Not one of a function whose name only ends like that.
        assert_eq!(errors(&[(0x1284, 0x2010)]).len(), 1);
    }

    #[test]
    fn a_caller_ends_where_its_size_says() {
        assert!(errors(&[(0x107c, 0x2010)]).is_empty());
        assert_eq!(errors(&[(0x1080, 0x2010)]).len(), 1);
    }

    #[test]
    fn closures_are_called_by_boot_alone() {
        let (closure, call) = ((0x1404, 0x2010), (0x1204, 0x1400));
        // goes calls call, which calls the closure, which calls goes.
        assert!(errors(&[closure, call, (0x2020, 0x1200), (0x1404, 0x1400)]).is_empty());
        assert_eq!(
            errors(&[closure, call, (0x1104, 0x1400)]),
            ["stays stays after boot, but refers to goes::{closure#0}, which is of a function that does not"]
        );
        assert_eq!(errors(&[closure, call, (0x1104, 0x1200)]).len(), 1);
        // It may be called by anybody if it refers to nothing that goes.
        assert!(errors(&[call, (0x1104, 0x1400)]).is_empty());
        assert_eq!(errors(&[(0x1504, 0x2010)]).len(), 1);
    }

    #[test]
    fn a_table_without_a_name_is_of_who_refers_to_it() {
        let found = [(0x1404, 0x2010), (TABLE + 0x18, 0x1400)];
        let with = |from, to| errors(&[&found[..], &[(from, to)]].concat());
        assert!(with(0x2020, TABLE).is_empty());
        assert_eq!(with(0x1104, TABLE).len(), 1);
        // Nobody refers to it, or only to what has a name.
        assert_eq!(errors(&found).len(), 1);
        assert_eq!(with(0x2020, 0x5ff8).len(), 1);
    }

    #[test]
    fn words_that_only_look_like_pointers() {
        // Tables of jumps; between the objects of .init.data.
        let init = init();
        assert!(init.is_pointer(0x2010) && !init.is_pointer(0x2020) && !init.is_pointer(0x1404));
        assert!(init.is_pointer(0x4020) && !init.is_pointer(0x4008) && !init.is_pointer(0x3f00));
        assert!(init.is_pointer(0x3010) && init.is_pointer(TABLE));
    }
}
