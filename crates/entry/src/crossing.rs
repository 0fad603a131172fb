//! The crossing itself: the first steps after user mode and the last ones before it.

use crate::hooks::Kernel;
use crate::token::{InKernel, IrqsOff};

/// First steps after leaving user mode. Interrupts are off.
#[inline(always)]
pub(crate) fn enter_from_user<K: Kernel>(k: &K, _irqs: &IrqsOff) -> InKernel {
    k.lockdep_irqs_off();
    k.context_user_exit();
    let in_kernel = InKernel::established();
    k.instrumentation_begin(&in_kernel);
    k.trace_user_exit(&in_kernel);
    k.trace_irqs_off(&in_kernel);
    in_kernel
}

/// Last steps before user mode. Interrupts are off and no [`crate::ThreadFlags::EXIT_WORK`] is set.
#[inline(always)]
pub(crate) fn exit_to_user<K: Kernel>(k: &K, irqs: IrqsOff, in_kernel: InKernel) {
    k.lockdep_sys_exit(&in_kernel);
    k.trace_user_enter(&in_kernel);
    k.trace_irqs_on(&in_kernel);
    k.lockdep_irqs_on_prepare();
    let InKernel { .. } = in_kernel;
    k.instrumentation_end();
    k.context_user_enter();
    k.lockdep_irqs_on();
    // The stub's return instruction restores the user's interrupt flag together with the other registers.
    let IrqsOff { .. } = irqs;
}
