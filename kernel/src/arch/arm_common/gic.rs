//! The interrupt controller, GICv2 or GICv3 (Arm IHI 0048, IHI 0069): one interface for `interrupt`. With
//! version 3 the CPU side is system registers.

use super::{cpus, devicetree, sysreg};
use crate::mm::map_device;
use crate::sync::MAX_CPUS;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

// Distributor (and the second half of a redistributor, which looks the same for the private interrupts).
const CTLR: usize = 0x000;
const TYPER: usize = 0x004;
const IGROUPR: usize = 0x080;
const ISENABLER: usize = 0x100;
const ICENABLER: usize = 0x180;
const ICPENDR: usize = 0x280;
const IPRIORITYR: usize = 0x400;
const ITARGETSR: usize = 0x800;
const ICFGR: usize = 0xc00;
const SGIR: usize = 0xf00;
const IROUTER: usize = 0x6000;
// Redistributor.
const GICR_TYPER: usize = 0x008;
const GICR_WAKER: usize = 0x014;
const GICR_PRIVATE: usize = 0x10000;
// Version 2's CPU interface.
const GICC_CTLR: usize = 0x00;
const GICC_PMR: usize = 0x04;
const GICC_IAR: usize = 0x0c;
const GICC_EOIR: usize = 0x10;

/// `CTLR`, version 2: interrupts go to CPUs.
const CTLR_ENABLE: u32 = 1;
/// `CTLR`, version 3: CPUs are named by affinity.
const CTLR_ARE: u32 = 1 << 4;
/// `CTLR`, version 3: interrupts of group 1, which all are in, go to CPUs.
const CTLR_ENABLE_GROUP1: u32 = 1 << 1;
/// `GICR_TYPER`: the last redistributor of its region.
const TYPER_LAST: u32 = 1 << 4;
/// `GICR_WAKER`: what the CPU asks for, and whether the redistributor still sleeps.
const WAKER_PROCESSOR_SLEEP: u32 = 1 << 1;
const WAKER_CHILDREN_ASLEEP: u32 = 1 << 2;
/// Bytes of a redistributor: its registers, and those of the private interrupts.
const REDISTRIBUTOR_SIZE: u64 = 2 * GICR_PRIVATE as u64;
/// `GICC_PMR`: interrupts of all priorities arrive.
const PMR_ALL: u32 = 0xf0;

/// The first shared interrupt.
pub const FIRST_SHARED: u32 = 32;
/// Numbers from here on mean "nothing pending".
const SPECIAL: u32 = 1020;
/// The one priority that is used.
const PRIORITY: u32 = 0xa0a0_a0a0;

static VERSION: AtomicUsize = AtomicUsize::new(0);
static DISTRIBUTOR: AtomicUsize = AtomicUsize::new(0);
/// Version 2: the CPU interface. Version 3: not used.
static CPU_INTERFACE: AtomicUsize = AtomicUsize::new(0);
/// Version 2: each CPU's bit in target fields.
static TARGET: [AtomicU32; MAX_CPUS] = [const { AtomicU32::new(0) }; MAX_CPUS];
/// Shared and private interrupt numbers there are.
static LINES: AtomicU32 = AtomicU32::new(0);

fn read(base: usize, offset: usize) -> u32 {
    // SAFETY: `base` is a mapped register block of the controller and `offset` one of its registers.
    unsafe { ((base + offset) as *const u32).read_volatile() }
}

fn write(base: usize, offset: usize, value: u32) {
    // SAFETY: one of the controller's registers; its effects are interrupts that this module handles.
    unsafe { ((base + offset) as *mut u32).write_volatile(value) }
}

fn distributor() -> usize {
    DISTRIBUTOR.load(Ordering::Relaxed)
}

/// How many interrupt numbers the controller has.
pub fn lines() -> u32 {
    LINES.load(Ordering::Relaxed)
}

