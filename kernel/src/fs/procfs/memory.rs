//! The files about a process's memory: `cmdline`, `environ`, `auxv`, `maps`, `smaps`, `mem`.

use super::process::Subject;
use crate::fs::file::{File, FileOps};
use crate::fs::inode::{Dev, FileType};
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::long_text::long_file;
use crate::fs::pseudo::{Node, Text, text_file};
use crate::mm::copy::zeroed;
use crate::mm::{AddressSpace, Mapped, PAGE_SIZE, VmFlags, VmaInfo};
use crate::syscall::SysResult;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use limen_linux_abi::Errno;

/// Puts together what a file says of a memory, of none if the process has none any more.
pub type Show = fn(Option<&AddressSpace>, &mut Text) -> Result<(), Errno>;

/// A file about the memory that the process has when it is opened: whoever may look into it then may go on reading, of that and no later program.
pub fn of(subject: &Subject, mode: u32, show: Show) -> Node {
    let subject = subject.clone();
    Node::Special(
        mode,
        FileType::Regular,
        Dev::default(),
        Arc::new(move |_| {
            let mm = subject.look(|mm| mm.cloned())?;
            Ok(text_file(move |out| {
                show(mm.as_deref().filter(|mm| mm.is_used()), out)
            }))
        }),
    )
}

fn read(mm: &AddressSpace, from: usize, to: usize) -> Result<Vec<u8>, Errno> {
    // Argument areas are a few pages; anything else is not one.
    let mut bytes = zeroed(to.saturating_sub(from).min(8 << 20))?;
    let n = mm.access_remote(from, &mut bytes, false, false);
    bytes.truncate(n);
    Ok(bytes)
}

/// `cmdline`: the arguments with their zeros; a title written over them goes on into the environment.
pub fn cmdline(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    let Some(mm) = subject.task.as_ref().and_then(|task| task.mm()) else {
        return Ok(());
    };
    let layout = mm.layout();
    let mut bytes = read(&mm, layout.arg_start, layout.arg_end)?;
    if bytes.last().is_some_and(|b| *b != 0) {
        let env = read(&mm, layout.env_start, layout.env_end)?;
        bytes.try_reserve(env.len()).map_err(|_| Errno::ENOMEM)?;
        bytes.extend_from_slice(&env);
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        bytes.truncate(end);
    }
    out.add(bytes);
    Ok(())
}

/// `environ`: the environment as the program was started with.
pub fn environ(mm: Option<&AddressSpace>, out: &mut Text) -> Result<(), Errno> {
    let Some(mm) = mm else { return Ok(()) };
    let layout = mm.layout();
    out.add(read(mm, layout.env_start, layout.env_end)?);
    Ok(())
}

/// `auxv`: what the program got, to its end mark.
pub fn auxv(mm: Option<&AddressSpace>, out: &mut Text) -> Result<(), Errno> {
    let Some(mm) = mm else { return Ok(()) };
    let auxv = mm.auxv.lock().clone();
    for word in auxv.iter().flat_map(|words| words.iter()) {
        out.add(word.to_ne_bytes());
    }
    Ok(())
}

fn map_line(out: &mut Text, vma: &VmaInfo) -> Result<(), Errno> {
    let flag = |f: VmFlags, yes: char| if vma.flags.contains(f) { yes } else { '-' };
    let start = out.bytes().len();
    let (dev, ino) = match &vma.what {
        Mapped::File(file) => file.id(),
        Mapped::Named(_) => (0, 0),
    };
    let dev = Dev::decode(dev as u32);
    let _ = write!(
        out,
        "{:08x}-{:08x} {}{}{}{} {:08x} {:02x}:{:02x} {ino} ",
        vma.start,
        vma.end,
        flag(VmFlags::READ, 'r'),
        flag(VmFlags::WRITE, 'w'),
        flag(VmFlags::EXEC, 'x'),
        if vma.flags.contains(VmFlags::SHARED) {
            's'
        } else {
            'p'
        },
        vma.offset,
        dev.major(),
        dev.minor(),
    );
    // Linux: 25 columns, and six for each byte of an address.
    let column = (25 + 6 * size_of::<usize>()).saturating_sub(out.bytes().len() - start);
    match &vma.what {
        Mapped::Named("") => {}
        Mapped::Named(name) => {
            let _ = write!(out, "{:column$}{name}", "");
        }
        Mapped::File(file) => {
            let _ = write!(out, "{:column$}", "");
            for (i, line) in file.path()?.split(|b| *b == b'\n').enumerate() {
                out.add(if i == 0 { "" } else { "\\012" });
                out.add(line);
            }
        }
    }
    out.add(b"\n");
    Ok(())
}

