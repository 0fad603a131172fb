//! Interrupt lines and inter-processor interrupts: the hypervisor's interrupt controller (XICS, PAPR chapter
//! 16): each CPU has a presentation controller with a priority and one request that others can raise; sources
//! are routed by RTAS.

use super::line::Line;
use super::{cpus, hcall, rtas, time};
use crate::sync::{IrqSpinLock, MAX_CPUS};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::sync::atomic::{AtomicU32, Ordering};
use limen_linux_abi::Errno;

pub use super::line::{Handler, Ipi, Irq};

/// What other CPUs asked of each: bits by [`Ipi`].
static ASKED: [AtomicU32; MAX_CPUS] = [const { AtomicU32::new(0) }; MAX_CPUS];

/// The source number of inter-processor interrupts, and of none.
const XISR_IPI: usize = 2;
const XISR_NONE: usize = 0;
/// Priorities: of inter-processor interrupts, of all else, none.
const PRIORITY_IPI: usize = 4;
const PRIORITY_DEVICE: u32 = 5;
const PRIORITY_ANY: usize = 0xff;

/// Sends `ipi` to CPU `cpu` (which is online).
pub fn send_ipi(cpu: usize, ipi: Ipi) {
    ASKED[cpu].fetch_or(1 << ipi as u32, Ordering::AcqRel);
    // SAFETY: a barrier: what was asked is seen before the interrupt.
    unsafe { core::arch::asm!("sync", options(nostack, preserves_flags)) }
    hcall::call(hcall::IPI, cpus::server(cpu), PRIORITY_IPI, 0, 0);
}

/// There are none: the one that a hypervisor can send is a system reset, which is the kernel's end.
pub fn send_nmi(_: usize) -> bool {
    false
}

/// What is connected, by number.
static LINES: IrqSpinLock<BTreeMap<u32, &'static Line>> = IrqSpinLock::new(BTreeMap::new());

/// This CPU takes interrupts of all priorities.
pub(super) fn init_cpu() {
    time::set_event(u64::MAX);
    hcall::call(hcall::IPI, cpus::server(cpus::cpu_id()), PRIORITY_ANY, 0, 0);
    hcall::call(hcall::CPPR, PRIORITY_ANY, 0, 0, 0);
}

/// Connects `handler` to `irq` and unmasks it (delivered to the boot CPU).
pub fn request(irq: Irq, name: &'static str, handler: Handler) -> Result<(), Errno> {
    let line = Box::leak(Box::new(Line::new(irq, name, handler)));
    let mut lines = LINES.lock();
    if lines.contains_key(&irq.0) {
        return Err(Errno::EBUSY);
    }
    lines.insert(irq.0, line);
    drop(lines);
    let server = cpus::server(0) as u32;
    let set = rtas::call::<1>("ibm,set-xive", &[irq.0, server, PRIORITY_DEVICE]);
    if set
        .and_then(|_| rtas::call::<1>("ibm,int-on", &[irq.0]))
        .is_none()
    {
        LINES.lock().remove(&irq.0);
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// A message-signalled interrupt: the address and data a PCI device must write, and the [`Irq`] to request.
/// `None` if the machine has none.
pub fn allocate_msi() -> Option<(u64, u32, Irq)> {
    None
}

/// External interrupts arrived. Inside the threshold, on the interrupt stack.
pub(super) fn handle() {
    loop {
        let (_, [xirr, ..]) = hcall::call(hcall::XIRR, PRIORITY_ANY, 0, 0, 0);
        let source = xirr & 0xff_ffff;
        match source {
            XISR_NONE => return,
            XISR_IPI => {
                // Quiet first, then the look at what is asked: what is asked meanwhile raises it again.
                let cpu = cpus::cpu_id();
                hcall::call(hcall::IPI, cpus::server(cpu), PRIORITY_ANY, 0, 0);
                hcall::call(hcall::EOI, xirr, 0, 0, 0);
                let asked = ASKED[cpu].swap(0, Ordering::AcqRel);
                if asked & 1 << Ipi::Call as u32 != 0 {
                    crate::sched::call::run_calls();
                }
                if asked & 1 << Ipi::Stop as u32 != 0 {
                    rtas::stop_self();
                }
            }
            _ => {
                let line = LINES.lock().get(&(source as u32)).copied();
                if let Some(line) = line {
                    line.handle();
                }
                hcall::call(hcall::EOI, xirr, 0, 0, 0);
            }
        }
    }
}

/// Calls `f` with each connected line's number, name and count.
pub fn for_each(mut f: impl FnMut(u32, &'static str, u32)) {
    let mut next = 0;
    loop {
        let found = LINES
            .lock()
            .range(next..)
            .next()
            .map(|(number, line)| (*number, *line));
        let Some((number, line)) = found else { return };
        f(number, line.name, line.count());
        next = number + 1;
    }
}
