//! Reading the devicetree: what `boot`, `platform` and the others ask of it.

pub use super::devicetree_tree::{
    Node, Tree, cell, compatible, index, is_type, keep, number, of_type, parse, property, root_cells, tree,
};

/// Address and size pairs of `reg` of a node directly below the root.
pub fn reg(tree: Tree, node: &Node) -> impl Iterator<Item = (u64, u64)> + use<> {
    let (address, size) = root_cells(tree);
    let step = address + size;
    let value: &'static [u8] = node.property("reg").map_or(&[], |p| p.value);
    (0..).map_while(move |n| {
        Some((
            number(value, n * step, address)?,
            number(value, n * step + address, size)?,
        ))
    })
}

/// A number that is the same for all CPUs.
pub fn of_cpus(name: &str) -> Option<u64> {
    property(&of_type("cpu").next()?, name)
}

/// The CPUs: nodes of that type below `/cpus`.
pub fn cpus() -> impl Iterator<Item = Node> {
    let parent = tree().find_node("/cpus");
    let children = parent.into_iter().flat_map(|parent| parent.children());
    children.filter(|node| is_type(node, "cpu"))
}
