//! What a program finds on its stack: the argument count, pointers, the auxiliary vector, and the strings.

use super::Program;
use super::elf::Image;
use crate::arch;
use crate::mm::user::write_bytes;
use crate::mm::{Layout, PAGE_SIZE};
use crate::random;
use crate::task::Creds;
use crate::task::ns::user;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// Auxiliary vector keys (`linux/auxvec.h`).
mod at {
    pub const NULL: usize = 0;
    pub const PHDR: usize = 3;
    pub const PHENT: usize = 4;
    pub const PHNUM: usize = 5;
    pub const PAGESZ: usize = 6;
    pub const BASE: usize = 7;
    pub const FLAGS: usize = 8;
    pub const ENTRY: usize = 9;
    pub const UID: usize = 11;
    pub const EUID: usize = 12;
    pub const GID: usize = 13;
    pub const EGID: usize = 14;
    pub const PLATFORM: usize = 15;
    pub const HWCAP: usize = 16;
    pub const CLKTCK: usize = 17;
    pub const SECURE: usize = 23;
    pub const RANDOM: usize = 25;
    pub const HWCAP2: usize = 26;
    pub const RSEQ_FEATURE_SIZE: usize = 27;
    pub const RSEQ_ALIGN: usize = 28;
    pub const EXECFN: usize = 31;
    pub const SYSINFO_EHDR: usize = 33;
    pub const MINSIGSTKSZ: usize = 51;
}

/// Builds the stack below `image.stack_top` in the current address space. Returns the stack pointer, the
/// layout for `/proc`, and the auxiliary vector.
pub(super) fn build(
    program: &Program,
    image: &Image,
    creds: &Creds,
    secure: bool,
    vdso: usize,
) -> Result<(usize, Layout, Vec<usize>), Errno> {
    let strings = &program.strings;
    let mut layout = image.layout;
    // From the top: a null word, the file name, the environment, the arguments, the platform's name, random
    // bytes.
    let mut p = image.stack_top - size_of::<usize>();
    p -= program.filename.len() + 1;
    let exec_name = p;
    write_bytes(p, &program.filename)?;
    p -= strings.bytes.len();
    let first = p;
    write_bytes(p, &strings.bytes)?;
    layout.arg_start = first;
    layout.arg_end = first + strings.env_start;
    layout.env_start = layout.arg_end;
    layout.env_end = first + strings.bytes.len();
    p = (p & !15) - 16 - image.stack_gap;
    p -= arch::elf_platform().len() + 1;
    let platform = p;
    write_bytes(p, arch::elf_platform().as_bytes())?;
    p -= 16;
    let random_bytes = p;
    let mut bytes = [0; 16];
    random::fill(&mut bytes);
    write_bytes(p, &bytes)?;
    p &= !15;

    let (hwcap, hwcap2) = arch::cpu::hwcap();
    let more = arch::more_auxv(platform);
    let pairs = [
        (at::SYSINFO_EHDR, vdso),
        (at::MINSIGSTKSZ, arch::signal::min_frame_size()),
        (at::HWCAP, hwcap),
        (at::PAGESZ, PAGE_SIZE),
        (at::CLKTCK, 100),
        (at::PHDR, image.program_headers.0),
        (at::PHENT, limen_elf::Class::NATIVE.program_header_size()),
        (at::PHNUM, image.program_headers.1),
        (at::BASE, image.base),
        (at::FLAGS, 0),
        (at::ENTRY, image.entry),
        (at::UID, user::uid_shown(creds.uid) as usize),
        (at::EUID, user::uid_shown(creds.euid) as usize),
        (at::GID, user::gid_shown(creds.gid) as usize),
        (at::EGID, user::gid_shown(creds.egid) as usize),
        (at::SECURE, secure as usize),
        (at::RANDOM, random_bytes),
        (at::HWCAP2, hwcap2),
        (at::RSEQ_FEATURE_SIZE, limen_rseq::FEATURE_SIZE as usize),
        (at::RSEQ_ALIGN, limen_rseq::ALIGN),
        (at::EXECFN, exec_name),
        (at::PLATFORM, platform),
        (at::NULL, 0),
    ];
    let mut words = Vec::new();
    let count = 3 + strings.argc + strings.envc + 2 * (pairs.len() + more.size_hint().0);
    crate::mm::reserve::room_exact(&mut words, count)?;
    words.push(strings.argc);
    let mut at = first;
    let mut pointers = strings.bytes.split_inclusive(|&b| b == 0).map(|string| {
        let here = at;
        at += string.len();
        here
    });
    words.extend(pointers.by_ref().take(strings.argc));
    words.push(0);
    words.extend(pointers.by_ref().take(strings.envc));
    words.push(0);
    let aux_at = words.len();
    for (key, value) in more.chain(pairs) {
        // Without a vDSO the vector has no entry for it.
        if key == at::SYSINFO_EHDR && value == 0 {
            continue;
        }
        words.extend([key, value]);
    }
    let sp = (p - words.len() * size_of::<usize>()) & !15;
    write_words(sp, &words)?;
    layout.start_stack = sp;
    Ok((sp, layout, words.split_off(aux_at)))
}

/// Writes machine words, several with each copy.
fn write_words(mut to: usize, words: &[usize]) -> Result<(), Errno> {
    const CHUNK: usize = 32;
    const WORD: usize = size_of::<usize>();
    let mut bytes = [0; CHUNK * WORD];
    for chunk in words.chunks(CHUNK) {
        for (to, word) in bytes.chunks_exact_mut(WORD).zip(chunk) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        write_bytes(to, &bytes[..chunk.len() * WORD])?;
        to += chunk.len() * WORD;
    }
    Ok(())
}
