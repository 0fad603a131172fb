//! Interrupt vectors: who handles which, device lines (I/O APIC), messages, inter-processor interrupts.

use super::{apic, cpus, irq, time, tlb};
use crate::sync::IrqSpinLock;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use limen_linux_abi::Errno;

/// What one CPU can ask of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ipi {
    /// Look at the thread flags: reschedule, or a signal for the running thread. (The interrupt's exit does
    /// the work.)
    Reschedule = 0,
    /// Run queued cross-CPU calls (`sched::call`), used for TLB invalidation and the like.
    Call = 1,
    /// Stop for good (panic, power-off).
    Stop = 2,
}

const FIRST_DEVICE_VECTOR: u8 = 0x30;
const LAST_DEVICE_VECTOR: u8 = 0xef;
const IPI_VECTOR: u8 = 0xf8;

/// Sends `ipi` to CPU `cpu` (which is online).
#[inline]
pub fn send_ipi(cpu: usize, ipi: Ipi) {
    apic::send_vector(cpu, IPI_VECTOR + ipi as u8);
}

/// Sends CPU `cpu` an NMI. There always are NMIs.
pub fn send_nmi(cpu: usize) -> bool {
    apic::send_nmi(cpu);
    true
}

/// A device interrupt's handler; runs on the interrupt stack with interrupts off.
pub type Handler = alloc::boxed::Box<dyn Fn() + Send + Sync>;

/// An interrupt line or message, as the architecture's platform code hands it to drivers: a global interrupt
/// number (plus [`LEVEL`] and [`LOW`]), or [`MESSAGE`] plus a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Irq(pub u32);

/// The line is level-triggered.
pub const LEVEL: u32 = 1 << 31;
/// The line is active low.
pub const LOW: u32 = 1 << 30;
/// A message, not a line.
pub const MESSAGE: u32 = 1 << 29;

/// A connected handler, kept for ever.
struct Connected {
    name: &'static str,
    irq: Irq,
    handler: Handler,
    /// A line of several devices.
    next: AtomicPtr<Connected>,
}

static HANDLERS: [AtomicPtr<Connected>; 256] = [const { AtomicPtr::new(core::ptr::null_mut()) }; 256];
static COUNTS: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];
static NEXT_VECTOR: IrqSpinLock<u8> = IrqSpinLock::new(FIRST_DEVICE_VECTOR);

fn allocate_vector() -> Option<u8> {
    let mut next = NEXT_VECTOR.lock();
    if usize::from(*next) == super::i386::VECTOR {
        *next += 1;
    }
    if *next > LAST_DEVICE_VECTOR {
        return None;
    }
    let vector = *next;
    *next += 1;
    Some(vector)
}

fn vector_of_line(gsi: u32) -> Option<u8> {
    (FIRST_DEVICE_VECTOR..=LAST_DEVICE_VECTOR).find(|&v| {
        let connected = HANDLERS[v as usize].load(Ordering::Acquire);
        // SAFETY: connected handlers are never freed.
        !connected.is_null() && unsafe { (*connected).irq.0 & !(LEVEL | LOW) } == gsi
    })
}

/// Connects `handler` to `irq` and unmasks it (delivered to the boot CPU). A line may have several handlers.
pub fn request(irq: Irq, name: &'static str, handler: Handler) -> Result<(), Errno> {
    let connect = |vector: u8, next| {
        let connected = alloc::boxed::Box::new(Connected {
            name,
            irq,
            handler,
            next: AtomicPtr::new(next),
        });
        HANDLERS[vector as usize].store(alloc::boxed::Box::into_raw(connected), Ordering::Release);
    };
    if irq.0 & MESSAGE != 0 {
        connect(irq.0 as u8, core::ptr::null_mut());
        return Ok(());
    }
    let gsi = irq.0 & !(LEVEL | LOW);
    if let Some(vector) = vector_of_line(gsi) {
        connect(vector, HANDLERS[vector as usize].load(Ordering::Acquire));
        return Ok(());
    }
    let vector = allocate_vector().ok_or(Errno::ENOSPC)?;
    connect(vector, core::ptr::null_mut());
    if apic::route(gsi, vector, irq.0 & LEVEL != 0, irq.0 & LOW != 0) {
        Ok(())
    } else {
        Err(Errno::ENODEV)
    }
}

/// A message-signalled interrupt: the address and data a PCI device must write, and the [`Irq`] to request.
/// `None` if the machine has none.
pub fn allocate_msi() -> Option<(u64, u32, Irq)> {
    let vector = allocate_vector()?;
    let address = 0xfee0_0000 | u64::from(cpus::apic_id(0)) << 12;
    Some((address, u32::from(vector), Irq(MESSAGE | u32::from(vector))))
}

/// Calls `f` with vector, count and name of each connected interrupt (`/proc/interrupts`).
pub fn for_each(mut f: impl FnMut(u8, u64, &'static str)) {
    for vector in 0..256 {
        let connected = HANDLERS[vector].load(Ordering::Acquire);
        if !connected.is_null() {
            // SAFETY: connected handlers are never freed.
            f(vector as u8, COUNTS[vector].load(Ordering::Relaxed), unsafe {
                (*connected).name
            });
        }
    }
}

/// An interrupt arrived; runs inside the threshold, on the interrupt stack.
pub fn dispatch(vector: u8) {
    match vector {
        apic::TIMER_VECTOR => {
            apic::end_of_interrupt();
            time::event();
        }
        tlb::VECTOR => {
            apic::end_of_interrupt();
            tlb::serve();
        }
        apic::SPURIOUS_VECTOR => {}
        _ if vector == IPI_VECTOR + Ipi::Reschedule as u8 => apic::end_of_interrupt(),
        _ if vector == IPI_VECTOR + Ipi::Call as u8 => {
            apic::end_of_interrupt();
            crate::sched::call::run_calls();
        }
        _ if vector == IPI_VECTOR + Ipi::Stop as u8 => {
            apic::end_of_interrupt();
            irq::stop();
        }
        _ => {
            COUNTS[vector as usize].fetch_add(1, Ordering::Relaxed);
            let mut at = HANDLERS[vector as usize].load(Ordering::Acquire);
            while !at.is_null() {
                // SAFETY: connected handlers are never freed.
                let connected = unsafe { &*at };
                let line = connected.irq.0 & !(LEVEL | LOW | MESSAGE);
                crate::arch::events::handle(line, connected.name, &connected.handler);
                at = connected.next.load(Ordering::Acquire);
            }
            // After the handlers: a level-triggered line must be quiet by now.
            apic::end_of_interrupt();
        }
    }
}
