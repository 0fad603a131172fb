//! Runs once more what was wrong. On a busy host a virtual CPU may stand still for so long that a case which
//! goes by time is wrong, but hardly each time it runs; a kernel with an error is wrong each time. What was
//! right only later is told in the step's text.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

/// The cases that were wrong, and what is said of each.
pub type Wrong<K> = BTreeMap<K, String>;

/// If more are wrong, the host is not the reason, and none runs again.
const FEW: usize = 5;

/// What the further runs are called.
const RUNS: [&str; 2] = ["second", "third"];

/// Has `run` run the cases in `wrong` again, at most `times` times, each time only those that were wrong each
/// time before. Returns those that were never right, and what to say of the others, e.g. ", 1 case the second
/// time".
pub fn again<K: Ord + Clone>(
    mut wrong: Wrong<K>,
    times: usize,
    mut run: impl FnMut(&[K]) -> Result<Wrong<K>>,
) -> Result<(Wrong<K>, String)> {
    let mut said = String::new();
    if wrong.len() > FEW {
        return Ok((wrong, said));
    }
    for name in RUNS.iter().take(times) {
        if wrong.is_empty() {
            break;
        }
        let cases: Vec<K> = wrong.keys().cloned().collect();
        let now = run(&cases).with_context(|| {
            let first: Vec<&str> = wrong.values().map(String::as_str).collect();
            format!("the {name} run, after this was wrong:\n{}", first.join("\n"))
        })?;
        wrong.retain(|case, text| {
            let Some(more) = now.get(case) else {
                return false;
            };
            *text += &format!("\nand the {name} time:\n{more}");
            true
        });
        let right = cases.len() - wrong.len();
        if right != 0 {
            let s = if right == 1 { "" } else { "s" };
            said += &format!(", {right} case{s} the {name} time");
        }
    }
    Ok((wrong, said))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(cases: &[u32]) -> Wrong<u32> {
        cases.iter().map(|case| (*case, format!("case {case}"))).collect()
    }

    #[test]
    fn only_what_was_wrong() {
        let mut ran = Vec::new();
        let result = again(wrong(&[3, 5, 8]), 2, |cases| {
            ran.push(cases.to_vec());
            // 9 did not run; it says nothing.
            Ok(wrong(if ran.len() == 1 { &[5, 8, 9] } else { &[8] }))
        });
        let (left, said) = result.unwrap();
        assert_eq!(ran, [vec![3, 5, 8], vec![5, 8]]);
        assert_eq!(left.keys().collect::<Vec<_>>(), [&8]);
        assert!(left[&8].contains("the third time"));
        assert_eq!(said, ", 1 case the second time, 1 case the third time");
    }

    #[test]
    fn always_wrong() {
        let (left, said) = again(wrong(&[1, 2]), 1, |cases| Ok(wrong(cases))).unwrap();
        assert_eq!((left.len(), said.as_str()), (2, ""));
    }

    #[test]
    fn none_or_many() {
        for cases in [&[][..], &[1, 2, 3, 4, 5, 6]] {
            let (left, said) = again(wrong(cases), 2, |_| panic!("nothing is to run")).unwrap();
            assert_eq!((left, said.as_str()), (wrong(cases), ""));
        }
    }
}
