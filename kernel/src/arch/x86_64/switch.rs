//! Switching between threads: callee-saved registers, floating point, thread-local storage.

use super::cpu::{self, CR4_TSD, Features, MSR_FS_BASE, MSR_KERNEL_GS_BASE, read_register, write_register};
use super::frame::{Frame, KERNEL_DS};
use super::{cpus, debug, fpu, irq, selector, tables, tlb};
use crate::arch::stack_calls::OnStack;
use crate::sched::float::{Float, Registers, Reset};
use crate::sched::resume::Resume;
use core::arch::asm;
use core::mem::offset_of;
use limen_entry::ThreadFlags;
use limen_linux_abi::Errno;

/// What is saved of a thread that is not running. Lives in its `Task`; only the CPU that switches the thread
/// touches it.
#[derive(Debug)]
#[repr(C)]
pub struct Context {
    /// RBX and RBP; what else lives across a switch the compiler keeps on the stack.
    kept: [usize; 2],
    sp: usize,
    /// Where it goes on.
    pub resume: Resume,
    /// Bases of FS and GS in user mode.
    fs_base: usize,
    gs_base: usize,
    /// The selectors in DS, ES, FS and GS, 16 bits each from the lowest. Kernel threads have none.
    segments: u64,
    special: Special,
    /// Descriptors of its own segments ([`Special::OWN`]).
    own: [u64; tables::OWN_COUNT],
    float: Float<Area>,
    /// What signal frames say about the last exception that became a signal.
    pub(super) fault: Fault,
    /// Debug registers.
    pub debug: debug::Registers,
}

/// An exception in user mode as `sigcontext` shows it.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The vector.
    pub trap: usize,
    /// The error code the processor pushed.
    pub error: usize,
    /// The address of the last page fault.
    pub cr2: usize,
}

impl Fault {
    const NONE: Fault = Fault {
        trap: 0,
        error: 0,
        cr2: 0,
    };

    /// Remembers an exception of the running thread; `cr2` if it was a page fault.
    #[cold]
    pub fn remember(trap: u8, error: usize, cr2: Option<usize>) {
        Self::change(|fault| {
            fault.trap = usize::from(trap);
            fault.error = error;
            fault.cr2 = cr2.unwrap_or(fault.cr2);
        });
    }
}

bitflags::bitflags! {
    /// What few threads have, and the switch has one test for, together with the processor's selectors: user
    /// mode changes these whenever it likes.
    ///
    /// A CPU has a local table if and only if the thread that it runs has [`Special::TABLE`]; so it comes and
    /// goes with the switches between such threads and others. Who brings the first thread of an address
    /// space with a table marks the one before (`tlb::note_loaded`), who changes the table marks those that
    /// run ([`Context::take_table`]), and from one thread to the next of the same address space the switch
    /// hands it on. So no selector of a table reaches a thread of another program, and a thread finds its own
    /// table whenever it runs.
    ///
    /// Those of a running thread change with interrupts off: the request of another CPU that has changed the
    /// table comes as an interrupt.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Special: u32 {
        /// It cannot read the time stamp counter.
        const NO_COUNTER = 1 << 0;
        /// There are selectors among `segments`.
        const SELECTORS = 1 << 1;
        /// The CPU has a local table.
        const TABLE = 1 << 2;
        /// The stack segment must be whole when a system call returns ([`Context::mend_stack`]).
        const STACK = 1 << 3;
        /// There are descriptors among `own`.
        const OWN = 1 << 4;
    }
}

/// Where a thread's floating-point area is; 0 for threads without.
#[derive(Debug)]
struct Area(usize);

impl Registers for Area {
    #[inline(always)]
    unsafe fn save(&mut self) {
        // SAFETY: as the caller promises; user threads have an area.
        unsafe { fpu::save(self.0) }
    }
    #[inline(always)]
    unsafe fn load(&self) {
        // SAFETY: as the caller promises; user threads have an area.
        unsafe { fpu::load(self.0) }
    }
}

impl Reset for Area {
    unsafe fn reset() {
        fpu::load_initial();
    }
}

unsafe extern "C" {
    /// Where a new thread's first switch ends (`entry`): its frame lies one word above the stack pointer.
    fn x86_ret_from_fork();
}

/// Whether any of DS, ES, FS and GS has a selector, as a number that is not 0 then.
#[inline(always)]
fn any_segment() -> u32 {
    // SAFETY: reads registers.
    unsafe {
        (read_register!("ds") | read_register!("es") | read_register!("fs") | read_register!("gs")) as u32
    }
}

