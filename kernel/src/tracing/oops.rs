//! What a panic shows of traces: `ftrace_dump_on_oops`, a word of the command line and a setting. Its value
//! is Linux's: `0`; `1` or `2` (`orig_cpu`) for the top instance, of all CPUs or of the one that panics;
//! names of instances, with commas between, of which one with `=2` behind it is shown of that CPU only.

use super::event::list;
use super::read::Only;
use super::registry::{find_now, made};
use crate::arch::smp;
use crate::cmdline;
use crate::mm::reserve::room;
use crate::panic;
use crate::sync::SpinLock;
use alloc::vec::Vec;
use limen_linux_abi::Errno;

/// The length of the value in bytes, NUL included.
pub const LENGTH: usize = 100;

#[derive(Clone, Copy)]
struct Value {
    bytes: [u8; LENGTH],
    len: usize,
}

static VALUE: SpinLock<Value> = SpinLock::new(Value::of(b"0"));

impl Value {
    const fn of(text: &[u8]) -> Self {
        let mut value = Self {
            bytes: [0; LENGTH],
            len: 0,
        };
        while value.len < text.len() && value.len < LENGTH - 1 {
            value.bytes[value.len] = text[value.len];
            value.len += 1;
        }
        value
    }
    fn text(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The value; nothing without memory.
pub fn value() -> Vec<u8> {
    let value = *VALUE.lock();
    let mut text = Vec::new();
    if room(&mut text, value.len).is_ok() {
        text.extend_from_slice(value.text());
    }
    text
}

/// Sets the value; what is too long is cut off. `ENOMEM`. May sleep.
pub fn set_value(text: &[u8]) -> Result<(), Errno> {
    if text != b"0" {
        // A panic cannot allocate.
        list::make_programs()?;
    }
    *VALUE.lock() = Value::of(text);
    Ok(())
}

/// What the command line says. Boot.
pub(super) fn init() {
    panic::when_panicking(dump);
    let word = cmdline::words().filter_map(|word| word.strip_prefix("ftrace_dump_on_oops"));
    let Some(rest) = word.last() else { return };
    let mut value = Value::of(b"1");
    match rest.as_bytes() {
        [] => {}
        [b',', ..] => {
            let rest = Value::of(rest.as_bytes());
            let len = rest.len.min(LENGTH - 2);
            value.bytes[1..=len].copy_from_slice(&rest.bytes[..len]);
            value.len += len;
        }
        [b'=', value_of @ ..] => value = Value::of(value_of),
        _ => return,
    }
    if set_value(value.text()).is_err() {
        warning!("ftrace_dump_on_oops: no memory");
    }
}

/// Whether these words ask for the records of the CPU that panics.
fn is_own(word: &[u8]) -> bool {
    matches!(word, b"2" | b"orig_cpu")
}

/// Shows what was asked for. The panicking CPU, when the others stand still.
fn dump() {
    // Nobody will give it back if another CPU has it.
    let Some(value) = VALUE.try_lock().map(|value| *value) else {
        return;
    };
    let only = |own: bool| -> Only { own.then(smp::cpu_id) };
    for (n, word) in value.text().split(|byte| *byte == b',').enumerate() {
        if n == 0 && word == b"0" {
            if value.len == 1 {
                return;
            }
            continue;
        }
        if n == 0 && (word == b"1" || is_own(word)) {
            if let Some(top) = made() {
                top.show_at_panic(only(is_own(word)));
            }
            continue;
        }
        let mut parts = word.splitn(2, |byte| *byte == b'=');
        let name = parts.next().unwrap_or_default();
        match find_now(name) {
            Some(instance) => instance.show_at_panic(only(parts.next().is_some_and(is_own))),
            None => log!(Err, "Instance {} not found", name.escape_ascii()),
        }
    }
}
