//! A trace as JSON in the trace event format, which Perfetto (ui.perfetto.dev) and `chrome://tracing` open: a
//! track for each thread, slices for calls, instants for functions and events. Times are microseconds.

use std::fmt::Write;

use super::parse::Trace;

/// The whole document.
pub fn page(trace: &Trace) -> String {
    let mut out = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    let mut first = true;
    let mut add = |entry: std::fmt::Arguments<'_>| {
        out.push_str(if std::mem::take(&mut first) { "\n" } else { ",\n" });
        // Writing to a string does not fail.
        let _ = out.write_fmt(entry);
    };
    let ids: Vec<(u64, u64)> = trace
        .threads
        .iter()
        .map(|t| (t.process.unwrap_or(t.number), t.number))
        .collect();
    for (thread, (pid, tid)) in trace.threads.iter().zip(&ids) {
        let name = quoted(&thread.name);
        for (kind, of) in [("thread_name", true), ("process_name", pid == tid)] {
            if of {
                add(format_args!(
                    "{{\"ph\":\"M\",\"name\":\"{kind}\",\"pid\":{pid},\"tid\":{tid},\
                     \"args\":{{\"name\":{name}}}}}"
                ));
            }
        }
    }
    for call in &trace.calls {
        let (pid, tid) = ids[call.thread];
        let open = if call.open { ",\"open\":true" } else { "" };
        add(format_args!(
            "{{\"ph\":\"X\",\"cat\":\"function\",\"name\":{},\"pid\":{pid},\"tid\":{tid},\"ts\":{},\
             \"dur\":{},\
             \"args\":{{\"cpu\":{}{open}}}}}",
            quoted(&call.name),
            micros(call.start),
            micros(call.end - call.start),
            call.cpu
        ));
    }
    for mark in &trace.marks {
        let (pid, tid) = ids[mark.thread];
        let (category, key) = if mark.event {
            ("event", "fields")
        } else {
            ("function", "caller")
        };
        add(format_args!(
            "{{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"{category}\",\"name\":{},\"pid\":{pid},\"tid\":{tid},\
             \"ts\":{},\"args\":{{\"cpu\":{},\"{key}\":{}}}}}",
            quoted(&mark.name),
            micros(mark.at),
            mark.cpu,
            quoted(&mark.detail)
        ));
    }
    out.push_str("\n]}\n");
    out
}

/// Nanoseconds as microseconds.
fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::parse::{parse, tests};
    use super::page;

    #[test]
    fn it_is_json_with_slices_and_instants() -> Result<(), serde_json::Error> {
        let of = |text: &str| serde_json::from_str::<serde_json::Value>(&page(&parse(text.as_bytes())));
        let graph = of(tests::GRAPH)?;
        let events = graph["traceEvents"].as_array().cloned().unwrap_or_default();
        let open = events
            .iter()
            .find(|e| e["name"] == "do_sys_open")
            .cloned()
            .unwrap_or_default();
        assert_eq!(
            (&open["ph"], &open["tid"], &open["dur"]),
            (&"X".into(), &80.into(), &10.0.into())
        );
        assert_eq!(open["ts"], 9_000_010.0);
        let function = of(tests::FUNCTION)?;
        let events = function["traceEvents"].as_array().cloned().unwrap_or_default();
        let open = events
            .iter()
            .find(|e| e["name"] == "openat")
            .cloned()
            .unwrap_or_default();
        assert_eq!(
            (&open["ph"], &open["pid"], &open["tid"]),
            (&"i".into(), &12.into(), &13.into())
        );
        assert_eq!(open["args"]["caller"], "x86_syscall");
        assert!(
            events
                .iter()
                .any(|e| e["ph"] == "M" && e["args"]["name"] == "a b-c d")
        );
        of("a\"\\\u{1}</script>-1 [0] 1.5: \"\\\u{2}: x\n")?;
        of("")?;
        Ok(())
    }
}
