//! `#!` scripts: the program becomes the interpreter named in the first line.

use super::{AT_FDCWD, HEAD, Program};
use crate::fs::open;
use limen_linux_abi::Errno;

fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Replaces a script by its interpreter. The arguments become: the interpreter, its optional argument, the
/// script's path, and the script's own arguments.
pub(super) fn resolve(program: &mut Program) -> Result<(), Errno> {
    let (head, len) = (program.head, program.head_len);
    let head = &head[..len];
    let line = &head[2..];
    let (line, whole) = match line.iter().position(|&b| b == b'\n') {
        Some(end) => (&line[..end], true),
        // A short file may end without a newline.
        None => (line, head.len() < HEAD),
    };
    let line = line.split(|&b| b == 0).next().unwrap_or(line);
    let start = line.iter().position(|b| !is_blank(b)).ok_or(Errno::ENOEXEC)?;
    let line = &line[start..];
    let end = line.iter().position(is_blank);
    let path = match end {
        Some(end) => &line[..end],
        // The name of the interpreter may be cut off.
        None if !whole => return Err(Errno::ENOEXEC),
        None => line,
    };
    let rest = end.map_or(&[][..], |end| &line[end..]);
    let argument = rest.trim_ascii();
    let argument = (!argument.is_empty()).then_some(argument);
    let script = core::mem::take(&mut program.interpreter);
    program.strings.replace_first(path, argument, &script)?;
    let path = path.to_vec();
    program.file = open::open_exec(AT_FDCWD, &path, false, false)?;
    program.hidden |= super::is_hidden(&program.file);
    program.interpreter = path;
    program.read_head()
}
