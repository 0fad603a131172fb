//! Critical sections: `struct rseq_cs`, and what to do with one that may have been interrupted.

/// `struct rseq_cs`, as programs have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// Must be 0.
    pub version: u32,
    /// Must be 0; its bits once had meanings.
    pub flags: u32,
    /// The address of the first instruction.
    pub start: u64,
    /// How many bytes it has.
    pub length: u64,
    /// The address of the abort handler.
    pub abort: u64,
}

impl Section {
    /// Its size in user memory.
    pub const SIZE: usize = 32;

    /// Reads it from the bytes in user memory.
    pub fn from_bytes(bytes: &[u8; Self::SIZE]) -> Self {
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[at..at + 8]);
            u64::from_ne_bytes(eight)
        };
        Self {
            version: word(0),
            flags: word(4),
            start: long(8),
            length: long(16),
            abort: long(24),
        }
    }
}

/// What to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The thread is not in it: clear the pointer to it.
    Outside,
    /// The thread is in it: clear the pointer and continue at this address, if the signature in front of that
    /// is right.
    Abort(usize),
}

/// Why a thread is killed (`SIGSEGV`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fatal {
    /// The area, or something to which it points, cannot be accessed.
    Unreachable,
    /// The description of the critical section is outside user memory.
    Pointer,
    /// Its version is not 0.
    Version,
    /// It has flags.
    Flags,
    /// It begins or ends outside user memory.
    Range,
    /// Its abort handler is outside user memory, or inside the critical section.
    Abort,
    /// The word in front of the abort handler is this one, not the registered signature.
    Signature(u32),
    /// The program wrote to the identifiers of an optimised area.
    ReadOnly,
    /// A system call was made inside a critical section (debug mode).
    Syscall,
}

impl Fatal {
    /// Some words for the log.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Unreachable => "area not reachable",
            Self::Pointer => "rseq_cs outside user memory",
            Self::Version => "unknown version",
            Self::Flags => "unknown flags",
            Self::Range => "section outside user memory",
            Self::Abort => "bad abort address",
            Self::Signature(_) => "wrong signature",
            Self::ReadOnly => "read-only field changed",
            Self::Syscall => "system call inside a section",
        }
    }
}

impl Section {
    /// Checks it for a thread at `ip`; user memory ends at `user_end`. Errors matter only to a thread that is
    /// in it; only its place is always checked if `strict` (debug mode).
    pub fn judge(&self, ip: usize, user_end: usize, strict: bool) -> Result<Verdict, Fatal> {
        let user_end = user_end as u64;
        let badly_placed = || self.start >= user_end || self.length > user_end - self.start;
        if strict && badly_placed() {
            return Err(Fatal::Range);
        }
        if (ip as u64).wrapping_sub(self.start) >= self.length {
            return Ok(Verdict::Outside);
        }
        if self.version != 0 {
            return Err(Fatal::Version);
        }
        if self.flags != 0 {
            return Err(Fatal::Flags);
        }
        if badly_placed() {
            return Err(Fatal::Range);
        }
        if self.abort >= user_end
            || self.abort < size_of::<u32>() as u64
            || self.abort.wrapping_sub(self.start) < self.length
        {
            return Err(Fatal::Abort);
        }
        // Below `user_end`, so it fits.
        Ok(Verdict::Abort(self.abort as usize))
    }
}
