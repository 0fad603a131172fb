//! `rseq` and `rseq_slice_yield`.

use crate::rseq;

crate::syscalls! {
    fn rseq(at: usize, len: u32, flags: u32, signature: u32) { rseq::register(at, len, flags, signature) }

    fn rseq_slice_yield() { Ok(rseq::yielded()) }
}
