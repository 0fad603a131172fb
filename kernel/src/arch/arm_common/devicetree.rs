//! Reading the devicetree: what `boot`, `platform` and the interrupt controllers ask of it.

pub use super::devicetree_tree::{
    Node, Tree, cell, compatible, index, is_type, number, of_type, parse, property, root_cells, tree,
};
use super::devicetree_tree::{cells_of, keep};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use dtoolkit::{Node as _, Property as _};

/// Whether the node is compatible with `name`.
pub fn is_compatible(node: &Node, name: &str) -> bool {
    node.property("compatible").is_some_and(|all| all.lists(name))
}

impl Tree {
    /// The node that others call `phandle`.
    fn find_phandle(self, phandle: u32) -> Option<Node> {
        self.all_nodes().find(|node| {
            let own = ["phandle", "linux,phandle"].map(|name| property(node, name));
            own.contains(&Some(u64::from(phandle)))
        })
    }
}

impl Node {
    /// Where the node's first property lies in the tree's memory.
    fn begins_at(&self) -> Option<*const u8> {
        let value: &'static [u8] = self.0.properties().next()?.value_as().ok()?;
        Some(value.as_ptr())
    }
}

/// Keeps the tree for everyone. Called once on the boot CPU before other CPUs run.
pub fn publish(data: &'static [u8]) {
    let tree = parse(data);
    let flat = is_flat(&tree.root(), root_cells(tree));
    keep(tree);
    FLAT.store(flat, Relaxed);
}

/// No bus with devices below it in the published tree has addresses of its own: looking for the way to a
/// device is spared.
static FLAT: AtomicBool = AtomicBool::new(false);

/// Whether every bus below `parent` writes addresses as the root does, with `cells`.
fn is_flat(parent: &Node, cells: (usize, usize)) -> bool {
    parent.children().all(|child| {
        if child.children().next().is_none() {
            return true;
        }
        match child.property("ranges") {
            Some(ranges) => ranges.value.is_empty() && cells_of(&child) == cells && is_flat(&child, cells),
            None => true,
        }
    })
}

/// The most buses between the root and a device.
const DEPTH: usize = 6;

