//! Register sets as tracers and core dumps see them.

use super::descriptor::{USER_CS, USER_DS};
use super::frame::Frame;
use super::mmu::USER_END;
use limen_linux_abi::Errno;

/// Words of `struct user_regs_struct`: those of [`Frame`], then FS and GS base, ds, es, fs, gs.
pub const GENERAL_WORDS: usize = 27;
const FRAME_WORDS: usize = 21;
const FS_BASE: usize = 21;
const GS_BASE: usize = 22;

/// The general registers (`NT_PRSTATUS`).
pub fn general(frame: &Frame, fs_base: usize, gs_base: usize) -> [usize; GENERAL_WORDS] {
    let f = frame;
    [
        f.r15,
        f.r14,
        f.r13,
        f.r12,
        f.rbp,
        f.rbx,
        f.r11,
        f.r10,
        f.r9,
        f.r8,
        f.rax,
        f.rcx,
        f.rdx,
        f.rsi,
        f.rdi,
        f.orig_rax,
        f.rip,
        f.cs & 0xffff,
        f.eflags,
        f.rsp,
        f.ss,
        fs_base,
        gs_base,
        0,
        0,
        0,
        0,
    ]
}

/// Sets the general registers; the segments cannot change (`EIO`), flags only as far as user space may. Returns the bases of FS and GS.
pub fn set_general(frame: &mut Frame, words: &[usize; GENERAL_WORDS]) -> Result<(usize, usize), Errno> {
    if words[FS_BASE] >= USER_END
        || words[GS_BASE] >= USER_END
        || words[17] & 0xffff != USER_CS
        || words[20] & 0xffff != USER_DS
    {
        return Err(Errno::EIO);
    }
    let eflags;
    let (_cs, _ss);
    [
        frame.r15,
        frame.r14,
        frame.r13,
        frame.r12,
        frame.rbp,
        frame.rbx,
        frame.r11,
        frame.r10,
        frame.r9,
        frame.r8,
        frame.rax,
        frame.rcx,
        frame.rdx,
        frame.rsi,
        frame.rdi,
        frame.orig_rax,
        frame.rip,
        _cs,
        eflags,
        frame.rsp,
        _ss,
        _,
        _,
        _,
        _,
        _,
        _,
    ] = *words;
    frame.set_user_flags(eflags);
    Ok((words[FS_BASE], words[GS_BASE]))
}

const _: () = assert!(size_of::<Frame>() == FRAME_WORDS * 8);
