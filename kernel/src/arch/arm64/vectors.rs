//! A thread's floating-point and vector registers: the 32 of 128 bits that every processor has, and SVE's, of
//! which those are the lower parts.
//!
//! A program that has not used SVE has the first only, and the first instruction of SVE traps: then the
//! kernel finds memory for the rest ([`first_use`]), and user mode may use it. A system call ends that:
//! behind it the program has the first only again, and what else SVE has is zero at its next use. So it is
//! known of the running thread whether it has more: `CPACR_EL1` of its CPU lets user mode use SVE. Without
//! SVE this costs an instruction that does nothing where registers are saved or loaded.

use super::float::FpState;
use super::{cpus, irq, sve};
use crate::mm::reserve::room_exact;
use crate::sched::entity::with_current_context;
use crate::sched::float::{Registers, Reset};
use alloc::vec::Vec;
use core::mem::{swap, take};
use limen_linux_abi::Errno;

/// What a thread has of SVE.
#[derive(Debug)]
pub struct Scalable {
    /// Bytes of a vector; 0: it has not been in user mode.
    length: u16,
    /// The same after exec; 0: the default.
    next: u16,
    /// The length stays after exec, and after the one behind it.
    inherits: bool,
    /// While the thread does not run: it may use SVE, and `memory` has the registers.
    live: bool,
    /// Z0 to Z31, P0 to P15, FFR, one behind the other, as signal frames have them. Not enough for the length
    /// if SVE has not been used with it.
    memory: Vec<u128>,
}

/// Flags of `PR_SVE_SET_VL` and `PR_SVE_GET_VL`, beside the length.
const LENGTH_MASK: usize = 0xffff;
const INHERIT: usize = 1 << 17;
const ON_EXEC: usize = 1 << 18;

/// Room for SVE's registers with vectors of `length` bytes. `ENOMEM`. Thread.
pub fn room(length: usize) -> Result<Vec<u128>, Errno> {
    let quadwords = sve::registers_size(length).div_ceil(sve::QUADWORD);
    let mut memory = Vec::new();
    room_exact(&mut memory, quadwords)?;
    memory.resize(quadwords, 0);
    Ok(memory)
}

/// The bytes of registers of such vectors in such room.
pub fn bytes(memory: &mut [u128], length: usize) -> &mut [u8] {
    let size = size_of_val(memory).min(sve::registers_size(length));
    // SAFETY: integers, of which that many bytes are in the slice.
    unsafe { core::slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), size) }
}

impl Scalable {
    const NONE: Self = Self {
        length: 0,
        next: 0,
        inherits: false,
        live: false,
        memory: Vec::new(),
    };

    /// Bytes of a vector.
    pub fn length(&self) -> usize {
        usize::from(self.length)
    }

    /// Whether the memory is enough for the length.
    fn has_room(&self) -> bool {
        let size = size_of_val(&self.memory[..]);
        size != 0 && size >= sve::registers_size(self.length())
    }

    /// Whether a thread that does not run has the registers, and not only the lower parts of its vectors.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Whether the length outlives exec.
    pub fn inherits(&self) -> bool {
        self.inherits
    }

    /// Changes the length as `PR_SVE_SET_VL` says: `flags` are what its argument has beside it. If it is
    /// another one then, only the lower parts of vectors are left (whether they are in the processor or not),
    /// `old` has the memory of the others, and the result is `true`. `EINVAL`.
    pub fn set_length(&mut self, length: usize, flags: usize, old: &mut Vec<u128>) -> Result<bool, Errno> {
        if flags & !(INHERIT | ON_EXEC) != 0 || !sve::is_length(length) {
            return Err(Errno::EINVAL);
        }
        let length = sve::supported(length) as u16;
        self.next = if flags != 0 { length } else { 0 };
        self.inherits = flags & INHERIT != 0;
        let changes = flags & ON_EXEC == 0 && length != self.length;
        if changes {
            self.length = length;
            self.live = false;
            *old = take(&mut self.memory);
        }
        Ok(changes)
    }

    /// A new thread, which has no memory, has its parent's lengths.
    #[cold]
    fn inherit(&mut self, parent: &Self) {
        (self.length, self.next, self.inherits) = (parent.length, parent.next, parent.inherits);
        self.live = false;
    }

    /// A program begins with the length that was set for it. Memory is not freed here, where nothing may
    /// sleep.
    #[cold]
    fn begin_program(&mut self) {
        let length = match self.next {
            0 => sve::default_length(),
            next => sve::supported(next.into()),
        };
        self.length = length as u16;
        self.next = if self.inherits { self.next } else { 0 };
        self.live = false;
    }

    /// What `PR_SVE_SET_VL` and `PR_SVE_GET_VL` return.
    fn status(&self, next: bool) -> usize {
        let length = if next { self.next } else { self.length };
        usize::from(length) | if self.inherits { INHERIT } else { 0 }
    }
}

