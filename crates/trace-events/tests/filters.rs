//! Filters: Linux's grammar and errors, and random ones compared with an evaluator that only follows the
//! tree.

use limen_trace_events::filter::{Cause, Context, Error, Filter};
use limen_trace_events::{Event, Field, trace_event};
use proptest::prelude::*;

trace_event! {
    /// Of every kind.
    test: Sample<'a> = "sample" {
        /// Signed.
        a: "int" i32,
        /// Unsigned.
        b: "u8" u8,
        /// Wide.
        c: "u64" u64,
        /// Characters.
        word: "char" [u8; 8],
        /// A string.
        path: "__data_loc char[]" limen_trace_events::Str<'a>,
        /// No number.
        list: "unsigned long" [usize; 2],
    }
    print "\"\""
}

const FIELDS: &[Field] = Sample::DESCRIPTION.fields;

fn record(a: i32, b: u8, c: u64, word: &[u8], path: &[u8]) -> Vec<u8> {
    let mut bytes = [0; 8];
    bytes[..word.len()].copy_from_slice(word);
    let sample = Sample {
        a,
        b,
        c,
        word: bytes,
        path: limen_trace_events::Str(path),
        list: [1, 2],
    };
    let mut record = vec![0; 200];
    let common = limen_trace_events::Common {
        pid: 42,
        ..Default::default()
    };
    let len = sample.encode(&common, &mut record);
    record.truncate(len);
    record
}

fn context() -> Context {
    Context {
        cpu: 3,
        comm: *b"bash\0\0\0\0\0\0\0\0\0\0\0\0",
    }
}

fn keeps(filter: &str) -> bool {
    let record = record(-5, 200, u64::MAX, b"hello", b"/bin/true");
    let filter =
        Filter::parse(filter.as_bytes(), FIELDS).unwrap_or_else(|error| panic!("{filter}: {error:?}"));
    filter.keeps(&record, &context())
}

#[test]
fn comparisons() {
    for (filter, expected) in [
        ("a == -5", true),
        ("a==-5", true),
        ("a < 0", true),
        ("a > 0", false),
        ("a == 0xfffffffb", true),
        ("b == 200", true),
        ("b > 0310", false),
        ("b >= 0310", true),
        ("b & 8", true),
        ("b & 7", false),
        ("c == 18446744073709551615", true),
        ("c > 1", true),
        ("word == \"hello\"", true),
        ("word == 'hell'", false),
        ("word != 'hell'", true),
        ("word ~ 'h*o'", true),
        ("word ~ \"*ell*\"", true),
        ("word ~ 'ell'", false),
        ("path ~ '/bin/[a-t]ru?'", true),
        ("path ~ '/bin/[!a-t]ru?'", false),
        ("path == '/bin/true'", true),
        ("common_pid == 42", true),
        ("common_type == 1", false),
        ("cpu == 3 && CPU < 4", true),
        ("comm == 'bash' && COMM ~ 'b*'", true),
        ("!(a == -5)", false),
        ("!a == -5", false),
        ("!!(a == -5)", true),
        ("a == 1 || b == 200 && c == 1 || a == -5", true),
        ("(a == 1 || b == 200) && (c == 1 || !(a == -5))", false),
    ] {
        assert_eq!(keeps(filter), expected, "{filter}");
    }
}

#[test]
fn errors_are_linux_s() {
    for (filter, cause, column) in [
        ("", Cause::NoFilter, 0),
        ("nosuch == 1", Cause::FieldNotFound, 7),
        ("a =< 1", Cause::InvalidOperator, 3),
        ("(a == 1", Cause::TooManyOpen, 0),
        ("a == 1)", Cause::TooManyClose, 6),
        ("word == \"hello", Cause::MissingQuote, 8),
        ("a == 'x'", Cause::ExpectDigit, 6),
        ("word == 5", Cause::ExpectString, 9),
        ("word < 'x'", Cause::IllegalFieldOperator, 8),
        ("a ~ 5", Cause::IllegalFieldOperator, 5),
        ("a == 5x", Cause::IllegalInteger, 6),
        ("b == -1", Cause::IllegalInteger, 6),
        ("word == hello", Cause::InvalidValue, 9),
        ("a == 1 b == 2", Cause::TooManyPredicates, 7),
        ("a == 1 &&", Cause::InvalidFilter, 9),
        ("list == 1", Cause::IllegalFieldOperator, 9),
    ] {
        let error = Filter::parse(filter.as_bytes(), FIELDS).unwrap_err();
        assert_eq!(error, Error { cause, column }, "{filter}");
    }
    let text = b"((a >= 10 && a < 15) || dsig == 17) && comm != bash";
    let error = Filter::parse(text, FIELDS).unwrap_err();
    let mut shown = String::new();
    error.write(text, &mut shown).unwrap();
    let caret = " ".repeat(29) + "^";
    assert_eq!(
        shown,
        format!(
            "{}\n{caret}\nparse_error: Field not found\n",
            std::str::from_utf8(text).unwrap()
        )
    );
}

