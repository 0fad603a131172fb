//! From a `print fmt` to a [`Program`].

use super::lex::{Lexer, Token};
use super::{Binary, Conversion, Error, Part, Program, STACK, Step, Unary};
use crate::field::{Field, Kind};
use alloc::vec::Vec;

/// How deep expressions may be.
const DEPTH: usize = 24;

/// Binary operators, and how closely they bind.
const BINARY: [(&str, u8, Binary); 18] = [
    ("||", 1, Binary::Or),
    ("&&", 2, Binary::And),
    ("|", 3, Binary::BitOr),
    ("^", 4, Binary::BitXor),
    ("&", 5, Binary::BitAnd),
    ("==", 6, Binary::Equal),
    ("!=", 6, Binary::NotEqual),
    ("<", 7, Binary::Less),
    ("<=", 7, Binary::AtMost),
    (">", 7, Binary::Greater),
    (">=", 7, Binary::AtLeast),
    ("<<", 8, Binary::Left),
    (">>", 8, Binary::Right),
    ("+", 9, Binary::Add),
    ("-", 9, Binary::Subtract),
    ("*", 10, Binary::Multiply),
    ("/", 10, Binary::Divide),
    ("%", 10, Binary::Remainder),
];

fn push<T>(to: &mut Vec<T>, value: T) -> Result<(), Error> {
    to.try_reserve(1).map_err(|_| Error::NoMemory)?;
    to.push(value);
    Ok(())
}

struct Compiler<'a> {
    lexer: Lexer,
    own: &'a [Field],
    common: &'a [Field],
    program: Program,
    /// Values on the stack.
    values: usize,
    depth: usize,
}

impl Program {
    /// Compiles the `print fmt` of an event with these fields.
    ///
    /// # Errors
    /// It is not understood, or there is no memory.
    pub fn new(print: &'static str, fields: &[Field]) -> Result<Self, Error> {
        let mut compiler = Compiler {
            lexer: Lexer::new(print),
            own: fields,
            common: crate::common_fields(),
            program: Self {
                parts: Vec::new(),
                steps: Vec::new(),
                names: Vec::new(),
            },
            values: 0,
            depth: 0,
        };
        compiler.all()?;
        Ok(compiler.program)
    }
}

