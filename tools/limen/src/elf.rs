//! Reads ELF files as the kernel and the dynamic loader do: architecture, interpreter, and where each needed
//! library comes from. `program.rs` decides by this which files are copied into the guest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use goblin::elf::Elf;

use crate::arch::Arch;
use crate::status;

/// What is read from one ELF file.
pub struct Info {
    /// An executable or position-independent executable; not an object file or a core dump.
    pub runnable: bool,
    /// The dynamic loader it asks for.
    pub interpreter: Option<String>,
    needed: Vec<String>,
    rpath: Vec<String>,
    runpath: Vec<String>,
    /// It imports a function for which glibc loads [`UNWINDER`].
    unwinds: bool,
}

/// The library that glibc opens by itself when one of the functions below is called; without it, glibc aborts
/// the program.
const UNWINDER: &str = "libgcc_s.so.1";
const UNWINDING: [&str; 4] = ["pthread_cancel", "pthread_exit", "thrd_exit", "backtrace"];

/// Whether these first bytes are those of an ELF file.
pub fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

/// Reads the headers and the dynamic section of the file at `path`.
pub fn read(path: &Path, bytes: &[u8]) -> Result<Info> {
    let broken = || format!("{} starts like an ELF file but is damaged", path.display());
    let elf = Elf::parse(bytes).with_context(broken)?;
    let split = |list: &[&str]| -> Vec<String> {
        list.iter()
            .flat_map(|s| s.split(':'))
            .filter(|s| !s.is_empty())
            .map(str::to_owned)
            .collect()
    };
    Ok(Info {
        runnable: matches!(
            elf.header.e_type,
            goblin::elf::header::ET_EXEC | goblin::elf::header::ET_DYN
        ),
        interpreter: elf.interpreter.map(str::to_owned),
        needed: elf.libraries.iter().map(|s| (*s).to_owned()).collect(),
        rpath: split(&elf.rpaths),
        runpath: split(&elf.runpaths),
        unwinds: elf
            .dynsyms
            .iter()
            .filter(|symbol| symbol.is_import())
            .filter_map(|symbol| elf.dynstrtab.get_at(symbol.st_name))
            .any(|name| UNWINDING.contains(&name)),
    })
}

/// Finds libraries in the order `ld.so` documents: the loader's own `RPATH` chain, `LD_LIBRARY_PATH`,
/// `RUNPATH`, the cache of `ldconfig`, and the standard directories.
pub struct Libraries {
    arch: Arch,
    cache: BTreeMap<String, Vec<PathBuf>>,
    environment: Vec<PathBuf>,
    musl: Option<Musl>,
}

/// The search of musl's loader, which differs: the loader is the C library itself, and its directories are in
/// one file.
struct Musl {
    file: PathBuf,
    directories: Vec<PathBuf>,
}

impl Musl {
    /// If `interpreter` is musl's loader.
    fn of(interpreter: &str) -> Option<Musl> {
        let name = Path::new(interpreter).file_name()?.to_str()?;
        let machine = name.strip_prefix("ld-musl-")?.split('.').next()?;
        let file = PathBuf::from(format!("/etc/ld-musl-{machine}.path"));
        let text =
            std::fs::read_to_string(&file).unwrap_or_else(|_| "/lib:/usr/local/lib:/usr/lib".to_owned());
        let directories = text.split([':', '\n']).map(str::trim);
        let directories = directories.filter(|d| !d.is_empty()).map(PathBuf::from).collect();
        Some(Musl { file, directories })
    }

    /// Whether `name` is the loader itself.
    fn has(name: &str) -> bool {
        const OWN: [&str; 7] = ["c", "pthread", "rt", "m", "dl", "util", "xnet"];
        let stem = name.strip_prefix("lib").and_then(|n| n.split('.').next());
        stem.is_some_and(|stem| OWN.contains(&stem))
    }
}

impl Libraries {
    /// Reads the host's library cache. `interpreter` is the program's loader.
    pub fn new(arch: Arch, interpreter: &str) -> Libraries {
        let mut cache: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        let ldconfig = crate::tree::find_tool("ldconfig");
        let listing = ldconfig.and_then(|l| std::process::Command::new(l).arg("-p").output().ok());
        let text = listing
            .map(|o| String::from_utf8_lossy(&o.stdout).into_owned())
            .unwrap_or_default();
        for line in text.lines() {
            // "\tlibz.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libz.so.1"
            let Some((left, path)) = line.split_once(" => ") else {
                continue;
            };
            let Some(name) = left.split_whitespace().next() else {
                continue;
            };
            cache
                .entry(name.to_owned())
                .or_default()
                .push(PathBuf::from(path));
        }
        let environment = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let environment = std::env::split_paths(&environment)
            .filter(|p| !p.as_os_str().is_empty())
            .collect();
        Libraries {
            arch,
            cache,
            environment,
            musl: Musl::of(interpreter),
        }
    }

