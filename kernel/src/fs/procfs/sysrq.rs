//! `/proc/sysrq-trigger`: the kernel does what the letter that is written stands for.

use super::TREE;
use crate::fs::pseudo::Node;
use limen_linux_abi::Errno;

/// Registers the file.
pub fn init() {
    let store = |text: &[u8]| text.first().map_or(Ok(()), |&letter| trigger(letter));
    // Only for writing. Reading gives `EIO`, as on Linux.
    TREE.add("sysrq-trigger", Node::setting(|_| Err(Errno::EIO), store));
}

/// Crash, reboot, power off and memory figures. Linux's other letters are accepted and logged.
fn trigger(letter: u8) -> Result<(), Errno> {
    match letter {
        b'c' => panic!("sysrq triggered crash"),
        b'b' => {
            info!("sysrq: Resetting");
            crate::arch::platform::reset()
        }
        b'o' => {
            info!("sysrq: Power Off");
            crate::arch::platform::power_off()
        }
        b'm' => info!(
            "sysrq: {} KiB free",
            crate::mm::frame::free_count() * crate::mm::PAGE_SIZE / 1024
        ),
        other => info!("sysrq: '{}' does nothing here", char::from(other)),
    }
    Ok(())
}
