//! Globs against a matcher that tries every way.

use limen_trace_sites::glob::Glob;
use proptest::prelude::*;

enum Part {
    Star,
    Any,
    Class { inverted: bool, ranges: Vec<(u8, u8)> },
    Byte(u8),
}

fn parts(pattern: &[u8]) -> Vec<Part> {
    let (mut parts, mut rest) = (Vec::new(), pattern);
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        parts.push(match first {
            b'*' => Part::Star,
            b'?' => Part::Any,
            b'\\' => match rest.split_first() {
                Some((&byte, after)) => {
                    rest = after;
                    Part::Byte(byte)
                }
                None => break,
            },
            b'[' => {
                let inverted = rest.first() == Some(&b'!');
                let body = &rest[usize::from(inverted)..];
                // Item by item, so that a range never ends at the closing bracket.
                let (mut ranges, mut at) = (Vec::new(), 0);
                let end = loop {
                    let Some(&low) = body.get(at) else { break None };
                    if low == b']' && at > 0 {
                        break Some(at + 1);
                    }
                    match body.get(at + 1..at + 3) {
                        Some(&[b'-', high]) if high != b']' => {
                            ranges.push((low, high));
                            at += 3;
                        }
                        _ => {
                            ranges.push((low, low));
                            at += 1;
                        }
                    }
                };
                match end {
                    Some(end) => {
                        rest = &body[end..];
                        Part::Class { inverted, ranges }
                    }
                    None => Part::Byte(b'['),
                }
            }
            byte => Part::Byte(byte),
        });
    }
    parts
}

fn naive(parts: &[Part], name: &[u8]) -> bool {
    let Some((first, later)) = parts.split_first() else {
        return name.is_empty();
    };
    if let Part::Star = first {
        return (0..=name.len()).any(|taken| naive(later, &name[taken..]));
    }
    let Some((&byte, rest)) = name.split_first() else {
        return false;
    };
    let fits = match first {
        Part::Star => unreachable!(),
        Part::Any => true,
        Part::Byte(wanted) => byte == *wanted,
        Part::Class { inverted, ranges } => {
            ranges.iter().any(|&(low, high)| low <= byte && byte <= high) != *inverted
        }
    };
    fits && naive(later, rest)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn as_the_naive_matcher(pattern in r"[ab*?\[\]!\\-]{0,9}", name in r"[ab\]!-]{0,7}") {
        let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
        prop_assert_eq!(Glob::new(pattern).matches(name), naive(&parts(pattern), name));
    }

    #[test]
    fn any_bytes(pattern: Vec<u8>, name: Vec<u8>) {
        let _ = Glob::new(&pattern).matches(&name);
    }
}
