//! The model finds what is wrong: engines with a fault each, against every rule under which the fault
//! matters.

mod common;

use common::{Model, absent, read_only, rules, tiny, writable};
use limen_linear_map::{Access, Edit, Entry, Leaf, Resize, Rule, Step};

const PAGE: u64 = 4096;
const BASE: u64 = 1 << 20;
const PAGES: u64 = 16;

/// A fault: it may do something else than the step says. It gets what it has done so far, and says whether
/// the step is done.
type Fault = fn(&mut State, &mut Model, &Step) -> Result<bool, String>;

#[derive(Default)]
struct State {
    /// How many times it struck.
    struck: usize,
    /// Which occasion to take.
    nth: usize,
    seen: usize,
    held: Vec<Step>,
}

impl State {
    /// Whether this is the occasion.
    fn strikes(&mut self) -> bool {
        self.seen += 1;
        let now = self.seen == self.nth + 1;
        self.struck += usize::from(now);
        now
    }
}

/// Changes that split, change, merge; each after those before it.
const STORY: [(u64, u64, fn() -> Edit); 9] = [
    (5, 6, read_only),
    (6, 7, read_only),
    (5, 7, writable),
    (4, 12, read_only),
    (0, 16, writable),
    (2, 6, absent),
    (3, 4, common::present),
    (0, 16, common::present),
    (1, 3, read_only),
];

/// Tells the story with the fault at its `nth` occasion. `None`: there is no such occasion.
fn tell(rule: Rule, fault: Fault, nth: usize, careless: bool) -> Option<Result<(), String>> {
    let geometry = if rule.group == Resize::Never {
        &tiny::NARROW
    } else {
        &tiny::DEEP
    };
    let pages = if rule.group == Resize::Never { 8 } else { PAGES };
    let mut model = Model::new(tiny::map(geometry, rule), BASE, 0, pages * PAGE, None);
    model.careless = careless;
    let mut state = State {
        nth,
        ..State::default()
    };
    for (start, end, edit) in STORY {
        let (start, end) = (
            BASE + start * pages / PAGES * PAGE,
            BASE + end.div_ceil(PAGES / pages) * PAGE,
        );
        let twist = |model: &mut Model, step: &Step| fault(&mut state, model, step);
        if let Err(error) = model.change_with(start, end, edit(), true, twist) {
            return Some(Err(error));
        }
    }
    (state.struck > 0 || careless).then_some(Ok(()))
}

/// How often the fault was found, and how often not.
fn try_all(rule: Rule, fault: Fault) -> (usize, usize) {
    let (mut found, mut missed) = (0, 0);
    for nth in 0.. {
        match tell(rule, fault, nth, false) {
            None => break,
            Some(Err(_)) => found += 1,
            Some(Ok(())) => missed += 1,
        }
    }
    (found, missed)
}

/// Each time the fault matters it is found, by each of the rules for which `matters` holds.
fn always_found(name: &str, fault: Fault, matters: impl Fn(&Rule) -> bool) {
    for (of, rule) in rules(false) {
        let (found, missed) = try_all(rule, fault);
        println!("{name}, {of}: found {found}, missed {missed}");
        if matters(&rule) {
            assert!(found > 0 && missed == 0, "{name}, {of}: missed {missed} times");
        } else {
            assert_eq!(found, 0, "{name}, {of}: does it matter?");
        }
    }
}

/// Each rule finds the fault on some occasions; on others it does not matter, because a later step makes up
/// for it before anybody could tell: nobody has a right to a page that is about to come, for example.
fn found(name: &str, fault: Fault, matters: impl Fn(&Rule) -> bool) {
    for (of, rule) in rules(false) {
        let (found, missed) = try_all(rule, fault);
        println!("{name}, {of}: found {found}, missed {missed}");
        assert_eq!(found > 0, matters(&rule), "{name}, {of}");
    }
}

fn all(_: &Rule) -> bool {
    true
}

#[test]
fn the_story_without_a_fault() {
    for (_, rule) in rules(false) {
        let none: Fault = |state, _, _| {
            state.struck = 1;
            Ok(false)
        };
        assert_eq!(tell(rule, none, 0, false), Some(Ok(())));
    }
}

#[test]
fn a_missing_barrier() {
    let fault: Fault = |state, _, step| Ok(*step == Step::Barrier && state.strikes());
    found("barrier", fault, all);
}

#[test]
fn an_invalidation_too_few() {
    let fault: Fault = |state, _, step| Ok(matches!(step, Step::Invalidate { .. }) && state.strikes());
    found("invalidation", fault, all);
}

#[test]
fn an_invalidation_too_short() {
    let fault: Fault = |state, model, step| {
        let mut short = *step;
        if let Step::Invalidate { end, .. } = &mut short
            && state.strikes()
        {
            *end -= PAGE;
            model.step(&short)?;
            return Ok(true);
        }
        Ok(false)
    };
    found("short invalidation", fault, all);
}

#[test]
fn an_invalidation_of_the_wrong_size() {
    let fault: Fault = |state, model, step| {
        let mut other = *step;
        if let Step::Invalidate { levels, .. } = &mut other
            && levels.1 > 0
            && state.strikes()
        {
            *levels = (levels.0, levels.1 - 1);
            model.step(&other)?;
            return Ok(true);
        }
        Ok(false)
    };
    found("size", fault, |rule| *rule == limen_linear_map::rule::POWER);
}

