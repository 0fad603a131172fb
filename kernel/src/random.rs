//! The random number generator of `getrandom` and `/dev/urandom`: ChaCha20, seeded from the machine's
//! entropy.
//!
//! After each run of the generator its key is replaced by a part of the output, and bytes that were handed
//! out are wiped, so they cannot be computed from a later state. A run makes several blocks; small requests
//! (a word, `AT_RANDOM`) get what is left of the last one. New entropy is mixed in by replacing the key with
//! a function of the key and the entropy; what was left is dropped.

#![forbid(unsafe_code)]

use crate::sync::{IrqSpinLock, Lazy};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// How many bytes a run of the generator makes (`rand_chacha` computes four blocks at a time).
const RUN: usize = 256;
const KEY: usize = 32;

struct Pool {
    key: [u8; KEY],
    /// Bytes for small requests. The first `used` have been handed out and wiped.
    ready: [u8; RUN - KEY],
    used: usize,
    /// When the machine was last asked for entropy, `CLOCK_MONOTONIC` nanoseconds.
    seeded_ns: u64,
}

/// After how many nanoseconds the machine is asked again.
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

    /// Runs the generator. Makes a new key, new bytes for small requests, and fills `out`.
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

    /// Mixes in entropy of processor or firmware, and the clocks.
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

/// Fills `out` with random bytes. In any context; never sleeps.
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

/// Mixes in entropy from a device (virtio-rng) or a program (writing to `/dev/urandom`). `bits`: how many
/// bits of it nobody can guess; not counted, since the pool never blocks.
pub fn add_entropy(entropy: &[u8], bits: usize) {
    let _ = bits;
    POOL.lock().mix(entropy);
}
