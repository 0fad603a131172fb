//! A trace as one page: a timeline with a row for each thread, and a flame graph. It needs nothing from
//! elsewhere. `page.css` and `page.js` are what it looks like and what it does.

use std::collections::HashMap;

use serde_json::json;

use super::flame;
use super::parse::Trace;

const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
     <meta name=\"viewport\" content=\"width=device-width\">\n<title>Trace</title>\n<style>\n";
const BODY: &str = r#"</style>
<header>
<h1>Trace</h1>
<p id="about"></p>
<input id="find" type="search" placeholder="find a name" aria-label="find a name">
<button id="whole">whole trace</button>
</header>
<h2>Timeline</h2>
<p class="hint">wheel: zoom, drag: move, click: details</p>
<div id="lines"><canvas id="time"></canvas></div>
<p id="detail">&nbsp;</p>
<h2 id="flame-title">Flame graph</h2>
<p class="hint">click: zoom in, click the lowest bar: back</p>
<div id="lines2"><canvas id="flame"></canvas></div>
<div id="tip" hidden></div>
<script type="application/json" id="data">"#;

/// The whole page.
pub fn page(trace: &Trace) -> String {
    let data = data(trace).to_string();
    let parts = [
        HEAD,
        include_str!("page.css"),
        BODY,
        // Nothing in the data ends the element that it is in.
        &data.replace('<', "\\u003c"),
        "</script>\n<script>\n",
        include_str!("page.js"),
        "</script>\n</html>\n",
    ];
    parts.concat()
}

/// What the page's script reads. Times are nanoseconds after the first; names are indices.
fn data(trace: &Trace) -> serde_json::Value {
    let starts = trace.calls.iter().map(|c| c.start);
    let origin = starts.chain(trace.marks.iter().map(|m| m.at)).min().unwrap_or(0);
    let mut names: Vec<&str> = Vec::new();
    let mut index: HashMap<&str, usize> = HashMap::new();
    let mut number = |name| {
        *index.entry(name).or_insert_with(|| {
            names.push(name);
            names.len() - 1
        })
    };
    let calls: Vec<_> = trace
        .calls
        .iter()
        .map(|c| {
            let name = number(&c.name);
            json!([
                c.thread,
                c.start - origin,
                c.end - c.start,
                c.depth,
                name,
                c.cpu,
                u8::from(c.open)
            ])
        })
        .collect();
    let marks: Vec<_> = trace
        .marks
        .iter()
        .map(|m| {
            let (name, detail) = (number(&m.name), number(&m.detail));
            json!([m.thread, m.at - origin, name, detail, m.cpu, u8::from(m.event)])
        })
        .collect();
    let threads: Vec<_> = trace.threads.iter().map(|t| json!([t.name, t.number])).collect();
    json!({
        "threads": threads,
        "calls": calls,
        "marks": marks,
        "names": names,
        "origin": origin,
        "flame": flame::sum(trace).json("all"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::parse::{parse, tests};
    use super::page;

    #[test]
    fn a_page_is_whole_and_asks_for_nothing() -> Result<(), serde_json::Error> {
        let hostile = "</script><b>-1 [000] ..... 1.500000: </script><script>alert(1)// <-</style>\n";
        for text in [tests::FUNCTION, tests::GRAPH, hostile, ""] {
            let page = page(&parse(text.as_bytes()));
            assert_eq!(page.matches("</script>").count(), 2);
            assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("src="));
            let from = page.find("id=\"data\">").map_or(0, |at| at + 10);
            let end = page.find("</script>").unwrap_or(0);
            let data: serde_json::Value = serde_json::from_str(&page[from..end])?;
            assert!(data["flame"].is_array() && data["threads"].is_array());
        }
        Ok(())
    }
}
