//! Rows measured again with words on the kernel's command line: what a mode costs where it is wanted.

use anyhow::Result;

use super::counted::Subject;
use super::rows::Figures;
use super::rows_of;

/// A mode: its word, whether Linux has it, too, and its rows with those that they repeat.
struct Mode {
    word: &'static str,
    linux: bool,
    rows: &'static [(&'static str, &'static str)],
}

const MODES: [Mode; 3] = [
    // Linux does not track the CPU that it boots on, and the rows run on no other.
    Mode {
        word: "context_tracking=force",
        linux: false,
        rows: &[
            ("getppid-tracked", "getppid"),
            ("fault-write-tracked", "fault-write"),
            ("pipe-tracked", "pipe"),
        ],
    },
    Mode {
        word: "randomize_kstack_offset=on",
        linux: true,
        rows: &[("getppid-random", "getppid")],
    },
    // Debian's Linux is built without.
    Mode {
        word: "stack_erasing=on",
        linux: false,
        rows: &[
            ("getppid-erased", "getppid"),
            ("fault-write-erased", "fault-write"),
        ],
    },
];

/// Whether `name` is one of these rows.
pub fn is(name: &str) -> bool {
    MODES
        .iter()
        .any(|mode| mode.rows.iter().any(|(row, _)| *row == name))
}

/// Runs the rows that `wanted` selects and adds their figures.
pub fn measure(subject: Subject, wanted: &dyn Fn(&str) -> bool, figures: &mut Figures) -> Result<()> {
    for mode in &MODES {
        let chosen: Vec<_> = mode.rows.iter().filter(|(name, _)| wanted(name)).collect();
        if chosen.is_empty() || !(subject.kernel.limen || mode.linux) {
            continue;
        }
        let only: Vec<String> = chosen.iter().map(|(_, of)| (*of).to_owned()).collect();
        let mut again = rows_of(subject, &only, &[mode.word])?;
        for (name, of) in chosen {
            if let Some(figure) = again.rows.remove(&((*of).to_owned(), 0)) {
                figures.rows.insert(((*name).to_owned(), 0), figure);
            }
        }
        figures.failed.append(&mut again.failed);
    }
    Ok(())
}
