//! Builds the kernel: cargo with the standard library's source, one target folder per architecture. Then
//! makes the file that the boot loader wants: the ELF for x86_64's PVH and for powerpc64, a flat image for
//! arm64 and arm.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::cli::BuildOptions;
use crate::{init_sections, made, modules, noinstr, references, session, target_spec, toolchain, tree};

/// What distinguishes one kernel build from another.
#[derive(Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The processor it is for.
    pub arch: Arch,
    /// Cargo profile.
    pub profile: String,
    /// Cargo features, separated by commas.
    pub features: String,
}

/// A built kernel.
pub struct Built {
    /// What QEMU gets.
    pub image: PathBuf,
    /// The ELF with symbols, for debuggers.
    pub elf: PathBuf,
}

/// `limen build`.
pub fn build(options: &BuildOptions) -> Result<()> {
    if let Some(dir) = &options.module {
        return modules::build(options.arch, dir);
    }
    for arch in Arch::chosen(options.arch) {
        let kernel = Kernel {
            arch,
            profile: options.profile.clone(),
            features: options.features.clone(),
        };
        let built = kernel.build(options.verbose)?;
        let size = std::fs::metadata(&built.image)?.len();
        eprintln!("limen: {} ({size} bytes)", built.image.display());
    }
    Ok(())
}

impl Kernel {
    /// The folder cargo builds this kernel in. Each set of features has its own, so that switching between
    /// them does not rebuild `core`.
    fn target_dir(&self) -> PathBuf {
        tree::target().join("kernel").join(self.arch.name())
    }

    fn built(&self) -> Built {
        let flavour = if self.features.is_empty() {
            String::new()
        } else {
            format!("-{}", self.features.replace(',', "-"))
        };
        let profile = if self.profile == "kernel" {
            String::new()
        } else {
            format!("-{}", self.profile)
        };
        let image = self
            .target_dir()
            .join(format!("limen-{}{profile}{flavour}", self.arch));
        Built {
            elf: image.with_extension("elf"),
            image,
        }
    }

    /// The built kernel; builds it when it is missing or older than its source.
    pub fn ensure(&self, verbose: bool) -> Result<Built> {
        let built = self.built();
        let root = tree::root();
        let of = [
            "kernel",
            "crates",
            "Cargo.toml",
            "Cargo.lock",
            "tools/limen/src/build.rs",
            "tools/limen/src/target_spec.rs",
            "tools/symbols",
        ]
        .map(|p| root.join(p));
        if tree::fresh(&built.image, &of) {
            return Ok(built);
        }
        self.build(verbose)
    }

