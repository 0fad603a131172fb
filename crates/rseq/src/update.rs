//! Doing the work of [`crate::Event`], identifiers and critical section, with a [`Memory`] whose accesses may
//! fault. After a fault all of it is done again from the start, with the same result.

use crate::{Area, Fatal, Section, Verdict, Work};

/// An access to user memory faulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// What an area says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ids {
    /// The CPU (`cpu_id_start` and `cpu_id`).
    pub cpu: u32,
    /// The CPU's NUMA node.
    pub node: u32,
    /// The concurrency id.
    pub cid: u32,
}

impl Ids {
    /// The eight bytes at `cpu_id_start` and those at `node_id`, in their order in memory.
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

/// What an area said before it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The identifiers, as [`Ids::words`].
    pub ids: [u64; 2],
    /// `rseq_cs`.
    pub section: u64,
}

/// User memory, with the fields of the registered area. All addresses have been checked to be in user memory.
pub trait Memory {
    /// Loads identifiers and `rseq_cs` of the area at `at`, and stores `ids` if the identifiers differ. After
    /// a fault any of the identifiers may have been stored.
    fn exchange(&mut self, at: usize, ids: [u64; 2]) -> Result<Seen, Fault>;
    /// `rseq_cs` of the area at `at`.
    fn section_pointer(&mut self, at: usize) -> Result<u64, Fault>;
    /// Clears `rseq_cs` of the area at `at`.
    fn clear_section_pointer(&mut self, at: usize) -> Result<(), Fault>;
    /// The description of a critical section at `at`.
    fn section(&mut self, at: usize) -> Result<Section, Fault>;
    /// A word of the program's code.
    fn word(&mut self, at: usize) -> Result<u32, Fault>;
    /// Whether debug mode is on; see [`Section::judge`].
    fn strict(&self) -> bool;
}

/// Why the work could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// An access faulted: do all of it again where sleeping is allowed.
    Fault,
    /// The thread is to be killed.
    Fatal(Fatal),
}

impl From<Fault> for Stop {
    fn from(_: Fault) -> Self {
        Self::Fault
    }
}

/// What an area's identifiers say after the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Said {
    /// What they said before.
    #[default]
    Before,
    /// The new ones, the old ones, or some of both: an access faulted in between.
    Either,
    /// The new ones, even if another access faulted afterwards: the kernel must note that they were written.
    New,
}

/// What was done, even if that is not all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// What the identifiers say now.
    pub said: Said,
    /// Identifiers were written.
    pub wrote_ids: bool,
    /// The area was checked for a critical section.
    pub checked: bool,
    /// There was one in which the thread is not: the pointer was cleared.
    pub cleared: bool,
    /// There was one, and the thread continues at this address.
    pub abort: Option<usize>,
    /// Where that section begins, and its length. 0 without one.
    pub section: (usize, usize),
}

/// Does `work` for `area`, and writes to `done` how far it came. `ids`: what the area has to say. `last`, for
/// areas that only the kernel may write: what it may say now, which is what was told last, or what an earlier
/// attempt was writing when it faulted (or the same twice). The thread is at `ip`.
#[inline(always)]
pub fn run(
    memory: &mut impl Memory,
    area: &Area,
    work: Work,
    (ids, last): (Ids, Option<[Ids; 2]>),
    (ip, user_end): (usize, usize),
    done: &mut Done,
) -> Result<(), Stop> {
    let pointer = if work.ids {
        let words = ids.words();
        done.said = Said::Either;
        let seen = memory.exchange(area.at, words)?;
        done.said = Said::New;
        done.wrote_ids = seen.ids != words;
        if let Some([told, tried]) = last
            && seen.ids != told.words()
            && seen.ids != words
            && strange(seen.ids, [told, tried, ids])
        {
            return Err(Stop::Fatal(Fatal::ReadOnly));
        }
        seen.section
    } else if work.section {
        memory.section_pointer(area.at)?
    } else {
        return Ok(());
    };
    if !work.section {
        return Ok(());
    }
    done.checked = true;
    if pointer == 0 {
        return Ok(());
    }
    let (verdict, section) = leave_section(memory, area, pointer, ip, user_end)?;
    match verdict {
        Verdict::Outside => done.cleared = true,
        Verdict::Abort(to) => {
            done.abort = Some(to);
            done.section = section;
        }
    }
    Ok(())
}

/// Whether an identifier is none of those that it may be. A fault may have come between any two stores, so
/// each may be an old or a new one.
#[cold]
#[inline(never)]
fn strange(seen: [u64; 2], may: [Ids; 3]) -> bool {
    const LOW: u64 = u32::MAX as u64;
    let differs = |n: usize, half: u64| may.iter().all(|ids| (seen[n] ^ ids.words()[n]) & half != 0);
    (0..2).any(|n| differs(n, LOW) || differs(n, !LOW))
}

#[cold]
#[inline(never)]
fn leave_section(
    memory: &mut impl Memory,
    area: &Area,
    pointer: u64,
    ip: usize,
    user_end: usize,
) -> Result<(Verdict, (usize, usize)), Stop> {
    if pointer > (user_end - Section::SIZE) as u64 {
        return Err(Stop::Fatal(Fatal::Pointer));
    }
    let section = memory.section(pointer as usize)?;
    let verdict = section
        .judge(ip, user_end, memory.strict())
        .map_err(Stop::Fatal)?;
    if let Verdict::Abort(to) = verdict {
        let found = memory.word(to - size_of::<u32>())?;
        if found != area.signature {
            return Err(Stop::Fatal(Fatal::Signature(found)));
        }
    }
    memory.clear_section_pointer(area.at)?;
    Ok((verdict, (section.start as usize, section.length as usize)))
}

/// Whether a thread at `ip` is in the critical section of its area. `false` if that cannot be read.
pub fn inside(memory: &mut impl Memory, area: &Area, ip: usize, user_end: usize) -> bool {
    let pointer = match memory.section_pointer(area.at) {
        Ok(pointer) if pointer != 0 && pointer <= (user_end - Section::SIZE) as u64 => pointer,
        _ => return false,
    };
    match memory.section(pointer as usize) {
        Ok(section) => matches!(section.judge(ip, user_end, false), Ok(Verdict::Abort(_))),
        Err(Fault) => false,
    }
}
