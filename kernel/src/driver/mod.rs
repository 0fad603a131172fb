//! Devices: virtio, consoles and terminals, the device file system, random numbers.

/// Brings the room up.
pub fn init() {}
