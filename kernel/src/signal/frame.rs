//! What the portable part and an architecture tell each other when a signal frame is built or read
//! (`arch::signal`).

use super::SigInfo;

/// A handler to be entered.
#[derive(Debug)]
#[allow(dead_code, reason = "no architecture needs all of it")]
pub struct Delivery<'a> {
    /// Signal number, 1 to 64.
    pub signal: u32,
    /// Its `siginfo_t`, which `SigInfo::write_to` puts into the frame.
    pub info: &'a SigInfo,
    /// The handler's address.
    pub handler: usize,
    /// `sa_restorer`, if `SA_RESTORER` is set.
    pub restorer: Option<usize>,
    /// `SA_SIGINFO` was given.
    pub siginfo: bool,
    /// The signal mask, which is restored when the handler returns.
    pub mask: u64,
    /// The address below which the frame goes: the alternate stack's top, or the interrupted stack pointer.
    pub stack_top: usize,
    /// The alternate stack for `uc_stack`: address, flags, size in bytes.
    pub altstack: (usize, u32, usize),
}

/// The address of `rt_sigreturn`'s trampoline in the running program's vDSO, for ABIs that use it. 0: the
/// program has no vDSO.
#[allow(dead_code, reason = "not every ABI does")]
pub fn vdso_sigreturn() -> usize {
    let offset = crate::time::vdso::sigreturn_offset();
    if offset == 0 {
        return 0;
    }
    crate::mm::current_space().map_or(0, |mm| match mm.layout().vdso {
        0 => 0,
        vdso => vdso + offset,
    })
}

/// [`vdso_sigreturn`] while the vDSO is mapped. `None`: there is none any more, and the program needs another
/// way back.
#[allow(dead_code, reason = "not every ABI does")]
pub fn mapped_sigreturn() -> Option<usize> {
    let layout = crate::mm::current_space()?.layout();
    (layout.vdso != 0 && !layout.vdso_unmapped).then(|| layout.vdso + crate::time::vdso::sigreturn_offset())
}

/// What `rt_sigreturn` found in the signal frame.
#[derive(Clone, Copy, Debug)]
pub struct Restored {
    /// The signal mask.
    pub mask: u64,
    /// The alternate stack: address, flags, size in bytes.
    pub altstack: (usize, u32, usize),
}

/// What `sigreturn` or `rt_sigreturn` of 32-bit programs found in the signal frame.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "not every architecture has such programs' calls")]
pub struct CompatRestored {
    /// The signal mask.
    pub mask: u64,
    /// The alternate stack: address, flags, size in bytes. `None`: the frame has none, and it stays.
    pub altstack: Option<(usize, u32, usize)>,
}
