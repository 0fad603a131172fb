//! The events of the kernel that are declared one by one, and their list. An event's place in the list is its
//! number, from [`FIRST_ID`](crate::FIRST_ID) on; those of system calls follow.

use crate::{Description, Event, Numbered};

pub mod context_tracking;
pub mod exceptions;
pub mod irq;
pub mod module;
pub mod raw_syscalls;
pub mod rseq;
pub mod sched;
pub mod signal;
pub mod task;
pub mod timer;

macro_rules! list {
    ($($module:ident: $($name:ident)*;)*) => {
        #[derive(Clone, Copy)]
        enum Index { $($($name,)*)* }

        /// All of them.
        pub const ALL: &[&Description] = &[$($($module::$name::DESCRIPTION,)*)*];

        $($(impl Numbered for list!(@type $module $name) {
            const INDEX: usize = Index::$name as usize;
        })*)*
    };
    (@type irq IrqHandlerEntry) => { irq::IrqHandlerEntry<'_> };
    (@type sched SchedProcessExec) => { sched::SchedProcessExec<'_> };
    (@type module $name:ident) => { module::$name<'_> };
    (@type $module:ident $name:ident) => { $module::$name };
}

list! {
    context_tracking: UserEnter UserExit;
    exceptions: PageFaultUser PageFaultKernel;
    irq: IrqHandlerEntry IrqHandlerExit;
    module: ModuleLoad ModuleFree ModuleGet ModulePut;
    raw_syscalls: SysEnter SysExit;
    rseq: RseqUpdate RseqIpFixup;
    sched: SchedProcessFree SchedProcessExit SchedProcessWait SchedWaking SchedWakeup
        SchedWakeupNew SchedSwitch SchedMigrateTask SchedProcessFork SchedProcessExec;
    signal: SignalGenerate SignalDeliver;
    task: TaskNewtask TaskRename;
    timer: HrtimerStart HrtimerExpireEntry HrtimerExpireExit HrtimerCancel;
}