/// Of a selector: any but 0, and any that means a descriptor.
const ANY: u64 = 0xffff;
const NOT_NULL: u64 = 0xfffc;

/// This CPU's user mode can read the time stamp counter, or no longer. Interrupts are off.
#[cold]
fn set_counter(readable: bool) {
    // SAFETY: only user mode sees a difference.
    unsafe {
        let others = read_register!("cr4") & !CR4_TSD;
        write_register!("cr4", if readable { others } else { others | CR4_TSD });
    }
}

/// # Safety
/// The processor has `FSGSBASE`.
#[inline(always)]
unsafe fn read_fs_base() -> usize {
    let base;
    // SAFETY: enabled in CR4.
    unsafe { asm!("rdfsbase {}", out(reg) base, options(nomem, nostack, preserves_flags)) };
    base
}

/// # Safety
/// The processor has `FSGSBASE`. Interrupts are off.
#[inline(always)]
unsafe fn read_gs_base() -> usize {
    let base;
    // SAFETY: enabled in CR4. In between the kernel's base is out of place: nothing is reached through it,
    // and no interrupt comes.
    unsafe {
        asm!("swapgs", "rdgsbase {}", "swapgs", out(reg) base, options(nomem, nostack, preserves_flags))
    };
    base
}

/// The user's FS base.
pub fn fs_base() -> usize {
    if cpu::has(Features::FSGSBASE) {
        // SAFETY: it has.
        unsafe { read_fs_base() }
    } else {
        // SAFETY: the register exists.
        unsafe { cpu::rdmsr(MSR_FS_BASE) as usize }
    }
}

/// Sets the user's FS base, a user address.
fn set_fs_base(base: usize) {
    if cpu::has(Features::FSGSBASE) {
        // SAFETY: enabled in CR4; the kernel does not use FS.
        unsafe { asm!("wrfsbase {}", in(reg) base, options(nomem, nostack, preserves_flags)) }
    } else {
        // SAFETY: the kernel does not use FS; callers pass canonical addresses.
        unsafe { cpu::wrmsr(MSR_FS_BASE, base as u64) }
    }
}

/// The user's GS base (in the kernel it waits in the other register). Interrupts are off.
pub fn gs_base() -> usize {
    debug_assert!(!irq::enabled());
    if cpu::has(Features::FSGSBASE) {
        // SAFETY: it has, and interrupts are off.
        unsafe { read_gs_base() }
    } else {
        // SAFETY: the register exists.
        unsafe { cpu::rdmsr(MSR_KERNEL_GS_BASE) as usize }
    }
}

/// Sets the user's GS base, a canonical address.
fn set_gs_base(base: usize) {
    // SAFETY: only user mode uses it, after `swapgs`.
    unsafe { cpu::wrmsr(MSR_KERNEL_GS_BASE, base as u64) }
}

impl Context {
    /// The stack pointer with which it goes on.
    pub fn sp(&self) -> usize {
        self.sp
    }

    /// Where a backtrace of it begins, as long as it is off its CPU: its frame pointer.
    pub fn frame_pointer(&self) -> usize {
        self.kept[1]
    }

    /// For a thread that is already running (idle threads).
    pub const fn running() -> Self {
        Self {
            kept: [0; 2],
            sp: 0,
            resume: Resume::BEHIND,
            fs_base: 0,
            gs_base: 0,
            segments: 0,
            special: Special::empty(),
            own: [0; tables::OWN_COUNT],
            float: Float::new(Area(0)),
            fault: Fault::NONE,
            debug: debug::Registers::NONE,
        }
    }

    /// For a new thread: `frame` is placed at the top of its kernel stack; its first switch ends in the
    /// architecture's `ret_from_fork` stub, which calls `threshold::return_from_fork(frame)` and restores the
    /// frame.
    pub fn new(stack_top: usize, frame: &Frame) -> Self {
        let fpu = stack_top - fpu::area_size();
        let at = user_frame(stack_top);
        let sp = at as usize - 8;
        // SAFETY: the stack is the new thread's, which does not run yet; everything written lies at its top.
        unsafe {
            fpu::init_area(fpu);
            at.write(frame.clone());
        }
        Self {
            kept: [0; 2],
            sp,
            resume: Resume::at(x86_ret_from_fork),
            fs_base: 0,
            gs_base: 0,
            segments: 0,
            special: Special::empty(),
            own: [0; tables::OWN_COUNT],
            float: Float::new(Area(fpu)),
            fault: Fault::NONE,
            debug: debug::Registers::NONE,
        }
    }

