//! Patterns of names, as all tracing files understand them.

/// A pattern: `*`, `?`, `[a-z]`, `[!a-z]`, and `\` before a character that stands for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glob<'a>(pub &'a [u8]);

impl Glob<'_> {
    /// Whether the whole of `text` matches.
    pub fn matches(self, text: &[u8]) -> bool {
        matches(self.0, text)
    }
}

/// Whether the whole of `text` matches `pattern`. Takes at most as many steps as the product of their
/// lengths, and does not recurse.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Behind the last `*`, and where in the text what follows it was last tried.
    let mut star = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            if p == pattern.len() {
                return true;
            }
            star = Some((p, t));
            continue;
        }
        match (pattern.get(p), text.get(t)) {
            (None, None) => return true,
            (Some(_), Some(byte)) => {
                if let Some(len) = one(&pattern[p..], *byte) {
                    p += len;
                    t += 1;
                    continue;
                }
            }
            _ => {}
        }
        match star {
            Some((after, from)) if from < text.len() => {
                star = Some((after, from + 1));
                (p, t) = (after, from + 1);
            }
            _ => return false,
        }
    }
}

/// If the pattern's first item matches `byte`, its length.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', other, ..] => (*other == byte).then_some(2),
        [b'[', rest @ ..] => match set(rest, byte) {
            Some((len, inside)) => inside.then_some(len + 1),
            None => (byte == b'[').then_some(1),
        },
        [other, ..] => (*other == byte).then_some(1),
        [] => None,
    }
}

/// The length of a set behind its `[`, and whether `byte` is in it. `None`: it does not end.
fn set(pattern: &[u8], byte: u8) -> Option<(usize, bool)> {
    let negated = pattern.first() == Some(&b'!');
    let mut at = usize::from(negated);
    let mut inside = false;
    let first = at;
    loop {
        let low = *pattern.get(at)?;
        at += 1;
        if low == b']' && at > first + 1 {
            return Some((at, inside != negated));
        }
        let mut high = low;
        if let Some([b'-', end]) = pattern.get(at..at + 2)
            && *end != b']'
        {
            high = *end;
            at += 2;
        }
        inside |= (low..=high).contains(&byte);
    }
}
