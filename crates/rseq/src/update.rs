//! Doing what [`crate::Event`] says: identifiers and critical section, through a [`Memory`] whose accesses may fault. Nothing is lost if one does: the
//! whole is then done again from the start, with the same result.

use crate::{Area, Fatal, Section, Verdict, Work};

/// User memory was not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// What an area tells its thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ids {
    /// The CPU (`cpu_id_start` and `cpu_id`).
    pub cpu: u32,
    /// Its node.
    pub node: u32,
    /// The concurrency id.
    pub cid: u32,
}

impl Ids {
    /// The eight bytes at `cpu_id_start` and those at `node_id`, as they lie in memory.
    #[inline(always)]
    pub fn words(self) -> [u64; 2] {
        [pair(self.cpu, self.cpu), pair(self.node, self.cid)]
    }
}

#[inline(always)]
fn pair(first: u32, second: u32) -> u64 {
    if cfg!(target_endian = "little") {
        u64::from(first) | u64::from(second) << 32
    } else {
        u64::from(first) << 32 | u64::from(second)
    }
}

/// What was found in an area before anything was written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The identifiers, as [`Ids::words`].
    pub ids: [u64; 2],
    /// `rseq_cs`.
    pub section: u64,
}

/// User memory, with the registered area's fields. Every address below was checked to lie in user memory.
pub trait Memory {
    /// One window: loads identifiers and `rseq_cs` of the area at `at`, and stores `ids` if those found differ.
    fn exchange(&mut self, at: usize, ids: [u64; 2]) -> Result<Seen, Fault>;
    /// `rseq_cs` of the area at `at`.
    fn section_pointer(&mut self, at: usize) -> Result<u64, Fault>;
    /// Makes it 0.
    fn clear_section_pointer(&mut self, at: usize) -> Result<(), Fault>;
    /// The description at `at`.
    fn section(&mut self, at: usize) -> Result<Section, Fault>;
    /// A word of program text.
    fn word(&mut self, at: usize) -> Result<u32, Fault>;
}

/// Why the work could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Memory was not there: do all of it again where sleeping is allowed.
    Fault,
    /// The thread is to be killed.
    Fatal(Fatal),
}

impl From<Fault> for Stop {
    fn from(_: Fault) -> Self {
        Self::Fault
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Identifiers were written.
    pub wrote_ids: bool,
    /// A critical section was looked for.
    pub checked: bool,
    /// One was there that the thread is not in: it was forgotten.
    pub cleared: bool,
    /// One was there, and the thread goes on at this address.
    pub abort: Option<usize>,
}

/// Does `work` for `area`. `ids` is what it must say; `last`, for areas whose identifiers are the kernel's, what it must have said up to now. The
/// thread is at `ip`.
#[inline(always)]
pub fn run(
    memory: &mut impl Memory,
    area: &Area,
    work: Work,
    (ids, last): (Ids, Option<Ids>),
    ip: usize,
    user_end: usize,
) -> Result<Done, Stop> {
    let mut done = Done::default();
    let pointer = if work.ids {
        let words = ids.words();
        let seen = memory.exchange(area.at, words)?;
        done.wrote_ids = seen.ids != words;
        if let Some(last) = last {
            // A run before this one may have met a fault after it had written, or between the two words.
            let strange = |n: usize| seen.ids[n] != last.words()[n] && seen.ids[n] != words[n];
            if strange(0) || strange(1) {
                return Err(Stop::Fatal(Fatal::ReadOnly));
            }
        }
        seen.section
    } else if work.section {
        memory.section_pointer(area.at)?
    } else {
        return Ok(done);
    };
    if !work.section {
        return Ok(done);
    }
    done.checked = true;
    if pointer == 0 {
        return Ok(done);
    }
    leave_section(memory, area, pointer, ip, user_end, done)
}

#[cold]
#[inline(never)]
fn leave_section(
    memory: &mut impl Memory,
    area: &Area,
    pointer: u64,
    ip: usize,
    user_end: usize,
    mut done: Done,
) -> Result<Done, Stop> {
    if pointer > (user_end - Section::SIZE) as u64 {
        return Err(Stop::Fatal(Fatal::Pointer));
    }
    let section = memory.section(pointer as usize)?;
    match section.judge(ip, user_end).map_err(Stop::Fatal)? {
        Verdict::Outside => done.cleared = true,
        Verdict::Abort(to) => {
            let found = memory.word(to - size_of::<u32>())?;
            if found != area.signature {
                return Err(Stop::Fatal(Fatal::Signature(found)));
            }
            done.abort = Some(to);
        }
    }
    memory.clear_section_pointer(area.at)?;
    Ok(done)
}

/// Whether a thread at `ip` is inside the critical section its area names. What can't be read says no.
pub fn inside(memory: &mut impl Memory, area: &Area, ip: usize, user_end: usize) -> bool {
    let pointer = match memory.section_pointer(area.at) {
        Ok(pointer) if pointer != 0 && pointer <= (user_end - Section::SIZE) as u64 => pointer,
        _ => return false,
    };
    match memory.section(pointer as usize) {
        Ok(section) => matches!(section.judge(ip, user_end), Ok(Verdict::Abort(_))),
        Err(Fault) => false,
    }
}
