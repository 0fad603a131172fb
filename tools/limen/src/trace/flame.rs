//! Adds up a trace for a flame graph: where the time of calls goes, and how often functions and events came.

use std::collections::BTreeMap;

use super::parse::Trace;

/// A frame of a flame graph.
#[derive(Default, Debug)]
pub struct Frame {
    /// Nanoseconds with those within, or how often it came.
    pub weight: u64,
    pub count: u64,
    pub within: BTreeMap<String, Frame>,
}

impl Frame {
    /// A frame as `[name, weight, count, [frames within]]`.
    pub fn json(&self, name: &str) -> serde_json::Value {
        let within: Vec<_> = self.within.iter().map(|(name, frame)| frame.json(name)).collect();
        serde_json::json!([name, self.weight, self.count, within])
    }
}

/// The deepest frames that are kept: browsers and JSON readers limit how deep a document is.
const DEEPEST: usize = 60;

/// The whole trace. With calls, weights are nanoseconds in them; without, how often marks came, below the
/// functions that they were called from.
pub fn sum(trace: &Trace) -> Frame {
    let mut all = Frame::default();
    if trace.calls.is_empty() {
        for mark in &trace.marks {
            let mut path = vec![trace.threads[mark.thread].name.as_str()];
            if !mark.event {
                path.push(&mark.detail);
            }
            path.push(&mark.name);
            add(&mut all, &path, 1, true);
            all.weight += 1;
        }
        return all;
    }
    // A call's callers come after it among the calls of its thread, so each thread is read backwards.
    let mut stacks: Vec<Vec<&str>> = vec![Vec::new(); trace.threads.len()];
    for call in trace.calls.iter().rev() {
        let stack = &mut stacks[call.thread];
        stack.truncate(call.depth);
        stack.push(&call.name);
        let mut path = vec![trace.threads[call.thread].name.as_str()];
        path.extend(stack.iter().take(DEEPEST));
        if stack.len() > DEEPEST {
            continue;
        }
        let time = call.end - call.start;
        add(&mut all, &path, time, false);
        if call.depth == 0 {
            all.weight = all.weight.saturating_add(time);
            if let Some(thread) = all.within.get_mut(path[0]) {
                thread.weight = thread.weight.saturating_add(time);
            }
        }
    }
    all
}

/// Adds to the frame at a path and, if `on_the_way`, to those that it is within.
fn add(all: &mut Frame, path: &[&str], weight: u64, on_the_way: bool) {
    let mut frame = all;
    for (i, name) in path.iter().enumerate() {
        frame = frame.within.entry((*name).to_owned()).or_default();
        if on_the_way || i + 1 == path.len() {
            frame.weight = frame.weight.saturating_add(weight);
            frame.count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::{parse, tests};
    use super::sum;

    #[test]
    fn time_goes_to_the_calls_it_was_spent_in() {
        let all = sum(&parse(tests::GRAPH.as_bytes()));
        let sh = &all.within["sh"];
        let open = &sh.within["do_sys_open"];
        assert_eq!((open.weight, open.count), (10_000, 1));
        assert_eq!(open.within["getname"].weight, 500);
        assert_eq!(sh.weight, 11_500);
        assert_eq!(all.weight, 11_500, "the one that is open took no time");
    }

    #[test]
    fn functions_and_events_are_counted() {
        let all = sum(&parse(tests::FUNCTION.as_bytes()));
        assert_eq!(all.weight, 4);
        assert_eq!(all.within["cat"].weight, 3);
        assert_eq!(
            all.within["cat"].within["execve"].within["Program::open"].count,
            1
        );
        assert_eq!(all.within["cat"].within["sched_switch"].weight, 1);
        assert_eq!(sum(&parse(b"")).weight, 0);
    }
}
