//! The ABI of 32-bit programs, i386. The kernel executes no such programs, but any code makes their calls by
//! `int 0x80` (`docs/int80.md`).

use crate::arch::CompatAbi;
use limen_linux_abi::sysno;

/// `AUDIT_ARCH_I386`, and its numbers.
pub const COMPAT: Option<CompatAbi> = Some(CompatAbi {
    audit_arch: 0x4000_0003,
    numbers: sysno::I386,
});

/// The vector.
pub const VECTOR: usize = 0x80;

/// Whether the command line lets programs make such calls (`ia32_emulation=`); else the instruction is a
/// general protection fault. Early boot.
#[unsafe(link_section = ".init.text")]
pub fn is_wanted(command_line: &str) -> bool {
    let words = command_line
        .split_ascii_whitespace()
        .take_while(|word| *word != "--");
    let given = words
        .filter_map(|word| word.strip_prefix("ia32_emulation="))
        .last();
    given.and_then(crate::cmdline::truth).unwrap_or(true)
}
