//! The files about a process's memory: `cmdline`, `environ`, `auxv`, `maps`, `smaps`, `mem`.

use super::process::Subject;
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::inode::{Dev, FileType};
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::long_text::long_file;
use crate::fs::pseudo::{Node, Text, text_file};
use crate::mm::copy::zeroed;
use crate::mm::space::{Resident, SHARE_SHIFT};
use crate::mm::{AddressSpace, Mapped, PAGE_SIZE, VmFlags, VmaInfo};
use alloc::sync::Arc;
use alloc::vec::Vec;
use limen_linux_abi::Errno;
use limen_linux_abi::SysResult;

/// Writes the text of a file about an address space. `None`: the process has none any more.
pub type Show = fn(Option<&AddressSpace>, &mut Text) -> Result<(), Errno>;

/// A file about the address space that the process has when the file is opened. Permission is checked then;
/// reading goes on with that address space even if the process executes another program.
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
    // The area of arguments has a few pages; a size beyond 8 MiB is none.
    let mut bytes = zeroed(to.saturating_sub(from).min(8 << 20))?;
    let n = mm.access_remote(from, &mut bytes, false, false);
    bytes.truncate(n);
    Ok(bytes)
}

/// `cmdline`: the arguments with their NULs. A title that the program wrote over them may extend into the
/// environment.
pub fn cmdline(subject: &Subject, out: &mut Text) -> Result<(), Errno> {
    let Some(mm) = subject.task().and_then(|task| task.mm()) else {
        return Ok(());
    };
    let layout = mm.layout();
    let mut bytes = read(&mm, layout.arg_start, layout.arg_end)?;
    if bytes.last().is_some_and(|b| *b != 0) {
        let env = read(&mm, layout.env_start, layout.env_end)?;
        crate::mm::reserve::room(&mut bytes, env.len())?;
        bytes.extend_from_slice(&env);
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        bytes.truncate(end);
    }
    out.add(bytes);
    Ok(())
}

/// `environ`: the environment with which the program was started.
pub fn environ(mm: Option<&AddressSpace>, out: &mut Text) -> Result<(), Errno> {
    let Some(mm) = mm else { return Ok(()) };
    let layout = mm.layout();
    out.add(read(mm, layout.env_start, layout.env_end)?);
    Ok(())
}

/// `auxv`: the auxiliary vector of the program, up to its end mark.
pub fn auxv(mm: Option<&AddressSpace>, out: &mut Text) -> Result<(), Errno> {
    let Some(mm) = mm else { return Ok(()) };
    let auxv = mm.auxv.lock().clone();
    for word in auxv.iter().flat_map(|words| words.iter()) {
        out.add(word.to_ne_bytes());
    }
    Ok(())
}

/// The part of a line of `maps` before the name. Not made with `write!`, as there may be many thousands of
/// lines.
struct Start {
    bytes: [u8; 96],
    len: usize,
}

impl Start {
    fn add(&mut self, byte: u8) {
        if let Some(free) = self.bytes.get_mut(self.len) {
            *free = byte;
            self.len += 1;
        }
    }
    /// Adds a number with at least `least` digits, and the byte `behind`.
    fn number<const BASE: u64>(&mut self, mut number: u64, least: usize, behind: u8) {
        let mut digits = [b'0'; 20];
        let mut count = 0;
        while number != 0 && count < digits.len() {
            digits[count] = b"0123456789abcdef"[(number % BASE) as usize];
            number /= BASE;
            count += 1;
        }
        for &digit in digits[..count.max(least)].iter().rev() {
            self.add(digit);
        }
        self.add(behind);
    }
    /// Adds spaces up to the column of names: 25 columns and 6 for each byte of an address, as on Linux.
    fn pad(&mut self) {
        while self.len < 25 + 6 * size_of::<usize>() {
            self.add(b' ');
        }
    }
}

