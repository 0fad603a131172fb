//! Kernel panic: a report on the console, then the machine ends with a status the host can tell apart.

use core::panic::PanicInfo;

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    crate::arch::irq::local_disable();
    log!(Emerg, "Kernel panic - not syncing: {}", info);
    crate::trace::backtrace::print_here();
    crate::arch::platform::panic_exit()
}
