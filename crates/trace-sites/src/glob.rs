//! Patterns of function names: `*` any text, `?` any byte, `[a-z]` and `[!a-z]` one of those or one of the
//! others, `\` the next byte as it is. A `[` without its `]` is an ordinary byte. Most patterns have a `*`
//! only at their ends, and are compared without any search for the right split.
//!
//! Time is at worst the product of the two lengths: a `*` takes as little as it can, and only the last one
//! is ever reconsidered, since one that came before cannot find a better place than its first.

/// How a pattern is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Full,
    Front,
    Middle,
    End,
    General,
}

/// A pattern.
#[derive(Clone, Copy, Debug)]
pub struct Glob<'a> {
    shape: Shape,
    /// What is compared: without the `*` at the ends, unless it is [`Shape::General`].
    text: &'a [u8],
}

impl<'a> Glob<'a> {
    /// The pattern that `text` is. Every text is one.
    pub fn new(text: &'a [u8]) -> Self {
        let (inner, open_front) = text.strip_prefix(b"*").map_or((text, false), |rest| (rest, true));
        let (inner, open_end) = inner
            .strip_suffix(b"*")
            .map_or((inner, false), |rest| (rest, true));
        if inner.iter().any(|byte| b"*?[\\".contains(byte)) {
            return Self {
                shape: Shape::General,
                text,
            };
        }
        let shape = match (open_front, open_end) {
            (false, false) => Shape::Full,
            (false, true) => Shape::Front,
            (true, true) => Shape::Middle,
            (true, false) => Shape::End,
        };
        Self { shape, text: inner }
    }
    /// Whether the pattern is empty, or nothing but `*`: where a part of a command may be left out, this says
    /// that it is.
    pub fn is_blank(&self) -> bool {
        self.text.is_empty()
    }
    /// Whether `name` matches. Allocates nothing.
    pub fn matches(&self, name: &[u8]) -> bool {
        match self.shape {
            Shape::Full => name == self.text,
            Shape::Front => name.starts_with(self.text),
            Shape::End => name.ends_with(self.text),
            Shape::Middle => {
                self.text.is_empty() || name.windows(self.text.len()).any(|part| part == self.text)
            }
            Shape::General => general(self.text, name),
        }
    }
}

/// What one byte is compared with.
enum Element {
    /// Whether it matches, and where the pattern goes on.
    Byte(bool, usize),
    /// The pattern goes on here, with any text before it.
    Star(usize),
    /// The pattern has ended.
    End,
}

/// The class that begins behind a `[`: whether `byte` is in it, and where the pattern goes on. `None`: there
/// is no `]`.
fn class(pattern: &[u8], start: usize, byte: u8) -> Option<(bool, usize)> {
    let inverted = pattern.get(start) == Some(&b'!');
    let mut at = start + usize::from(inverted);
    let mut found = false;
    // A `]` that comes first is one of the bytes.
    let mut low = *pattern.get(at)?;
    loop {
        at += 1;
        let mut high = low;
        if pattern.get(at) == Some(&b'-') && pattern.get(at + 1) != Some(&b']') {
            high = *pattern.get(at + 1)?;
            at += 2;
        }
        found |= (low..=high).contains(&byte);
        low = *pattern.get(at)?;
        if low == b']' {
            return Some((found != inverted, at + 1));
        }
    }
}

fn element(pattern: &[u8], at: usize, byte: u8) -> Element {
    match pattern.get(at) {
        None => Element::End,
        Some(b'*') => Element::Star(at + 1),
        Some(b'?') => Element::Byte(true, at + 1),
        Some(b'[') => match class(pattern, at + 1, byte) {
            Some((found, next)) => Element::Byte(found, next),
            None => Element::Byte(byte == b'[', at + 1),
        },
        Some(b'\\') => match pattern.get(at + 1) {
            Some(&literal) => Element::Byte(literal == byte, at + 2),
            None => Element::End,
        },
        Some(&literal) => Element::Byte(literal == byte, at + 1),
    }
}

fn general(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    // Behind the last `*`, and how much of the name it and all before it have taken.
    let mut last_star: Option<(usize, usize)> = None;
    while let Some(&byte) = name.get(read) {
        match element(pattern, at, byte) {
            Element::Star(next) => {
                last_star = Some((next, read));
                at = next;
            }
            Element::Byte(true, next) => {
                at = next;
                read += 1;
            }
            Element::Byte(false, _) | Element::End => {
                let Some((next, taken)) = last_star else {
                    return false;
                };
                last_star = Some((next, taken + 1));
                (at, read) = (next, taken + 1);
            }
        }
    }
    let rest = &pattern[at..];
    let rest = &rest[rest.iter().take_while(|&&byte| byte == b'*').count()..];
    rest.is_empty() || rest == b"\\"
}

#[cfg(test)]
mod tests {
    use super::Glob;

    fn matches(pattern: &str, name: &str) -> bool {
        Glob::new(pattern.as_bytes()).matches(name.as_bytes())
    }

    #[test]
    fn shapes() {
        for (pattern, yes, no) in [
            ("schedule", "schedule", "schedule_tail"),
            ("schedule*", "schedule_tail", "do_schedule"),
            ("*schedule", "do_schedule", "schedule_tail"),
            ("*schedule*", "do_schedule_tail", "do_sched"),
            ("mutex*unl*", "mutex_unlock", "mutex_lock"),
            ("*", "x", "\0never"),
            ("a?c", "abc", "ac"),
            ("[a-c]x", "bx", "dx"),
            ("[!a-c]x", "dx", "bx"),
            ("[]a]x", "]x", "bx"),
            ("[a-]x", "-x", "bx"),
            ("[abc", "[abc", "a"),
            ("a\\*b", "a*b", "axb"),
            ("a\\", "a", "a\\"),
            ("a*\\", "axx", "b"),
            ("", "", "a"),
            ("a*b*", "aabb", "ba"),
        ] {
            assert!(matches(pattern, yes), "{pattern} {yes}");
            assert!(no.starts_with('\0') || !matches(pattern, no), "{pattern} {no}");
        }
    }

    #[test]
    fn blank() {
        for text in ["", "*", "**"] {
            assert!(Glob::new(text.as_bytes()).is_blank());
        }
        for text in ["a", "*a", "***", "\\"] {
            assert!(!Glob::new(text.as_bytes()).is_blank());
        }
    }

    #[test]
    fn many_stars_take_bounded_time() {
        let pattern = "*a".repeat(200) + "b";
        assert!(!matches(&pattern, &"a".repeat(500)));
    }
}
