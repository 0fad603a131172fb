//! A trace as a file that trace-cmd and KernelShark read (`trace.dat`, version 6): how records are laid out,
//! the kernel's symbols, threads' names, and each processor's pages as the guest's kernel has filled them.
//! The format is that of trace-cmd's manual page trace-cmd.dat.v6(5).

use super::Parcels;
use crate::arch::Arch;

/// What the file begins with.
const MAGIC: &[u8] = b"\x17\x08\x44tracing6\0";
/// `CPUSTAT`: the file `stats` of a processor.
const CPU_STATISTICS: u16 = 2;
/// Where the size of a page's data is said in `events/header_page`, behind its offset.
const PAGE_DATA: &str = "field: char data;";

/// The file that is written.
#[derive(Default)]
struct File(Vec<u8>);

impl File {
    fn number4(&mut self, number: usize) {
        self.0.extend_from_slice(&(number as u32).to_le_bytes());
    }
    fn number8(&mut self, number: usize) {
        self.0.extend_from_slice(&(number as u64).to_le_bytes());
    }
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
    /// Bytes behind their size.
    fn sized(&mut self, bytes: &[u8]) {
        self.number8(bytes.len());
        self.bytes(bytes);
    }
    /// Zeroes until the length is a multiple of `size`.
    fn align(&mut self, size: usize) {
        self.0.resize(self.0.len().next_multiple_of(size), 0);
    }
}

/// Bytes of a page of the trace.
fn page_size(header: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(header);
    let line = text.lines().find(|line| line.contains(PAGE_DATA))?;
    let number = |key: &str| {
        let (_, rest) = line.split_once(key)?;
        rest.split(';').next()?.trim().parse::<usize>().ok()
    };
    let size = number("offset:")? + number("size:")?;
    (size.is_power_of_two() && size <= 1 << 20).then_some(size)
}

/// `kallsyms` with names in which nothing is a space, up to which their readers take them: as in
/// `<Node_as_InodeOps>::open`.
fn symbols(text: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let mut spaces = 0;
        // An address, a letter, the name; behind a tabulator may come a module.
        all.extend(line.iter().map(|byte| {
            spaces += usize::from(*byte == b' ');
            if *byte == b' ' && spaces > 2 { b'_' } else { *byte }
        }));
    }
    all
}

/// The file's content. `None`: something without which there is none did not come.
pub fn file(given: &Parcels, arch: Arch) -> Option<Vec<u8>> {
    let named = |name: &str| {
        let found = given.files.iter().find(|(own, _)| own == name.as_bytes());
        found.map_or(&[][..], |(_, bytes)| bytes)
    };
    let header = named("events/header_page");
    let page = page_size(header)?;
    let mut to = File::default();
    to.bytes(MAGIC);
    // Little-endian; the size of a `long`.
    to.bytes(&[0, if arch == Arch::Arm { 4 } else { 8 }]);
    to.number4(page);
    to.bytes(b"header_page\0");
    to.sized(header);
    to.bytes(b"header_event\0");
    to.sized(named("events/header_event"));
    let mut systems: Vec<(&str, Vec<&[u8]>)> = vec![("ftrace", Vec::new())];
    for (name, bytes) in given.files.iter().filter(|(_, bytes)| !bytes.is_empty()) {
        let name = std::str::from_utf8(name).unwrap_or_default();
        let inner = name
            .strip_prefix("events/")
            .and_then(|n| n.strip_suffix("/format"));
        let Some((system, _)) = inner.and_then(|inner| inner.split_once('/')) else {
            continue;
        };
        match systems.iter_mut().find(|(own, _)| *own == system) {
            Some((_, formats)) => formats.push(bytes),
            None => systems.push((system, vec![bytes])),
        }
    }
    to.number4(systems[0].1.len());
    systems[0].1.iter().for_each(|format| to.sized(format));
    to.number4(systems.len() - 1);
    for (system, formats) in &systems[1..] {
        to.bytes(system.as_bytes());
        to.bytes(b"\0");
        to.number4(formats.len());
        formats.iter().for_each(|format| to.sized(format));
    }
    let symbols = symbols(named("/proc/kallsyms"));
    to.number4(symbols.len());
    to.bytes(&symbols);
    let formats = named("printk_formats");
    to.number4(formats.len());
    to.bytes(formats);
    to.sized(named("saved_cmdlines"));
    let pages: Vec<&[u8]> = (0..)
        .map(|cpu| format!("per_cpu/cpu{cpu}/trace_pipe_raw"))
        .map_while(|name| given.files.iter().find(|(own, _)| own == name.as_bytes()))
        .map(|(_, bytes)| &bytes[..bytes.len() / page * page])
        .collect();
    // The guest asks for one more processor than there are.
    let pages = pages.split_last().map_or(&[][..], |(_, pages)| pages);
    to.number4(pages.len());
    to.bytes(b"options  \0");
    let statistics = String::from_utf8_lossy(&given.stats);
    for (cpu, own) in statistics.split("entries:").skip(1).enumerate() {
        let text = format!("CPU: {cpu}\nentries:{own}\0");
        to.bytes(&CPU_STATISTICS.to_le_bytes());
        to.number4(text.len());
        to.bytes(text.as_bytes());
    }
    to.bytes(&[0, 0]);
    to.bytes(b"flyrecord\0");
    let mut place = (to.0.len() + 16 * pages.len()).next_multiple_of(page);
    for own in pages {
        to.number8(place);
        to.number8(own.len());
        place += own.len();
    }
    to.align(page);
    pages.iter().for_each(|own| to.bytes(own));
    Some(to.0)
}

#[cfg(test)]
mod tests {
    use super::{Arch, Parcels, file, page_size};

    const HEADER: &[u8] = b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    #[test]
    fn pages_begin_where_the_file_says() {
        assert_eq!(page_size(HEADER), Some(4096));
        assert_eq!(page_size(b"field: char data;\toffset:16;\tsize:x;"), None);
        let own = |name: &str, bytes: &[u8]| (name.as_bytes().to_vec(), bytes.to_vec());
        let mut given = Parcels::default();
        given.stats.extend_from_slice(b"entries: 1\nentries: 2\n");
        given.files.extend([
            own("events/header_page", HEADER),
            own("events/ftrace/function/format", b"name: function\n"),
            own("events/ftrace/bprint/format", b""),
            own("events/sched/sched_switch/format", b"name: sched_switch\n"),
            own("per_cpu/cpu0/trace_pipe_raw", &[1; 4096]),
            own("per_cpu/cpu1/trace_pipe_raw", &[2; 8192]),
            own("per_cpu/cpu2/trace_pipe_raw", b""),
        ]);
        let file = file(&given, Arch::Arm64).unwrap_or_default();
        assert!(file.starts_with(b"\x17\x08\x44tracing6\0\x00\x08\x00\x10\x00\x00header_page\0"));
        let table = file.windows(10).position(|bytes| bytes == b"flyrecord\0");
        let table = &file[table.map_or(0, |at| at + 10)..][..32];
        let numbers: Vec<usize> = table
            .chunks(8)
            .map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()) as usize)
            .collect();
        assert_eq!(numbers, [4096, 4096, 8192, 8192]);
        assert!(file.len() == 16384 && file[4096..8192] == [1; 4096] && file[8192..] == [2; 8192]);
        assert!(super::file(&Parcels::default(), Arch::Arm64).is_none());
        let names = super::symbols(b"00 t <A as B>::f\n10 T g\t[m]\n");
        assert_eq!(names, b"00 t <A_as_B>::f\n10 T g\t[m]\n");
    }
}