    /// The register file of a new thread made from a system call: a copy of the parent's with result 0, and,
    /// if given, another stack pointer and thread-local-storage value.
    pub fn fork_from(&mut self, parent: &Context, sp: Option<usize>, tls: Option<usize>) {
        let frame = (self.sp + 8) as *mut Frame;
        // SAFETY: `Context::new` put the frame there, and the thread does not run yet.
        let frame = unsafe { &mut *frame };
        frame.rax = 0;
        if let Some(sp) = sp {
            frame.rsp = sp;
        }
        self.float.inherit(&parent.float);
        if parent.float.is_user() {
            let flags = irq::local_save();
            self.special = parent.special & Special::NO_COUNTER;
            if parent.special.contains(Special::OWN) {
                self.special |= Special::OWN;
                self.own = parent.own;
            }
            self.set_segments(selector::segments());
            (self.fs_base, self.gs_base) = (parent.fs_base, parent.gs_base);
            self.note_bases(ANY);
            irq::local_restore(flags);
        }
        if let Some(tls) = tls {
            self.fs_base = tls;
            self.set_segments(self.segments & !(0xffff << 32));
        }
    }

    /// The selectors in DS, ES, FS and GS.
    fn set_segments(&mut self, all: u64) {
        self.segments = all;
        self.special.set(Special::SELECTORS, all != 0);
    }

    /// Brings the bases up to date; the registers are those of the running thread, and so are `segments`.
    /// Where user mode cannot write bases, one that was set stays with the empty selector, and any other
    /// selector (with a bit of `which`) has its own. Interrupts are off.
    fn note_bases(&mut self, which: u64) {
        let always = cpu::has(Features::FSGSBASE);
        if always || self.segments >> 32 & which != 0 {
            self.fs_base = fs_base();
        }
        if always || self.segments >> 48 & which != 0 {
            self.gs_base = gs_base();
        }
    }

    /// The context is that of the running thread, and the switch from it brings a local table.
    pub(super) fn note_table(&mut self) {
        self.special |= Special::TABLE;
    }

    /// The context is that of the running thread, and its CPU has got a local table, or another. Interrupts
    /// are off.
    pub(super) fn take_table(&mut self) {
        self.note_table();
        self.mark_return(true);
        if self.float.is_user() {
            selector::refresh();
        }
    }

    /// Whether the running thread, whose context it is, may have a stack segment of its own in user mode:
    /// only threads with a local table can.
    fn mark_return(&self, may: bool) {
        // SAFETY: the running thread's, which lives.
        let work = unsafe { &(*cpus::current()).work };
        if may && self.float.is_user() {
            work.set(ThreadFlags::RETURN);
        } else if work.has(ThreadFlags::RETURN) {
            work.clear(ThreadFlags::RETURN);
        }
    }

    /// The running thread, whose context it is, met a fault of the stack segment that every thread has, in
    /// 32-bit code. `true`: that may have been the kernel's doing, and the access is tried once more.
    ///
    /// Some processors (AMD's) return from a system call with SS as it was in the kernel, but for the
    /// selector: unusable, if the thread that ran there before had come by an interrupt. Only 32-bit code
    /// sees that. From now on the switch makes SS whole for this thread; others need no such step. This
    /// return, by `iretq`, mends it as well.
    pub(super) fn mend_stack(&mut self) -> bool {
        let flags = irq::local_save();
        let first = !self.special.contains(Special::STACK);
        self.special |= Special::STACK;
        irq::local_restore(flags);
        first
    }

    /// The descriptors of its own segments.
    pub(super) fn own_segments(&self) -> [u64; tables::OWN_COUNT] {
        self.own
    }

    /// Changes the descriptor of its segment at `place` (below [`tables::OWN_COUNT`]), of a thread that does
    /// not run, to one for data of user mode, or to 0.
    pub(super) fn set_own_segment(&mut self, place: usize, descriptor: u64) {
        self.own[place] = descriptor;
        self.special.set(Special::OWN, self.own != [0; tables::OWN_COUNT]);
    }

    /// The same, and FS and GS with its selector have what the descriptor says when the thread runs.
    pub(super) fn give_own_segment(&mut self, place: usize, descriptor: u64) {
        self.set_own_segment(place, descriptor);
        let base = tables::base(descriptor) as usize;
        let selector = tables::own_selector(place);
        if (self.segments >> 32) as u16 == selector {
            self.fs_base = base;
        }
        if (self.segments >> 48) as u16 == selector {
            self.gs_base = base;
        }
    }

