//! The compiler's description of the processor a kernel is built for. It is rustc's own, with some features
//! removed and some added. Given on the command line, the compiler would warn of each.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::arch::Arch;
use crate::toolchain::Toolchain;

/// What differs from rustc's target of the same name.
struct Change {
    /// Features added to the target's.
    add: &'static [&'static str],
    /// Features removed from the target's.
    remove: &'static [&'static str],
    /// Whether the backtrace uses frame pointers, which functions that call none need not set up.
    frame_pointers: bool,
}

fn change(arch: Arch) -> Change {
    match arch {
        Arch::X86_64 => Change {
            add: &[],
            remove: &[],
            frame_pointers: true,
        },
        // The kernel runs with the memory management unit on, and then unaligned data accesses work. The Rust
        // code that runs before (arm: `head`) makes no unaligned access.
        Arch::Arm64 | Arch::Arm => Change {
            add: &[],
            remove: &["+strict-align"],
            frame_pointers: true,
        },
        // The target is Linux's user space: the kernel must not use its floating-point and vector registers.
        // Stack frames are chained without frame pointers.
        Arch::Powerpc64 => Change {
            add: &["-altivec", "-vsx"],
            remove: &[],
            frame_pointers: false,
        },
    }
}

/// The target's JSON with its features changed.
fn edit(json: &str, change: &Change) -> Result<String> {
    let mut spec: Value =
        serde_json::from_str(json).context("rustc's description of the target is no JSON")?;
    let had = spec["features"].as_str().unwrap_or_default().to_owned();
    let kept = had
        .split(',')
        .filter(|f| !f.is_empty() && !change.remove.contains(f));
    let features: Vec<_> = kept.chain(change.add.iter().copied()).collect();
    spec["features"] = features.join(",").into();
    if change.frame_pointers {
        spec["frame-pointer"] = "non-leaf".into();
    }
    Ok(serde_json::to_string_pretty(&spec)?)
}

/// Writes the description for `arch` into `dir` (only if it changed: otherwise cargo would build again) and
/// returns its path. The file is named after the target, because cargo's folders and build scripts use that
/// name.
pub fn write(tools: &Toolchain, arch: Arch, dir: &Path) -> Result<PathBuf> {
    let name = arch.kernel_target();
    let output = Command::new(&tools.rustc)
        .args([
            "-Zunstable-options",
            "--print",
            "target-spec-json",
            "--target",
            name,
        ])
        .env("RUSTC_BOOTSTRAP", "1")
        .output()
        .with_context(|| format!("cannot start {}", tools.rustc.display()))?;
    if !output.status.success() {
        bail!(
            "{} does not know the target {name}: {}",
            tools.version,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let text = edit(&String::from_utf8_lossy(&output.stdout), &change(arch))?;
    let path = dir.join(name).with_extension("json");
    if std::fs::read_to_string(&path).is_ok_and(|old| old == text) {
        return Ok(path);
    }
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    crate::made::replace(&path, text.as_bytes())?;
    Ok(path)
}

/// The options with which this cargo takes such a file: newer versions need an unstable option.
pub fn options(tools: &Toolchain) -> &'static [&'static str] {
    let help = tools.cargo().args(["-Z", "help"]).output();
    match help {
        Ok(help) if String::from_utf8_lossy(&help.stdout).contains("json-target-spec") => {
            &["-Zjson-target-spec"]
        }
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(json: &str, change: &Change) -> Value {
        serde_json::from_str(&edit(json, change).unwrap()).unwrap()
    }
    fn features(json: &str, change: &Change) -> String {
        edited(json, change)["features"].as_str().unwrap().to_owned()
    }

    #[test]
    fn frame_pointers_where_backtraces_need_them() {
        let arm = edited(r#"{"frame-pointer":"always"}"#, &change(Arch::Arm));
        assert_eq!(arm["frame-pointer"], "non-leaf");
        assert!(edited("{}", &change(Arch::Powerpc64))["frame-pointer"].is_null());
    }

    #[test]
    fn features_come_and_go() {
        let arm = r#"{"arch":"arm","features":"+soft-float,-neon,+strict-align"}"#;
        assert_eq!(features(arm, &change(Arch::Arm)), "+soft-float,-neon");
        assert_eq!(
            features(r#"{"arch":"powerpc64"}"#, &change(Arch::Powerpc64)),
            "-altivec,-vsx"
        );
        let x86 = r#"{"features":"-mmx,+soft-float"}"#;
        assert_eq!(features(x86, &change(Arch::X86_64)), "-mmx,+soft-float");
    }
}