/// All of it while the thread does not run.
#[derive(Debug)]
#[repr(C)]
pub struct Vectors {
    /// The lower parts, whatever else there is.
    fp: FpState,
    scalable: Scalable,
}

impl Vectors {
    /// Of a thread that has never been in user mode.
    pub const NEW: Self = Self {
        fp: FpState::ZERO,
        scalable: Scalable::NONE,
    };

    /// The lower parts.
    pub fn fp(&self) -> &FpState {
        &self.fp
    }

    /// What there is of SVE.
    pub fn scalable(&self) -> &Scalable {
        &self.scalable
    }

    /// The same, to be changed while the thread does not run.
    pub fn scalable_mut(&mut self) -> &mut Scalable {
        &mut self.scalable
    }

    /// Fork: a new thread, which has no memory, has its parent's lengths.
    #[inline(always)]
    pub fn inherit(&mut self, parent: &Self) {
        if sve::is_on() {
            self.scalable.inherit(&parent.scalable);
        }
    }

    /// Exec: a program begins with the length that was set for it.
    #[inline(always)]
    pub fn begin_program(&mut self) {
        if sve::is_on() {
            self.scalable.begin_program();
        }
    }

    /// A thread that does not run has SVE's registers from now on, if it had not, with those of its vectors'
    /// parts that it had; the others are zero. `room` may be needed for them; what it has then is not.
    /// Without enough room nothing changes. `ENOMEM`.
    pub fn make_live(&mut self, room: &mut Vec<u128>) -> Result<(), Errno> {
        if self.scalable.live {
            return Ok(());
        }
        if !self.scalable.has_room() {
            swap(&mut self.scalable.memory, room);
        }
        if !self.scalable.has_room() {
            return Err(Errno::ENOMEM);
        }
        self.scalable.live = true;
        self.lower_parts_to_all();
        Ok(())
    }

    /// SVE's registers of a thread that does not run, if it has them.
    pub fn registers(&self) -> &[u8] {
        let (memory, length) = (&self.scalable.memory, self.scalable.length());
        let size = size_of_val(&memory[..]).min(sve::registers_size(length));
        // SAFETY: integers, of which that many bytes are in the memory.
        unsafe { core::slice::from_raw_parts(memory.as_ptr().cast(), size) }
    }

    /// The same, to be changed.
    pub fn registers_mut(&mut self) -> &mut [u8] {
        let length = self.scalable.length();
        bytes(&mut self.scalable.memory, length)
    }

    /// A thread that does not run has only the lower parts of its vectors.
    pub fn end_live(&mut self) {
        self.scalable.live = false;
    }

    /// Changes the lower parts of the vectors of a thread that does not run. All else of SVE becomes zero, if
    /// there is any.
    pub fn set_fp(&mut self, fp: FpState) {
        self.fp = fp;
        if self.scalable.live {
            self.lower_parts_to_all();
        }
    }

    /// Changes status and control.
    pub fn set_status(&mut self, fpsr: u32, fpcr: u32) {
        (self.fp.fpsr, self.fp.fpcr) = (fpsr, fpcr);
    }

    fn lower_parts_to_all(&mut self) {
        self.scalable.memory.fill(0);
        self.put_lower_parts();
    }

    /// SVE's vectors get their lower parts.
    fn put_lower_parts(&mut self) {
        let quadwords = (self.scalable.length() / sve::QUADWORD).max(1);
        let vectors = self.scalable.memory.iter_mut().step_by(quadwords);
        for (to, v) in vectors.zip(self.fp.v) {
            *to = v;
        }
    }

    /// The lower parts are those of SVE's vectors.
    pub fn take_lower_parts(&mut self) {
        let quadwords = (self.scalable.length() / sve::QUADWORD).max(1);
        let vectors = self.scalable.memory.iter().step_by(quadwords);
        for (v, from) in self.fp.v.iter_mut().zip(vectors) {
            *v = *from;
        }
    }

    /// SVE's part of the running thread, whose this is, becomes that of `other`, a copy that does not run, or
    /// that comes back. With preemption off.
    pub fn exchange(&mut self, other: &mut Self) {
        if !sve::is_there() {
            return;
        }
        let flags = irq::local_save();
        // SAFETY: interrupts are off, and the registers are the running thread's.
        unsafe {
            self.save_all();
            swap(&mut self.scalable, &mut other.scalable);
            if self.scalable.live {
                self.load_all();
            }
        }
        irq::local_restore(flags);
    }