    /// All libraries that `path` needs, directly or through its libraries: the paths at which its loader will
    /// find them. A library that is not found is an error with its name.
    pub fn of(&self, path: &Path, info: Info) -> Result<BTreeSet<PathBuf>> {
        let mut found: BTreeSet<PathBuf> = BTreeSet::new();
        found.extend(self.musl.as_ref().map(|m| m.file.clone()).filter(|f| f.is_file()));
        let mut by_name: BTreeSet<String> = BTreeSet::new();
        // The third field: RPATHs that an object inherits from those that need it.
        let mut todo: Vec<(PathBuf, Info, Vec<PathBuf>)> = vec![(path.to_owned(), info, Vec::new())];
        while let Some((object, info, inherited)) = todo.pop() {
            let origin = std::fs::canonicalize(&object).unwrap_or(object.clone());
            let origin = origin.parent().unwrap_or(Path::new("/")).to_owned();
            let expand = |list: &[String]| -> Vec<PathBuf> {
                let origin = origin.to_string_lossy();
                list.iter()
                    .map(|p| {
                        p.replace("${ORIGIN}", &origin)
                            .replace("$ORIGIN", &origin)
                            .replace("$LIB", &format!("lib/{}", self.arch.gnu()))
                            .replace("$PLATFORM", self.arch.name())
                    })
                    .map(PathBuf::from)
                    .collect()
            };
            let mut rpath = if info.runpath.is_empty() {
                expand(&info.rpath)
            } else {
                Vec::new()
            };
            rpath.extend(inherited);
            let runpath = expand(&info.runpath);
            let unwinder = (info.unwinds && self.musl.is_none()).then(|| UNWINDER.to_owned());
            for name in info.needed.iter().chain(&unwinder) {
                if by_name.contains(name) || self.musl.is_some() && Musl::has(name) {
                    continue;
                }
                let Some(library) = self.find(name, &rpath, &runpath) else {
                    if Some(name) == unwinder.as_ref() {
                        continue;
                    }
                    return Err(status::error(
                        status::CANNOT_RUN,
                        format!(
                            "{} needs the library {name}, which is not on this host; install the package \
                             that has it \
                             (apt-file search {name}) or set LD_LIBRARY_PATH",
                            object.display()
                        ),
                    ));
                };
                by_name.insert(name.clone());
                let bytes =
                    std::fs::read(&library).with_context(|| format!("cannot read {}", library.display()))?;
                let info = read(&library, &bytes)?;
                found.insert(library.clone());
                todo.push((library, info, rpath.clone()));
            }
        }
        Ok(found)
    }

    fn find(&self, name: &str, rpath: &[PathBuf], runpath: &[PathBuf]) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|p| self.usable(p));
        }
        if let Some(musl) = &self.musl {
            return rpath
                .iter()
                .chain(&self.environment)
                .chain(runpath)
                .chain(&musl.directories)
                .map(|d| d.join(name))
                .find(|p| self.usable(p));
        }
        let gnu = self.arch.gnu();
        let standard = [
            format!("/lib/{gnu}"),
            format!("/usr/lib/{gnu}"),
            "/lib64".into(),
            "/usr/lib64".into(),
        ];
        let standard = standard
            .into_iter()
            .chain(["/lib".into(), "/usr/lib".into()])
            .map(PathBuf::from);
        let cross = PathBuf::from(format!("/usr/{gnu}/lib"));
        let from_cache = self.cache.get(name).into_iter().flatten().cloned();
        let before = rpath
            .iter()
            .chain(&self.environment)
            .chain(runpath)
            .map(|d| d.join(name));
        before
            .chain(from_cache)
            .chain(standard.map(|d| d.join(name)))
            .chain([cross.join(name)])
            .find(|p| self.usable(p))
    }

    /// The loader passes over files of another architecture.
    fn usable(&self, path: &Path) -> bool {
        let Ok(header) = read_start(path, 20) else {
            return false;
        };
        Arch::of_elf(&header) == Some(self.arch)
    }
}

/// The first `n` bytes of a file, or fewer when it is shorter.
pub fn read_start(path: &Path, n: u64) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(n).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_itself_is_understood() {
        let path = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let info = read(&path, &bytes).unwrap();
        assert!(info.runnable);
        let arch = Arch::of_elf(&bytes);
        assert_eq!(arch, Arch::host());
        if let (Some(arch), Some(loader)) = (arch, info.interpreter.clone()) {
            let libraries = Libraries::new(arch, &loader).of(&path, info).unwrap();
            assert!(libraries.iter().any(|p| p.to_string_lossy().contains("libc.so")));
        }
    }

    #[test]
    fn musl_is_its_own_library() {
        assert!(Musl::of("/lib64/ld-linux-x86-64.so.2").is_none());
        let musl = Musl::of("/lib/ld-musl-none.so.1").unwrap();
        assert_eq!(musl.directories[0], Path::new("/lib"));
        assert!(Musl::has("libc.so") && Musl::has("libc.musl-x86_64.so.1") && Musl::has("libm.so.6"));
        assert!(!Musl::has("libcap.so.2") && !Musl::has("libz.so.1"));
    }
}
