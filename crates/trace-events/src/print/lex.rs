//! Tokens of C expressions.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    Name(&'static str),
    Integer(i64),
    /// Without its quotes.
    Literal(&'static str),
    /// An operator or a bracket.
    Mark(&'static str),
}

/// A text that is read token by token.
#[derive(Clone, Copy)]
pub struct Lexer {
    text: &'static str,
    pub at: usize,
}

const MARKS: [&str; 30] = [
    "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "(", ")", "{", "}", ",", "?", ":", "+", "-", "*",
    "/", "%", "<", ">", "&", "|", "^", "!", "~", "[", "]",
];

impl Lexer {
    pub const fn new(text: &'static str) -> Self {
        Self { text, at: 0 }
    }

    pub fn skip_space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_ascii_start().len();
    }

    /// The next token. `None`: the end, or something else.
    pub fn next(&mut self) -> Option<Token> {
        self.skip_space();
        let rest = &self.text[self.at..];
        let first = *rest.as_bytes().first()?;
        let word = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        let (token, len) = if first.is_ascii_digit() {
            let digits = rest[..word].trim_end_matches(['u', 'U', 'l', 'L']);
            let value = match digits.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(digits, 8),
                None => digits.parse(),
            };
            (Token::Integer(value.ok()?.cast_signed()), word)
        } else if word > 0 {
            (Token::Name(&rest[..word]), word)
        } else if first == b'"' {
            let len = rest[1..].find('"')?;
            (Token::Literal(&rest[1..][..len]), len + 2)
        } else {
            let mark = MARKS.into_iter().find(|mark| rest.starts_with(mark))?;
            (Token::Mark(mark), mark.len())
        };
        self.at += len;
        Some(token)
    }

    /// Goes past `mark` if it is next.
    pub fn take(&mut self, mark: &str) -> bool {
        let mut ahead = *self;
        let found = matches!(ahead.next(), Some(Token::Mark(next)) if next == mark);
        if found {
            *self = ahead;
        }
        found
    }

    /// Whether everything has been read.
    pub fn at_end(&mut self) -> bool {
        self.skip_space();
        self.at == self.text.len()
    }
}
