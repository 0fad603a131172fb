//! What the threshold asks of the kernel, one trait per subject. Each method is called at a fixed place,
//! named in its description; those that a kernel may leave out do nothing by default.
//!
//! A method that takes neither an `IrqsOff` nor an `InKernel` token may run where nothing may be traced or
//! instrumented: it must be inlined or lie in the section `.noinstr.text`.

mod call;
mod observers;
mod processor;
mod work;

pub use call::{CallWork, SyscallVerdict, TraceVerdict};
pub use observers::{Crossing, Observers};
pub use processor::Processor;
pub use work::ThreadWork;

/// The kernel as the threshold sees it: all four subjects.
pub trait Kernel: Processor + Observers + ThreadWork + CallWork {}

impl<K: Processor + Observers + ThreadWork + CallWork> Kernel for K {}
