//! User memory, as `limen_rseq` accesses it.

use super::{stats, watch};
use crate::mm::user::{UserBlock, UserPtr, exchange_rseq, read_bytes, write_bytes};
use limen_linux_abi::Errno;
use limen_rseq::update::{Fault, Ids, Memory, Seen};
use limen_rseq::{Area, CPU_ID_UNINITIALISED, ORIGINAL_SIZE, Section, field};

/// What a new area says.
pub const UNINITIALISED: Ids = Ids {
    cpu: CPU_ID_UNINITIALISED,
    node: 0,
    cid: 0,
};

/// The running thread's user memory. With interrupts off, an access to a page that is not present fails at
/// once; else it sleeps until the page is present.
pub struct User;

impl Memory for User {
    #[inline(always)]
    fn exchange(&mut self, at: usize, ids: [u64; 2]) -> Result<Seen, Fault> {
        let [first, second, section] = exchange_rseq(at, ids).map_err(|_| Fault)?;
        Ok(Seen {
            ids: [first, second],
            section,
        })
    }
    fn section_pointer(&mut self, at: usize) -> Result<u64, Fault> {
        UserPtr::<u64>::new(at + field::RSEQ_CS).read().map_err(|_| Fault)
    }
    fn clear_section_pointer(&mut self, at: usize) -> Result<(), Fault> {
        if watch::counting() && self.section_pointer(at)? == 0 {
            stats::count(|counts| &counts.cleared_twice);
        }
        UserPtr::<u64>::new(at + field::RSEQ_CS)
            .write(0)
            .map_err(|_| Fault)
    }
    fn section(&mut self, at: usize) -> Result<Section, Fault> {
        let mut bytes = [0; Section::SIZE];
        read_bytes(&mut bytes, at).map_err(|_| Fault)?;
        Ok(Section::from_bytes(&bytes))
    }
    fn word(&mut self, at: usize) -> Result<u32, Fault> {
        UserPtr::<u32>::new(at).read().map_err(|_| Fault)
    }
    fn strict(&self) -> bool {
        watch::watch() & watch::DEBUG != 0
    }
}

/// Where an area lies: its original part.
pub type Place = UserBlock<{ ORIGINAL_SIZE as usize }>;

/// Writes to an area at its registration: no identifiers yet, and no critical section.
pub fn initialise(area: &Area, flags: u32) -> Result<Place, Errno> {
    let place = fill(area.at, CPU_ID_UNINITIALISED, flags)?;
    if area.len > ORIGINAL_SIZE {
        write_bytes(area.at + ORIGINAL_SIZE as usize, &[0])?;
    }
    Ok(place)
}

/// Writes to an area when it is unregistered.
pub fn reset(at: usize) -> Result<(), Errno> {
    fill(at, 0, 0)?;
    Ok(())
}

fn fill(at: usize, cpu_id_start: u32, flags: u32) -> Result<Place, Errno> {
    let mut bytes = [0; ORIGINAL_SIZE as usize];
    bytes[field::CPU_ID_START..][..4].copy_from_slice(&cpu_id_start.to_ne_bytes());
    bytes[field::CPU_ID..][..4].copy_from_slice(&CPU_ID_UNINITIALISED.to_ne_bytes());
    bytes[field::FLAGS..][..4].copy_from_slice(&flags.to_ne_bytes());
    let place = Place::new(at)?;
    place.write(0, &bytes)?;
    Ok(place)
}
