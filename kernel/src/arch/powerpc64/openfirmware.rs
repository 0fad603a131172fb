//! Calls to Open Firmware, with translation off, before anything else: its device tree is copied into a
//! flattened one (`limen_open_firmware`), which is all that is read afterwards.

use super::spr::{self, MSR_LE, MSR_SF};
use limen_open_firmware::Argument;

/// Highest number of arguments and results together.
const CELLS: usize = 8;
/// A call's arguments, in firmware's byte order.
static mut CALL: [u32; 3 + CELLS] = [0; 3 + CELLS];

/// The firmware's entry point.
pub struct Firmware(usize);

/// The physical address of something in the image.
fn phys<T>(at: *const T) -> u32 {
    at as usize as u32
}

impl Firmware {
    /// # Safety
    /// `entry` is what firmware passed; translation is off, on the boot CPU, as long as this is used.
    pub unsafe fn new(entry: usize) -> Self {
        Self(entry)
    }
}

impl limen_open_firmware::Firmware for Firmware {
    fn call(&mut self, service: &str, arguments: &mut [Argument<'_>]) -> u32 {
        unsafe extern "C" {
            fn call_open_firmware(arguments: usize, entry: usize, msr: usize);
        }
        let n = arguments.len();
        let block = &raw mut CALL;
        // SAFETY: one CPU, one call at a time; the block is as long as the longest call, and firmware writes
        // the results and what it is told to.
        unsafe {
            (*block)[0] = phys(service.as_ptr()).to_be();
            (*block)[1] = (n as u32).to_be();
            (*block)[2] = 1u32.to_be();
            for (i, argument) in arguments.iter_mut().enumerate() {
                let cell = match argument {
                    Argument::Cell(cell) => *cell,
                    Argument::From(bytes) => phys(bytes.as_ptr()),
                    Argument::To(bytes) => phys(bytes.as_mut_ptr()),
                };
                (*block)[3 + i] = cell.to_be();
            }
            (*block)[3 + n] = u32::MAX;
            call_open_firmware(phys(block) as usize, self.0, spr::msr() & !(MSR_SF | MSR_LE));
            u32::from_be(block.cast::<u32>().add(3 + n).read_volatile())
        }
    }
}