/// Finds and resets the controller. Boot CPU, once; [`init_cpu`] follows on every CPU.
pub fn init() {
    let tree = devicetree::tree();
    let v2 = [
        "arm,cortex-a15-gic",
        "arm,gic-400",
        "arm,cortex-a9-gic",
        "arm,cortex-a7-gic",
    ];
    let (node, version) = match (
        devicetree::compatible(&["arm,gic-v3"]).next(),
        devicetree::compatible(&v2).next(),
    ) {
        (Some(node), _) => (node, 3),
        (None, Some(node)) => (node, 2),
        (None, None) => panic!("the devicetree names no interrupt controller (GICv2 or GICv3)"),
    };
    let mut regions = devicetree::reg(tree, &node);
    let Some((base, size)) = regions.next() else {
        panic!("the interrupt controller has no registers")
    };
    let d = map_device(base, size as usize) as usize;
    DISTRIBUTOR.store(d, Ordering::Relaxed);
    VERSION.store(version, Ordering::Relaxed);
    if version == 3 {
        find_redistributors(tree, &node);
    } else {
        let Some((base, size)) = regions.next() else {
            panic!("the interrupt controller has no CPU interface")
        };
        CPU_INTERFACE.store(map_device(base, size as usize) as usize, Ordering::Relaxed);
    }

    write(d, CTLR, 0);
    let lines = ((read(d, TYPER) & 0x1f) + 1) * 32;
    let lines = lines.min(SPECIAL);
    LINES.store(lines, Ordering::Relaxed);
    for n in (FIRST_SHARED..lines).step_by(32) {
        let word = n as usize / 32 * 4;
        write(d, ICENABLER + word, !0);
        write(d, ICPENDR + word, !0);
        if version == 3 {
            write(d, IGROUPR + word, !0);
        }
    }
    for n in (FIRST_SHARED..lines).step_by(4) {
        write(d, IPRIORITYR + n as usize, PRIORITY);
    }
    if version == 3 {
        // One after the other: routing must not change while interrupts are enabled.
        write(d, CTLR, CTLR_ARE);
        write(d, CTLR, CTLR_ARE | CTLR_ENABLE_GROUP1);
    } else {
        write(d, CTLR, CTLR_ENABLE);
    }
}

/// This CPU's part: private interrupts and the CPU interface.
pub fn init_cpu() {
    if VERSION.load(Ordering::Relaxed) == 3 {
        init_cpu_v3()
    } else {
        init_cpu_v2()
    }
}

/// Enables the software-generated ones of the private interrupts, whose registers are at `base`.
fn private(base: usize) {
    write(base, ICENABLER, !0);
    for n in (0..FIRST_SHARED as usize).step_by(4) {
        write(base, IPRIORITYR + n, PRIORITY);
    }
    write(base, ISENABLER, 0xffff);
}

fn init_cpu_v2() {
    let (d, c) = (distributor(), CPU_INTERFACE.load(Ordering::Relaxed));
    // The first words are this CPU's own and read as its bit; on a single-CPU controller as zero.
    TARGET[cpus::cpu_id()].store((read(d, ITARGETSR) & 0xff).max(1), Ordering::Relaxed);
    private(d);
    write(c, GICC_PMR, PMR_ALL);
    write(c, GICC_CTLR, CTLR_ENABLE);
}

fn init_cpu_v3() {
    let own = PRIVATE[cpus::cpu_id()].load(Ordering::Relaxed);
    if own == 0 {
        panic!("CPU {} has no redistributor", cpus::cpu_id())
    }
    let base = own - GICR_PRIVATE;
    write(base, GICR_WAKER, read(base, GICR_WAKER) & !WAKER_PROCESSOR_SLEEP);
    while read(base, GICR_WAKER) & WAKER_CHILDREN_ASLEEP != 0 {
        core::hint::spin_loop();
    }
    write(own, IGROUPR, !0);
    private(own);
    sysreg::gic_enable();
}

/// Version 3: each CPU's private registers, in the second half of its redistributor.
static PRIVATE: [AtomicUsize; MAX_CPUS] = [const { AtomicUsize::new(0) }; MAX_CPUS];

