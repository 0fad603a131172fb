//! Builds modules of the kernel (`docs/modules.md`): from C, with the cross compilers that build the guest
//! programs, and from Rust ([`rust`]).

mod rust;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::arch::Arch;
use crate::{made, packages, tree};

/// What every module is compiled with: no position-independent code, no C library, nothing that a linker
/// would have to bring.
const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O2",
    "-g0",
    "-Wall",
    "-Wextra",
    "-ffreestanding",
    "-fno-common",
    "-fno-pic",
    "-fno-pie",
    "-fno-strict-aliasing",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    // A function that is traced changes all registers that calls may change.
    "-fno-ipa-ra",
];

/// What differs between processors: where code and data may be, only general registers, frame pointers as the
/// kernel's own code has them, and room for tracers at the beginning of each function, as there (`build.rs`).
fn flags(arch: Arch) -> &'static [&'static str] {
    match arch {
        Arch::X86_64 => &[
            "-mcmodel=kernel",
            "-mno-red-zone",
            "-mgeneral-regs-only",
            "-fcf-protection=none",
            "-fno-omit-frame-pointer",
            "-fpatchable-function-entry=13,8",
            "-falign-functions=8",
        ],
        Arch::Arm64 => &[
            "-mcmodel=small",
            "-mgeneral-regs-only",
            "-mno-outline-atomics",
            "-mbranch-protection=none",
            "-fno-omit-frame-pointer",
            "-fpatchable-function-entry=4,2",
            "-falign-functions=8",
        ],
        // The kernel's frame pointer is not GCC's: modules leave it alone.
        Arch::Arm => &[
            "-marm",
            "-march=armv7-a",
            "-mfloat-abi=soft",
            "-mno-unaligned-access",
            "-fomit-frame-pointer",
            "-ffixed-r11",
            "-fpatchable-function-entry=7,0",
        ],
        Arch::Powerpc64 => &[
            "-mcpu=power9",
            "-mabi=elfv2",
            "-mcmodel=medium",
            "-mno-pcrel",
            "-msoft-float",
            "-mno-altivec",
            "-mno-vsx",
            "-fpatchable-function-entry=4,2",
            "-falign-functions=8",
        ],
    }
}

/// The C files of a folder, in order.
fn sources(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut sources = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|ext| ext == "c") && path.is_file() {
            sources.push(path);
        }
    }
    sources.sort();
    Ok(sources)
}

/// Whether there is a module in a folder: C files, or a package in Rust.
fn is_module(dir: &Path) -> Result<bool> {
    Ok(rust::is_module(dir) || !sources(dir)?.is_empty())
}

/// The folders of modules that `dir` means: itself, if it is one, else those in it that are.
pub fn folders(dir: &Path) -> Result<Vec<PathBuf>> {
    if is_module(dir)? {
        return Ok(vec![dir.to_owned()]);
    }
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() && is_module(&path)? {
            folders.push(path);
        }
    }
    folders.sort();
    if folders.is_empty() {
        bail!(
            "{} has no C files and no Cargo.toml, nor have the folders in it",
            dir.display()
        );
    }
    Ok(folders)
}

/// The module in `dir`, called as the folder is, built when it is missing or old. Several C files are linked
/// into one object.
pub fn module(arch: Arch, dir: &Path) -> Result<PathBuf> {
    let dir = std::fs::canonicalize(dir).with_context(|| format!("cannot find {}", dir.display()))?;
    let name = dir
        .file_name()
        .and_then(|name| name.to_str())
        .with_context(|| format!("{} cannot be a module's name", dir.display()))?;
    let include = tree::root().join("programs/modules/include");
    let to = tree::target().join("modules").join(arch.name());
    std::fs::create_dir_all(&to).with_context(|| format!("cannot make {}", to.display()))?;
    let of = [
        dir.clone(),
        include.clone(),
        tree::root().join("tools/limen/src/modules.rs"),
        tree::root().join("tools/limen/src/modules"),
    ];
    made::ensure(&to.join(format!("{name}.ko")), &of, |new| {
        if rust::is_module(&dir) {
            return rust::build(arch, &dir, name, new);
        }
        let (compiler, brought) = arch.compiler();
        packages::ensure_tool(&compiler, brought)?;
        let sources = sources(&dir)?;
        let mut objects = Vec::new();
        for (n, source) in sources.iter().enumerate() {
            let object = match sources.len() {
                1 => new.to_owned(),
                _ => new.with_added_extension(format!("{n}.o")),
            };
            let mut compile = Command::new(&compiler);
            compile.args(FLAGS).args(flags(arch)).arg("-I").arg(&include);
            if arch == Arch::Powerpc64 {
                let text = object.with_added_extension("s");
                run(compile.arg("-S").arg(source).arg("-o").arg(&text))?;
                let made = std::fs::read_to_string(&text)?;
                std::fs::write(&text, at_local_entries(&made))?;
                let mut assemble = Command::new(&compiler);
                assemble.args(flags(arch)).arg("-c").arg(&text);
                run(assemble.arg("-o").arg(&object))?;
                std::fs::remove_file(&text)?;
            } else {
                run(compile.arg("-c").arg(source).arg("-o").arg(&object))?;
            }
            objects.push(object);
        }
        if sources.len() > 1 {
            let mut link = Command::new(format!("{}-ld", arch.gnu()));
            run(link.arg("-r").args(&objects).arg("-o").arg(new))?;
            for object in objects {
                let _ = std::fs::remove_file(object);
            }
        }
        Ok(())
    })
}

/// GCC's assembler text for powerpc64 with the room for tracers behind the address of the table of contents,
/// where calls by name and through pointers meet (as LLVM has it): before 13, GCC puts it where only the
/// latter pass.
fn at_local_entries(text: &str) -> String {
    const NOP: &str = "\tnop";
    let mut lines: Vec<&str> = Vec::new();
    let mut moved = 0;
    for line in text.lines() {
        // The label of the global entry.
        if line.starts_with(".LCF") && line.ends_with(':') {
            while lines.last() == Some(&NOP) {
                lines.pop();
                moved += 1;
            }
        }
        lines.push(line);
        if line.starts_with("\t.localentry") {
            lines.extend(std::iter::repeat_n(NOP, moved));
            moved = 0;
        }
    }
    lines.push("");
    lines.join("\n")
}

/// Runs a tool; its messages are the error. Warnings are shown.
fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{program} failed:\n{told}");
    }
    eprint!("{told}");
    Ok(())
}

/// `limen build --module DIR`.
pub fn build(arch: Option<Arch>, dir: &Path) -> Result<()> {
    for arch in Arch::chosen(arch) {
        for folder in folders(dir)? {
            eprintln!("limen: {}", module(arch, &folder)?.display());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::at_local_entries;

    #[test]
    fn room_for_tracers_is_where_all_calls_pass() {
        let made = "a:\n\tnop\n\tnop\n.LCF0:\n0:\taddis 2,12,x\n\taddi 2,2,y\n\t.localentry\ta,.-a\n\tblr\n\
                    b:\n\tnop\n\tnop\n\tblr\n";
        let wanted = "a:\n.LCF0:\n0:\taddis 2,12,x\n\taddi 2,2,y\n\t.localentry\ta,.-a\n\tnop\n\tnop\n\tblr\n\
                      b:\n\tnop\n\tnop\n\tblr\n";
        assert_eq!(at_local_entries(made), wanted);
    }
}
