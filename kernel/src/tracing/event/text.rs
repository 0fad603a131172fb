//! Events as text, for `trace` and `trace_pipe`.

use super::list::{Which, numbered};
use crate::sync::Once;
use crate::trace::symbols::Symbol;
use crate::tracing::names::Events;
use core::fmt::{self, Write};
use limen_trace_events::print::Output;
use limen_trace_text::Entry;

/// Who writes it.
pub struct Text;

/// Where it goes, with what only the kernel knows.
struct To<'a>(&'a mut dyn Write);

impl Write for To<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write_str(text)
    }
}

impl Output for To<'_> {
    fn symbol(&mut self, address: u64, offset: bool) -> fmt::Result {
        Symbol(address as usize).write(offset, self.0)
    }
    fn pointer(&mut self, address: u64) -> fmt::Result {
        // As Linux: the same address is always the same number, and nobody learns where it is.
        static KEY: Once<u64> = Once::new();
        let key = *KEY.get_or_init(crate::random::word);
        let mixed = (address ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ key.rotate_left(17);
        let shown = if address == 0 { 0 } else { mixed >> 32 };
        write!(self.0, "{shown:0width$x}", width = 2 * size_of::<usize>())
    }
}

impl Events for Text {
    fn event(&self, entry: &Entry<'_>, out: &mut dyn Write) -> Result<bool, fmt::Error> {
        let Some(event) = numbered(entry.common.kind.0) else {
            return Ok(false);
        };
        match event.which {
            Which::Call(end, call) => call.print(end, entry.data, out)?,
            Which::Declared(place) => {
                event.with_name(|name| write!(out, "{name}: "))?;
                match event.program(place) {
                    Some(program) => program.print(entry.data, &mut To(out))?,
                    None => out.write_str("(no memory)")?,
                }
            }
        }
        Ok(true)
    }
}
