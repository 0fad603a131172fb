//! The devicetree, and reading numbers out of it: what every architecture with one does alike.

use flat_device_tree::{Fdt, node::FdtNode};

static mut TREE: Option<Fdt<'static>> = None;

/// The tree in `data`, which must live and stay unchanged as long as the result. Panics if it is none: there is no machine without.
pub fn parse(data: &'static [u8]) -> Fdt<'static> {
    match Fdt::new(data) {
        Ok(tree) => tree,
        Err(error) => panic!("the devicetree cannot be read: {error:?}"),
    }
}

/// Keeps the tree for everyone. Called once on the boot CPU before other CPUs run.
pub fn keep(tree: Fdt<'static>) {
    // SAFETY: called once, before any reader.
    unsafe { TREE = Some(tree) }
}

/// The tree.
pub fn tree() -> &'static Fdt<'static> {
    let tree = &raw const TREE;
    // SAFETY: written once before any reader, by `keep`.
    match unsafe { &*tree } {
        Some(tree) => tree,
        None => panic!("the devicetree is asked for before it is there"),
    }
}

/// Big-endian cell `n` of a property value.
pub fn cell(value: &[u8], n: usize) -> Option<u32> {
    let bytes = value.get(n * 4..n * 4 + 4)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// `count` cells from cell `n` on as one number.
pub fn number(value: &[u8], n: usize, count: usize) -> Option<u64> {
    let mut result = 0u64;
    for i in 0..count {
        result = result << 32 | u64::from(cell(value, n + i)?);
    }
    Some(result)
}

/// The root's `#address-cells` and `#size-cells`: how the nodes directly below it write addresses.
pub fn root_cells(tree: &Fdt<'_>) -> (usize, usize) {
    let get = |name| {
        tree.find_node("/")
            .and_then(|root| root.property(name))
            .and_then(|p| cell(p.value, 0))
    };
    (
        get("#address-cells").unwrap_or(2) as usize,
        get("#size-cells").unwrap_or(1) as usize,
    )
}

/// A property that is one number of whatever size.
pub fn property(node: &FdtNode<'_, '_>, name: &str) -> Option<u64> {
    let value = node.property(name)?.value;
    number(value, 0, value.len() / 4)
}

/// Whether `device_type` is `kind`.
pub fn is_type(node: &FdtNode<'_, '_>, kind: &str) -> bool {
    node.property("device_type").and_then(|p| p.as_str()) == Some(kind)
}

/// Whether the node is compatible with `name`.
pub fn is_compatible(node: &FdtNode<'_, '_>, name: &str) -> bool {
    node.compatible().is_some_and(|all| all.all().any(|c| c == name))
}

/// Up to 32 bytes of entropy from the machine (firmware seed, instruction); returns how many were filled.
pub fn entropy(out: &mut [u8; 32]) -> usize {
    let chosen = tree().find_node("/chosen");
    let mut filled = 0;
    if let Some(seed) = chosen.and_then(|chosen| chosen.property("rng-seed")) {
        filled = seed.value.len().min(32);
        out[..filled].copy_from_slice(&seed.value[..filled]);
    }
    for chunk in out.chunks_exact_mut(8) {
        if let Some(value) = super::cpu::random() {
            for (byte, random) in chunk.iter_mut().zip(value.to_le_bytes()) {
                *byte ^= random;
            }
            filled = 32;
        }
    }
    filled
}
