//! Arguments and environment on their way from the old program to the new one.

use crate::mm::copy::UserString;
use crate::mm::user::{UserPtr, Word};
use crate::task::rlimit::{self, which};
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// Longest single string, its NUL included (`MAX_ARG_STRLEN`).
const MAX_STRING: usize = 32 * crate::mm::PAGE_SIZE;
/// How many bytes all strings together may always have (`ARG_MAX`).
const ALWAYS: u64 = 131_072;
/// How many bytes they may never exceed: three quarters of the usual stack.
const NEVER: u64 = 6 << 20;

/// All strings, each with its NUL; the arguments come first.
pub(super) struct Strings {
    /// The strings.
    pub bytes: Vec<u8>,
    /// How many of them are arguments.
    pub argc: usize,
    /// How many of them are environment.
    pub envc: usize,
    /// The offset of the environment in `bytes`.
    pub env_start: usize,
    /// How many bytes strings and pointers may take together.
    limit: usize,
}

impl Strings {
    fn new() -> Self {
        let quarter = crate::task::rlimit(which::STACK) / 4;
        let limit = if quarter == rlimit::INFINITY / 4 {
            NEVER
        } else {
            quarter.clamp(ALWAYS, NEVER)
        };
        Self {
            bytes: Vec::new(),
            argc: 0,
            envc: 0,
            env_start: 0,
            limit: limit as usize,
        }
    }

    /// Reads both vectors, of words `W`. `E2BIG`: they are too large.
    pub fn from_user<W: Word>(argv: usize, envp: usize) -> Result<Self, Errno> {
        let mut strings = Self::new();
        strings.argc = strings.read_vector::<W>(argv)?;
        if strings.argc == 0 {
            // Programs rely on having an `argv[0]`: Linux gives them an empty one.
            strings.push(b"")?;
            strings.argc = 1;
        }
        strings.env_start = strings.bytes.len();
        strings.envc = strings.read_vector::<W>(envp)?;
        Ok(strings)
    }

    /// From lists of the kernel's own.
    pub fn from_kernel(args: &[&[u8]], env: &[&[u8]]) -> Result<Self, Errno> {
        let mut strings = Self::new();
        for arg in args {
            strings.push(arg)?;
        }
        strings.argc = args.len();
        strings.env_start = strings.bytes.len();
        for entry in env {
            strings.push(entry)?;
        }
        strings.envc = env.len();
        Ok(strings)
    }

    fn read_vector<W: Word>(&mut self, vector: usize) -> Result<usize, Errno> {
        if vector == 0 {
            return Ok(0);
        }
        let mut n = 0;
        loop {
            let at = UserPtr::<W>::new(vector).add(n).read()?.get();
            if at == 0 {
                return Ok(n);
            }
            let string = UserString::read(at, MAX_STRING)
                .map_err(|e| if e == Errno::ENAMETOOLONG { Errno::E2BIG } else { e })?;
            self.push(string.as_bytes())?;
            n += 1;
            if (self.argc + n) * size_of::<usize>() + self.bytes.len() > self.limit {
                return Err(Errno::E2BIG);
            }
            if n % 64 == 0 && crate::task::current().fatal_signal_pending() {
                return Err(Errno::EINTR);
            }
        }
    }

    fn push(&mut self, string: &[u8]) -> Result<(), Errno> {
        if self.bytes.len() + string.len() >= self.limit {
            return Err(Errno::E2BIG);
        }
        crate::mm::reserve::room(&mut self.bytes, string.len() + 1)?;
        self.bytes.extend_from_slice(string);
        self.bytes.push(0);
        Ok(())
    }

    /// A script is executed: `first`, `second` (if given) and `third` replace the first argument.
    pub fn replace_first(&mut self, first: &[u8], second: Option<&[u8]>, third: &[u8]) -> Result<(), Errno> {
        let old = self.bytes.iter().position(|&b| b == 0).map_or(0, |n| n + 1);
        let mut new = Vec::new();
        let size = first.len() + second.map_or(0, |s| s.len() + 1) + third.len() + 2;
        if self.bytes.len() + size > self.limit {
            return Err(Errno::E2BIG);
        }
        crate::mm::reserve::room(&mut new, self.bytes.len() + size)?;
        for string in [Some(first), second, Some(third)].into_iter().flatten() {
            new.extend_from_slice(string);
            new.push(0);
        }
        new.extend_from_slice(&self.bytes[old..]);
        self.env_start = self.env_start + size - old;
        self.argc += 1 + usize::from(second.is_some());
        self.bytes = new;
        Ok(())
    }
}
