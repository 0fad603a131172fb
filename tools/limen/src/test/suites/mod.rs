//! More of Linux's selftests, of 6.1 and of 6.12, unmodified and static: whole folders, whose programs say
//! themselves which of their cases pass. A folder's programs run in one guest; `folders` says what is
//! expected of each. What Linux skips on the same machine is skipped; where Limen skips or fails more, the
//! reason is in its row.

mod endian;
mod folders;
mod newer;

use anyhow::{Context as _, Result, bail};

use super::guest::Guest;
use super::selftests::{self, Program};
use super::{Context, Step, Verdict};
use crate::arch::Arch;
use crate::linux::{self, Source};

/// A suite, and what the names of its programs' folders begin with.
type Suite = (Source, &'static str);
const STABLE: Suite = (Source::Stable, "linux");
const NEWER: Suite = (Source::Newer, "linux-6.12");

/// Seconds after which a program is killed, which is a failure, if its folder does not say others: the
/// suite's harness gives as many.
const LONGEST: u32 = 45;

/// What is expected of a program, on Linux and on Limen.
#[derive(Clone, Copy)]
enum Expect {
    /// No case fails, and none is skipped.
    Passes,
    /// So many cases, or the program, are skipped on both.
    Skips(usize),
    /// On Limen so many cases fail and so many are skipped, and why; on Linux none fails, and no more are
    /// skipped.
    Lacks(usize, usize, &'static str),
}
use Expect::{Lacks, Passes, Skips};

/// A program of a folder, and what is expected of it.
type Test = (Program, Expect);

/// A folder of a suite.
#[derive(Clone, Copy)]
struct Folder {
    /// The step's name, without the architecture.
    name: &'static str,
    suite: Suite,
    path: &'static str,
    include: &'static [&'static str],
    /// Programs that the tests start.
    helpers: &'static [Program],
    /// Options of tests that take longer without, by name.
    options: &'static [(&'static str, &'static str)],
    /// Seconds after which a program is killed.
    longest: u32,
    tests: &'static [Test],
    /// More of them, or what else is expected of one.
    more: &'static [Test],
    /// Those that fail there on Linux, too.
    not_on: &'static [(&'static str, Arch)],
}

/// What most folders of 6.1 say.
const OF_6_1: Folder = Folder {
    name: "",
    suite: STABLE,
    path: "",
    include: &[],
    helpers: &[],
    options: &[],
    longest: LONGEST,
    tests: &[],
    more: &[],
    not_on: &[],
};

/// The steps of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let boot = format!("boot-{arch}");
    let (own, newer): (&'static [Folder], &'static [Folder]) = match arch {
        Arch::Arm64 => (&folders::ARM64, &newer::ARM64),
        Arch::Powerpc64 => (&folders::POWERPC, &newer::POWERPC),
        Arch::X86_64 => (&folders::X86, &newer::X86),
        Arch::Arm => (&[], &[]),
    };
    let all = [&folders::EVERYWHERE, own, &newer::EVERYWHERE, newer];
    let step = |folder: &'static Folder| {
        let step = Step::on(arch, folder.name, move |context| run(context, arch, folder)).after(&boot);
        if folder.suite.0 == Source::Newer {
            step.by_name()
        } else {
            step
        }
    };
    let mut steps: Vec<Step> = all.into_iter().flatten().map(step).collect();
    if arch == Arch::Powerpc64 {
        steps.push(Step::on(arch, "selftests-powerpc-endian", endian::run).after(&boot));
    }
    steps
}

/// What a program's cases have come to.
#[derive(Debug, Default, PartialEq)]
struct Said {
    passed: usize,
    skipped: usize,
    failed: usize,
}

/// Reads what a program said, and its status: lines of the suite's harness (`ok 1 NAME`, `not ok 2 NAME`, `ok
/// 3 # SKIP why`), the words of powerpc's (`success: NAME`, `failure:`, `skip:`), or, of a program that has
/// neither, only the status, 4 of which means that it has been skipped; those of x86 say `[FAIL]`, and some
/// end well all the same.
fn read(text: &str, status: u32) -> Said {
    let mut said = Said::default();
    for line in text.lines() {
        let good = line.strip_prefix("ok ");
        if ["not ok ", "failure: ", "[FAIL]"]
            .iter()
            .any(|word| line.starts_with(word))
        {
            said.failed += 1;
        } else if good.is_some_and(|rest| rest.contains("# SKIP")) || line.starts_with("skip: ") {
            said.skipped += 1;
        } else if good.is_some() || line.starts_with("success: ") {
            said.passed += 1;
        }
    }
    match status {
        0 if said == Said::default() => said.passed = 1,
        0 => {}
        4 if said.passed + said.skipped == 0 => said.skipped = 1,
        4 => {}
        // One that gave up; its other cases have not run.
        _ if said.failed == 0 => said.failed = 1,
        _ => {}
    }
    said
}

/// What a program must say.
fn fits(said: &Said, expect: Expect, limen: bool) -> bool {
    match expect {
        Passes => said.failed == 0 && said.skipped == 0 && said.passed > 0,
        Skips(skipped) => said.failed == 0 && said.skipped == skipped,
        Lacks(failed, skipped, _) if limen => said.failed == failed && said.skipped == skipped,
        Lacks(..) => said.failed == 0 && said.passed > 0,
    }
}

