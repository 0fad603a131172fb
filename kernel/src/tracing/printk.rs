//! Text of modules in the trace of the top instance (Linux's `trace_printk`): put together by who records it,
//! or as a format and its arguments, of which text is made when the trace is read.

use super::record::common;
use super::{Instance, made, marker, top};
use crate::mm::reserve::{room, room_exact};
use crate::rcu::{self, Retire, Shared, Slot};
use crate::sync::Mutex;
use crate::sync::lockdep::fallible;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use limen_linux_abi::Errno;
use limen_trace_text::entry::LONG;
use limen_trace_text::{Kind, Options};

/// The texts to which records refer, by address. They are never freed, since records of a module that has
/// gone are still read; but each is kept once.
struct Texts(Vec<&'static [u8]>);

impl Retire for Texts {}

static TEXTS: Slot<Texts> = Slot::empty();
static CHANGING: Mutex<()> = Mutex::new(());

fn address(text: &[u8]) -> usize {
    text.as_ptr() as usize
}

/// Keeps a copy of a text, and returns its address, by which records refer to it. `ENOMEM`. May sleep.
pub fn keep(text: &[u8]) -> Result<usize, Errno> {
    let _changing = CHANGING.lock();
    let old = TEXTS.get(&rcu::read());
    let old = old.as_ref().map_or(&[][..], |texts| &texts.0);
    if let Some(known) = old.iter().find(|known| **known == text) {
        return Ok(address(known));
    }
    let mut new = Vec::new();
    room_exact(&mut new, old.len() + 1)?;
    let mut copy = Vec::new();
    // Nothing is at the address of an empty one.
    room(&mut copy, text.len().max(1))?;
    copy.extend_from_slice(text);
    let copy: &'static [u8] = copy.leak();
    new.extend_from_slice(old);
    let at = new.partition_point(|known| address(known) < address(copy));
    new.insert(at, copy);
    let new = fallible(|| Shared::try_new(Texts(new))).ok_or(Errno::ENOMEM)?;
    drop(TEXTS.replace(Some(new)));
    Ok(address(copy))
}

/// The text at an address that [`keep`] returned.
pub fn kept(at: usize) -> Option<&'static [u8]> {
    let reader = rcu::read();
    let texts = &TEXTS.load(&reader)?.0;
    let n = texts.binary_search_by_key(&at, |text| address(text)).ok()?;
    texts.get(n).copied()
}

/// Calls `f` with each text that is kept, and its address (`printk_formats`).
pub fn each(mut f: impl FnMut(usize, &[u8])) {
    let texts = TEXTS.get(&rcu::read());
    for text in texts.iter().flat_map(|texts| &texts.0) {
        f(address(text), text);
    }
}

/// Somebody is about to record text: sees to it that there is where. `ENOMEM`. May sleep.
pub fn begin() -> Result<(), Errno> {
    top()?.expand()
}

/// The instance that gets it.
fn instance() -> Option<&'static Instance> {
    made()
        .map(|top| &**top)
        .filter(|top| top.options().contains(Options::PRINTK))
}

/// Records text, which comes from `ip`. What does not fit is cut. In any context but idle.
pub fn print(ip: usize, text: &[u8]) {
    if let Some(top) = instance() {
        marker::print(top, ip, &text[..top.marker_room(text.len())]);
    }
}

/// Records a text that is kept at `text`, which comes from `ip`. In any context but idle.
pub fn puts(ip: usize, text: usize) {
    record(Kind::BPUTS, ip, text, &[]);
}

/// Records a format that is kept at `format`, and its arguments as `limen_trace_text` has them, which come
/// from `ip`. In any context but idle.
pub fn binary(ip: usize, format: usize, arguments: &[u8]) {
    record(Kind::BPRINT, ip, format, arguments);
}

fn record(kind: Kind, ip: usize, text: usize, arguments: &[u8]) {
    let Some(top) = instance() else { return };
    let most = top.marker_room(LONG + arguments.len()).saturating_sub(LONG);
    let arguments = &arguments[..arguments.len().min(most)];
    top.record_with(common(kind, 0), 2 * LONG + arguments.len(), |words| {
        let longs = [ip, text].into_iter().flat_map(usize::to_ne_bytes);
        fill(words, longs.chain(arguments.iter().copied()));
    });
}

/// Stores bytes, and zeros behind them.
pub(super) fn fill(words: &[AtomicU32], mut bytes: impl Iterator<Item = u8>) {
    for word in words {
        let four = [(); 4].map(|()| bytes.next().unwrap_or(0));
        word.store(u32::from_ne_bytes(four), Relaxed);
    }
}
