//! Making a table: frequent pairs of characters become tokens (byte-pair encoding), which suits names that
//! repeat the same paths.

use crate::{HEADER, MAGIC, NAME_MAX, STRIDE};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Encodes `symbols`, which must be sorted by address and span less than 4 GiB. Characters beyond ASCII
/// become `?`, very long names are cut.
pub fn encode(symbols: &[(u64, String)]) -> Vec<u8> {
    let base = symbols.first().map_or(0, |s| s.0);
    let mut names: Vec<Vec<u8>> = symbols
        .iter()
        .map(|s| {
            s.1.bytes()
                .take(4096)
                .map(|b| {
                    if b.is_ascii_graphic() || b == b' ' {
                        b
                    } else {
                        b'?'
                    }
                })
                .collect()
        })
        .collect();
    // Token numbers below 128 that occur in a name stand for themselves; all others are free for pairs.
    let mut text: Vec<Vec<u8>> = vec![Vec::new(); 256];
    for byte in names.iter().flatten() {
        text[usize::from(*byte)] = vec![*byte];
    }
    let free: Vec<u8> = (0..=255).filter(|t| text[usize::from(*t)].is_empty()).collect();
    for token in free {
        let mut counts = vec![0u32; 65536];
        for name in &names {
            for pair in name.windows(2) {
                counts[usize::from(pair[0]) << 8 | usize::from(pair[1])] += 1;
            }
        }
        let Some((best, count)) = counts.iter().enumerate().max_by_key(|(_, n)| **n) else {
            break;
        };
        if *count < 4 {
            break;
        }
        let pair = [(best >> 8) as u8, best as u8];
        let expanded = [
            text[usize::from(pair[0])].clone(),
            text[usize::from(pair[1])].clone(),
        ]
        .concat();
        text[usize::from(token)] = expanded;
        for name in &mut names {
            let mut to = 0;
            let mut from = 0;
            while from < name.len() {
                if name[from..].starts_with(&pair) {
                    name[to] = token;
                    from += 2;
                } else {
                    name[to] = name[from];
                    from += 1;
                }
                to += 1;
            }
            name.truncate(to);
        }
    }

    let mut out = Vec::from(MAGIC);
    out.resize(HEADER, 0);
    for (address, _) in symbols {
        out.extend((address.wrapping_sub(base) as u32).to_le_bytes());
    }
    let tokens = out.len();
    let mut at = 0u16;
    for piece in &text {
        out.extend(at.to_le_bytes());
        at += piece.len() as u16;
    }
    out.extend(at.to_le_bytes());
    text.iter().for_each(|piece| out.extend(piece));
    let marks = out.len();
    let mut list = Vec::new();
    for (i, name) in names.iter().enumerate() {
        if i % STRIDE == 0 {
            out.extend((list.len() as u32).to_le_bytes());
        }
        let len = name.len().min(NAME_MAX);
        list.push(len as u8);
        list.extend(&name[..len]);
    }
    let start = out.len();
    out.extend(list);
    for (i, word) in [symbols.len(), tokens, marks, start].into_iter().enumerate() {
        out[8 + 4 * i..12 + 4 * i].copy_from_slice(&(word as u32).to_le_bytes());
    }
    out[24..32].copy_from_slice(&base.to_le_bytes());
    out
}
