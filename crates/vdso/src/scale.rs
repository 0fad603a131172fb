//! Products of numbers of 64 bits, as clocks need them: no calls, no panic.

pub(crate) const NSEC_PER_SEC: u64 = 1_000_000_000;

/// `a * b >> 64`, without a 128-bit multiplication, for which a 32-bit processor would call a function.
#[inline(always)]
pub(crate) const fn multiply_high(a: u64, b: u64) -> u64 {
    if usize::BITS == 64 {
        return ((a as u128).wrapping_mul(b as u128) >> 64) as u64;
    }
    let [ll, lh, hl, hh] = partial_products(a, b);
    let middle = (ll >> 32)
        .wrapping_add(lh & 0xffff_ffff)
        .wrapping_add(hl & 0xffff_ffff);
    hh.wrapping_add(lh >> 32)
        .wrapping_add(hl >> 32)
        .wrapping_add(middle >> 32)
}

/// The products of the halves: low * low, low * high, high * low, high * high.
#[inline(always)]
pub(crate) const fn partial_products(a: u64, b: u64) -> [u64; 4] {
    let (al, ah) = (a as u32 as u64, a >> 32);
    let (bl, bh) = (b as u32 as u64, b >> 32);
    [
        al.wrapping_mul(bl),
        al.wrapping_mul(bh),
        ah.wrapping_mul(bl),
        ah.wrapping_mul(bh),
    ]
}

/// Converts counter steps to nanoseconds, or back. `mult` is 32.32 fixed point.
#[inline(always)]
pub const fn scale(delta: u64, mult: u64) -> u64 {
    if usize::BITS == 64 {
        return ((delta as u128).wrapping_mul(mult as u128) >> 32) as u64;
    }
    let [ll, lh, hl, hh] = partial_products(delta, mult);
    (ll >> 32)
        .wrapping_add(lh)
        .wrapping_add(hl)
        .wrapping_add(hh << 32)
}

/// The `mult` for a counter that makes `hz` steps per second.
pub const fn mult_for(hz: u64) -> u64 {
    (((NSEC_PER_SEC as u128) << 32) / hz as u128) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling() {
        assert_eq!(scale(5, mult_for(1_000_000_000)), 5);
        assert_eq!(scale(62_500_000, mult_for(62_500_000)), 1_000_000_000);
        // 3 GHz for ten years: off by less than a second.
        let ns = scale(3_000_000_000 * 86400 * 3650, mult_for(3_000_000_000));
        assert!(ns.abs_diff(86400 * 3650 * 1_000_000_000) < 1_000_000_000);
    }
}
