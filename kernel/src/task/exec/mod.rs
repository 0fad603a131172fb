//! exec: replacing the running program.
//!
//! All that can fail is done with a new address space, while the old program is whole. After the point of no
//! return only memory for the first pages of the stack can be missing. Then the process is killed, as on
//! Linux.

mod args;
mod commit;
mod elf;
mod script;
mod stack;
pub mod vdso;

use super::{TaskFlags, current};
use crate::arch::frame::Frame;
use crate::fs::file::File;
use crate::fs::lookup::AT_FDCWD;
use crate::fs::open;
use crate::fs::perm::{self, READ};
use crate::mm::copy::read_path;
use crate::mm::user::Word;
use alloc::sync::Arc;
use alloc::vec::Vec;
use args::Strings;
use limen_linux_abi::{Errno, SysResult};

pub use elf::RANDOMIZE;

const AT_SYMLINK_NOFOLLOW: u32 = 0x100;
const AT_EMPTY_PATH: u32 = 0x1000;
/// How many interpreters in a row may be scripts.
const MAX_SCRIPTS: usize = 5;
/// How many bytes of a file's start are read to find out what it is (`BINPRM_BUF_SIZE`).
const HEAD: usize = 256;

/// A program that is about to be executed.
pub(super) struct Program {
    /// The file. For a script: the file of the last interpreter.
    file: Arc<File>,
    /// The first bytes of the file.
    head: [u8; HEAD],
    /// How many bytes of `head` are from the file.
    head_len: usize,
    /// The path that the caller passed (`AT_EXECFN`).
    filename: Vec<u8>,
    /// The path of `file`.
    interpreter: Vec<u8>,
    /// Arguments and environment.
    strings: Strings,
    /// The caller may not read a file of it: then neither its memory, by a core file or as its tracer.
    hidden: bool,
}

/// Whether the running thread may not read the file, only execute it.
fn is_hidden(file: &File) -> bool {
    perm::permission(file.inode(), READ, &current().creds()).is_err()
}

/// Owner and group of the file, if it is hidden.
#[cold]
fn owner_if_hidden(file: &File) -> Option<(u32, u32)> {
    let (_, uid, gid) = file.inode().identity();
    is_hidden(file).then_some((uid, gid))
}

impl Program {
    fn head(&self) -> &[u8] {
        &self.head[..self.head_len]
    }

    fn open(dirfd: i32, path: &[u8], nofollow: bool, empty: bool, strings: Strings) -> Result<Self, Errno> {
        let file = open::open_exec(dirfd, path, nofollow, empty)?;
        let mut filename = Vec::new();
        if dirfd == AT_FDCWD || path.first() == Some(&b'/') {
            filename.extend_from_slice(path);
        } else {
            // A path under which a script's interpreter can open the script.
            filename.extend_from_slice(alloc::format!("/dev/fd/{dirfd}").as_bytes());
            if !path.is_empty() {
                filename.push(b'/');
                filename.extend_from_slice(path);
            }
        }
        let interpreter = filename.clone();
        let mut program = Self {
            hidden: is_hidden(&file),
            file,
            head: [0; HEAD],
            head_len: 0,
            filename,
            interpreter,
            strings,
        };
        program.read_head()?;
        Ok(program)
    }

    fn read_head(&mut self) -> Result<(), Errno> {
        self.head_len = self.file.read_at(&mut self.head, 0)?;
        Ok(())
    }
}

/// `execve` and `execveat`, with vectors of words `W`. On success `frame` has the registers with which the
/// new program starts.
#[inline(never)]
pub fn do_execveat<W: Word>(
    frame: &mut Frame,
    dirfd: i32,
    path: usize,
    argv: usize,
    envp: usize,
    flags: u32,
) -> SysResult {
    let path = read_path(path)?;
    let empty = flags & AT_EMPTY_PATH != 0;
    if path.as_bytes().is_empty() && !empty {
        return Err(Errno::ENOENT);
    }
    if current().flags().contains(TaskFlags::NPROC_EXCEEDED) {
        check_process_limit()?;
    }
    let strings = Strings::from_user::<W>(argv, envp)?;
    if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(Errno::EINVAL);
    }
    let program = Program::open(
        dirfd,
        path.as_bytes(),
        flags & AT_SYMLINK_NOFOLLOW != 0,
        empty,
        strings,
    )?;
    run(frame, program)
}

/// `RLIMIT_NPROC` of a change of user takes effect here. A thread that became a user with too many threads,
/// and is still one of too many, cannot exec. Once it could, it is like any other thread of that user.
#[cold]
fn check_process_limit() -> Result<(), Errno> {
    let task = current();
    let soft = task.process.limits.soft(super::rlimit::which::NPROC);
    if super::user::has_too_many(&task.creds(), super::user::Limit::of(soft)) {
        return Err(Errno::EAGAIN);
    }
    task.clear_flags(TaskFlags::NPROC_EXCEEDED);
    Ok(())
}

/// Executes a program that the kernel starts. The running kernel thread becomes a user thread with the
/// registers in `frame`.
pub fn kernel_execve(frame: &mut Frame, path: &[u8], args: &[&[u8]], env: &[&[u8]]) -> SysResult {
    let strings = Strings::from_kernel(args, env)?;
    let program = Program::open(AT_FDCWD, path, false, false, strings)?;
    run(frame, program)
}

fn run(frame: &mut Frame, mut program: Program) -> SysResult {
    for _ in 0..=MAX_SCRIPTS {
        if program.head().starts_with(b"#!") {
            script::resolve(&mut program)?;
            continue;
        }
        if program.file.inode().has_writers() {
            return Err(Errno::ETXTBSY);
        }
        let image = elf::load(&program)?;
        commit::commit(frame, program, image)?;
        return Ok(0);
    }
    Err(Errno::ELOOP)
}
