//! Events that are on from boot (`trace_event=`).

use super::text::Text;
use crate::cmdline;
use crate::tracing::{self, console, names, oops, warned};

/// Events have a text from now on, and those that the command line names are on. Boot.
pub fn init() {
    names::set_events(&Text);
    oops::init();
    warned::init();
    console::init();
    let Some(words) = cmdline::value("trace_event") else {
        return;
    };
    let Ok(top) = tracing::top() else { return };
    for word in words.split(',').filter(|word| !word.is_empty()) {
        if top.select_events(word.as_bytes()).is_err() {
            warning!("trace_event: there is no event {word}");
        }
    }
}