    /// # Safety
    /// As for [`Registers::save`].
    #[inline(never)]
    unsafe fn save_all(&mut self) {
        let scalable = &mut self.scalable;
        // A copy that fork makes has no memory, and gets the lower parts.
        scalable.live = sve::is_allowed() && scalable.has_room();
        // SAFETY: as the caller promises. If user mode may use SVE, the vectors' length is that of the
        // thread, and so is its memory's size.
        unsafe {
            self.fp.save();
            if scalable.live {
                sve::save(scalable.memory.as_mut_ptr());
            }
        }
    }

    /// # Safety
    /// As for [`Registers::load`].
    #[inline(never)]
    unsafe fn load_all(&self) {
        // SAFETY: as the caller promises. The memory is of the length's size.
        unsafe {
            self.fp.load();
            if self.scalable.live {
                sve::allow(self.scalable.length());
                sve::load(self.scalable.memory.as_ptr());
            } else {
                sve::deny();
            }
        }
    }
}

impl Registers for Vectors {
    #[inline(always)]
    unsafe fn save(&mut self) {
        // SAFETY: as the caller promises.
        unsafe {
            if sve::is_on() {
                return self.save_all();
            }
            self.fp.save();
        }
    }

    #[inline(always)]
    unsafe fn load(&self) {
        // SAFETY: as the caller promises.
        unsafe {
            if sve::is_on() {
                return self.load_all();
            }
            self.fp.load();
        }
    }
}

impl Reset for Vectors {
    unsafe fn reset() {
        // SAFETY: as the caller promises.
        unsafe { FpState::ZERO.load() }
        if sve::is_on() {
            sve::deny();
        }
    }
}

/// The running thread's program uses SVE: it has all its registers from now on, the lower parts of vectors as
/// they were, the others zero. `ENOMEM`. Thread.
pub fn first_use() -> Result<(), Errno> {
    let (length, has) = with_current_context(|context| {
        let scalable = context.float.kept().scalable();
        (scalable.length(), scalable.has_room())
    });
    let mut memory = if has { Vec::new() } else { room(length)? };
    with_current_context(|context| {
        if !has {
            swap(&mut context.float.besides().scalable.memory, &mut memory);
        }
        sve::allow(length);
        // SAFETY: the registers are the running thread's, which sees zeros.
        unsafe { sve::clear() };
    });
    Ok(())
}

/// Whether the running thread has SVE's registers.
pub fn is_running_live() -> bool {
    sve::is_allowed()
}

/// Bytes of the running thread's vectors.
pub fn running_length() -> usize {
    with_current_context(|context| context.float.kept().scalable.length())
}

/// Runs `f` with SVE's registers of the running thread, which has them, as they are. Thread.
pub fn with_running<R>(f: impl FnOnce(&[u8]) -> R) -> R {
    let (at, size) = with_current_context(|context| {
        let vectors = context.float.besides();
        // SAFETY: the registers are the running thread's, and so is this; preemption is off.
        unsafe { vectors.save_all() };
        let bytes = vectors.registers();
        (bytes.as_ptr(), bytes.len())
    });
    // SAFETY: only the thread itself frees that memory, which it does not do meanwhile. A switch stores there
    // what is there.
    f(unsafe { core::slice::from_raw_parts(at, size) })
}

/// The running thread has only the lower parts of its vectors any more.
pub fn end_running_live() {
    sve::deny();
}

/// The running thread gets all these registers: SVE's, but for the lower parts of vectors, are those in
/// `memory`, room for its length.
pub fn set_running(fp: FpState, memory: &mut Vec<u128>) {
    with_current_context(|context| {
        let whose = core::ptr::from_ref(context).cast();
        let flags = irq::local_save();
        let vectors = context.float.replace();
        vectors.fp = fp;
        swap(&mut vectors.scalable.memory, memory);
        vectors.scalable.live = true;
        vectors.put_lower_parts();
        // SAFETY: interrupts are off; what the processor's registers hold is the running thread's, and is not
        // needed any more.
        unsafe {
            vectors.load_all();
            context.float.claim(cpus::cpu_local().cast_mut(), whose);
        }
        irq::local_restore(flags);
    });
}

/// `PR_SVE_SET_VL` with this argument. `EINVAL`. Thread.
pub fn set_running_length(arg: usize) -> Result<usize, Errno> {
    if !sve::is_there() {
        return Err(Errno::EINVAL);
    }
    let flags = arg & !LENGTH_MASK;
    let mut old = Vec::new();
    with_current_context(|context| {
        let scalable = &mut context.float.besides().scalable;
        if scalable.set_length(arg & LENGTH_MASK, flags, &mut old)? {
            sve::deny();
        }
        Ok(scalable.status(flags & ON_EXEC != 0))
    })
}

/// `PR_SVE_GET_VL`. `EINVAL`. Thread.
pub fn get_running_length() -> Result<usize, Errno> {
    if !sve::is_there() {
        return Err(Errno::EINVAL);
    }
    Ok(with_current_context(|context| {
        context.float.kept().scalable.status(false)
    }))
}
