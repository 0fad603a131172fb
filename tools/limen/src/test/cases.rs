//! Differential tests: many small shell scripts, run in one boot of the kernel under test and in one of
//! Debian's Linux; each must give the same bytes and the same status. The scripts are in `tests/*/*.sh`,
//! separated by `## case: NAME`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::again::{Wrong, again};
use super::answers;
use super::guest::Guest;
use super::{Context, Verdict};
use crate::arch::Arch;
use crate::{made, tree};

/// One shell script.
#[derive(Clone)]
pub struct Case {
    pub name: String,
    pub text: String,
}

/// The result of a script.
#[derive(PartialEq, Eq, Clone, Hash)]
pub struct Given {
    pub status: String,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// Reads the scripts of a folder below `tests/`.
pub fn read(folder: &str) -> Result<Vec<Case>> {
    let dir = tree::root().join("tests").join(folder);
    let mut files: Vec<_> = std::fs::read_dir(&dir)
        .with_context(|| format!("cannot read {}", dir.display()))?
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|x| x == "sh"))
        .collect();
    files.sort();
    let mut cases: Vec<Case> = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file)?;
        for part in text.split("## case: ").skip(1) {
            let (name, text) = part.split_once('\n').unwrap_or((part, ""));
            let name = name.trim().to_owned();
            if cases.iter().any(|c| c.name == name) {
                bail!("{}: two cases are called {name}", file.display());
            }
            cases.push(Case {
                name,
                text: text.to_owned(),
            });
        }
    }
    Ok(cases)
}

/// Puts the scripts and a runner script into a folder for the guest (`/cases`). An existing folder is used
/// again.
pub fn prepare(cases: &[Case], shell: &str) -> Result<PathBuf> {
    // Each case has its own folder and session; processes that it leaves running are killed at its end.
    let runner = format!(
        r#"cd /cases
for c in [0-9][0-9][0-9]; do
    printf 'begin %s\n' $c
    mkdir -p /tmp/$c /tmp/out
    (cd /tmp/$c && exec env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
       USER=root LC_ALL=C.UTF-8 TZ=UTC0 TERM=dumb \
        timeout -s KILL 300 {shell} /cases/$c) </dev/null >/tmp/out/$c.1 2>/tmp/out/$c.2
    s=$?
    printf 'end %s %s %s %s\n' $c $s $(wc -c </tmp/out/$c.1) $(wc -c </tmp/out/$c.2)
    cat /tmp/out/$c.1 /tmp/out/$c.2
    cd / && rm -rf /tmp/$c; cd /cases
done
echo all done
"#
    );
    let dir = tree::cache("test")?.join(format!("cases-{:016x}", hash(cases, &runner)));
    made::ensure(&dir, &[], |new| {
        std::fs::create_dir_all(new)?;
        for (i, case) in cases.iter().enumerate() {
            std::fs::write(new.join(format!("{i:03}")), &case.text)?;
        }
        Ok(std::fs::write(new.join("run"), runner)?)
    })
}

/// A hash of the scripts and of other text on which their results depend.
fn hash(cases: &[Case], more: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    more.hash(&mut hasher);
    cases.iter().for_each(|c| c.text.hash(&mut hasher));
    hasher.finish()
}

/// Splits the output of the runner script into results; true if the runner reached its end.
fn parse(bytes: &[u8]) -> (BTreeMap<usize, Given>, bool) {
    let mut found = BTreeMap::new();
    let mut at = 0;
    while at < bytes.len() {
        let end = bytes[at..]
            .iter()
            .position(|b| *b == b'\n')
            .map_or(bytes.len(), |n| at + n);
        let line = String::from_utf8_lossy(&bytes[at..end]).into_owned();
        at = (end + 1).min(bytes.len());
        let words: Vec<&str> = line.split(' ').collect();
        if let ["end", case, status, out, err] = words[..] {
            let (Ok(case), Ok(out), Ok(err)) = (case.parse(), out.parse::<usize>(), err.parse::<usize>())
            else {
                continue;
            };
            let take = |from: usize, n: usize| bytes.get(from..from + n).unwrap_or_default().to_vec();
            found.insert(
                case,
                Given {
                    status: status.to_owned(),
                    stdout: take(at, out),
                    stderr: take(at + out, err),
                },
            );
            at = (at + out + err).min(bytes.len());
        } else if line == "all done" {
            return (found, true);
        }
    }
    (found, false)
}

