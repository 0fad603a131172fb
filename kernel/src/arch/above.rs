//! What the architecture calls in rooms that stand above it. `boot`, which knows them all, keeps this
//! contract, and the kernel's root says so (`arch_calls!`); the calls are direct, and inlined as any other.

use crate::mm::BootInfo;

/// The contract.
pub trait Above {
    /// On the boot CPU: interrupts off, kernel map final (W^X), console, local block and exceptions working,
    /// no heap yet.
    fn start(info: &BootInfo<'_>) -> !;
    /// On each secondary CPU: on its idle thread's stack, interrupts off, local block and exceptions working.
    fn secondary() -> !;
    /// This CPU's timer event fired. Inside `threshold::interrupt`.
    fn timer_interrupt();
}

unsafe extern "Rust" {
    /// [`Above::start`].
    #[link_name = "limen_start"]
    pub safe fn start(info: &BootInfo<'_>) -> !;
    /// [`Above::secondary`].
    #[link_name = "limen_secondary"]
    pub safe fn secondary() -> !;
    /// [`Above::timer_interrupt`].
    #[link_name = "limen_timer_interrupt"]
    pub safe fn timer_interrupt();
}

/// Says which type keeps the contract.
macro_rules! arch_calls {
    ($kernel:ty) => {
        const _: () = {
            use $crate::arch::above::Above;
            #[unsafe(export_name = "limen_start")]
            fn start(info: &$crate::mm::BootInfo<'_>) -> ! {
                <$kernel as Above>::start(info)
            }
            #[unsafe(export_name = "limen_secondary")]
            fn secondary() -> ! {
                <$kernel as Above>::secondary()
            }
            #[unsafe(export_name = "limen_timer_interrupt")]
            fn timer_interrupt() {
                <$kernel as Above>::timer_interrupt();
            }
        };
    };
}
pub(crate) use arch_calls;
