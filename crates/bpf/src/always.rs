//! System calls that are allowed whatever their arguments, so that no program need run for them.

use crate::program::WORDS;
use crate::{Action, Program, Verdict};

/// Whether a program allows a system call whatever its arguments are and wherever it comes from. This runs
/// the program once, at most [`Program::len`] instructions, and says no if it comes to depend on a word that
/// is not known; so it may say no where yes would be right.
pub fn always_allows(program: &Program, arch: u32, nr: u32) -> bool {
    let mut data = [None; WORDS];
    data[0] = Some(nr);
    data[1] = Some(arch);
    program
        .run_partly(&data)
        .is_some_and(|result| Verdict(result).action() == Action::Allow)
}
