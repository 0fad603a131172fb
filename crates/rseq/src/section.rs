//! Critical sections: `struct rseq_cs`, and what becomes of one that may have been interrupted.

/// `struct rseq_cs`, as user space has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// 0.
    pub version: u32,
    /// 0; what the bits once meant is gone.
    pub flags: u32,
    /// The first instruction.
    pub start: u64,
    /// Bytes up to the end of the last one.
    pub length: u64,
    /// Where to go on if it was interrupted.
    pub abort: u64,
}

impl Section {
    /// Its size in user memory.
    pub const SIZE: usize = 32;

    /// From the bytes in user memory.
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

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The thread is not in it: forget it.
    Outside,
    /// The thread is in it: forget it and go on at this address, if the signature before it is right.
    Abort(usize),
}

/// Why a thread is killed (SIGSEGV).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fatal {
    /// The area, or what it points to, can't be reached.
    Unreachable,
    /// The critical section is described outside user memory.
    Pointer,
    /// Its version is not 0.
    Version,
    /// It has flags.
    Flags,
    /// It begins or ends outside user memory.
    Range,
    /// Its abort handler is outside user memory, or inside the critical section.
    Abort,
    /// What lies before the abort handler is not the registered signature but this.
    Signature(u32),
    /// Somebody wrote to the identifiers of an optimised area.
    ReadOnly,
    /// A system call was made inside a critical section (debug mode).
    Syscall,
}

impl Fatal {
    /// A few words for the log.
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
    /// Judges it for a thread at `ip`; user memory ends at `user_end`.
    pub fn judge(&self, ip: usize, user_end: usize) -> Result<Verdict, Fatal> {
        let user_end = user_end as u64;
        if self.version != 0 {
            return Err(Fatal::Version);
        }
        if self.flags != 0 {
            return Err(Fatal::Flags);
        }
        if self.start >= user_end || self.length > user_end - self.start {
            return Err(Fatal::Range);
        }
        if self.abort >= user_end
            || self.abort < size_of::<u32>() as u64
            || self.abort.wrapping_sub(self.start) < self.length
        {
            return Err(Fatal::Abort);
        }
        if (ip as u64).wrapping_sub(self.start) >= self.length {
            return Ok(Verdict::Outside);
        }
        // Below `user_end`, so it fits.
        Ok(Verdict::Abort(self.abort as usize))
    }
}
