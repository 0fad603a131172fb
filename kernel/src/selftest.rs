//! What a self-test of the kernel is. A room that has some keeps them in a list, which `boot::selftest` runs.

#![forbid(unsafe_code)]

/// A test. `Err` says what was wrong; it may also panic.
pub type Test = (&'static str, fn() -> Result<(), &'static str>);

/// Fails a test unless the condition is true.
#[macro_export]
macro_rules! check {
    ($cond:expr) => {
        if !$cond {
            return Err(concat!(file!(), ": ", stringify!($cond)));
        }
    };
}

/// A function for tests of tracing.
#[inline(never)]
pub fn probe(a: usize, b: usize, c: usize, d: usize) -> usize {
    core::hint::black_box(a.wrapping_mul(7) + b * 11 + c * 13 + d * 17)
}

/// One that calls itself `n` times.
#[inline(never)]
pub fn probe_deep(n: usize) -> usize {
    match n {
        0 => 0,
        n => core::hint::black_box(probe_deep(core::hint::black_box(n - 1))) + 1,
    }
}

/// One that ends with a jump to [`probe`], where the compiler makes such jumps.
#[inline(never)]
pub fn probe_tail(a: usize, b: usize, c: usize, d: usize) -> usize {
    probe(a + 1, b, c, d)
}

/// One that calls [`probe`].
#[inline(never)]
pub fn probe_caller(a: usize, b: usize, c: usize, d: usize) -> usize {
    probe(a, b, c, d) + 1
}
