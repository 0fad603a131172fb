//! Rows measured again with context tracking (`context_tracking=force`): what it costs where it is wanted.
//! Only Limen's: Linux does not track the CPU that it boots on, and the rows run on no other.

use anyhow::Result;

use super::counted::Subject;
use super::rows::Figures;
use super::rows_of;

/// What the command line of the kernel says.
const WORD: &str = "context_tracking=force";

/// The rows, and those that they repeat.
const ROWS: [(&str, &str); 3] = [
    ("getppid-tracked", "getppid"),
    ("fault-write-tracked", "fault-write"),
    ("pipe-tracked", "pipe"),
];

/// Whether `name` is one of these rows.
pub fn is(name: &str) -> bool {
    ROWS.iter().any(|(row, _)| *row == name)
}

/// Runs the rows that `wanted` selects and adds their figures.
pub fn measure(subject: Subject, wanted: &dyn Fn(&str) -> bool, figures: &mut Figures) -> Result<()> {
    let chosen: Vec<_> = ROWS.iter().filter(|(name, _)| wanted(name)).collect();
    if !subject.kernel.limen || chosen.is_empty() {
        return Ok(());
    }
    let only: Vec<String> = chosen.iter().map(|(_, of)| (*of).to_owned()).collect();
    let mut tracked = rows_of(subject, &only, &[WORD])?;
    for (name, of) in chosen {
        if let Some(figure) = tracked.rows.remove(&((*of).to_owned(), 0)) {
            figures.rows.insert(((*name).to_owned(), 0), figure);
        }
    }
    figures.failed.append(&mut tracked.failed);
    Ok(())
}
