//! What may be done with the kernel stack at each way in from user mode, if the command line wants it:
//!
//! * `randomize_kstack_offset=on`: what runs begins at a random distance below the frame, so that nobody who
//!   learned in one call where something lies on the stack can use it in the next.
//! * `stack_erasing=on`: before the way back all that was written below the frame is overwritten, so that no
//!   later call finds it.
//!
//! The entry stubs come here only if boot made them (`arch::stub_calls`): off, they cost nothing.

use crate::arch::stack_calls::OnStack;
use crate::arch::{switch, time};
use crate::mm::STACK_SHIFT;
use crate::sched::this_cpu;
use core::sync::atomic::{AtomicBool, Ordering};

/// The random part of the distance: less than 1 KiB, in the unit to which all stacks are aligned.
const DISTANCE: usize = 0x3f0;

/// What overwrites the stack. No address looks like it.
const POISON: usize = (-0xbeefisize) as usize;

/// So many bytes of nothing but [`POISON`] end the used part of a stack. A function has at most this in its
/// frame that it never wrote (the step `frames` checks that no frame has more than half of it).
const UNUSED: usize = 8192;

/// Words that are looked at at once.
const GROUP: usize = 4;

static RANDOMIZES: AtomicBool = AtomicBool::new(false);
static ERASES: AtomicBool = AtomicBool::new(false);

/// Takes a word of the command line if it is for this. Early boot.
#[unsafe(link_section = ".init.text")]
pub fn take(word: &str) {
    let (option, value) = match word.split_once('=') {
        Some(("randomize_kstack_offset", value)) => (&RANDOMIZES, value),
        Some(("stack_erasing", value)) => (&ERASES, value),
        _ => return,
    };
    if let Some(on) = crate::cmdline::truth(value) {
        option.store(on, Ordering::Relaxed);
    }
}

/// Whether the stubs have to come here.
pub fn is_wanted() -> bool {
    RANDOMIZES.load(Ordering::Relaxed) || ERASES.load(Ordering::Relaxed)
}

/// Says what boot chose. Once, when there is a log.
pub fn report() {
    for name in ["randomize_kstack_offset", "stack_erasing"] {
        if let Some(value) = crate::cmdline::value(name)
            && crate::cmdline::truth(value).is_none()
        {
            warning!("Malformed option {name}={value}; known are on, off");
        }
    }
    if RANDOMIZES.load(Ordering::Relaxed) {
        info!("stack: a random distance at each entry");
    }
    if ERASES.load(Ordering::Relaxed) {
        info!("stack: erased at each exit to user mode");
    }
}

/// Runs what goes on with the frame that an entry from user mode left at the top of the kernel stack (`data`:
/// the frame, or what leads to it). Interrupts are off before and after.
#[inline(always)]
pub fn from_user<F: OnStack>(data: *mut u8) {
    if RANDOMIZES.load(Ordering::Relaxed) {
        let distance = this_cpu().stack_distance.load(Ordering::Relaxed) as usize & DISTANCE;
        let top = switch::stack_pointer() - switch::RED_ZONE - distance;
        // SAFETY: a stack has much more room than that below what an entry puts on it, and what is further
        // down than the red zone nobody uses.
        unsafe { switch::call_on_stack::<F>(top & !15, data) }
    } else {
        F::run(data);
    }
    leave();
}

/// The end of [`from_user`], maybe on another CPU.
#[unsafe(link_section = ".noinstr.text")]
#[inline(never)]
fn leave() {
    if RANDOMIZES.load(Ordering::Relaxed) {
        // How long a call took decides on the distance of the next, with all those before: its caller cannot
        // choose it.
        let distance = &this_cpu().stack_distance;
        let mixed = distance.load(Ordering::Relaxed).rotate_right(5) ^ time::cycles() as u32;
        distance.store(mixed.wrapping_mul(0x9e37_79b1), Ordering::Relaxed);
    }
    if ERASES.load(Ordering::Relaxed) {
        erase();
    }
}

/// Overwrites what was used of the running thread's stack below the caller. It uses none itself.
#[inline(always)]
fn erase() {
    const STEP: usize = GROUP * size_of::<usize>();
    let top = (switch::stack_pointer() - switch::RED_ZONE) & !(STEP - 1);
    let bottom = top & !((1 << STACK_SHIFT) - 1);
    let (mut used, mut at) = (top, top);
    while at > bottom && used - at < UNUSED {
        at -= STEP;
        let mut other = 0;
        for n in 0..GROUP {
            // SAFETY: the running thread's stack lies there, mapped as a whole.
            other |= unsafe { (at as *const usize).add(n).read_volatile() } ^ POISON;
        }
        if other != 0 {
            used = at;
        }
    }
    while used < top {
        // SAFETY: as above; below the stack pointer nothing is in use. (Volatile: not a call of `memset`.)
        unsafe { (used as *mut usize).write_volatile(POISON) }
        used += size_of::<usize>();
    }
}
