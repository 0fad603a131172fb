//! `/proc/cpuinfo`.

use super::{cpu, cpus, devicetree, spr, time};
use alloc::string::String;
use core::fmt::Write;

/// Appends the paragraph of CPU `cpu`; after the last, what Linux says of the machine.
pub fn show(cpu: usize, out: &mut String) {
    let version = spr::read!(spr::PVR);
    let name = match cpu::version() {
        0x4e => "POWER9 (architected)",
        0x80 => "POWER10 (architected)",
        _ => "POWER (architected)",
    };
    let clock = devicetree::of_cpus("clock-frequency").unwrap_or(0);
    let _ = write!(
        out,
        "processor\t: {cpu}\ncpu\t\t: {name}, altivec supported\nclock\t\t: {}.{:06}MHz\nrevision\t: {}.{} \
         (pvr {:04x} {:04x})\n\n",
        clock / 1_000_000,
        clock % 1_000_000,
        version >> 8 & 0xf,
        version & 0xff,
        version >> 16,
        version & 0xffff
    );
    if cpu + 1 == cpus::count() {
        let root = devicetree::tree().find_node("/");
        let model = root
            .as_ref()
            .and_then(|root| root.property("model")?.as_str())
            .unwrap_or("");
        let _ = write!(
            out,
            "timebase\t: {}\nplatform\t: pSeries\nmodel\t\t: {model}\nmachine\t\t: CHRP {model}\nMMU\t\t: \
             Radix\n",
            time::frequency()
        );
    }
}
