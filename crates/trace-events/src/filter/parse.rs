//! From a filter's text to its steps. Parentheses are kept on a stack of their own, so their depth is bounded
//! by [`DEPTH`] and nothing recurses.

use super::error::{Cause, Error};
use super::predicate::Predicate;
use super::{Step, Target, lex};
use crate::field::Field;
use alloc::vec::Vec;

/// How deep parentheses may be.
const DEPTH: usize = 256;
/// The longest filter: places in it have 16 bits.
const LENGTH: usize = 1 << 15;

/// A part of the expression. Parts are numbered in the order in which they are complete.
struct Node {
    kind: Kind,
    negated: bool,
    /// Its first comparison.
    first: u16,
}

#[derive(Clone, Copy)]
enum Kind {
    Predicate,
    And(usize, usize),
    Or(usize, usize),
}

/// What has been read inside of a parenthesis.
#[derive(Default)]
struct Open {
    /// Whether a `!` is in front of it.
    negated: bool,
    /// Terms that end with `||`.
    or: Option<usize>,
    /// What has been read of the last term.
    and: Option<usize>,
}

fn push<T>(to: &mut Vec<T>, value: T) -> Result<usize, Error> {
    to.try_reserve(1).map_err(|_| Error::no_memory())?;
    to.push(value);
    Ok(to.len() - 1)
}

fn join(nodes: &mut Vec<Node>, left: Option<usize>, right: usize, or: bool) -> Result<usize, Error> {
    let Some(left) = left else { return Ok(right) };
    let kind = if or {
        Kind::Or(left, right)
    } else {
        Kind::And(left, right)
    };
    let first = nodes[left].first;
    push(
        nodes,
        Node {
            kind,
            negated: false,
            first,
        },
    )
}

/// Parses `text`, which has no space around it.
pub fn steps(text: &[u8], fields: &[Field]) -> Result<Vec<Step>, Error> {
    balance(text)?;
    let mut predicates = Vec::new();
    let mut nodes = Vec::new();
    let root = tree(text, fields, &mut predicates, &mut nodes)?;
    link(predicates, &nodes, root)
}

/// Checks quotes and parentheses, with Linux's columns.
fn balance(text: &[u8]) -> Result<(), Error> {
    let failed = |cause, column| Err(Error { cause, column });
    if text.len() >= LENGTH {
        return failed(Cause::OperandTooLong, 0);
    }
    let mut quote = None;
    // Where the outermost parentheses that are open begin.
    let mut open = Vec::new();
    for (at, byte) in text.iter().enumerate() {
        match (quote, byte) {
            (Some((_, of)), byte) => {
                if of == byte {
                    quote = None;
                }
            }
            (None, b'\'' | b'"') => quote = Some((at, byte)),
            (None, b'(') => {
                if open.len() == DEPTH {
                    return failed(Cause::TooManyPredicates, at);
                }
                push(&mut open, at)?;
            }
            (None, b')') => {
                let cause = Cause::TooManyClose;
                open.pop().ok_or(Error { cause, column: at })?;
            }
            _ => {}
        }
    }
    match (quote, open.last()) {
        (Some((at, _)), _) => failed(Cause::MissingQuote, at),
        (None, Some(at)) => failed(Cause::TooManyOpen, *at),
        (None, None) => Ok(()),
    }
}

/// Reads the expression; returns its root.
fn tree(
    text: &[u8],
    fields: &[Field],
    predicates: &mut Vec<Predicate>,
    nodes: &mut Vec<Node>,
) -> Result<usize, Error> {
    let failed = |cause, column| Err(Error { cause, column });
    let mut stack = Vec::new();
    let mut level = Open::default();
    let mut negated = false;
    let mut at = 0;
    loop {
        // An operand, or what may stand in front of one.
        at = lex::skip_space(text, at);
        match &text[at..] {
            [] if predicates.is_empty() => return failed(Cause::NoFilter, at),
            [] => return failed(Cause::InvalidFilter, at),
            [b'(', ..] => {
                push(&mut stack, level)?;
                level = Open {
                    negated,
                    ..Open::default()
                };
                negated = false;
                at += 1;
                continue;
            }
            [b'!', other, ..] if !matches!(other, b'=' | b'~') => {
                negated = !negated;
                at += 1;
                continue;
            }
            _ => {}
        }
        if predicates.len() == Target::MOST {
            return failed(Cause::TooManyPredicates, at);
        }
        let (predicate, end) = lex::predicate(text, at, fields)?;
        at = end;
        let first = push(predicates, predicate)? as u16;
        let mut operand = push(
            nodes,
            Node {
                kind: Kind::Predicate,
                negated,
                first,
            },
        )?;
        negated = false;
        // What follows it.
        loop {
            at = lex::skip_space(text, at);
            let term = join(nodes, level.and, operand, false)?;
            match &text[at..] {
                [b'&', b'&', ..] => {
                    level.and = Some(term);
                    at += 2;
                    break;
                }
                [b'|', b'|', ..] => {
                    level.or = Some(join(nodes, level.or, term, true)?);
                    level.and = None;
                    at += 2;
                    break;
                }
                [b')', ..] | [] => {
                    operand = join(nodes, level.or, term, true)?;
                    nodes[operand].negated ^= level.negated;
                    match (stack.pop(), at == text.len()) {
                        (None, true) => return Ok(operand),
                        (None, false) => return failed(Cause::TooManyClose, at),
                        (Some(_), true) => return failed(Cause::TooManyOpen, at),
                        (Some(outer), false) => level = outer,
                    }
                    at += 1;
                }
                _ => return failed(Cause::TooManyPredicates, at),
            }
        }
    }
}

/// Gives each comparison its targets.
fn link(predicates: Vec<Predicate>, nodes: &[Node], root: usize) -> Result<Vec<Step>, Error> {
    let mut steps = Vec::new();
    steps
        .try_reserve_exact(predicates.len())
        .map_err(|_| Error::no_memory())?;
    steps.extend(predicates.into_iter().map(|predicate| Step {
        predicate,
        holds: Target::DROP,
        fails: Target::DROP,
    }));
    let mut todo = Vec::new();
    push(&mut todo, (root, Target::KEEP, Target::DROP))?;
    while let Some((at, mut holds, mut fails)) = todo.pop() {
        let node = &nodes[at];
        if node.negated {
            (holds, fails) = (fails, holds);
        }
        match node.kind {
            Kind::Predicate => {
                let step = &mut steps[usize::from(node.first)];
                (step.holds, step.fails) = (holds, fails);
            }
            Kind::And(left, right) => {
                push(&mut todo, (left, Target(nodes[right].first), fails))?;
                push(&mut todo, (right, holds, fails))?;
            }
            Kind::Or(left, right) => {
                push(&mut todo, (left, holds, Target(nodes[right].first)))?;
                push(&mut todo, (right, holds, fails))?;
            }
        }
    }
    Ok(steps)
}