/// The results on Linux as they were kept in the file `kept`.
fn remembered(kept: &Path) -> Option<BTreeMap<usize, Given>> {
    match parse(&std::fs::read(kept).ok()?) {
        (found, true) => Some(found),
        _ => None,
    }
}

/// The results on Linux, which runs now; they are kept.
fn ask_linux(guest: &Guest, kept: &Path) -> Result<BTreeMap<usize, Given>> {
    let ran = guest.clone().run()?;
    let (found, complete) = parse(&ran.stdout);
    if !complete {
        bail!(
            "Linux did not get through the cases; status {}\n{}",
            ran.status,
            ran.everything()
        );
    }
    made::replace(kept, &ran.stdout)?;
    Ok(found)
}

/// What came of a comparison in which all agreed.
pub struct Agreed {
    pub cases: usize,
    /// What to say of those that agreed only later.
    later: String,
}

/// The verdict for all cases of these comparisons.
pub fn verdict(agreed: &[Agreed]) -> Verdict {
    let cases: usize = agreed.iter().map(|a| a.cases).sum();
    let later: Vec<&str> = agreed.iter().map(|a| a.later.as_str()).collect();
    Verdict::Passed(format!(
        "{cases} cases give the same bytes and status as on Linux{}",
        later.concat()
    ))
}

/// Runs the cases by bash in a guest with these options and this program, which goes on with `/cases/run`, on
/// the kernel under test and on Linux.
pub fn by_bash(
    context: &Context,
    arch: Arch,
    cases: &[Case],
    options: &[String],
    program: &[&str],
) -> Result<Verdict> {
    let guest = |guest: Guest, add: &str| {
        let guest = options.iter().fold(guest, |guest, option| guest.option(option));
        guest
            .option(add)
            .option("--mem=1G")
            .smp(2)
            .timeout(1200)
            .program(program)
    };
    let kernels = (Guest::new(context, arch), Guest::linux(arch)?);
    Ok(verdict(&[compare(context, cases, "bash", kernels, guest)?]))
}

/// Runs the cases by this shell on both kernels, the one under test and Linux, and compares them. `guest`
/// makes the guest of a kernel, with the option that brings the cases. Linux's results are kept, as a number
/// with the sources (`answers`) and whole for other runs, of other trees too: the same scripts on the same
/// image need not run again. But what differs from them is compared with what Linux says now; and cases that
/// sleep, and so go by time, run once more.
pub fn compare(
    context: &Context,
    cases: &[Case],
    shell: &str,
    (ours, theirs): (Guest, Guest),
    guest: impl Fn(Guest, &str) -> Guest,
) -> Result<Agreed> {
    let add = |cases: &[Case]| -> Result<String> {
        Ok(format!("--add={}:/cases", prepare(cases, shell)?.display()))
    };
    let all = add(cases)?;
    let theirs = guest(theirs, &all);
    let question = hash(cases, &theirs.describe());
    let first = cases.first().context("there are no cases")?;
    let name = format!("{}-{shell}-{}", theirs.arch(), first.name);
    let kept = tree::shared_cache("test")?.join(format!("linux-{question:016x}"));
    let ask = || {
        let given = ask_linux(&theirs, &kept)?;
        if context.update_answers {
            answers::note(&name, question, answers::digest(&given))?;
        }
        anyhow::Ok(given)
    };
    let ran = guest(ours.clone(), &all).run()?;
    let (found, complete) = parse(&ran.stdout);
    let earlier = if context.update_answers {
        None
    } else if answers::known(&name, question) == Some(answers::digest(&found)) {
        Some(found.clone())
    } else {
        remembered(&kept)
    };
    let again_on_linux = earlier.is_some();
    let mut expected = earlier.map_or_else(ask, Ok)?;
    let mut wrong = different(cases, &found, &expected);
    if !wrong.is_empty() && again_on_linux {
        expected = ask()?;
        wrong = different(cases, &found, &expected);
    }
    let mut complaints = Vec::new();
    if !complete {
        complaints.push(format!(
            "it did not get through; status {}\n{}",
            ran.status,
            ran.everything()
        ));
    }
    if let Err(error) = ran.clean_log() {
        complaints.push(format!("{error:#}"));
    }
    let mut later = String::new();
    // Some that do not go by time differ, too: then nothing is won.
    if complaints.is_empty() && wrong.keys().all(|i| cases[*i].text.contains("sleep")) {
        (wrong, later) = again(wrong, 1, |numbers| {
            let some: Vec<Case> = numbers.iter().map(|i| cases[*i].clone()).collect();
            let ran = guest(ours.clone(), &add(&some)?).run()?;
            ran.clean_log()?;
            // Each is the first, the second and so on of those that run now.
            let mut given = parse(&ran.stdout).0;
            let found = numbers.iter().enumerate();
            let found = found
                .filter_map(|(now, i)| Some((*i, given.remove(&now)?)))
                .collect();
            let mut wrong = different(cases, &found, &expected);
            wrong.retain(|i, _| numbers.contains(i));
            Ok(wrong)
        })?;
    }
    let right = cases.len() - wrong.len();
    complaints.splice(0..0, wrong.into_values());
    if complaints.is_empty() {
        return Ok(Agreed { cases: right, later });
    }
    bail!(
        "{right} of {} cases are the same as on Linux; these are not:\n{}",
        cases.len(),
        complaints.join("\n")
    )
}

