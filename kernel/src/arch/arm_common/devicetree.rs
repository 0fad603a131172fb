//! Reading the devicetree: what `boot`, `platform` and the interrupt controllers ask of it.

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

/// Address and size pairs of `reg` of a node directly below the root.
pub fn reg<'a>(tree: &Fdt<'_>, node: &FdtNode<'_, 'a>) -> impl Iterator<Item = (u64, u64)> + use<'a> {
    let (address, size) = root_cells(tree);
    let value: &'a [u8] = node.property("reg").map_or(&[], |p| p.value);
    let step = address + size;
    (0..).map_while(move |n| {
        Some((
            number(value, n * step, address)?,
            number(value, n * step + address, size)?,
        ))
    })
}

/// Entry `n` of the node's `interrupts`, for the GIC's three-cell form: the interrupt number as the controller counts, and whether it is
/// edge-triggered.
pub fn gic_interrupt(node: &FdtNode<'_, '_>, n: usize) -> Option<(u32, bool)> {
    let value = node.property("interrupts")?.value;
    let number = cell(value, n * 3 + 1)?;
    let base = match cell(value, n * 3)? {
        0 => 32,
        1 => 16,
        _ => return None,
    };
    Some((base + number, cell(value, n * 3 + 2)? & 3 != 0))
}

/// Whether `status` says the node is in use.
pub fn enabled(node: &FdtNode<'_, '_>) -> bool {
    node.property("status")
        .and_then(|p| p.as_str())
        .is_none_or(|s| s == "okay" || s == "ok")
}

/// Whether the node is compatible with `name`.
pub fn is_compatible(node: &FdtNode<'_, '_>, name: &str) -> bool {
    node.compatible().is_some_and(|all| all.all().any(|c| c == name))
}

/// Offers the identifier of every CPU the tree names to `take(count so far, id)`, which says whether it counts. Returns the count; the boot
/// CPU is number 0 and counted already.
pub fn cpus(mut take: impl FnMut(usize, u64) -> bool) -> usize {
    let mut count = 1;
    let Some(cpus) = tree().find_node("/cpus") else {
        return count;
    };
    let cells = cpus
        .property("#address-cells")
        .and_then(|p| cell(p.value, 0))
        .unwrap_or(1);
    for node in cpus.children() {
        let is_cpu = node.property("device_type").and_then(|p| p.as_str()) == Some("cpu");
        if !is_cpu || !enabled(&node) {
            continue;
        }
        let id = node
            .property("reg")
            .and_then(|p| number(p.value, 0, cells as usize));
        if id.is_some_and(|id| take(count, id)) {
            count += 1;
        }
    }
    count
}