/// Addresses, permissions, offset, device and inode of a mapping.
fn map_start(vma: &VmaInfo) -> Start {
    let (dev, ino) = match &vma.what {
        Mapped::File(file) => file.id(),
        Mapped::Named(_) => (0, 0),
    };
    let dev = Dev::decode(dev as u32);
    let mut start = Start {
        bytes: [0; 96],
        len: 0,
    };
    start.number::<16>(vma.start as u64, 8, b'-');
    start.number::<16>(vma.end as u64, 8, b' ');
    for (flag, yes, no) in [
        (VmFlags::READ, b'r', b'-'),
        (VmFlags::WRITE, b'w', b'-'),
        (VmFlags::EXEC, b'x', b'-'),
        (VmFlags::SHARED, b's', b'p'),
    ] {
        start.add(if vma.flags.contains(flag) { yes } else { no });
    }
    start.add(b' ');
    start.number::<16>(vma.offset, 8, b' ');
    start.number::<16>(dev.major().into(), 2, b':');
    start.number::<16>(dev.minor().into(), 2, b' ');
    start.number::<10>(ino, 1, b' ');
    start
}

fn map_line(out: &mut Text, vma: &VmaInfo) -> Result<(), Errno> {
    let mut start = map_start(vma);
    let named = !matches!(vma.what, Mapped::Named(""));
    if named {
        start.pad();
    }
    out.add(&start.bytes[..start.len]);
    match &vma.what {
        Mapped::Named(name) => out.add(name),
        Mapped::File(file) => {
            for (i, line) in file.path()?.split(|b| *b == b'\n').enumerate() {
                out.add(if i == 0 { "" } else { "\\012" });
                out.add(line);
            }
        }
    }
    out.add(b"\n");
    Ok(())
}

/// Writes the text about a mapping.
pub type ShowMapping = fn(&AddressSpace, &VmaInfo, &mut Text) -> Result<(), Errno>;

/// A file with a text for each mapping of the address space that the process has when the file is opened.
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

/// The first mapping that ends above `from`. Behind all others comes the one that every program has.
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

/// Adds a row of `smaps`: a name and a size in KiB, in columns. There may be a million of them.
fn row(out: &mut Text, name: &str, mut kib: usize) {
    const WIDTH: usize = 16;
    let mut line = [b' '; 48];
    let name = &name.as_bytes()[..name.len().min(WIDTH - 1)];
    line[..name.len()].copy_from_slice(name);
    line[name.len()] = b':';
    let mut digits = 1;
    let mut left = kib;
    while left >= 10 {
        left /= 10;
        digits += 1;
    }
    let end = WIDTH + digits.max(8);
    for at in (end - digits..end).rev() {
        line[at] = b'0' + (kib % 10) as u8;
        kib /= 10;
    }
    line[end..end + 4].copy_from_slice(b" kB\n");
    out.add(&line[..end + 4]);
}

/// How much of some mappings is in memory: private pages, which count as dirty, and pages of files.
#[derive(Default)]
struct Sum {
    anon: Resident,
    file: Resident,
    locked: u64,
}

fn add(to: &mut Resident, more: Resident) {
    to.pages += more.pages;
    to.shared += more.shared;
    to.share += more.share;
}

impl Sum {
    /// Adds the resident pages of `vma`.
    fn add(&mut self, mm: &AddressSpace, vma: &VmaInfo) {
        let (anon, file) = mm.resident(vma.start, vma.end);
        add(&mut self.anon, anon);
        add(&mut self.file, file);
        if vma.flags.contains(VmFlags::LOCKED) {
            self.locked += anon.share + file.share;
        }
    }

