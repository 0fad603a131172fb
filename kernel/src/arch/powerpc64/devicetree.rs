//! Reading the devicetree: what `boot`, `platform` and the others ask of it.

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
pub fn publish(data: &'static [u8]) {
    // SAFETY: called once, before any reader.
    unsafe { TREE = Some(parse(data)) }
}

/// The tree.
pub fn tree() -> &'static Fdt<'static> {
    let tree = &raw const TREE;
    // SAFETY: written once before any reader, by `publish`.
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

/// A property that is one number of whatever size.
pub fn property(node: &FdtNode<'_, '_>, name: &str) -> Option<u64> {
    let value = node.property(name)?.value;
    number(value, 0, value.len() / 4)
}

/// Whether `device_type` is `kind`.
pub fn is_type(node: &FdtNode<'_, '_>, kind: &str) -> bool {
    node.property("device_type").and_then(|p| p.as_str()) == Some(kind)
}

/// Address and size pairs of `reg` of a node directly below the root.
pub fn reg<'a>(tree: &Fdt<'_>, node: &FdtNode<'_, 'a>) -> impl Iterator<Item = (u64, u64)> + use<'a> {
    let get = |name| {
        tree.find_node("/")
            .and_then(|root| root.property(name))
            .and_then(|p| cell(p.value, 0))
    };
    let address = get("#address-cells").unwrap_or(2) as usize;
    let step = address + get("#size-cells").unwrap_or(1) as usize;
    let value: &'a [u8] = node.property("reg").map_or(&[], |p| p.value);
    (0..).map_while(move |n| {
        Some((
            number(value, n * step, address)?,
            number(value, n * step + address, step - address)?,
        ))
    })
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
