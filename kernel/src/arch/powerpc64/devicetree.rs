//! Reading the devicetree: what `boot`, `platform` and the others ask of it.

pub use super::devicetree_tree::{
    cell, is_compatible, is_type, keep, number, parse, property, root_cells, tree,
};
use flat_device_tree::{Fdt, node::FdtNode};

/// Address and size pairs of `reg` of a node directly below the root.
pub fn reg<'a>(tree: &Fdt<'_>, node: &FdtNode<'_, 'a>) -> impl Iterator<Item = (u64, u64)> + use<'a> {
    let (address, size) = root_cells(tree);
    let step = address + size;
    let value: &'a [u8] = node.property("reg").map_or(&[], |p| p.value);
    (0..).map_while(move |n| {
        Some((
            number(value, n * step, address)?,
            number(value, n * step + address, size)?,
        ))
    })
}

/// The nodes of a type.
pub fn of_type(kind: &str) -> impl Iterator<Item = FdtNode<'static, 'static>> {
    tree().all_nodes().filter(move |node| is_type(node, kind))
}

/// A number that is the same for all CPUs.
pub fn of_cpus(name: &str) -> Option<u64> {
    property(&of_type("cpu").next()?, name)
}

/// The CPUs: nodes of that type below `/cpus`.
pub fn cpus() -> impl Iterator<Item = FdtNode<'static, 'static>> {
    let parent = tree().find_node("/cpus");
    parent.into_iter().flat_map(|parent| {
        parent
            .children()
            .filter(|node| is_type(node, "cpu"))
            .collect::<alloc::vec::Vec<_>>()
    })
}