    /// As [`Self::set_own_segment`], of the running thread, whose context it is. A register with its selector
    /// gets what the descriptor says now.
    pub(super) fn change_own_segment(&mut self, place: usize, descriptor: u64) {
        let flags = irq::local_save();
        self.set_own_segment(place, descriptor);
        self.load_own_segments();
        selector::renew(tables::own_selector(place));
        irq::local_restore(flags);
    }

    /// Makes them this CPU's. Interrupts are off.
    fn load_own_segments(&self) {
        // SAFETY: interrupts are off, and `thread_area` has checked what they are.
        unsafe { tables::set_own_segments(cpus::cpu_id(), self.own) };
    }

    /// Bases of FS and GS of a thread that sleeps.
    pub(super) fn bases(&self) -> [usize; 2] {
        [self.fs_base, self.gs_base]
    }

    /// Its selectors in DS, ES, FS and GS, 16 bits each from the lowest.
    pub(super) fn selectors(&self) -> u64 {
        self.segments
    }

    /// Gives a thread that sleeps others: canonical addresses, and any selectors.
    pub(super) fn set_bases(&mut self, fs_base: usize, gs_base: usize, selectors: u64) {
        (self.fs_base, self.gs_base) = (fs_base, gs_base);
        self.set_segments(selectors);
    }

    /// Runs `f` with the floating-point area of a thread that sleeps, a user's.
    pub(super) fn float_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        let area = self.float.kept().0;
        if area == 0 {
            return f(&[]);
        }
        // SAFETY: the thread's area, which nobody uses while it sleeps.
        f(unsafe { core::slice::from_raw_parts(area as *const u8, fpu::area_size()) })
    }

    /// Runs `f` with that area, to be changed into another valid one.
    pub(super) fn change_float_bytes(
        &mut self,
        f: impl FnOnce(&mut [u8]) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let area = self.float.replace().0;
        if area == 0 {
            return Err(Errno::EIO);
        }
        // SAFETY: a user thread's area, which nobody uses while it sleeps.
        f(unsafe { core::slice::from_raw_parts_mut(area as *mut u8, fpu::area_size()) })
    }

    /// The running thread's FS base becomes `base`, a user address, without a selector. The context is its
    /// own.
    pub fn choose_fs_base(&mut self, base: usize) {
        let flags = irq::local_save();
        self.fs_base = base;
        // SAFETY: no selector; the kernel does not use FS.
        unsafe { write_register!("fs", 0) };
        set_fs_base(base);
        irq::local_restore(flags);
    }

    /// As [`Self::choose_fs_base`], of GS.
    pub fn choose_gs_base(&mut self, base: usize) {
        let flags = irq::local_save();
        self.gs_base = base;
        // SAFETY: no selector.
        unsafe { selector::write_user_gs(0) };
        set_gs_base(base);
        irq::local_restore(flags);
    }

    /// Whether the thread can read the time stamp counter. The context is the running thread's.
    pub fn reads_counter(&self) -> bool {
        !self.special.contains(Special::NO_COUNTER)
    }

    /// Sets that.
    pub fn let_read_counter(&mut self, readable: bool) {
        let flags = irq::local_save();
        self.special.set(Special::NO_COUNTER, !readable);
        set_counter(readable);
        irq::local_restore(flags);
    }

    /// Fork copies all of it.
    pub fn exchange_rest(&mut self, _own: &mut Context) {}

    /// A fresh program: floating point and thread-local storage as at the start of `exec`. The context is the
    /// running thread's.
    pub fn reset_for_exec(&mut self) {
        let whose = core::ptr::from_ref(self).cast();
        self.float.begin(whose);
        self.debug = debug::Registers::NONE;
        let flags = irq::local_save();
        self.segments = selector::load_segments(0);
        set_fs_base(0);
        set_gs_base(0);
        (self.fs_base, self.gs_base) = (0, 0);
        if self.special.contains(Special::TABLE) {
            // The old program's. The new address space, which is loaded, has none.
            tlb::exchange_segments(true);
            self.mark_return(false);
        }
        if self.special.contains(Special::OWN) {
            self.own = [0; tables::OWN_COUNT];
            self.load_own_segments();
        }
        self.special &= Special::NO_COUNTER;
        irq::local_restore(flags);
    }
}