#[test]
fn no_depth_or_length_hurts() {
    let deep = "(".repeat(200) + "a == -5" + &")".repeat(200);
    assert!(keeps(&deep));
    let deep = "(".repeat(10_000) + "a == -5" + &")".repeat(10_000);
    assert!(Filter::parse(deep.as_bytes(), FIELDS).is_err());
    let long = vec!["a==1"; 3000].join("||");
    assert!(!keeps(&long));
    let too_long = vec!["a==1"; 100_000].join("||");
    assert!(Filter::parse(too_long.as_bytes(), FIELDS).is_err());
    let nots = "!".repeat(10_000) + "a==-5";
    assert!(keeps(&nots));
}

/// An expression as a tree.
#[derive(Clone, Debug)]
enum Tree {
    Int(&'static str, &'static str, i64),
    Not(Box<Tree>),
    And(Box<Tree>, Box<Tree>),
    Or(Box<Tree>, Box<Tree>),
}

impl Tree {
    fn text(&self) -> String {
        match self {
            Self::Int(field, operator, value) => format!("{field} {operator} {value}"),
            Self::Not(of) => format!("!({})", of.text()),
            Self::And(left, right) => format!("{}&&{}", left.factor(), right.factor()),
            Self::Or(left, right) => format!("{} || {}", left.text(), right.text()),
        }
    }

    /// In parentheses only where they are needed.
    fn factor(&self) -> String {
        match self {
            Self::Or(..) => format!("({})", self.text()),
            _ => self.text(),
        }
    }

    fn value(&self, a: i32, b: u8) -> bool {
        match self {
            Self::Int(field, operator, operand) => {
                let value = if *field == "a" { i64::from(a) } else { i64::from(b) };
                match *operator {
                    "==" => value == *operand,
                    "!=" => value != *operand,
                    "<" => value < *operand,
                    "<=" => value <= *operand,
                    ">" => value > *operand,
                    ">=" => value >= *operand,
                    _ => value & operand != 0,
                }
            }
            Self::Not(of) => !of.value(a, b),
            Self::And(left, right) => left.value(a, b) && right.value(a, b),
            Self::Or(left, right) => left.value(a, b) || right.value(a, b),
        }
    }
}

fn tree() -> impl Strategy<Value = Tree> {
    let operators = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">=", "&"]);
    let leaf = (prop::sample::select(vec!["a", "b"]), operators, 0..8_i64)
        .prop_map(|(field, operator, value)| Tree::Int(field, operator, value));
    leaf.prop_recursive(8, 64, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|of| Tree::Not(of.into())),
            (inner.clone(), inner.clone()).prop_map(|(left, right)| Tree::And(left.into(), right.into())),
            (inner.clone(), inner).prop_map(|(left, right)| Tree::Or(left.into(), right.into())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn programs_agree_with_trees(tree in tree(), samples in prop::collection::vec((-2..9_i32, 0..9_u8), 8)) {
        let text = tree.text();
        let filter = Filter::parse(text.as_bytes(), FIELDS).unwrap();
        for (a, b) in samples {
            let record = record(a, b, 0, b"", b"");
            prop_assert_eq!(filter.keeps(&record, &context()), tree.value(a, b), "{} a={} b={}", text, a, b);
        }
    }

    /// Whatever is written: an answer, whose column is in the text or one behind it.
    #[test]
    fn garbage_is_judged(parts in prop::collection::vec(prop::sample::select(vec![
        "a", "b", "word", "path", "comm", "==", "!=", "~", "<", "&", "&&", "||", "!", "(", ")",
        "'", "\"", "5",
        "-", "0x", " ", "x", "\u{fc}", "99999999999999999999",
    ]), 0..24), cut in 0..80_usize) {
        let text = parts.concat();
        let record = record(1, 2, 3, b"w", b"p");
        match Filter::parse(text.as_bytes(), FIELDS) {
            Ok(filter) => { filter.keeps(&record[..cut.min(record.len())], &context()); }
            Err(error) => {
                prop_assert!(error.column <= text.len() + 1);
                let mut shown = String::new();
                error.write(text.as_bytes(), &mut shown).unwrap();
            }
        }
    }

    #[test]
    fn bytes_are_judged(text in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = Filter::parse(&text, FIELDS);
    }

    /// Patterns agree with an evaluator that tries every way.
    #[test]
    fn patterns(pattern in "[ab*?\\[\\]!\\\\-]{0,7}", text in "[ab\\[-]{0,7}") {
        let matches = limen_trace_events::matches(pattern.as_bytes(), text.as_bytes());
        if !pattern.contains(['[', '\\']) {
            prop_assert_eq!(matches, naive(pattern.as_bytes(), text.as_bytes()), "{} {}", pattern, text);
        }
    }
}

fn naive(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], text) => text.is_empty(),
        ([b'*', rest @ ..], text) => (0..=text.len()).any(|at| naive(rest, &text[at..])),
        ([b'?', rest @ ..], [_, text @ ..]) => naive(rest, text),
        ([one, rest @ ..], [other, text @ ..]) => one == other && naive(rest, text),
        _ => false,
    }
}
