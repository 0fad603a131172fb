//! Trace events of interrupts and faults, which all architectures have alike.

use super::frame::Frame;
use crate::mm::Prot;
use crate::tracepoint;
use limen_trace_events::Str;

/// Calls the handler of interrupt `irq`, which is `name`'s.
#[inline(always)]
pub(super) fn handle(irq: u32, name: &str, handler: &dyn Fn()) {
    tracepoint!(irq::IrqHandlerEntry {
        irq: irq as i32,
        name: Str(name.as_bytes()),
    });
    handler();
    tracepoint!(irq::IrqHandlerExit {
        irq: irq as i32,
        ret: 1
    });
}

/// A page fault at `addr`, of a program (`user`) or of the kernel.
#[inline(always)]
pub(super) fn page_fault(frame: &Frame, addr: usize, access: Prot, user: bool) {
    if user {
        tracepoint!(exceptions::PageFaultUser {
            address: addr,
            ip: frame.ip(),
            error_code: code(access, user),
        });
    } else {
        tracepoint!(exceptions::PageFaultKernel {
            address: addr,
            ip: frame.ip(),
            error_code: code(access, user),
        });
    }
}

/// What was tried, as the event shows it on every processor: in bits of x86.
fn code(access: Prot, user: bool) -> usize {
    const WRITE: usize = 2;
    const USER: usize = 4;
    const FETCH: usize = 16;
    let bit = |on: bool, bit| if on { bit } else { 0 };
    bit(access.contains(Prot::WRITE), WRITE) | bit(user, USER) | bit(access.contains(Prot::EXEC), FETCH)
}