/// Builds and runs a folder's programs.
fn run(context: &Context, arch: Arch, folder: &Folder) -> Result<Verdict> {
    let limen = on_limen(context)?;
    let (source, prefix) = folder.suite;
    if source == Source::Newer {
        if !limen {
            return Ok(Verdict::Skipped("only for Limen: Debian's Linux is older".into()));
        }
        if let Err(why) = source.selftests() {
            return Ok(Verdict::Skipped(format!("no source of Linux 6.12: {why:#}")));
        }
    }
    let mut tests = folder.tests.to_vec();
    tests.retain(|((name, ..), _)| folder.more.iter().all(|((other, ..), _)| other != name));
    tests.extend(folder.more);
    tests.retain(|((name, ..), _)| !folder.not_on.contains(&(*name, arch)));
    let programs: Vec<Program> = tests.iter().map(|(program, _)| *program).collect();
    let all = [&programs[..], folder.helpers].concat();
    let built = selftests::build(arch, (source, prefix), folder.path, folder.include, &all)?;
    // By way of a file: what a killed program has started may go on, and hold a pipe open.
    let mut script =
        "cd /t; p() { l=$1 n=$2; shift 2; timeout -s KILL $l ./$n \"$@\" </dev/null >/tmp/$n 2>&1; \
        echo \"= $n $?\"; cat /tmp/$n; echo; }\n"
            .to_owned();
    for (name, ..) in &programs {
        let options = folder.options.iter().find(|(of, _)| of == name);
        let options = options.map_or("", |(_, options)| options);
        script += &format!("p {} {name} {options}\n", folder.longest);
    }
    let ran = Guest::new(context, arch)
        .smp(4)
        .timeout(60 + folder.longest * programs.len() as u32)
        .option(format!("--add={}:/t", built.display()))
        .script(&(script + "exit 0\n"))
        .run()?;
    if ran.status != 0 {
        bail!("status {}\n{}", ran.status, ran.everything());
    }
    ran.clean_log()?;
    let text = ran.text();
    let parts: Vec<(&str, u32, &str)> = text.split("\n= ").filter_map(part).collect();
    let (mut cases, mut skipped, mut wrong) = (0, 0, Vec::new());
    let mut without = std::collections::BTreeMap::new();
    for ((name, ..), expect) in &tests {
        let Some((_, status, text)) = parts.iter().find(|(of, ..)| of == name) else {
            bail!("{name} has not run\n{text}");
        };
        let said = read(text, *status);
        if !fits(&said, *expect, limen) {
            wrong.push(format!("{name}: status {status}, {said:?}\n{text}"));
        }
        cases += said.passed;
        skipped += said.skipped;
        if let Lacks(_, _, why) = expect
            && limen
        {
            without.entry(*why).or_insert_with(Vec::new).push(*name);
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    let left: String = without
        .iter()
        .map(|(why, names)| format!("; not all of {}: {why}", names.join(", ")))
        .collect();
    Ok(Verdict::Passed(format!(
        "Linux's {}: {} programs, {cases} cases passed, {skipped} skipped{left}",
        folder.path,
        tests.len()
    )))
}

/// Whether the kernel under test is Limen, be it given as a file.
fn on_limen(context: &Context) -> Result<bool> {
    let Some(path) = &context.kernel else {
        return Ok(true);
    };
    if path.as_os_str() == crate::kernel::LINUX {
        return Ok(false);
    }
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(linux::identify(path, &bytes)?.0 == linux::Kind::Limen)
}

/// A program's name, its status, and what it said.
fn part(text: &str) -> Option<(&str, u32, &str)> {
    let (head, said) = text.split_once('\n').unwrap_or((text, ""));
    let (name, status) = head.trim_start_matches("= ").split_once(' ')?;
    Some((name, status.parse().ok()?, said))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(passed: usize, skipped: usize, failed: usize) -> Said {
        Said {
            passed,
            skipped,
            failed,
        }
    }

    #[test]
    fn what_programs_say_is_understood() {
        let tap = "TAP version 13\n1..3\nok 1 a\nok 2 # SKIP b\nnot ok 3 c\n# Totals: pass:1 fail:1 skip:1\n";
        assert_eq!(read(tap, 1), said(1, 1, 1));
        assert_eq!(read("test: x\nskip: x\n", 0), said(0, 1, 0));
        assert_eq!(read("success: x\n", 0), said(1, 0, 0));
        assert_eq!(read("[OK]\n", 0), said(1, 0, 0));
        assert_eq!(read("[OK]\ta\n[FAIL]\tb\n", 0), said(0, 0, 1));
        assert_eq!(read("", 4), said(0, 1, 0));
        assert_eq!(read("ok 1 a\nBail out!\n", 1), said(1, 0, 1));
        assert_eq!(read("", 137), said(0, 0, 1));
    }

    #[test]
    fn programs_are_told_apart() {
        let text = "= a 0\nok 1 x\n\n= b 137\n";
        let parts: Vec<_> = text.split("\n= ").filter_map(part).collect();
        assert_eq!(parts, [("a", 0, "ok 1 x\n"), ("b", 137, "")]);
    }
}
