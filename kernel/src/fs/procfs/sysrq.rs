//! `/proc/sysrq-trigger`: the owner writes a letter, and the kernel does what it stands for.

use super::TREE;
use crate::fs::pseudo::Node;
use limen_linux_abi::Errno;

/// Registers the file.
pub fn init() {
    let store = |text: &[u8]| text.first().map_or(Ok(()), |&letter| trigger(letter));
    // Only for writing, as on Linux: reading it gives an error of its own.
    TREE.add("sysrq-trigger", Node::setting(|_| Err(Errno::EIO), store));
}

/// Crash, reboot, power off and memory figures; the rest of Linux's letters are accepted and only noted.
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
