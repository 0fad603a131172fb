//! Entropy that the machine gives: the firmware's seed in the devicetree, and the processor's random numbers.

use super::cpu;
use super::devicetree_tree::tree;

/// Up to 32 bytes of entropy from the machine (firmware seed, instruction); returns how many were filled.
pub fn entropy(out: &mut [u8; 32]) -> usize {
    let chosen = tree().find_node("/chosen");
    let mut filled = 0;
    if let Some(seed) = chosen.and_then(|chosen| chosen.property("rng-seed")) {
        filled = seed.value.len().min(32);
        out[..filled].copy_from_slice(&seed.value[..filled]);
    }
    for chunk in out.chunks_exact_mut(8) {
        if let Some(value) = cpu::random() {
            for (byte, random) in chunk.iter_mut().zip(value.to_le_bytes()) {
                *byte ^= random;
            }
            filled = 32;
        }
    }
    filled
}
