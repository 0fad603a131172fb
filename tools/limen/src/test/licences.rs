//! Checks that every package in the build may be used in a program under `MIT OR Apache-2.0`, by the licence
//! in its manifest.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::toolchain;

/// Licences of which each is enough by itself.
const GOOD: [&str; 8] = [
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "0BSD",
    "ISC",
    "Zlib",
    // For Unicode's character tables, in addition to the licence of the code.
    "Unicode-3.0",
];

/// Checks all packages of `Cargo.lock`. Returns a summary; the packages that may not be used are the error.
pub fn check() -> Result<String> {
    let output = toolchain::find()?
        .cargo()
        .args(["metadata", "--format-version", "1", "--locked"])
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    let all: Value = serde_json::from_slice(&output.stdout).context("cargo metadata is no JSON")?;
    let (mut counts, mut wrong) = (BTreeMap::<&str, usize>::new(), Vec::new());
    for package in all["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let licence = package["license"].as_str().unwrap_or_default();
        match permits(licence) {
            Some(chosen) => *counts.entry(chosen).or_default() += 1,
            None => wrong.push(format!("{name}: {licence:?}")),
        }
    }
    if !wrong.is_empty() {
        bail!(
            "packages whose licence is not among {}: {}",
            GOOD.join(", "),
            wrong.join("; ")
        );
    }
    let said: Vec<String> = counts
        .iter()
        .map(|(licence, n)| format!("{n} {licence}"))
        .collect();
    Ok(said.join(", "))
}

/// The licence under which a package with this licence expression (SPDX, or the older `A/B` for a choice) may
/// be used: the first alternative of which all parts joined by `AND` are permitted.
fn permits(expression: &str) -> Option<&str> {
    let text = expression.trim();
    let inner = text.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    if let Some((inner, rest)) = inner {
        let rest = rest.trim();
        return match rest.strip_prefix("AND ") {
            Some(other) => permits(other).and(permits(inner)),
            None if rest.is_empty() => permits(inner),
            None => None,
        };
    }
    if let Some((one, other)) = text.split_once(" AND ") {
        return permits(other).and(permits(one));
    }
    text.split(" OR ")
        .flat_map(|choice| choice.split('/'))
        .map(str::trim)
        .find(|choice| GOOD.contains(choice))
}

#[cfg(test)]
mod tests {
    use super::permits;

    #[test]
    fn a_choice_needs_one_good_licence() {
        assert_eq!(permits("GPL-2.0 OR MIT"), Some("MIT"));
        assert_eq!(permits("MIT/Apache-2.0"), Some("MIT"));
        assert_eq!(permits("Unlicense OR MIT"), Some("MIT"));
        assert_eq!(permits("MPL-2.0"), None);
        assert_eq!(permits(""), None);
    }

    #[test]
    fn what_is_joined_must_all_be_good() {
        assert_eq!(permits("(MIT OR Apache-2.0) AND Unicode-3.0"), Some("MIT"));
        assert_eq!(permits("(MIT OR Apache-2.0) AND GPL-2.0"), None);
        assert_eq!(permits("MIT AND LGPL-2.1"), None);
    }
}
