//! The interrupt controller, GICv2 or GICv3 (Arm IHI 0048, IHI 0069): one interface for `interrupt`. With
//! version 3 the CPU side is system registers.
//!
//! Where the controller has one security state, which is the kernel's, an interrupt of its group 0 comes as
//! an FIQ and all others as IRQs: the kernel has one, software-generated, that is more urgent than the rest.
//! Where there are two (firmware, or a hypervisor, has the other) group 0 is not the kernel's.

use super::{cpus, devicetree, sysreg};
use crate::mm::map_device;
use crate::sync::MAX_CPUS;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

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
const GICC_BPR: usize = 0x08;
const GICC_IAR: usize = 0x0c;
const GICC_EOIR: usize = 0x10;
const GICC_HPPIR: usize = 0x18;

/// `CTLR` and `GICC_CTLR`: interrupts of group 0 go to CPUs; with one group, version 2, all do.
const CTLR_ENABLE: u32 = 1;
/// `CTLR`, version 3: CPUs are named by affinity.
const CTLR_ARE: u32 = 1 << 4;
/// `CTLR` and `GICC_CTLR`: interrupts of group 1, which all but FIQs are in, go to CPUs.
const CTLR_ENABLE_GROUP1: u32 = 1 << 1;
/// `CTLR`, version 3: there is one security state.
const CTLR_DS: u32 = 1 << 6;
/// `GICC_CTLR`: `IAR` acknowledges interrupts of both groups; those of group 0 are FIQs.
const GICC_CTLR_ACK: u32 = 1 << 2;
const GICC_CTLR_FIQ: u32 = 1 << 3;
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
/// The one priority that interrupts have: four of them.
const PRIORITY: u32 = 0xa0a0_a0a0;
/// That of an FIQ.
const PRIORITY_FIQ: u32 = 0x20;
/// The software-generated interrupt that is an FIQ.
pub const FIQ: u32 = 15;
/// `IGROUPR` of a CPU's private interrupts.
const GROUPS: u32 = !(1 << FIQ);

static VERSION: AtomicUsize = AtomicUsize::new(0);
static DISTRIBUTOR: AtomicUsize = AtomicUsize::new(0);
/// Version 2: the CPU interface. Version 3: not used.
static CPU_INTERFACE: AtomicUsize = AtomicUsize::new(0);
/// Version 2: each CPU's bit in target fields.
static TARGET: [AtomicU32; MAX_CPUS] = [const { AtomicU32::new(0) }; MAX_CPUS];
/// Whether there are FIQs.
static FIQS: AtomicBool = AtomicBool::new(false);
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

/// Whether [`send_fiq`] works.
pub fn has_fiqs() -> bool {
    FIQS.load(Ordering::Relaxed)
}

/// Whether group 0 is the kernel's. Interrupts go to no CPU yet.
fn find_groups(d: usize, version: usize) -> bool {
    if version == 3 {
        return read(d, CTLR) & CTLR_DS != 0;
    }
    // Else it reads as zero.
    write(d, IGROUPR, GROUPS);
    read(d, IGROUPR) == GROUPS
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
    let fiqs = find_groups(d, version);
    FIQS.store(fiqs, Ordering::Relaxed);
    let lines = ((read(d, TYPER) & 0x1f) + 1) * 32;
    let lines = lines.min(SPECIAL);
    LINES.store(lines, Ordering::Relaxed);
    for n in (FIRST_SHARED..lines).step_by(32) {
        let word = n as usize / 32 * 4;
        write(d, ICENABLER + word, !0);
        write(d, ICPENDR + word, !0);
        if version == 3 || fiqs {
            write(d, IGROUPR + word, !0);
        }
    }
    for n in (FIRST_SHARED..lines).step_by(4) {
        write(d, IPRIORITYR + n as usize, PRIORITY);
    }
    if version == 3 {
        // One after the other: routing must not change while interrupts are enabled.
        write(d, CTLR, CTLR_ARE);
        let group0 = if fiqs { CTLR_ENABLE } else { 0 };
        write(d, CTLR, CTLR_ARE | CTLR_ENABLE_GROUP1 | group0);
    } else {
        let group1 = if fiqs { CTLR_ENABLE_GROUP1 } else { 0 };
        write(d, CTLR, CTLR_ENABLE | group1);
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
    if has_fiqs() {
        let shift = FIQ % 4 * 8;
        let priority = PRIORITY & !(0xff << shift) | PRIORITY_FIQ << shift;
        write(base, IPRIORITYR + (FIQ as usize & !3), priority);
    }
    write(base, ISENABLER, 0xffff);
}

fn init_cpu_v2() {
    let (d, c) = (distributor(), CPU_INTERFACE.load(Ordering::Relaxed));
    // The first words are this CPU's own and read as its bit; on a single-CPU controller as zero.
    TARGET[cpus::cpu_id()].store((read(d, ITARGETSR) & 0xff).max(1), Ordering::Relaxed);
    let mut control = CTLR_ENABLE;
    if has_fiqs() {
        write(d, IGROUPR, GROUPS);
        write(c, GICC_BPR, 0);
        control |= CTLR_ENABLE_GROUP1 | GICC_CTLR_ACK | GICC_CTLR_FIQ;
    }
    private(d);
    write(c, GICC_PMR, PMR_ALL);
    write(c, GICC_CTLR, control);
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
    write(own, IGROUPR, if has_fiqs() { GROUPS } else { !0 });
    private(own);
    sysreg::gic_enable(has_fiqs());
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

/// In an FIQ: acknowledges and ends it. `false`: none is pending any more.
pub fn take_fiq() -> bool {
    if VERSION.load(Ordering::Relaxed) == 3 {
        let id = sysreg::gic_acknowledge_fiq();
        if id == FIQ {
            sysreg::gic_end_fiq(id);
        }
        return id == FIQ;
    }
    // The same register acknowledges IRQs, which must not be lost here: one may have been on its way to it
    // when this came, and have found the FIQ (`interrupt::handle`).
    let c = CPU_INTERFACE.load(Ordering::Relaxed);
    if read(c, GICC_HPPIR) & 0x3ff != FIQ {
        return false;
    }
    let id = read(c, GICC_IAR);
    write(c, GICC_EOIR, id);
    true
}

/// Sends FIQ to `cpu`. What was written before is visible there. `false`: there are none.
pub fn send_fiq(cpu: usize) -> bool {
    let there_are = has_fiqs();
    if there_are && VERSION.load(Ordering::Relaxed) == 3 {
        sysreg::store_barrier();
        sysreg::gic_send_fiq(sgi(cpu, FIQ));
    } else if there_are {
        send(cpu, FIQ);
    }
    there_are
}

/// Version 3: what sends software-generated interrupt `id` to `cpu`, in whichever group.
fn sgi(cpu: usize, id: u32) -> u64 {
    let mpidr = cpus::mpidr(cpu);
    let (a0, a1, a2, a3) = (
        mpidr & 0xff,
        mpidr >> 8 & 0xff,
        mpidr >> 16 & 0xff,
        mpidr >> 32 & 0xff,
    );
    a3 << 48 | (a0 >> 4) << 44 | a2 << 32 | u64::from(id) << 24 | a1 << 16 | 1 << (a0 & 0xf)
}

/// Sends software-generated interrupt `id` to `cpu`. What was written before is visible there.
pub fn send(cpu: usize, id: u32) {
    sysreg::store_barrier();
    if VERSION.load(Ordering::Relaxed) == 3 {
        sysreg::gic_send(sgi(cpu, id));
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