impl Compiler<'_> {
    fn wrong<T>(&self) -> Result<T, Error> {
        Err(Error::Syntax(self.lexer.at))
    }

    fn expect(&mut self, mark: &str) -> Result<(), Error> {
        if self.lexer.take(mark) {
            Ok(())
        } else {
            self.wrong()
        }
    }

    fn literal(&mut self) -> Result<&'static str, Error> {
        match self.lexer.next() {
            Some(Token::Literal(text)) => Ok(text),
            _ => self.wrong(),
        }
    }

    fn all(&mut self) -> Result<(), Error> {
        let mut format = self.literal()?;
        while let Some(at) = format.find('%') {
            if at > 0 {
                push(&mut self.program.parts, Part::Literal(&format[..at]))?;
            }
            let (conversion, len) = match conversion(&format[at + 1..]) {
                Some(found) => found,
                None => return self.wrong(),
            };
            if conversion.kind == b'%' {
                push(&mut self.program.parts, Part::Literal("%"))?;
            } else {
                self.expect(",")?;
                let from = self.program.steps.len();
                self.expression()?;
                self.values = 0;
                let steps = self.program.steps.len() - from;
                push(&mut self.program.parts, Part::Value(conversion, steps))?;
            }
            format = &format[at + 1 + len..];
        }
        if !format.is_empty() {
            push(&mut self.program.parts, Part::Literal(format))?;
        }
        if self.lexer.at_end() { Ok(()) } else { self.wrong() }
    }

    /// Adds a step that takes `taken` values and puts one.
    fn step(&mut self, step: Step, taken: usize) -> Result<(), Error> {
        self.values = self.values + 1 - taken;
        if self.values > STACK {
            return self.wrong();
        }
        push(&mut self.program.steps, step)
    }

    fn expression(&mut self) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > DEPTH {
            return self.wrong();
        }
        self.binary(0)?;
        if self.lexer.take("?") {
            self.expression()?;
            self.expect(":")?;
            self.expression()?;
            self.step(Step::Select, 3)?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// Operands with operators that bind more closely than `least`.
    fn binary(&mut self, least: u8) -> Result<(), Error> {
        self.unary()?;
        loop {
            let mut ahead = self.lexer;
            let Some(Token::Mark(mark)) = ahead.next() else {
                return Ok(());
            };
            let found = BINARY.iter().find(|(text, ..)| *text == mark);
            let Some(&(_, binds, operator)) = found.filter(|(_, binds, _)| *binds > least) else {
                return Ok(());
            };
            self.lexer = ahead;
            self.binary(binds)?;
            self.step(Step::Binary(operator), 2)?;
        }
    }

    fn unary(&mut self) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > DEPTH {
            return self.wrong();
        }
        match self.lexer.next() {
            Some(Token::Integer(value)) => self.step(Step::Integer(value), 0)?,
            Some(Token::Literal(text)) => self.step(Step::Literal(text), 0)?,
            Some(Token::Mark("-")) => self.operand(Unary::Negate)?,
            Some(Token::Mark("!")) => self.operand(Unary::Not)?,
            Some(Token::Mark("~")) => self.operand(Unary::Invert)?,
            Some(Token::Mark("(")) => match self.cast() {
                Some((size, signed)) => {
                    self.unary()?;
                    self.step(Step::Cast { size, signed }, 1)?;
                }
                None => {
                    self.expression()?;
                    self.expect(")")?;
                }
            },
            Some(Token::Name("REC")) => {
                self.expect("->")?;
                let mut field = self.field()?;
                if self.lexer.take("[") {
                    let Some(Token::Integer(index)) = self.lexer.next() else {
                        return self.wrong();
                    };
                    match field.element(index as usize) {
                        Some(element) => field = element,
                        None => return self.wrong(),
                    }
                    self.expect("]")?;
                }
                if matches!(field.kind, Kind::Array(_)) {
                    return self.wrong();
                }
                self.step(Step::Field(field), 0)?;
            }
            Some(Token::Name("__get_str")) => {
                self.expect("(")?;
                let field = self.field()?;
                if field.kind != Kind::Dynamic {
                    return self.wrong();
                }
                self.step(Step::Field(field), 0)?;
                self.expect(")")?;
            }
            Some(Token::Name(name @ ("__print_flags" | "__print_symbolic"))) => {
                self.expect("(")?;
                self.expression()?;
                let separator = if name == "__print_flags" {
                    self.expect(",")?;
                    Some(self.literal()?)
                } else {
                    None
                };
                let from = self.program.names.len() as u16;
                while self.lexer.take(",") {
                    self.name()?;
                }
                self.expect(")")?;
                let to = self.program.names.len() as u16;
                self.step(Step::Names { separator, from, to }, 1)?;
            }
            _ => return self.wrong(),
        }
        self.depth -= 1;
        Ok(())
    }

    fn operand(&mut self, operator: Unary) -> Result<(), Error> {
        self.unary()?;
        self.step(Step::Unary(operator), 1)
    }

    fn field(&mut self) -> Result<Field, Error> {
        let Some(Token::Name(name)) = self.lexer.next() else {
            return self.wrong();
        };
        match self
            .own
            .iter()
            .chain(self.common)
            .find(|field| field.name == name)
        {
            Some(field) => Ok(*field),
            None => self.wrong(),
        }
    }

    /// `{ value, "name" }`.
    fn name(&mut self) -> Result<(), Error> {
        self.expect("{")?;
        let negative = self.lexer.take("-");
        let Some(Token::Integer(value)) = self.lexer.next() else {
            return self.wrong();
        };
        self.expect(",")?;
        let name = self.literal()?;
        self.expect("}")?;
        let value = if negative { value.wrapping_neg() } else { value };
        push(&mut self.program.names, (value, name))
    }

    /// A cast behind its `(`: the type's size, and whether it is signed.
    fn cast(&mut self) -> Option<(u8, bool)> {
        let mut ahead = self.lexer;
        let (mut size, mut signed, mut longs, mut words) = (4, true, 0, 0);
        loop {
            match ahead.next()? {
                Token::Name("unsigned") => signed = false,
                Token::Name("signed" | "int" | "s32" | "pid_t") => {}
                Token::Name("char" | "u8") => (size, signed) = (1, false),
                Token::Name("short" | "s16") => size = 2,
                Token::Name("u16") => (size, signed) = (2, false),
                Token::Name("u32") => signed = false,
                Token::Name("s64") => size = 8,
                Token::Name("u64") => (size, signed) = (8, false),
                Token::Name("void") => (longs, signed) = (1, false),
                Token::Mark("*") if words > 0 => (longs, signed) = (1, false),
                Token::Name("long") => longs += 1,
                Token::Mark(")") if words > 0 => break,
                _ => return None,
            }
            words += 1;
        }
        match longs {
            0 => {}
            1 => size = size_of::<usize>() as u8,
            _ => size = 8,
        }
        self.lexer = ahead;
        Some((size, signed))
    }
}

/// Reads a conversion behind its `%`; returns its length as well.
fn conversion(text: &str) -> Option<(Conversion, usize)> {
    let bytes = text.as_bytes();
    let mut found = Conversion {
        kind: 0,
        size: 4,
        left: false,
        zeros: false,
        alternate: false,
        plus: false,
        width: 0,
        precision: None,
    };
    let mut at = 0;
    let mut next = || {
        let byte = bytes.get(at).copied();
        at += 1;
        byte
    };
    let mut byte = next()?;
    loop {
        match byte {
            b'-' => found.left = true,
            b'0' => found.zeros = true,
            b'#' => found.alternate = true,
            b'+' => found.plus = true,
            _ => break,
        }
        byte = next()?;
    }
    while byte.is_ascii_digit() {
        found.width = (found.width * 10 + usize::from(byte - b'0')).min(256);
        byte = next()?;
    }
    if byte == b'.' {
        let mut precision = 0;
        byte = next()?;
        while byte.is_ascii_digit() {
            precision = (precision * 10 + usize::from(byte - b'0')).min(256);
            byte = next()?;
        }
        found.precision = Some(precision);
    }
    let mut longs = 0;
    loop {
        match byte {
            b'l' => longs += 1,
            b'z' => longs = 1,
            b'h' => found.size /= 2,
            _ => break,
        }
        byte = next()?;
    }
    match longs {
        0 => {}
        1 => found.size = size_of::<usize>() as u8,
        _ => found.size = 8,
    }
    found.kind = byte;
    match byte {
        b'p' => {
            // `%pS` and `%ps`, which tools know as well.
            if let Some(kind @ (b'S' | b's')) = bytes.get(at) {
                found.kind = if *kind == b'S' { b'S' } else { b'f' };
                at += 1;
            }
        }
        b'd' | b'i' | b'u' | b'x' | b'X' | b'o' | b'c' | b's' | b'%' => {}
        _ => return None,
    }
    Some((found, at))
}
