//! The kernel command line. What is not an option of the kernel's goes to init, as on Linux: words without
//! `=`, and all behind `--`, become arguments; words with `=` and without a dot become environment.

use alloc::string::String;

static mut RAW: [u8; 4096] = [0; 4096];
static LEN: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);

/// Keeps a copy of the line. Called once, before anything else.
#[unsafe(link_section = ".init.text")]
pub fn init(line: &str) {
    let line = line.trim();
    let n = line.len().min(4096);
    // SAFETY: called once, when there is no other CPU or reader yet.
    unsafe {
        core::ptr::copy_nonoverlapping(line.as_ptr(), (&raw mut RAW).cast::<u8>(), n);
    }
    LEN.store(n, core::sync::atomic::Ordering::Release);
}

/// The whole line.
pub fn raw() -> &'static str {
    let n = LEN.load(core::sync::atomic::Ordering::Acquire);
    // SAFETY: the first `n` bytes were written before `LEN`, came from a `str` and never change.
    unsafe { core::str::from_utf8_unchecked(core::slice::from_raw_parts((&raw const RAW).cast::<u8>(), n)) }
}

/// The words before `--`.
pub fn words() -> impl Iterator<Item = &'static str> {
    raw().split_ascii_whitespace().take_while(|w| *w != "--")
}

/// The words after `--`: arguments for init.
pub fn after_dashes() -> impl Iterator<Item = &'static str> {
    raw().split_ascii_whitespace().skip_while(|w| *w != "--").skip(1)
}

/// The value of `name=value`, the last one given.
pub fn value(name: &str) -> Option<&'static str> {
    words()
        .filter_map(|w| w.strip_prefix(name)?.strip_prefix('='))
        .last()
}

/// The value of `name=value` in bytes. It may end in `K`, `M` or `G`. `None`: it was not given, or is not a
/// size.
pub fn size(name: &str) -> Option<u64> {
    let value = value(name)?;
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &value[digits.len()..] {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A word that says yes or no, by its first letters (`1`, `y`, `t`, `on`; `0`, `n`, `f`, `of`), as Linux
/// reads them. `None`: it says neither.
pub fn truth(word: &str) -> Option<bool> {
    let mut letters = word.bytes().map(|letter| letter.to_ascii_lowercase());
    match (letters.next()?, letters.next()) {
        (b'1' | b'y' | b't', _) | (b'o', Some(b'n')) => Some(true),
        (b'0' | b'n' | b'f', _) | (b'o', Some(b'f')) => Some(false),
        _ => None,
    }
}

/// Whether the word `name` was given, without a value.
pub fn flag(name: &str) -> bool {
    words().any(|w| w == name)
}

/// The line as `/proc/cmdline` shows it.
pub fn for_proc() -> String {
    let mut s = String::from(raw());
    s.push('\n');
    s
}