/// Says of each case that is not the same what differs.
fn different(cases: &[Case], ours: &BTreeMap<usize, Given>, linux: &BTreeMap<usize, Given>) -> Wrong<usize> {
    let mut wrong = Wrong::new();
    for (i, case) in cases.iter().enumerate() {
        let differs = match (ours.get(&i), linux.get(&i)) {
            // Bash says this when the guest lacks a program. BusyBox has other words, for cases that want it.
            (_, Some(b)) if String::from_utf8_lossy(&b.stderr).contains(": command not found") => {
                format!("{}: a program that it calls was not brought", case.name)
            }
            (Some(a), Some(b)) if a == b => continue,
            (Some(a), Some(b)) => format!("{}:\n{}", case.name, difference(a, b)),
            (None, _) => format!("{}: not reached", case.name),
            (_, None) => format!("{}: Linux did not reach it", case.name),
        };
        wrong.insert(i, differs);
    }
    wrong
}

/// The most differing lines that are shown.
const SHOWN: usize = 12;

/// The first lines that differ.
fn difference(ours: &Given, linux: &Given) -> String {
    let mut text = String::new();
    if ours.status != linux.status {
        text += &format!("  status {} instead of {}\n", ours.status, linux.status);
    }
    for (name, a, b) in [
        ("stdout", &ours.stdout, &linux.stdout),
        ("stderr", &ours.stderr, &linux.stderr),
    ] {
        if a == b {
            continue;
        }
        let (a, b) = (String::from_utf8_lossy(a), String::from_utf8_lossy(b));
        let (mut x, mut y) = (a.lines(), b.lines());
        let (mut number, mut differ) = (0, 0);
        loop {
            number += 1;
            let (p, q) = (x.next(), y.next());
            if p.is_none() && q.is_none() {
                break;
            }
            if p != q {
                differ += 1;
                if differ > SHOWN {
                    continue;
                }
                let show =
                    |l: Option<&str>| l.map_or("(the end)".to_owned(), |l| l.chars().take(200).collect());
                text += &format!(
                    "  {name} line {number}: {}\n        instead of: {}\n",
                    show(p),
                    show(q)
                );
                // If lines are missing, all following lines differ, too.
                if a.lines().count() != b.lines().count() {
                    break;
                }
            }
        }
        if differ > SHOWN {
            text += &format!("  and {} more lines of {name}\n", differ - SHOWN);
        }
    }
    text
}
