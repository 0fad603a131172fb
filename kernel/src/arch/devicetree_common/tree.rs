//! The devicetree, and reading numbers out of it: what every architecture with one does alike. The flattened
//! form is read in place, without a heap (Devicetree Specification 0.4, chapter 5).

use crate::sync::Once;
use alloc::vec::Vec;
use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::memreserve::MemoryReservation;
use dtoolkit::{Node as _, Property as _};

/// A devicetree, which lives as long as the kernel.
#[derive(Clone, Copy)]
pub struct Tree(Fdt<'static>);

/// A node of it.
#[derive(Clone, Copy)]
pub struct Node(pub(super) FdtNode<'static>);

/// A property of a node.
#[derive(Clone, Copy)]
pub struct Property {
    /// Its bytes.
    pub value: &'static [u8],
}

impl Property {
    /// The property as a string; `None` if it is not UTF-8.
    pub fn as_str(&self) -> Option<&'static str> {
        core::str::from_utf8(self.value.strip_suffix(b"\0").unwrap_or(self.value)).ok()
    }
    /// Whether the property is a list of strings and `string` one of them.
    pub fn lists(&self, string: &str) -> bool {
        self.value
            .split(|&byte| byte == 0)
            .any(|one| one == string.as_bytes())
    }
}

impl Node {
    /// The property of that name.
    pub fn property(&self, name: &str) -> Option<Property> {
        let property = self.0.properties().find(|property| property.name() == name)?;
        let value = property.value_as().ok()?;
        Some(Property { value })
    }
    /// The nodes directly below this one, in the tree's order.
    pub fn children(&self) -> impl Iterator<Item = Node> + use<> {
        self.0.children().map(Node)
    }
}

/// How many levels below the root are looked at. Each bridge of a bus is one.
const DEPTH: usize = 32;

/// All nodes, each before what is below it.
pub struct AllNodes {
    root: Option<Node>,
    /// What is still to come of each level, as far as `depth`.
    levels: [Option<<FdtNode<'static> as dtoolkit::Node>::Children<'static>>; DEPTH],
    depth: usize,
}

impl AllNodes {
    /// Goes on below `node`.
    fn enter(&mut self, node: &Node) {
        if let Some(level) = self.levels.get_mut(self.depth) {
            *level = Some(node.0.children());
            self.depth += 1;
        }
    }
}

impl Iterator for AllNodes {
    type Item = Node;
    fn next(&mut self) -> Option<Node> {
        if let Some(root) = self.root.take() {
            self.enter(&root);
            return Some(root);
        }
        while let Some(last) = self.depth.checked_sub(1) {
            match self.levels[last].as_mut().and_then(Iterator::next) {
                Some(node) => {
                    let node = Node(node);
                    self.enter(&node);
                    return Some(node);
                }
                None => self.depth = last,
            }
        }
        None
    }
}

impl Tree {
    /// The root.
    pub fn root(self) -> Node {
        Node(self.0.root())
    }
    /// The node at `path`, of which each part may leave out the unit address.
    pub fn find_node(self, path: &str) -> Option<Node> {
        self.0.find_node(path).map(Node)
    }
    /// All nodes, each before what is below it.
    pub fn all_nodes(self) -> AllNodes {
        AllNodes {
            root: Some(self.root()),
            levels: [const { None }; DEPTH],
            depth: 0,
        }
    }
    /// Memory that must not be used, whatever nodes say.
    pub fn memory_reservations(self) -> impl Iterator<Item = MemoryReservation> {
        self.0.memory_reservations()
    }
}

static mut TREE: Option<Tree> = None;

/// The tree in `data`, which must stay unchanged. Panics if `data` is no devicetree: no machine can be used
/// without one. Names are not checked: those of `pseries` may be longer than the specification's 31 bytes.
pub fn parse(data: &'static [u8]) -> Tree {
    const MAGIC: u32 = 0xd00d_feed;
    if cell(data, 0) != Some(MAGIC) || data.len() < 40 {
        panic!("the devicetree cannot be read: it does not begin with {MAGIC:#x}");
    }
    Tree(Fdt::new_unchecked(data))
}

/// Keeps the tree for everyone. Called once on the boot CPU before other CPUs run.
pub fn keep(tree: Tree) {
    // SAFETY: called once, before any reader.
    unsafe { TREE = Some(tree) }
}

/// The tree.
pub fn tree() -> Tree {
    let tree = &raw const TREE;
    // SAFETY: written once before any reader, by `keep`.
    match unsafe { *tree } {
        Some(tree) => tree,
        None => panic!("the devicetree is asked for before it is there"),
    }
}

/// A node, and what it is looked for by.
#[derive(Clone, Copy)]
struct Described {
    node: Node,
    /// `compatible`.
    models: Property,
    /// `device_type`.
    kind: Property,
}

impl Described {
    fn of(node: Node) -> Self {
        let value = |name| node.property(name).unwrap_or(Property { value: &[] });
        Self {
            node,
            models: value("compatible"),
            kind: value("device_type"),
        }
    }
}

/// All nodes of the kept tree: to go through the flattened form is slow.
static INDEX: Once<Vec<Described>> = Once::new();

/// Makes the index. Called once, when the heap works.
pub fn index() {
    let _ = INDEX.set(tree().all_nodes().map(Described::of).collect());
}

/// The nodes of the kept tree, from the index or, before there is one, from the tree.
fn described() -> impl Iterator<Item = Described> {
    let all = INDEX.get();
    let walk = all.is_none().then(|| tree().all_nodes().map(Described::of));
    all.into_iter()
        .flatten()
        .copied()
        .chain(walk.into_iter().flatten())
}

/// The nodes that are compatible with one of `names`.
pub fn compatible<'a>(names: &'a [&str]) -> impl Iterator<Item = Node> + use<'a> {
    described()
        .filter(|one| names.iter().any(|name| one.models.lists(name)))
        .map(|one| one.node)
}

/// The nodes of a type (`device_type`).
pub fn of_type(kind: &str) -> impl Iterator<Item = Node> {
    described()
        .filter(move |one| one.kind.as_str() == Some(kind))
        .map(|one| one.node)
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

/// How the children of `node` write addresses and sizes: `#address-cells` and `#size-cells`.
pub fn cells_of(node: &Node) -> (usize, usize) {
    let get = |name| node.property(name).and_then(|p| cell(p.value, 0));
    (
        get("#address-cells").unwrap_or(2) as usize,
        get("#size-cells").unwrap_or(1) as usize,
    )
}

/// The root's: how the nodes directly below it write addresses.
pub fn root_cells(tree: Tree) -> (usize, usize) {
    cells_of(&tree.root())
}

/// A property that is one number of whatever size.
pub fn property(node: &Node, name: &str) -> Option<u64> {
    let value = node.property(name)?.value;
    number(value, 0, value.len() / 4)
}

/// Whether `device_type` is `kind`.
pub fn is_type(node: &Node, kind: &str) -> bool {
    node.property("device_type").and_then(|p| p.as_str()) == Some(kind)
}