    /// Builds without output; if it fails, cargo's messages are the error.
    pub fn build_quietly(&self) -> Result<Built> {
        let _alone = self.alone()?;
        let began = SystemTime::now();
        let output = self
            .cargo(&toolchain::find()?, "build")?
            .output()
            .context("cannot start cargo")?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr));
        }
        self.finish(began, false)
    }

    /// Builds, with cargo's output shown.
    pub fn build(&self, verbose: bool) -> Result<Built> {
        let tools = toolchain::find()?;
        tools.need_source()?;
        let root = tree::root();
        if !root.join("kernel/src/main.rs").is_file() {
            bail!(
                "{} has no kernel/; give a kernel image with --kernel",
                root.display()
            );
        }
        if !root.join(linker_script(self.arch)).is_file() {
            bail!(
                "there is no port of the kernel to {} yet ({} is missing); give a Linux image with --kernel",
                self.arch,
                linker_script(self.arch).display()
            );
        }
        let _alone = self.alone()?;
        let mut cargo = self.cargo(&tools, "build")?;
        if verbose {
            eprintln!("limen: {} at {}", tools.version, tools.rustc.display());
            eprintln!("limen: {cargo:?}");
        }
        eprintln!("limen: building the kernel for {} ({})", self.arch, self.profile);
        let began = SystemTime::now();
        // Cargo must end if `limen` is killed.
        session::ends_with_us(&mut cargo, rustix::process::Signal::TERM);
        let done = cargo
            .stdout(std::io::stderr())
            .status()
            .context("cannot start cargo")?;
        if !done.success() {
            bail!("the kernel does not build; cargo's messages are above");
        }
        self.finish(began, verbose)
    }

    /// Locks out other builds for this architecture: they would link another kernel before this one's files
    /// are made.
    fn alone(&self) -> Result<std::fs::File> {
        let dir = self.target_dir();
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        made::alone(&dir.join("limen"))
    }

    /// Checks what cargo linked (files newer than `began`), and makes the files that boot.
    fn finish(&self, began: SystemTime, verbose: bool) -> Result<Built> {
        let linked = self
            .target_dir()
            .join(self.arch.kernel_target())
            .join(&self.profile)
            .join("limen-kernel");
        let built = self.built();
        let mut elf = std::fs::read(&linked).with_context(|| format!("cannot read {}", linked.display()))?;
        let references = references::of_functions(&elf)?;
        let table = limen_embed_symbols::embed(&mut elf)?;
        let sites = limen_embed_symbols::sites::embed(&mut elf, &references)?;
        let jumps = limen_embed_symbols::jumps::embed(&mut elf)?;
        if verbose {
            eprintln!(
                "limen: {} symbols take {} of {} bytes",
                table.symbols, table.used, table.room
            );
            eprintln!(
                "limen: {} functions can be traced, {} must not be; {jumps} jumps of static keys",
                sites.sites, sites.left_out
            );
        }
        // Only the kernel as shipped has to pass; `limen test` runs this. A build with assertions calls more
        // functions.
        if self.profile == "kernel" && !self.checked() {
            match noinstr::check_image(&elf) {
                Err(error) => eprintln!("limen: the check of early code fails: {error:#}"),
                Ok(checked) if verbose => {
                    eprintln!("limen: {} functions of early code checked", checked.functions)
                }
                Ok(_) => {}
            }
        }
        init_sections::check_image(&elf).with_context(|| format!("{}", linked.display()))?;
        made::replace(&built.elf, &elf)?;
        match self.arch {
            Arch::X86_64 | Arch::Powerpc64 => made::replace(&built.image, &elf)?,
            Arch::Arm64 | Arch::Arm => made::replace(&built.image, &flatten(&elf)?)?,
        }
        made::date(&built.image, began)?;
        Ok(built)
    }

    /// The cargo command for a subcommand (`build`, `clippy`) on the kernel.
    pub fn cargo(&self, tools: &toolchain::Toolchain, subcommand: &str) -> Result<std::process::Command> {
        let mut cargo = tools.cargo();
        let linker = tools.linker()?;
        let spec = target_spec::write(tools, self.arch, &self.target_dir())?;
        cargo
            .args([subcommand, "-p", "limen-kernel", "--target"])
            .arg(spec)
            .args(target_spec::options(tools))
            .args([
                "--profile",
                &self.profile,
                "-Zbuild-std=core,alloc,compiler_builtins",
            ])
            .args(["-Zbuild-std-features=compiler-builtins-mem", "--target-dir"])
            .arg(self.target_dir())
            .env(
                "CARGO_ENCODED_RUSTFLAGS",
                flags(self.arch, &linker).join("\u{1f}"),
            );
        if !self.features.is_empty() {
            cargo.args(["--features", &self.features]);
        }
        if self.checked() {
            cargo.args(checks()?);
        }
        Ok(cargo)
    }

    /// Whether assertions and overflow checks are compiled into Limen's own code. They are in every build
    /// with lock validation.
    fn checked(&self) -> bool {
        self.features.split(',').any(|feature| feature == "lockdep")
    }
}

/// What cargo is told to compile assertions and overflow checks into Limen's packages only: `core` and the
/// libraries stay as in every other kernel of the same profile, so they are compiled once. With little
/// optimisation it runs as fast in a guest and is built sooner.
fn checks() -> Result<Vec<String>> {
    let crates = tree::root().join("crates");
    let mut packages = vec!["kernel".to_owned()];
    for entry in std::fs::read_dir(&crates).with_context(|| format!("cannot read {}", crates.display()))? {
        packages.push(entry?.file_name().to_string_lossy().into_owned());
    }
    let of_package = |package: &String| {
        ["debug-assertions", "overflow-checks"]
            .map(|check| format!("--config=profile.kernel.package.limen-{package}.{check}=true"))
    };
    let mut options: Vec<String> = packages.iter().flat_map(of_package).collect();
    options.push("--config=profile.kernel.package.limen-kernel.opt-level=1".to_owned());
    Ok(options)
}