#[test]
fn a_way_that_is_not_forgotten() {
    let fault: Fault = |state, model, step| {
        let mut short = *step;
        if let Step::Invalidate { tables, .. } = &mut short
            && *tables
            && state.strikes()
        {
            *tables = false;
            model.step(&short)?;
            return Ok(true);
        }
        Ok(false)
    };
    always_found("walk caches", fault, all);
}

#[test]
fn a_split_that_changes_attributes() {
    let fault: Fault = |state, model, step| {
        let mut other = *step;
        if let Step::Write { entry, count, .. } = &mut other
            && let Entry::Leaf(leaf) = entry
            && leaf.is_present()
            && *count > 1
            && state.strikes()
        {
            leaf.attributes.access.toggle(Access::WRITE);
            model.step(&other)?;
            return Ok(true);
        }
        Ok(false)
    };
    found("attributes", fault, all);
    let execute: Fault = |state, model, step| {
        let mut other = *step;
        if let Step::Write { entry, .. } = &mut other
            && let Entry::Leaf(leaf) = entry
            && leaf.is_present()
            && state.strikes()
        {
            leaf.attributes.access |= Access::EXECUTE;
            model.step(&other)?;
            return Ok(true);
        }
        Ok(false)
    };
    found("execute", execute, all);
}

#[test]
fn a_split_to_other_memory() {
    let fault: Fault = |state, model, step| {
        let mut other = *step;
        if let Step::Write { entry, .. } = &mut other
            && let Entry::Leaf(leaf) = entry
            && leaf.is_present()
            && state.strikes()
        {
            leaf.phys += PAGE;
            model.step(&other)?;
            return Ok(true);
        }
        Ok(false)
    };
    found("memory", fault, all);
}

#[test]
fn an_early_free() {
    let fault: Fault = |state, model, step| {
        match step {
            Step::Invalidate { tables: true, .. } if state.strikes() => {
                state.held.push(*step);
                return Ok(true);
            }
            Step::Free { .. } if !state.held.is_empty() => {
                model.step(step)?;
                model.step(&state.held.pop().unwrap())?;
                return Ok(true);
            }
            _ => {}
        }
        Ok(false)
    };
    always_found("early free", fault, all);
}

#[test]
fn a_table_linked_before_it_is_full() {
    let fault: Fault = |state, model, step| {
        let Step::Write {
            table, count, entry, ..
        } = *step
        else {
            return Ok(false);
        };
        // The first write to a table that is not linked yet.
        let fills = matches!(entry, Entry::Leaf(_)) && count > 1 && !model.is_linked(table);
        if fills && state.held.is_empty() && state.strikes() {
            state.held.push(*step);
            return Ok(true);
        }
        if let Entry::Table(below) = entry
            && let Some(Step::Write { table, .. }) = state.held.first()
            && below == *table
        {
            model.step(step)?;
            let held = state.held.pop().unwrap();
            model.step(&held)?;
            return Ok(true);
        }
        Ok(false)
    };
    found("linked too early", fault, all);
}

#[test]
fn a_merge_that_ignores_a_page() {
    let none: Fault = |_, _, _| Ok(false);
    for (of, rule) in rules(false) {
        let told = tell(rule, none, 0, true);
        assert!(matches!(told, Some(Err(_))), "{of}: {told:?}");
    }
}

#[test]
fn nobody_parked() {
    let fault: Fault = |state, _, step| match step {
        Step::Park { .. } if state.strikes() => {
            state.held.push(*step);
            Ok(true)
        }
        Step::Unpark if !state.held.is_empty() => {
            state.held.clear();
            Ok(true)
        }
        _ => Ok(false),
    };
    always_found("parking", fault, |rule| !rule.quiet);
}

#[test]
fn no_break() {
    let fault: Fault = |state, _, step| {
        let breaks = |leaf: &Leaf| !leaf.is_present();
        Ok(matches!(step, Step::Write { entry: Entry::Leaf(leaf), .. } if breaks(leaf)) && state.strikes())
    };
    // Without a break in the rule these are pages that are to go.
    found("break", fault, all);
    let only_breaks: Fault = |state, model, step| {
        let breaks = |leaf: &Leaf| !leaf.is_present() && model.is_parked();
        Ok(matches!(step, Step::Write { entry: Entry::Leaf(leaf), .. } if breaks(leaf)) && state.strikes())
    };
    always_found("break", only_breaks, |rule| {
        [rule.table, rule.group, rule.group_access].contains(&Resize::Break)
    });
}

#[test]
fn no_mark() {
    let fault: Fault = |state, _, step| {
        Ok(matches!(step, Step::Write { entry: Entry::Leaf(leaf), .. } if leaf.marked) && state.strikes())
    };
    always_found("mark", fault, |rule| rule.table == Resize::Marked);
}

#[test]
fn a_group_not_unfolded() {
    let fault: Fault = |state, model, step| {
        let Step::Write {
            table,
            count,
            entry: Entry::Leaf(leaf),
            index,
            level,
            ..
        } = *step
        else {
            return Ok(false);
        };
        let group = model.was_group(table, level, index);
        Ok(count == 2 && group && !leaf.grouped && leaf.is_present() && state.strikes())
    };
    found("unfolding", fault, |rule| rule.group != Resize::Never);
}
