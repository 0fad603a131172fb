//! `limen editor`: tells rust-analyzer how the kernel is compiled for one architecture. It writes
//! `.vscode/settings.json` (read by VS Code and editors derived from it) or prints the settings, for other
//! editors.

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

use crate::cli::EditorOptions;
use crate::{build, toolchain, tree};

/// `limen editor`.
pub fn editor(options: &EditorOptions) -> Result<()> {
    let settings = settings(options)?;
    if options.print {
        println!("{}", serde_json::to_string_pretty(&nested(&settings))?);
        return Ok(());
    }
    let file = tree::root().join(".vscode/settings.json");
    let mut all = match std::fs::read_to_string(&file) {
        Ok(text) => match serde_json::from_str(&text) {
            Ok(Value::Object(all)) => all,
            _ => bail!(
                "{} is not plain JSON (comments?) and is left alone; take the settings from: limen editor \
                 --print",
                file.display()
            ),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Map::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    all.extend(settings);
    let folder = file.parent().context("the settings have no folder")?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let text = serde_json::to_string_pretty(&all)? + "\n";
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    eprintln!(
        "limen: {} is for {} now; restart rust-analyzer. Other editors: limen editor --print",
        file.display(),
        options.arch
    );
    Ok(())
}

/// The settings, by VS Code's names: the environment and arguments that `limen build` gives cargo, and its
/// lints on saving.
fn settings(options: &EditorOptions) -> Result<Map<String, Value>> {
    let kernel = build::Kernel {
        arch: options.arch,
        profile: "kernel".into(),
        features: options.features.clone(),
    };
    let tools = toolchain::find()?;
    tools.need_source()?;
    let clippy = kernel.cargo(&tools, "clippy")?;
    let text = |word: &std::ffi::OsStr| word.to_string_lossy().into_owned();
    let mut check = vec![text(clippy.get_program())];
    check.extend(clippy.get_args().map(text));
    check.push("--message-format=json".into());
    let target = after(&check, "--target").context("cargo is not told a target")?;
    let environment: Map<String, Value> = clippy
        .get_envs()
        .filter_map(|(name, value)| Some((text(name), text(value?).into())))
        .collect();
    let sysroot_source = tools.sysroot.join("lib/rustlib/src/rust/library");
    let features: Vec<_> = options.features.split(',').filter(|f| !f.is_empty()).collect();
    let Value::Object(settings) = json!({
        "rust-analyzer.cargo.target": target,
        "rust-analyzer.cargo.allTargets": false,
        "rust-analyzer.cargo.extraEnv": environment,
        "rust-analyzer.cargo.features": features,
        "rust-analyzer.cargo.sysroot": tools.sysroot,
        "rust-analyzer.cargo.sysrootSrc": sysroot_source,
        "rust-analyzer.cargo.buildScripts.enable": true,
        "rust-analyzer.check.overrideCommand": check,
        "rust-analyzer.check.extraEnv": environment,
    }) else {
        bail!("the settings are no JSON object");
    };
    Ok(settings)
}

/// The word behind `option`.
fn after(words: &[String], option: &str) -> Option<String> {
    let at = words.iter().position(|word| word == option)?;
    words.get(at + 1).cloned()
}

/// The same settings as a tree, in the form in which other editors hand them to the language server: without
/// the first part of their names.
fn nested(settings: &Map<String, Value>) -> Value {
    let mut tree = json!({});
    for (name, value) in settings {
        let mut at = &mut tree;
        for part in name.split('.').skip(1) {
            at = &mut at[part];
        }
        *at = value.clone();
    }
    tree
}

#[cfg(test)]
mod tests {
    use super::{after, nested};
    use serde_json::json;

    #[test]
    fn names_become_a_tree() {
        let flat = json!({"a.b.c": 1, "a.b.d": 2, "a.e": [3]});
        let tree = nested(flat.as_object().unwrap());
        assert_eq!(tree, json!({"b": {"c": 1, "d": 2}, "e": [3]}));
    }

    #[test]
    fn the_word_behind_an_option() {
        let words = ["cargo", "--target", "t.json"].map(str::to_owned);
        assert_eq!(after(&words, "--target").as_deref(), Some("t.json"));
        assert_eq!(after(&words, "--profile"), None);
    }
}
