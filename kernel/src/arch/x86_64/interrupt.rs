//! Interrupt controller, lines and inter-processor interrupts.

/// What one CPU can ask of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ipi {
    /// Look at the thread flags: reschedule, or a signal for the running thread. (The interrupt's exit does the work.)
    Reschedule = 0,
    /// Run queued cross-CPU calls (`sched::call`), used for TLB invalidation and the like.
    Call = 1,
    /// Stop for good (panic, power-off).
    Stop = 2,
}

/// Sends `ipi` to CPU `cpu` (which is online).
pub fn send_ipi(cpu: usize, ipi: Ipi) {
    let _ = (cpu, ipi);
}

/// A device interrupt's handler; runs on the interrupt stack with interrupts off.
pub type Handler = alloc::boxed::Box<dyn Fn() + Send + Sync>;

/// An interrupt line or message, as the architecture's platform code hands it to drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Irq(pub u32);

/// Connects `handler` to `irq` and unmasks it (delivered to the boot CPU).
pub fn request(irq: Irq, name: &'static str, handler: Handler) -> Result<(), limen_linux_abi::Errno> {
    let _ = (irq, name, handler);
    Err(limen_linux_abi::Errno::ENODEV)
}

/// A message-signalled interrupt: the address and data a PCI device must write, and the [`Irq`] to request. `None` if the machine has none.
pub fn allocate_msi() -> Option<(u64, u32, Irq)> {
    None
}