fn linker_script(arch: Arch) -> PathBuf {
    Path::new("kernel/src/arch").join(arch.name()).join("link.ld")
}

/// The compiler flags of the kernel, the same for its own code and for `core`.
pub fn flags(arch: Arch, linker: &Path) -> Vec<String> {
    let linker_script = linker_script(arch);
    let mut flags = vec![
        format!("-Clinker={}", linker.display()),
        format!("-Clink-arg=-T{}", linker_script.display()),
        "-Clink-arg=--build-id=none".to_owned(),
        "-Crelocation-model=static".to_owned(),
    ];
    let more: &[&str] = match arch {
        Arch::X86_64 => &["-Ccode-model=kernel", "-Clink-arg=-zmax-page-size=4096"],
        Arch::Arm64 => &["-Clink-arg=-zmax-page-size=65536"],
        // The kernel unwinds by frame pointers. Unwind tables would put local labels into the code, and
        // symbol look-ups would find these instead of the functions' names.
        Arch::Arm => &[
            "-Clink-arg=-zmax-page-size=4096",
            "-Clink-arg=--discard-locals",
            "-Cforce-unwind-tables=no",
        ],
        // The target is Linux's: the C library and start files that it would link must stay out.
        Arch::Powerpc64 => &["-Clinker-flavor=ld.lld", "-Clink-arg=-zmax-page-size=65536"],
    };
    flags.extend(more.iter().map(|f| (*f).to_owned()));
    let all = [
        "-Clink-arg=-zseparate-code",
        "-Zunstable-options",
        "-Zemit-stack-sizes",
    ];
    flags.extend(all.map(str::to_owned));
    flags.extend(sites(arch).iter().map(|f| (*f).to_owned()));
    flags
}

/// The compiler flags of modules in Rust, and of `core` in them: nothing that a linker would have to bring,
/// and room for tracers as in the kernel.
pub fn module_flags(arch: Arch) -> Vec<String> {
    let mut flags = vec![
        "-Crelocation-model=static",
        "-Cforce-unwind-tables=no",
        "-Zunstable-options",
        "-Zplt=yes",
        "-Zdirect-access-external-data=yes",
    ];
    if arch == Arch::X86_64 {
        flags.push("-Ccode-model=kernel");
    }
    flags.extend(sites(arch));
    flags.into_iter().map(str::to_owned).collect()
}

/// What makes room at the beginning of each function for calling a tracer (`kernel/src/arch/ARCH/sites.rs`):
/// instructions that do nothing, of which there are as many as the first number says, and the second as many
/// before the function: the slot, which is aligned because the functions are. 32-bit Arm ignores the numbers.
fn sites(arch: Arch) -> &'static [&'static str] {
    match arch {
        Arch::X86_64 => &["-Zpatchable-function-entry=13,8", "-Zmin-function-alignment=8"],
        Arch::Arm64 | Arch::Powerpc64 => &["-Zpatchable-function-entry=4,2", "-Zmin-function-alignment=8"],
        Arch::Arm => &["-Zpatchable-function-entry=1,0"],
    }
}

/// The loadable parts of an ELF file, laid out by physical address from the lowest: arm64's `Image`, arm's
/// zImage.
fn flatten(elf_bytes: &[u8]) -> Result<Vec<u8>> {
    let elf = goblin::elf::Elf::parse(elf_bytes).context("the linker made no ELF file")?;
    let load = || {
        elf.program_headers
            .iter()
            .filter(|p| p.p_type == goblin::elf::program_header::PT_LOAD && p.p_filesz > 0)
    };
    let base = load()
        .map(|p| p.p_paddr)
        .min()
        .context("the kernel has nothing to load")?;
    let end = load().map(|p| p.p_paddr + p.p_filesz).max().unwrap_or(base);
    if end - base > 256 << 20 {
        bail!(
            "the kernel's segments are {} bytes apart; its link.ld must give them neighbouring load \
             addresses",
            end - base
        );
    }
    let mut image = vec![0; (end - base) as usize];
    for p in load() {
        let at = (p.p_paddr - base) as usize;
        let from = p.p_offset as usize;
        let size = p.p_filesz as usize;
        image[at..at + size].copy_from_slice(
            elf_bytes
                .get(from..from + size)
                .context("the kernel's ELF file is cut short")?,
        );
    }
    Ok(image)
}
