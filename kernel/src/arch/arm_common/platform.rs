//! The machine around the processor, as the devicetree tells it: devices, power-off, reset, wall clock,
//! entropy.

pub use super::devicetree_entropy::entropy;
use super::interrupt::{self, Irq};
use super::{board, devicetree, gic, mmu, psci, smp, sysreg};
use crate::arch::devices::PciConfig;
use crate::arch::devices::VirtioMmio;
use crate::mm::map_device;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

/// The real-time clock's registers (PL031); zero if there is none.
static RTC: AtomicUsize = AtomicUsize::new(0);

/// Called once on the boot CPU when the heap works: finds interrupt controller, timer, CPUs and devices.
#[inline(never)]
#[unsafe(link_section = ".init.text")]
pub fn init() {
    devicetree::index();
    super::boot::report();
    psci::init();
    smp::init();
    mmu::init_roots();
    interrupt::init();
    if let Some((base, size)) = find_reg("arm,pl031") {
        RTC.store(map_device(base, size as usize) as usize, Ordering::Relaxed);
    }
}

fn find_reg(compatible: &str) -> Option<(u64, u64)> {
    let tree = devicetree::tree();
    let node = devicetree::compatible(&[compatible]).next()?;
    devicetree::reg(tree, &node).next()
}

/// The virtio-over-MMIO slots of this machine (empty ones included).
pub fn virtio_mmio() -> Vec<VirtioMmio> {
    let tree = devicetree::tree();
    let mut slots = Vec::new();
    for node in devicetree::compatible(&["virtio,mmio"]) {
        if !devicetree::enabled(&node) {
            continue;
        }
        let (Some((base, size)), Some((number, edge))) = (
            devicetree::reg(tree, &node).next(),
            devicetree::gic_interrupt(&node, 0),
        ) else {
            continue;
        };
        gic::set_edge(number, edge);
        slots.push(VirtioMmio {
            base,
            size: size as usize,
            irq: Irq(number),
        });
    }
    slots
}

/// The machine's PCI host bridge, if it has one.
pub fn pci() -> Option<PciConfig> {
    let tree = devicetree::tree();
    let node = devicetree::compatible(&["pci-host-ecam-generic"]).next()?;
    let (base, _) = devicetree::reg(tree, &node).next()?;
    // Each range: three cells of PCI address (the first says which space), the parent's address, two cells of
    // size.
    let value = node.property("ranges")?.value;
    let (address_cells, _) = devicetree::root_cells(tree);
    let step = 3 + address_cells + 2;
    let (mut window32, mut window64) = ((0, 0), (0, 0));
    for n in 0..value.len() / 4 / step {
        let window = (
            devicetree::number(value, n * step + 3, address_cells)?,
            devicetree::number(value, n * step + 3 + address_cells, 2)?,
        );
        match devicetree::cell(value, n * step)? >> 24 & 3 {
            2 => window32 = window,
            3 => window64 = window,
            _ => {}
        }
    }
    Some(PciConfig::Ecam {
        base,
        window32,
        window64,
    })
}

/// Stops this CPU for good.
fn halt() -> ! {
    super::irq::local_disable();
    loop {
        sysreg::wfi();
    }
}

/// Turns the machine off; the host sees status 0.
pub fn power_off() -> ! {
    psci::system_off();
    board::power_off();
    halt()
}

/// Restarts the machine.
pub fn reset() -> ! {
    psci::system_reset();
    board::reset();
    halt()
}

/// The status of a machine that ended with a panic (`docs/running.md`).
const PANIC_STATUS: usize = 123;

/// Ends the machine after a panic with the status the host knows as "kernel panic", or stops if it can't.
/// Semihosting is an undefined instruction where there is no debugger, so the command line must promise one.
pub fn panic_exit() -> ! {
    if crate::cmdline::value("limen.panic_exit") == Some("semihosting") {
        const SYS_EXIT_EXTENDED: usize = 0x20;
        const APPLICATION_EXIT: usize = 0x20026;
        let block = [APPLICATION_EXIT, PANIC_STATUS];
        // SAFETY: the command line promises that the host listens.
        unsafe { sysreg::semihosting(SYS_EXIT_EXTENDED, block.as_ptr()) }
    }
    halt()
}

/// Seconds since 1970 from the machine's real-time clock, `None` if there is none.
pub fn wall_clock() -> Option<u64> {
    match RTC.load(Ordering::Relaxed) {
        0 => None,
        // SAFETY: the clock's data register.
        base => Some(u64::from(unsafe { (base as *const u32).read_volatile() })),
    }
}
