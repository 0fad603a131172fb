//! The kernel of a run: ours, built when needed, or the image given with `--kernel`.

use std::io::Read;
use std::path::PathBuf;

use anyhow::{Context, Result};
use object::Endianness;
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};

use crate::arch::Arch;
use crate::build;
use crate::cli::RunOptions;
use crate::linux;

/// A kernel, and what a run must know about it.
pub struct Kernel {
    /// What QEMU gets.
    pub image: PathBuf,
    /// The file with symbols, when there is one.
    pub symbols: Option<PathBuf>,
    /// Whether it is Limen, so Limen's command-line options apply.
    pub limen: bool,
    /// Modules that the agent loads first.
    pub modules: Vec<(String, Vec<u8>)>,
}

impl Kernel {
    /// Where its image ends in memory, in bytes. 0: the image is no ELF file, and QEMU looks itself whether
    /// it fits; or it is Linux's, whose physical addresses may be none (powerpc64).
    pub fn end(&self) -> Result<u64> {
        if !self.limen {
            return Ok(0);
        }
        let mut head = vec![0; 4096];
        let read = std::fs::File::open(&self.image).and_then(|mut file| file.read(&mut head));
        let read = read.with_context(|| format!("cannot read {}", self.image.display()))?;
        let head = &head[..read];
        let Ok(header) = FileHeader64::<Endianness>::parse(head) else {
            return Ok(0);
        };
        let endian = header.endian()?;
        let parts = header.program_headers(endian, head)?;
        let parts = parts.iter().filter(|part| part.p_type(endian) == PT_LOAD);
        let ends = parts.map(|part| part.p_paddr(endian).saturating_add(part.p_memsz(endian)));
        Ok(ends.max().unwrap_or(0))
    }
}

/// What `--kernel` calls Debian's current image, which is fetched.
pub const LINUX: &str = "linux";

/// Finds or builds the kernel of a run.
pub fn choose(options: &RunOptions, arch: Arch) -> Result<Kernel> {
    let Some(path) = &options.kernel else {
        let kernel = build::Kernel {
            arch,
            profile: options.profile.clone(),
            features: options.features.clone(),
        };
        let built = kernel.ensure(options.verbose)?;
        return Ok(Kernel {
            image: built.image,
            symbols: Some(built.elf),
            limen: true,
            modules: Vec::new(),
        });
    };
    let debian;
    let path = if path.as_os_str() == LINUX {
        debian = linux::debian_image(arch)?;
        &debian
    } else {
        path
    };
    let bytes = std::fs::read(path).with_context(|| {
        format!(
            "cannot read the kernel {}; check the path and its permissions",
            path.display()
        )
    })?;
    let (kind, kernel_arch) = linux::identify(path, &bytes)?;
    if kernel_arch != arch {
        anyhow::bail!(
            "{} is an {kernel_arch} kernel; run it with --arch {kernel_arch}",
            path.display()
        );
    }
    let mut modules = Vec::new();
    if kind == linux::Kind::Linux {
        let release = linux::release(path, &bytes).context("cannot find the release in this Linux image")?;
        if let Some(dir) = linux::module_dir(path, &release) {
            modules = linux::virtio_modules(&dir)?;
            if options.verbose {
                let names: Vec<_> = modules.iter().map(|(n, _)| n.as_str()).collect();
                eprintln!(
                    "limen: Linux {release}, modules {} from {}",
                    names.join(" "),
                    dir.display()
                );
            }
        } else if options.initrd.is_none() {
            eprintln!(
                "limen: no modules of Linux {release} beside the image or in /lib/modules; going on as if \
                 its virtio \
                 drivers were built in (unpack its package with dpkg-deb -x if the run does not start)"
            );
        }
    }
    Ok(Kernel {
        image: path.clone(),
        symbols: None,
        limen: kind == linux::Kind::Limen,
        modules,
    })
}

/// The architecture of an image given with `--kernel`, for runs that do not say one.
pub fn arch_of(options: &RunOptions) -> Option<Arch> {
    let path = options.kernel.as_ref()?;
    let bytes = std::fs::read(path).ok()?;
    linux::identify(path, &bytes).ok().map(|(_, arch)| arch)
}