    /// Writes the rows. `all`: also those that only `smaps_rollup` has.
    fn show(&self, out: &mut Text, all: bool) {
        let share = |share: u64| (share >> (SHARE_SHIFT + 10)) as usize;
        let (anon, file) = (&self.anon, &self.file);
        let rss = (anon.pages + file.pages) * KIB;
        let mut rows = |rows: &[(&str, usize)]| {
            for (name, kib) in rows {
                row(out, name, *kib);
            }
        };
        rows(&[
            ("Rss", rss),
            ("Pss", share(anon.share + file.share)),
            ("Pss_Dirty", share(anon.share)),
        ]);
        if all {
            rows(&[
                ("Pss_Anon", share(anon.share)),
                ("Pss_File", share(file.share)),
                ("Pss_Shmem", 0),
            ]);
        }
        rows(&[
            ("Shared_Clean", file.shared * KIB),
            ("Shared_Dirty", anon.shared * KIB),
            ("Private_Clean", (file.pages - file.shared) * KIB),
            ("Private_Dirty", (anon.pages - anon.shared) * KIB),
            ("Referenced", rss),
            ("Anonymous", anon.pages * KIB),
            ("LazyFree", 0),
            ("AnonHugePages", 0),
            ("ShmemPmdMapped", 0),
            ("FilePmdMapped", 0),
            ("Shared_Hugetlb", 0),
            ("Private_Hugetlb", 0),
            ("Swap", 0),
            ("SwapPss", 0),
            ("Locked", share(self.locked)),
        ]);
    }
}

/// The names of `VmFlags` in `smaps`, in their order.
const NAMES: [(VmFlags, &str); 24] = [
    (VmFlags::READ, " rd"),
    (VmFlags::WRITE, " wr"),
    (VmFlags::EXEC, " ex"),
    // A shared mapping that can never be written does not count as shared.
    (VmFlags::SHARED.union(VmFlags::MAYWRITE), " sh"),
    (VmFlags::MAYREAD, " mr"),
    (VmFlags::MAYWRITE, " mw"),
    (VmFlags::MAYEXEC, " me"),
    (VmFlags::SHARED, " ms"),
    (VmFlags::GROWSDOWN, " gd"),
    (VmFlags::KERNEL_DATA, " pf"),
    (VmFlags::LOCKED, " lo"),
    (VmFlags::KERNEL_DATA, " io"),
    (VmFlags::SEQ_READ, " sr"),
    (VmFlags::RAND_READ, " rr"),
    (VmFlags::DONTFORK, " dc"),
    (VmFlags::SPECIAL, " de"),
    // Linux has no name for it.
    (VmFlags::LOCKONFAULT, " ??"),
    (VmFlags::ACCOUNT, " ac"),
    (VmFlags::NORESERVE, " nr"),
    (VmFlags::WIPEONFORK, " wf"),
    (VmFlags::DONTDUMP, " dd"),
    (VmFlags::HUGEPAGE, " hg"),
    (VmFlags::NOHUGEPAGE, " nh"),
    (VmFlags::MERGEABLE, " mg"),
];

/// `smaps`.
pub fn smaps(mm: &AddressSpace, vma: &VmaInfo, out: &mut Text) -> Result<(), Errno> {
    map_line(out, vma)?;
    row(out, "Size", (vma.end - vma.start) / 1024);
    row(out, "KernelPageSize", KIB);
    row(out, "MMUPageSize", KIB);
    let mut sum = Sum::default();
    sum.add(mm, vma);
    sum.show(out, false);
    out.add("THPeligible:    0\nVmFlags:");
    for (flags, name) in NAMES {
        if vma.flags.contains(flags) {
            out.add(name);
        }
    }
    out.add(b" \n");
    Ok(())
}

/// `smaps_rollup`.
pub fn smaps_rollup(mm: Option<&AddressSpace>, out: &mut Text) -> Result<(), Errno> {
    let mm = mm.ok_or(Errno::ESRCH)?;
    let Some(mut vma) = next(mm, 0) else { return Ok(()) };
    let start = vma.start;
    let mut sum = Sum::default();
    let end = loop {
        if crate::task::current().fatal_signal_pending() {
            return Err(Errno::EINTR);
        }
        sum.add(mm, &vma);
        vma = match next(mm, vma.end) {
            Some(next) => next,
            None => break vma.end,
        };
    };
    let all = VmaInfo {
        start,
        end,
        flags: VmFlags::empty(),
        offset: 0,
        what: Mapped::Named("[rollup]"),
    };
    map_line(out, &all)?;
    sum.show(out, true);
    Ok(())
}

/// `mem`: the memory itself. Offsets are addresses.
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
    fn mode(&self) -> FileMode {
        FileMode::ADDRESSES
    }
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
        // As on Linux, bytes that could not be stored are copied from the caller first.
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
