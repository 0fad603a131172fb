//! The random number generator behind `getrandom` and `/dev/urandom`: ChaCha20, seeded from the machine's entropy.
//!
//! After every request the generator's key is replaced by its own output, so that what was given out can't be found again from
//! the state. New entropy is mixed in by replacing the key with a function of the old one and of what came in.

use crate::sync::{IrqSpinLock, Lazy};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

struct Pool {
    rng: ChaCha20Rng,
    /// When the machine was last asked for entropy, CLOCK_MONOTONIC nanoseconds.
    seeded_ns: u64,
}

/// How often the machine is asked again, nanoseconds.
const RESEED_NS: u64 = 60_000_000_000;

static POOL: Lazy<IrqSpinLock<Pool>> = Lazy::new(|| {
    let mut pool = Pool {
        rng: ChaCha20Rng::from_seed([0; 32]),
        seeded_ns: 0,
    };
    pool.ask_machine();
    IrqSpinLock::new(pool)
});

impl Pool {
    /// Mixes `entropy` into the key.
    fn mix(&mut self, entropy: &[u8]) {
        for chunk in entropy.chunks(32) {
            let mut key = [0; 32];
            self.rng.fill_bytes(&mut key);
            for (k, e) in key.iter_mut().zip(chunk) {
                *k ^= e;
            }
            self.rng = ChaCha20Rng::from_seed(key);
        }
    }

    /// Entropy from the processor or firmware, and the clocks for what they are worth.
    fn ask_machine(&mut self) {
        let mut seed = [0; 32];
        let n = crate::arch::platform::entropy(&mut seed).min(seed.len());
        self.mix(&seed[..n]);
        let now = crate::time::now_ns();
        let mut clocks = [0; 16];
        clocks[..8].copy_from_slice(&now.to_ne_bytes());
        clocks[8..].copy_from_slice(&crate::time::realtime_ns().to_ne_bytes());
        self.mix(&clocks);
        self.seeded_ns = now;
    }
}

/// Fills `out` with random bytes. Any context; never blocks.
pub fn fill(out: &mut [u8]) {
    let now = crate::time::now_ns();
    let mut pool = POOL.lock();
    if now.saturating_sub(pool.seeded_ns) > RESEED_NS {
        pool.ask_machine();
    }
    pool.rng.fill_bytes(out);
    let mut key = [0; 32];
    pool.rng.fill_bytes(&mut key);
    pool.rng = ChaCha20Rng::from_seed(key);
}

/// A random word.
pub fn word() -> u64 {
    let mut bytes = [0; 8];
    fill(&mut bytes);
    u64::from_ne_bytes(bytes)
}

/// Mixes in entropy from a device (virtio-rng) or a user (`/dev/urandom` written to); `bits` says how many bits of it nobody can
/// guess (the pool never blocks, so it does not count them).
pub fn add_entropy(entropy: &[u8], bits: usize) {
    let _ = bits;
    POOL.lock().mix(entropy);
}
