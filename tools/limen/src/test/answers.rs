//! What Debian's Linux answered to the cases of a comparison, as a number: `tests/linux-answers`. A kernel
//! that answers with these bytes need not wait for Linux to say them once more. In all other cases, after a
//! change of the cases, of Linux's version or of the answer, Linux is asked (`cases::compare`).
//! `limen test --update-answers` asks it in any case, and writes the file.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Mutex;

use anyhow::{Context as _, Result};

use super::cases::Given;
use crate::{made, tree};

const HEAD: &str = "# Written by limen test --update-answers: comparison, question, Linux's answer.\n";

/// Held while the file changes: steps run at the same time.
static CHANGING: Mutex<()> = Mutex::new(());

fn file() -> PathBuf {
    tree::root().join("tests").join("linux-answers")
}

/// A number for all that the cases gave.
pub fn digest(given: &BTreeMap<usize, Given>) -> u64 {
    let mut hasher = DefaultHasher::new();
    given.hash(&mut hasher);
    hasher.finish()
}

/// The lines of the file: each comparison's question and answer.
fn parse(text: &str) -> BTreeMap<String, (u64, u64)> {
    let number = |word: &str| u64::from_str_radix(word, 16).ok();
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, question, answer] = words[..] else {
            return None;
        };
        Some((name.to_owned(), (number(question)?, number(answer)?)))
    };
    text.lines().filter_map(line).collect()
}

fn format(lines: &BTreeMap<String, (u64, u64)>) -> String {
    let line = |(name, (question, answer)): (&String, &(u64, u64))| {
        format!("{name} {question:016x} {answer:016x}\n")
    };
    let lines: String = lines.iter().map(line).collect();
    format!("{HEAD}{lines}")
}

/// What Linux answered to this question of the comparison `name`, if that is known.
pub fn known(name: &str, question: u64) -> Option<u64> {
    let text = std::fs::read_to_string(file()).ok()?;
    let (asked, answer) = *parse(&text).get(name)?;
    (asked == question).then_some(answer)
}

/// Notes what Linux has answered now.
pub fn note(name: &str, question: u64, answer: u64) -> Result<()> {
    let _changing = CHANGING.lock().unwrap_or_else(|e| e.into_inner());
    let path = file();
    let mut lines = parse(&std::fs::read_to_string(&path).unwrap_or_default());
    lines.insert(name.to_owned(), (question, answer));
    made::replace(&path, format(&lines).as_bytes()).with_context(|| format!("cannot note what {name} gave"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_there_and_back() {
        let lines = BTreeMap::from([
            ("arm-sh-a".to_owned(), (1, u64::MAX)),
            ("arm-sh-b".to_owned(), (2, 0)),
        ]);
        assert_eq!(parse(&format(&lines)), lines);
        assert!(parse("# a word\nname 12\nname 12 x\nname 1 2 3\n").is_empty());
    }

    #[test]
    fn every_byte_and_status_counts() {
        let given = |status: &str, out: &str, err: &str| Given {
            status: status.into(),
            stdout: out.into(),
            stderr: err.into(),
        };
        let all = [
            given("0", "ab", "c"),
            given("1", "ab", "c"),
            given("0", "a", "bc"),
            given("0", "ab", ""),
        ];
        let mut numbers: Vec<u64> = all
            .iter()
            .map(|given| digest(&BTreeMap::from([(0, given.clone())])))
            .collect();
        numbers.push(digest(&BTreeMap::from([(1, all[0].clone())])));
        numbers.push(digest(&BTreeMap::new()));
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), all.len() + 2);
    }
}