/// Maps every CPU's redistributor.
fn find_redistributors(tree: devicetree::Tree, node: &devicetree::Node) {
    let stride = node
        .property("redistributor-stride")
        .and_then(|p| devicetree::number(p.value, 0, p.value.len() / 4))
        .unwrap_or(REDISTRIBUTOR_SIZE);
    let count = node
        .property("#redistributor-regions")
        .and_then(|p| devicetree::cell(p.value, 0))
        .unwrap_or(1);
    for (start, size) in devicetree::reg(tree, node).skip(1).take(count as usize) {
        let mut at = start;
        while at < start + size {
            let base = map_device(at, REDISTRIBUTOR_SIZE as usize) as usize;
            let (low, affinity) = (read(base, GICR_TYPER), read(base, GICR_TYPER + 4));
            let affinity = u64::from(affinity & 0xff_ffff) | u64::from(affinity >> 24) << 32;
            if let Some(cpu) = (0..cpus::count()).find(|&cpu| cpus::mpidr(cpu) == affinity) {
                PRIVATE[cpu].store(base + GICR_PRIVATE, Ordering::Relaxed);
            }
            if low & TYPER_LAST != 0 {
                break;
            }
            at += stride;
        }
    }
}

/// Unmasks interrupt `id`: a private one on this CPU, a shared one for the boot CPU.
pub fn enable(id: u32) {
    let bit = 1 << (id % 32);
    if id < FIRST_SHARED {
        let base = match VERSION.load(Ordering::Relaxed) {
            3 => PRIVATE[cpus::cpu_id()].load(Ordering::Relaxed),
            _ => distributor(),
        };
        write(base, ISENABLER, bit);
        return;
    }
    let d = distributor();
    if VERSION.load(Ordering::Relaxed) == 3 {
        let mpidr = cpus::mpidr(0);
        write(d, IROUTER + id as usize * 8, mpidr as u32);
        write(d, IROUTER + id as usize * 8 + 4, (mpidr >> 32) as u32);
    } else {
        let at = ITARGETSR + (id as usize & !3);
        let shift = id % 4 * 8;
        write(
            d,
            at,
            read(d, at) & !(0xff << shift) | TARGET[0].load(Ordering::Relaxed) << shift,
        );
    }
    write(d, ISENABLER + id as usize / 32 * 4, bit);
}

/// Says whether shared interrupt `id` is edge-triggered. Before it is enabled.
pub fn set_edge(id: u32, edge: bool) {
    let (d, at, shift) = (distributor(), ICFGR + id as usize / 16 * 4, id % 16 * 2);
    write(
        d,
        at,
        read(d, at) & !(2 << shift) | u32::from(edge) << (shift + 1),
    );
}

/// The interrupt to handle now, to be given to [`end`] afterwards; `None` if there is none after all.
#[inline(always)]
pub fn acknowledge() -> Option<u32> {
    let id = if VERSION.load(Ordering::Relaxed) == 3 {
        sysreg::gic_acknowledge()
    } else {
        read(CPU_INTERFACE.load(Ordering::Relaxed), GICC_IAR)
    };
    (id & 0x3ff < SPECIAL).then_some(id)
}

/// The number of what [`acknowledge`] returned.
#[inline(always)]
pub fn number(acknowledged: u32) -> u32 {
    acknowledged & 0x3ff
}

/// Handling is finished.
#[inline(always)]
pub fn end(acknowledged: u32) {
    if VERSION.load(Ordering::Relaxed) == 3 {
        sysreg::gic_end(acknowledged);
    } else {
        write(CPU_INTERFACE.load(Ordering::Relaxed), GICC_EOIR, acknowledged);
    }
}

/// Sends software-generated interrupt `id` to `cpu`. What was written before is visible there.
pub fn send(cpu: usize, id: u32) {
    sysreg::store_barrier();
    if VERSION.load(Ordering::Relaxed) == 3 {
        let mpidr = cpus::mpidr(cpu);
        let (a0, a1, a2, a3) = (
            mpidr & 0xff,
            mpidr >> 8 & 0xff,
            mpidr >> 16 & 0xff,
            mpidr >> 32 & 0xff,
        );
        let value = a3 << 48 | (a0 >> 4) << 44 | a2 << 32 | u64::from(id) << 24 | a1 << 16 | 1 << (a0 & 0xf);
        sysreg::gic_send(value);
    } else if distributor() != 0 {
        write(
            distributor(),
            SGIR,
            TARGET[cpu].load(Ordering::Relaxed) << 16 | id,
        );
    }
}

/// Version 2: interrupts the CPU behind interface `number`, which has not told its own bit yet. Only for
/// boards whose secondary CPUs wait so.
#[allow(dead_code, reason = "not every Arm has such boards")]
pub fn wake(number: u64) {
    sysreg::store_barrier();
    write(distributor(), SGIR, 1 << (16 + number));
}
