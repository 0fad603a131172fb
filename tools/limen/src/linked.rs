//! What the checks of a linked kernel read of it.

use std::collections::BTreeMap;

use object::{Object, ObjectSymbol, SymbolKind};

/// Its functions by address, with the names that Rust gives them.
pub fn functions(file: &object::File<'_>) -> BTreeMap<u64, String> {
    let functions = file.symbols().filter(|s| s.kind() == SymbolKind::Text);
    let named = functions.filter_map(|s| Some((s.address(), s.name().ok()?)));
    named
        .map(|(address, name)| (address, format!("{:#}", rustc_demangle::demangle(name))))
        .collect()
}