/// Puts together what a file says of a mapping.
pub type ShowMapping = fn(&AddressSpace, &VmaInfo, &mut Text) -> Result<(), Errno>;

/// A file with something for each mapping of the memory that the process has when it is opened.
pub fn mappings(subject: &Subject, show: ShowMapping) -> Node {
    let subject = subject.clone();
    Node::Special(
        0o444,
        FileType::Regular,
        Dev::default(),
        Arc::new(move |_| {
            let mm = subject.look(|mm| mm.cloned())?;
            Ok(long_file(move |from, out| {
                let mapping = mm.as_ref().filter(|mm| mm.is_used());
                let Some((mm, vma)) = mapping.and_then(|mm| Some((mm, next(mm, from)?))) else {
                    return Ok(None);
                };
                show(mm, &vma, out)?;
                Ok(Some(vma.end))
            }))
        }),
    )
}

/// The first mapping that ends above `from`; what every program has comes last.
fn next(mm: &AddressSpace, from: usize) -> Option<VmaInfo> {
    let gate = || {
        let (start, end, name) = crate::arch::mmu::GATE?;
        (end > from).then_some(VmaInfo {
            start,
            end,
            flags: VmFlags::READ | VmFlags::EXEC,
            offset: 0,
            what: Mapped::Named(name),
        })
    };
    mm.next_vma(from).or_else(gate)
}

/// `maps`.
pub fn maps(_: &AddressSpace, vma: &VmaInfo, out: &mut Text) -> Result<(), Errno> {
    map_line(out, vma)
}

const KIB: usize = PAGE_SIZE / 1024;

fn sizes(out: &mut Text, anon: usize, file: usize, shared: bool, writable: bool) {
    let rss = (anon + file) * KIB;
    let dirty = anon * KIB;
    let (private_dirty, shared_dirty) = if shared { (0, dirty) } else { (dirty, 0) };
    let (shared_clean, private_clean) = if shared || !writable {
        (file * KIB, 0)
    } else {
        (0, file * KIB)
    };
    let rows: [(&str, usize); 16] = [
        ("Rss", rss),
        ("Pss", rss),
        ("Pss_Dirty", dirty),
        ("Shared_Clean", shared_clean),
        ("Shared_Dirty", shared_dirty),
        ("Private_Clean", private_clean),
        ("Private_Dirty", private_dirty),
        ("Referenced", rss),
        ("Anonymous", dirty),
        ("LazyFree", 0),
        ("AnonHugePages", 0),
        ("ShmemPmdMapped", 0),
        ("FilePmdMapped", 0),
        ("Swap", 0),
        ("SwapPss", 0),
        ("Locked", 0),
    ];
    for (name, kib) in rows {
        let _ = writeln!(out, "{:<16}{kib:8} kB", alloc::format!("{name}:"));
    }
}

/// `smaps`.
pub fn smaps(mm: &AddressSpace, vma: &VmaInfo, out: &mut Text) -> Result<(), Errno> {
    map_line(out, vma)?;
    let size = (vma.end - vma.start) / 1024;
    let _ = writeln!(out, "Size:           {size:8} kB");
    let page = PAGE_SIZE / 1024;
    let _ = writeln!(out, "KernelPageSize: {page:8} kB\nMMUPageSize:    {page:8} kB");
    let (anon, file) = mm.resident(vma.start, vma.end);
    sizes(
        out,
        anon,
        file,
        vma.flags.contains(VmFlags::SHARED),
        vma.flags.contains(VmFlags::WRITE),
    );
    let _ = write!(out, "THPeligible:           0\nVmFlags:");
    for (flag, name) in [
        (VmFlags::READ, "rd"),
        (VmFlags::WRITE, "wr"),
        (VmFlags::EXEC, "ex"),
        (VmFlags::SHARED, "sh"),
        (VmFlags::MAYREAD, "mr"),
        (VmFlags::MAYWRITE, "mw"),
        (VmFlags::MAYEXEC, "me"),
        (VmFlags::GROWSDOWN, "gd"),
        (VmFlags::LOCKED, "lo"),
        (VmFlags::DONTFORK, "dc"),
        (VmFlags::DONTDUMP, "dd"),
        (VmFlags::WIPEONFORK, "wf"),
        (VmFlags::ACCOUNT, "ac"),
        (VmFlags::NORESERVE, "nr"),
    ] {
        if vma.flags.contains(flag) {
            let _ = write!(out, " {name}");
        }
    }
    out.add(b" \n");
    Ok(())
}

