//! Devices: virtio, consoles and terminals, the device file system, random numbers.

pub mod kmsg;
pub mod memory;
pub mod serial;
pub mod tty;
pub mod virtio;

/// Starts all devices. Once, at boot.
pub fn init() {
    memory::init();
    kmsg::init();
    tty::pty::init();
    tty::file::register_current();
    serial::init();
    virtio::init();
    tty::console::init();
}
