//! The program's memory, and the order in which all comes into the file.

use super::notes;
use super::sink::Sink;
use crate::arch;
use crate::mm::dump::Dumped;
use crate::mm::{AddressSpace, PAGE_SIZE, VmFlags};
use crate::signal::SigInfo;
use crate::task::CurrentTask;
use alloc::boxed::Box;
use alloc::vec::Vec;
use limen_core_file::{Machine, Mapping, Segment};

const MACHINE: Machine = Machine {
    number: arch::ELF_MACHINE,
    flags: arch::ELF_CORE_FLAGS,
    wide: usize::BITS == 64,
    page: PAGE_SIZE as u64,
};

/// Names of mapped files may have as many bytes (`kernel.core_file_note_size_limit` of newer Linux).
const NAMES: usize = 4 << 20;

/// All mappings. `None`: there is no memory. Sleeps.
fn mappings(mm: &AddressSpace) -> Option<Vec<Dumped>> {
    let mut all = Vec::new();
    let mut from = 0;
    while let Some(mapping) = mm.next_dumped(from) {
        from = mapping.end;
        all.try_reserve(1).ok()?;
        all.push(mapping);
    }
    Some(all)
}

fn segments(all: &[Dumped]) -> Option<Vec<Segment>> {
    let mut segments = Vec::new();
    segments.try_reserve_exact(all.len()).ok()?;
    segments.extend(all.iter().map(|mapping| {
        let bit = |flag, bit| if mapping.flags.contains(flag) { bit } else { 0 };
        Segment {
            start: mapping.start as u64,
            end: mapping.end as u64,
            flags: bit(VmFlags::READ, 4) | bit(VmFlags::WRITE, 2) | bit(VmFlags::EXEC, 1),
            kept: mapping.kept as u64,
        }
    }));
    Some(segments)
}

fn files(all: &[Dumped]) -> Option<Vec<Mapping>> {
    let mut files = Vec::new();
    let mut names = 0;
    for mapping in all {
        let Some((file, page)) = &mapping.file else {
            continue;
        };
        let Ok(path) = file.path() else { continue };
        names += path.len() + 1;
        if names > NAMES {
            // As on Linux, then none are told.
            return Some(Vec::new());
        }
        files.try_reserve(1).ok()?;
        files.push(Mapping {
            range: (mapping.start as u64, mapping.end as u64),
            page: *page,
            path,
        });
    }
    Some(files)
}

/// Writes the core file of the running thread's process. `None`: not all of it was written. Sleeps.
pub(super) fn write(task: &CurrentTask, mm: &AddressSpace, info: &SigInfo, sink: &mut Sink) -> Option<()> {
    let all = mappings(mm)?;
    let segments = segments(&all)?;
    let notes = notes::all(MACHINE, task, mm, info, &files(&all)?)?;
    let headers = MACHINE.headers(notes.len(), &segments).ok()?;
    sink.write(&headers.bytes)?;
    sink.write(&notes)?;
    drop(notes);
    let mut page = Box::new([0; PAGE_SIZE]);
    let mut begins = headers.data;
    for mapping in &all {
        let place = |at: usize| begins + (at - mapping.start) as u64;
        let went_on = mm.each_dumped_page(mapping, &mut page, |at, page| {
            sink.skip_to(place(at)).is_some() && sink.write(page).is_some()
        });
        if !went_on || task.fatal_signal_pending() {
            return None;
        }
        begins += mapping.kept as u64;
    }
    sink.skip_to(begins)?;
    sink.write(&MACHINE.trailer(segments.len()).ok()?)?;
    sink.finish()
}
