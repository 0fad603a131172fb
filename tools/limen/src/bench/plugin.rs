//! QEMU plugins, built when needed, and the symbols of what they see. The one that counts every instruction
//! by address is `tools/limen/plugin/count.c`; this gives QEMU's option for it and reads its output.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use object::{Object, ObjectSymbol, SymbolKind};

use crate::arch::Arch;
use crate::{made, packages, tree};

/// The plugin `name`, built when it is missing or older than its sources.
pub fn built(name: &str) -> Result<PathBuf> {
    let folder = tree::root().join("tools/limen/plugin");
    let source = folder.join(format!("{name}.c"));
    let sources = [source.clone(), folder.join("qemu.h"), folder.join("tlb.h")];
    let made = tree::cache("plugin")?.join(format!("{name}.so"));
    made::ensure(&made, &sources, |new| {
        packages::ensure_tool("cc", &["gcc", "libc6-dev"])?;
        let output = Command::new("cc")
            .args(["-O2", "-shared", "-fPIC", "-o"])
            .arg(new)
            .arg(&source)
            .output()
            .context("cannot start cc")?;
        if !output.status.success() {
            bail!(
                "cc failed on tools/limen/plugin/{name}.c:\n{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(())
    })
}

/// The counting of one run.
pub struct Counting {
    output: PathBuf,
    /// The value of QEMU's `-plugin`.
    pub option: String,
}

/// The result.
pub struct Counts {
    /// How often execution went from the first of two addresses to the second; 0 if everything was counted.
    pub stretches: u64,
    /// How often the instruction at an address was executed.
    pub at: BTreeMap<u64, u64>,
}

impl Counts {
    /// The number of all executed instructions.
    pub fn total(&self) -> u64 {
        self.at.values().sum()
    }
}

impl Counting {
    /// Counts all instructions, or those between the execution of two addresses.
    pub fn new(between: Option<(u64, u64)>) -> Result<Counting> {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let output = tree::cache("run")?.join(format!("{}-{number}.counts", std::process::id()));
        let mut option = format!("{},output={}", built("count")?.display(), output.display());
        if let Some((begin, end)) = between {
            option += &format!(",begin={begin:x},end={end:x}");
        }
        Ok(Counting { output, option })
    }

    /// Reads the counts after QEMU has ended.
    pub fn read(&self) -> Result<Counts> {
        let text = std::fs::read_to_string(&self.output).context(
            "QEMU's plugin wrote no counts; does this QEMU have plugins (qemu-system-* -plugin help)?",
        )?;
        let mut lines = text.lines();
        let stretches = lines
            .next()
            .and_then(|l| l.strip_prefix("stretches "))
            .and_then(|n| n.parse().ok())
            .context("the plugin's output is damaged")?;
        let at = lines
            .filter_map(|l| {
                let (address, count) = l.split_once(' ')?;
                Some((u64::from_str_radix(address, 16).ok()?, count.parse().ok()?))
            })
            .collect();
        Ok(Counts { stretches, at })
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.output);
    }
}

/// The addresses of functions in an ELF file: start, size, name, in order.
pub fn functions(path: &Path) -> Result<Vec<(u64, u64, String)>> {
    symbols(path, |kind| {
        matches!(kind, SymbolKind::Text | SymbolKind::Label | SymbolKind::Unknown)
    })
}

/// The same of data.
pub fn data(path: &Path) -> Result<Vec<(u64, u64, String)>> {
    symbols(path, |kind| kind == SymbolKind::Data)
}

/// The symbol that has an address inside.
pub fn inside(symbols: &[(u64, u64, String)], address: u64) -> Option<&str> {
    let at = symbols.partition_point(|s| s.0 <= address).checked_sub(1)?;
    let (start, size, name) = symbols.get(at)?;
    (address < start + size).then_some(name)
}

fn symbols(path: &Path, wanted: fn(SymbolKind) -> bool) -> Result<Vec<(u64, u64, String)>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let file = object::File::parse(&*bytes)
        .with_context(|| format!("{} is no ELF file with symbols", path.display()))?;
    // The lowest bit of a symbol's value says that the function is Thumb code.
    let thumb = u64::from(file.architecture() == object::Architecture::Arm);
    let mut found: Vec<(u64, u64, String)> = file
        .symbols()
        .filter(|s| wanted(s.kind()))
        .filter(|s| s.is_definition() && s.address() != 0)
        .filter_map(|s| {
            let name = s.name().ok().filter(|n| !n.is_empty() && !n.starts_with('$'))?;
            let name = format!("{:#}", rustc_demangle::demangle(name));
            Some((s.address() & !thumb, s.size(), name))
        })
        .collect();
    // Of several names at one address, the one that has a size comes first.
    found.sort_by_key(|f| (f.0, std::cmp::Reverse(f.1)));
    found.dedup_by_key(|f| f.0);
    Ok(found)
}

/// The address of one function.
pub fn function(path: &Path, name: &str) -> Result<u64> {
    functions(path)?
        .into_iter()
        .find(|f| f.2 == name)
        .map(|f| f.0)
        .with_context(|| format!("{} has no function {name}", path.display()))
}

/// The physical addresses at which the loader puts an ELF file's segments: start and end.
pub fn loaded(arch: Arch, path: &Path) -> Result<Vec<(u64, u64)>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let elf =
        goblin::elf::Elf::parse(&bytes).with_context(|| format!("{} is no ELF file", path.display()))?;
    let load = elf
        .program_headers
        .iter()
        .filter(|p| p.p_type == goblin::elf::program_header::PT_LOAD);
    // QEMU's pseries adds this to the physical addresses in an ELF file.
    let above = if arch == Arch::Powerpc64 { 0x40_0000 } else { 0 };
    Ok(load
        .map(|p| (above + p.p_paddr, above + p.p_paddr + p.p_memsz))
        .collect())
}
