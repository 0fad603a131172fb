//! Interrupt lines and inter-processor interrupts, on top of the controller (`gic`).

use super::line::Line;
use super::{devicetree, gic, messages, time};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use limen_linux_abi::Errno;

pub use super::line::{Handler, Ipi, Irq};

/// Sends `ipi` to CPU `cpu` (which is online). It stops even where its interrupts are off, if it can be told.
pub fn send_ipi(cpu: usize, ipi: Ipi) {
    if ipi == Ipi::Stop {
        STOPPING.store(true, Ordering::Release);
        if gic::send_fiq(cpu) {
            return;
        }
    }
    gic::send(cpu, ipi as u32);
}

/// Sends CPU `cpu` an FIQ. `false`: the machine has none.
pub fn send_nmi(cpu: usize) -> bool {
    gic::send_fiq(cpu)
}

/// Whether all other CPUs are to stop.
static STOPPING: AtomicBool = AtomicBool::new(false);

/// An FIQ arrived. Inside the threshold's NMI. `from_user`: it interrupted user mode.
pub(super) fn handle_fiq(from_user: bool) {
    if gic::take_fiq() {
        asked_by_fiq(from_user);
    }
}

/// What FIQs are sent for.
fn asked_by_fiq(from_user: bool) {
    if STOPPING.load(Ordering::Acquire) {
        stop();
    }
    crate::sched::nmi::came(from_user);
}

/// Every line's connection, by number; made once at boot.
static LINES: AtomicPtr<AtomicPtr<Line>> = AtomicPtr::new(core::ptr::null_mut());
/// The virtual timer's private interrupt.
static TIMER: AtomicU32 = AtomicU32::new(27);

/// Brings the controller up. Boot CPU, heap working.
pub(super) fn init() {
    gic::init();
    let lines: Vec<AtomicPtr<Line>> = (0..gic::lines())
        .map(|_| AtomicPtr::new(core::ptr::null_mut()))
        .collect();
    LINES.store(Vec::leak(lines).as_mut_ptr(), Ordering::Release);
    if let Some(node) = devicetree::compatible(&["arm,armv8-timer", "arm,armv7-timer"]).next()
        && let Some((number, _)) = devicetree::gic_interrupt(&node, 2)
    {
        TIMER.store(number, Ordering::Relaxed);
    }
    init_cpu();
    messages::init();
}

/// This CPU's part.
pub(super) fn init_cpu() {
    gic::init_cpu();
    time::set_event(u64::MAX);
    gic::enable(TIMER.load(Ordering::Relaxed));
}

fn slot(irq: Irq) -> Option<&'static AtomicPtr<Line>> {
    let lines = LINES.load(Ordering::Acquire);
    if lines.is_null() || irq.0 >= gic::lines() {
        return None;
    }
    // SAFETY: the array has `gic::lines()` elements and lives for good.
    Some(unsafe { &*lines.add(irq.0 as usize) })
}

/// Connects `handler` to `irq` and unmasks it (delivered to the boot CPU).
pub fn request(irq: Irq, name: &'static str, handler: Handler) -> Result<(), Errno> {
    let slot = slot(irq)
        .filter(|_| irq.0 >= gic::FIRST_SHARED)
        .ok_or(Errno::EINVAL)?;
    let line = Box::into_raw(Box::new(Line::new(irq, name, handler)));
    if slot
        .compare_exchange(core::ptr::null_mut(), line, Ordering::AcqRel, Ordering::Relaxed)
        .is_err()
    {
        // SAFETY: nobody else has seen it.
        drop(unsafe { Box::from_raw(line) });
        return Err(Errno::EBUSY);
    }
    gic::enable(irq.0);
    Ok(())
}

/// A message-signalled interrupt: the address and data a PCI device must write, and the [`Irq`] to request.
/// `None` if the machine has none.
pub fn allocate_msi() -> Option<(u64, u32, Irq)> {
    let (doorbell, number) = messages::allocate()?;
    Some((doorbell, number, Irq(number)))
}

/// An interrupt arrived. Inside the threshold, on the interrupt stack.
pub(super) fn handle() {
    let Some(acknowledged) = gic::acknowledge() else {
        return;
    };
    let number = gic::number(acknowledged);
    if number == TIMER.load(Ordering::Relaxed) {
        time::interrupt();
    } else if number < 16 {
        // Ended first: what it asks for may be asked again meanwhile.
        gic::end(acknowledged);
        match number {
            n if n == Ipi::Call as u32 => crate::sched::call::run_calls(),
            n if n == Ipi::Stop as u32 => stop(),
            // Version 2: it was acknowledged before it could come as what it is.
            gic::FIQ => asked_by_fiq(false),
            _ => {}
        }
        return;
    } else if let Some(slot) = slot(Irq(number)) {
        let line = slot.load(Ordering::Acquire);
        if !line.is_null() {
            // SAFETY: connected lines are never freed.
            unsafe { (*line).handle() };
        }
    }
    gic::end(acknowledged);
}

/// Another CPU is ending the machine.
fn stop() -> ! {
    super::irq::local_disable();
    loop {
        super::sysreg::wfi();
    }
}

/// Calls `f` with each connected line's number, name and count.
pub fn for_each(mut f: impl FnMut(u32, &'static str, u32)) {
    for number in 0..gic::lines() {
        let line = slot(Irq(number)).map_or(core::ptr::null_mut(), |slot| slot.load(Ordering::Acquire));
        if !line.is_null() {
            // SAFETY: connected lines are never freed.
            let line = unsafe { &*line };
            f(number, line.name, line.count());
        }
    }
}