/// A bus whose children's addresses are not its own: `ranges`, and how many cells its children's addresses,
/// its own, and sizes have.
type Bus = (&'static [u8], usize, usize, usize);

/// The way from the root to a device.
struct Way {
    buses: [Bus; DEPTH],
    depth: usize,
    /// How the device itself writes addresses.
    cells: (usize, usize),
}

/// Looks below `parent` for the node whose `reg` is at `target`. Nodes lie in the tree's memory one after the
/// other, each with what is below it: the last one that begins before `target` holds it.
fn find_way(parent: &Node, target: *const u8, way: &mut Way) -> bool {
    let cells = cells_of(parent);
    let begins_before = |node: &Node| node.begins_at().is_none_or(|first| first <= target);
    let Some(child) = parent.children().take_while(begins_before).last() else {
        return false;
    };
    if child
        .property("reg")
        .is_some_and(|p| core::ptr::eq(p.value.as_ptr(), target))
    {
        way.cells = cells;
        return true;
    }
    let Some(ranges) = child.property("ranges") else {
        return false;
    };
    if way.depth == DEPTH {
        return false;
    }
    let (address, size) = cells_of(&child);
    way.buses[way.depth] = (ranges.value, address, cells.0, size);
    way.depth += 1;
    if find_way(&child, target, way) {
        return true;
    }
    way.depth -= 1;
    false
}

/// What `address` on a bus is on the one above it.
fn translate(address: u64, (ranges, own, parent, size): Bus) -> Option<u64> {
    if ranges.is_empty() {
        return Some(address);
    }
    let step = own + parent + size;
    (0..ranges.len() / 4 / step).find_map(|n| {
        let start = number(ranges, n * step, own)?;
        let length = number(ranges, n * step + own + parent, size)?;
        let offset = address.checked_sub(start).filter(|&offset| offset < length)?;
        Some(number(ranges, n * step + own, parent)? + offset)
    })
}

/// Address and size pairs of `reg` of a node, as the processor sees them.
pub fn reg(tree: Tree, node: &Node) -> impl Iterator<Item = (u64, u64)> + use<> {
    let value: &'static [u8] = node.property("reg").map_or(&[], |p| p.value);
    let mut way = Way {
        buses: [(&[], 0, 0, 0); DEPTH],
        depth: 0,
        cells: root_cells(tree),
    };
    if !FLAT.load(Relaxed) {
        find_way(&tree.root(), value.as_ptr(), &mut way);
    }
    let (address, size) = way.cells;
    let step = address + size;
    (0..).map_while(move |n| {
        let mut start = number(value, n * step, address)?;
        for bus in way.buses[..way.depth].iter().rev() {
            start = translate(start, *bus)?;
        }
        Some((start, number(value, n * step + address, size)?))
    })
}

/// Entry `n` of the node's `interrupts`, for the GIC's three-cell form: the interrupt number as the
/// controller counts, and whether it is edge-triggered. One cell is a number of a board, whose bus has a map.
pub fn gic_interrupt(node: &Node, n: usize) -> Option<(u32, bool)> {
    let value = node.property("interrupts")?.value;
    if value.len() == 4 {
        return mapped_interrupt(cell(value, 0)?);
    }
    gic_cells(value, n * 3)
}

fn gic_cells(value: &[u8], at: usize) -> Option<(u32, bool)> {
    let base = match cell(value, at)? {
        0 => 32,
        1 => 16,
        _ => return None,
    };
    Some((base + cell(value, at + 1)?, cell(value, at + 2)? & 3 != 0))
}

/// A board's interrupt `number` through the `interrupt-map` of its bus.
fn mapped_interrupt(number: u32) -> Option<(u32, bool)> {
    let bus = tree().all_nodes().find(|node| {
        let cells = node.property("#interrupt-cells").and_then(|p| cell(p.value, 0));
        node.property("interrupt-map").is_some() && cells == Some(1)
    })?;
    let map = bus.property("interrupt-map")?.value;
    let own = cells_of(&bus).0;
    let mut at = 0;
    loop {
        let found = cell(map, at + own)?;
        let parent = tree().find_phandle(cell(map, at + own + 1)?)?;
        let address = parent
            .property("#address-cells")
            .and_then(|p| cell(p.value, 0))
            .unwrap_or(0);
        let specifier = at + own + 2 + address as usize;
        if found == number {
            return gic_cells(map, specifier);
        }
        at = specifier + 3;
    }
}

/// The node that `/chosen/stdout-path` names, directly or by an alias.
pub fn console(tree: Tree) -> Option<Node> {
    let chosen = tree.find_node("/chosen")?;
    let path = chosen.property("stdout-path")?.as_str()?.split(':').next()?;
    if path.starts_with('/') {
        return tree.find_node(path);
    }
    let alias = tree.find_node("/aliases")?.property(path)?.as_str()?;
    tree.find_node(alias)
}

/// Whether `status` says the node is in use.
pub fn enabled(node: &Node) -> bool {
    node.property("status")
        .and_then(|p| p.as_str())
        .is_none_or(|s| s == "okay" || s == "ok")
}

/// Offers the identifier of every CPU the tree names to `take(count so far, id)`, which says whether it
/// counts. Returns the count; the boot CPU is number 0 and counted already.
pub fn cpus(mut take: impl FnMut(usize, u64) -> bool) -> usize {
    let mut count = 1;
    let Some(cpus) = tree().find_node("/cpus") else {
        return count;
    };
    let cells = cpus
        .property("#address-cells")
        .and_then(|p| cell(p.value, 0))
        .unwrap_or(1);
    for node in of_type("cpu").filter(enabled) {
        let id = node
            .property("reg")
            .and_then(|p| number(p.value, 0, cells as usize));
        if id.is_some_and(|id| take(count, id)) {
            count += 1;
        }
    }
    count
}