/// Switches from `prev` (running) to `next`, with floating-point state and the TLS register. Returns when
/// `prev` runs again, after `resumed()` if it asked for that.
///
/// # Safety
/// Interrupts are off; both contexts stay valid; `next` is not running anywhere.
#[inline(always)]
#[expect(
    named_asm_labels,
    reason = "contexts name these places, and the one caller is not copied"
)]
pub unsafe fn switch(prev: *mut Context, next: *const Context, resumed: impl FnOnce()) {
    let next = next.cast_mut();
    // SAFETY: both are valid; `next` belongs to this CPU from here on.
    unsafe {
        // What the processor's register has, if it is known.
        let mut gs = None;
        if (*prev).float.is_user() {
            (*prev).float.leave();
            if cpu::has(Features::FSGSBASE) {
                (*prev).fs_base = read_fs_base();
                (*prev).gs_base = read_gs_base();
                gs = Some((*prev).gs_base);
            } else if (*prev).gs_base == 0 {
                gs = Some(0);
            }
        }
        // Nearly nobody has selectors: the processor's are 0 then, and stay.
        if any_segment() | (*prev).special.bits() | (*next).special.bits() != 0 {
            exchange_segments(prev, next);
            gs = None;
        }
        if (*next).float.is_user() {
            (*next).float.arrive(cpus::cpu_local().cast_mut(), next.cast());
            set_fs_base((*next).fs_base);
            if gs != Some((*next).gs_base) {
                set_gs_base((*next).gs_base);
            }
        }
        asm!(
            "mov [rdi + {kept}], rbx",
            "mov [rdi + {kept} + 8], rbp",
            "mov [rdi + {sp}], rsp",
            "mov rbx, [rsi + {kept}]",
            "mov rbp, [rsi + {kept} + 8]",
            "mov rsp, [rsi + {sp}]",
            "jmp [rsi + {resume}]",
            ".globl switch_calls, switch_goes_on",
            ".set switch_calls, {calls}",
            "switch_goes_on:",
            kept = const offset_of!(Context, kept),
            sp = const offset_of!(Context, sp),
            resume = const offset_of!(Context, resume),
            inout("rdi") prev => _,
            inout("rsi") next => _,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            clobber_abi("sysv64"),
            calls = label { resumed() },
        );
    }
}

/// The part of the switch for threads with selectors, a local table, or something else that is [`Special`].
/// The running thread is `next` already, as far as the CPU's block and the address space say.
///
/// # Safety
/// As [`switch`].
#[cold]
#[inline(never)]
unsafe fn exchange_segments(prev: *mut Context, next: *mut Context) {
    // SAFETY: both are valid, and this CPU's.
    let (prev, next) = unsafe { (&mut *prev, &mut *next) };
    prev.set_segments(selector::segments());
    prev.note_bases(ANY);
    let table = tlb::exchange_segments(prev.special.contains(Special::TABLE));
    next.special.set(Special::TABLE, table);
    next.mark_return(table);
    if (prev.special | next.special).contains(Special::OWN) {
        // No other thread's, whoever comes.
        next.load_own_segments();
    }
    next.segments = selector::load_segments(next.segments);
    if !cpu::has(Features::FSGSBASE) {
        // A selector has its own base, whatever a tracer wrote. (With a null one, some processors still have
        // the base of the thread before.)
        next.note_bases(NOT_NULL);
    }
    let counter = prev.special & Special::NO_COUNTER;
    if next.special & Special::NO_COUNTER != counter {
        set_counter(!counter.is_empty());
    }
    if next.special.contains(Special::STACK) {
        // SAFETY: the kernel's own.
        unsafe { write_register!("ss", KERNEL_DS) };
    }
}

/// The user register frame of the running thread, at the top of its kernel stack.
#[inline(always)]
pub fn user_frame(stack_top: usize) -> *mut Frame {
    (stack_top - fpu::area_size() - size_of::<Frame>()) as *mut Frame
}

/// The caller's stack pointer.
#[inline(always)]
pub fn stack_pointer() -> usize {
    let sp: usize;
    // SAFETY: only reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) sp, options(nomem, nostack, preserves_flags)) };
    sp
}

/// The kernel is built so that no function uses what is below its stack pointer.
pub const RED_ZONE: usize = 0;

/// Runs `F` on another stack, or further down on the same, and comes back.
///
/// # Safety
/// `stack_top` is 16-byte aligned, and below it is a stack that nobody else uses.
#[inline(always)]
pub unsafe fn call_on_stack<F: OnStack>(stack_top: usize, data: *mut u8) {
    // SAFETY: the old stack pointer is kept in a register that `f` preserves.
    unsafe {
        asm!(
            "mov r12, rsp",
            "mov rsp, {top}",
            "call {f}",
            "mov rsp, r12",
            top = in(reg) stack_top,
            f = sym F::run,
            in("rdi") data,
            out("r12") _,
            clobber_abi("C"),
        )
    }
}
