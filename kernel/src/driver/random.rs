//! The random number generator behind `getrandom` and `/dev/urandom`: ChaCha20, seeded from the machine's entropy.
//!
//! Each time the generator has run, its key is replaced by its own output, and what is given out is wiped here, so that it can't be found
//! again from the state. A run makes several blocks: small requests (a word, `AT_RANDOM`) are served from what is left of the last one.
//! New entropy is mixed in by replacing the key with a function of the old one and of what came in; what was left is dropped.

use crate::sync::{IrqSpinLock, Lazy};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Bytes one run of the generator makes (`rand_chacha` computes four blocks at a time).
const RUN: usize = 256;
const KEY: usize = 32;

struct Pool {
    key: [u8; KEY],
    /// Bytes for small requests; the first `used` are given out and wiped.
    ready: [u8; RUN - KEY],
    used: usize,
    /// When the machine was last asked for entropy, CLOCK_MONOTONIC nanoseconds.
    seeded_ns: u64,
}

/// How often the machine is asked again, nanoseconds.
const RESEED_NS: u64 = 60_000_000_000;

static POOL: Lazy<IrqSpinLock<Pool>> = Lazy::new(|| {
    let mut pool = Pool {
        key: [0; KEY],
        ready: [0; RUN - KEY],
        used: RUN - KEY,
        seeded_ns: 0,
    };
    pool.ask_machine();
    IrqSpinLock::new(pool)
});

impl Pool {
    /// Mixes `entropy` into the key.
    fn mix(&mut self, entropy: &[u8]) {
        for chunk in entropy.chunks(KEY) {
            self.run(&mut []);
            for (k, e) in self.key.iter_mut().zip(chunk) {
                *k ^= e;
            }
        }
        self.ready.fill(0);
        self.used = self.ready.len();
    }

    /// Runs the generator: a new key, new bytes for small requests, and `out`.
    fn run(&mut self, out: &mut [u8]) {
        let mut rng = ChaCha20Rng::from_seed(self.key);
        rng.fill_bytes(&mut self.key);
        rng.fill_bytes(&mut self.ready);
        self.used = 0;
        rng.fill_bytes(out);
    }

    /// Fills `out`.
    fn fill(&mut self, out: &mut [u8]) {
        if out.len() > self.ready.len() {
            return self.run(out);
        }
        if out.len() > self.ready.len() - self.used {
            self.run(&mut []);
        }
        let from = &mut self.ready[self.used..self.used + out.len()];
        out.copy_from_slice(from);
        from.fill(0);
        self.used += out.len();
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
    pool.fill(out);
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