/// `smaps_rollup`.
pub fn smaps_rollup(mm: Option<&AddressSpace>, out: &mut Text) -> Result<(), Errno> {
    let mm = mm.ok_or(Errno::ESRCH)?;
    let Some(first) = next(mm, 0) else { return Ok(()) };
    let mut end = first.end;
    while let Some(vma) = next(mm, end) {
        end = vma.end;
    }
    let _ = writeln!(
        out,
        "{:08x}-{:08x} ---p 00000000 00:00 0 {:>26}",
        first.start, end, "[rollup]"
    );
    let (anon, file) = mm.resident(first.start, end);
    sizes(out, anon, file, false, false);
    Ok(())
}

/// `mem`: the memory itself, by address.
pub fn mem(subject: &Subject) -> Node {
    let subject = subject.clone();
    Node::Special(
        0o600,
        FileType::Regular,
        Dev::default(),
        Arc::new(move |_| Ok(Arc::new(Mem(subject.look(|mm| mm.cloned())?)))),
    )
}

struct Mem(Option<Arc<AddressSpace>>);

impl FileOps for Mem {
    fn read(&self, file: &File, dst: &mut IoDst<'_>, pos: Option<u64>) -> SysResult {
        let Some(mm) = self.0.as_ref().filter(|mm| mm.is_used()) else {
            return Ok(0);
        };
        let mut own = if pos.is_none() {
            Some(file.pos.lock())
        } else {
            None
        };
        let start = pos.or(own.as_deref().copied()).unwrap_or(0);
        let mut bytes = zeroed(PAGE_SIZE.min(dst.remaining()))?;
        let mut total = 0;
        while dst.remaining() > 0 {
            let want = bytes.len().min(dst.remaining());
            let n = mm.access_remote(start as usize + total, &mut bytes[..want], false, true);
            if n == 0 {
                break;
            }
            total += dst.put(&bytes[..n])?;
        }
        if let Some(own) = &mut own {
            **own += total as u64;
        }
        if total == 0 && dst.remaining() > 0 {
            Err(Errno::EIO)
        } else {
            Ok(total)
        }
    }
    fn write(&self, file: &File, src: &mut IoSrc<'_>, pos: Option<u64>) -> SysResult {
        let Some(mm) = self.0.as_ref().filter(|mm| mm.is_used()) else {
            return Ok(0);
        };
        let mut own = if pos.is_none() {
            Some(file.pos.lock())
        } else {
            None
        };
        let asked = src.remaining() > 0;
        let start = pos.or(own.as_deref().copied()).unwrap_or(0);
        let mut bytes = zeroed(PAGE_SIZE.min(src.remaining()))?;
        let mut total = 0;
        while src.remaining() > 0 {
            let n = src.take(&mut bytes)?;
            let done = mm.access_remote(start as usize + total, &mut bytes[..n], true, true);
            total += done;
            if done < n {
                break;
            }
        }
        if let Some(own) = &mut own {
            **own += total as u64;
        }
        // What could not be stored is taken from the caller's bytes all the same.
        if total == 0 && asked {
            Err(Errno::EIO)
        } else {
            Ok(total)
        }
    }
    fn seek(&self, file: &File, offset: i64, whence: u32) -> Result<u64, Errno> {
        let mut pos = file.pos.lock();
        // Addresses may be above the largest positive offset.
        *pos = match whence {
            0 => offset as u64,
            1 => pos.wrapping_add(offset as u64),
            _ => return Err(Errno::EINVAL),
        };
        Ok(*pos)
    }
}
