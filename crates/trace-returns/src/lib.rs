//! A thread's calls that are traced until they return (`function_graph`). Each has had its return address
//! replaced by that of a trampoline; here is where it really returns to, with when it began and who traces
//! it.
//!
//! Only the thread itself, and whatever interrupts it, changes its [`Returns`]. An interrupt puts its calls
//! on top and takes all of them away before it ends. One that comes while a call is being put there uses the
//! same place, and that call is put there again. Nothing is allocated once there is room.
//!
//! A call is known by its stack pointer: that of the function when it begins, which it has again when it has
//! returned. Some calls never return, because their thread left them in another way: they are *stale* once
//! the stack is used again where they were. A function that jumps to another at its end (a tail call) has the
//! same stack pointer as that; both are here, and the trampoline is where the second returns to.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// A call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// The function, as its site is known.
    pub ip: usize,
    /// Where it returns to.
    pub parent: usize,
    /// Its stack pointer.
    pub sp: usize,
    /// When it began.
    pub time: u64,
    /// Who traces it.
    pub marks: Marks,
}

/// Tracers of a call, by their bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// They want to know of its return.
    pub wanted: u16,
    /// They traced it, or a call that it is in.
    pub inside: u16,
    /// They trace nothing that it calls.
    pub not: u16,
}

/// The only tracer that there is: the marks of the calls that it traces, and since when they are its.
#[derive(Clone, Copy, Debug)]
pub struct Only {
    marks: u64,
    since: u64,
}

impl Only {
    /// `tracer`: its bit.
    pub fn new(tracer: u16, since: u64) -> Self {
        Self {
            marks: Marks::only(tracer).bits(),
            since,
        }
    }
}

impl Marks {
    /// Those of a call that one tracer alone traces.
    pub const fn only(tracer: u16) -> Self {
        Self {
            wanted: tracer,
            inside: tracer,
            not: 0,
        }
    }
    fn bits(self) -> u64 {
        u64::from(self.wanted) | u64::from(self.inside) << 16 | u64::from(self.not) << 32
    }
    fn from_bits(bits: u64) -> Self {
        Self {
            wanted: bits as u16,
            inside: (bits >> 16) as u16,
            not: (bits >> 32) as u16,
        }
    }
}

#[derive(Debug, Default)]
struct Slot {
    ip: AtomicUsize,
    parent: AtomicUsize,
    sp: AtomicUsize,
    time: AtomicU64,
    marks: AtomicU64,
}

impl Slot {
    #[inline(always)]
    fn is_traced_by(&self, only: &Only) -> bool {
        self.marks.load(Relaxed) == only.marks && self.time.load(Relaxed) >= only.since
    }
}

/// Where a call is, or is to be put.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    slot: &'a Slot,
    depth: usize,
}

impl Place<'_> {
    /// How many calls it is in.
    #[inline(always)]
    pub fn depth(self) -> usize {
        self.depth
    }
    /// See [`Call::ip`].
    #[inline(always)]
    pub fn ip(self) -> usize {
        self.slot.ip.load(Relaxed)
    }
    /// See [`Call::parent`].
    #[inline(always)]
    pub fn parent(self) -> usize {
        self.slot.parent.load(Relaxed)
    }
    /// See [`Call::time`].
    #[inline(always)]
    pub fn time(self) -> u64 {
        self.slot.time.load(Relaxed)
    }
}

/// In `count`: the lower bits are how many calls there are, the others how many were put there so far, which
/// begins again at 0 after the greatest.
const COUNT: usize = (1 << COUNT_BITS) - 1;
const COUNT_BITS: u32 = 10;

/// The calls of a thread.
#[derive(Debug)]
pub struct Returns {
    slots: Vec<Slot>,
    count: AtomicUsize,
    overrun: AtomicU32,
    /// Stacks begin at multiples of this, a power of two, and are no larger.
    stack: usize,
}

impl Returns {
    /// With room for `depth` calls, at most 1023. `stack`: stacks begin at multiples of this, a power of two,
    /// and are no larger. `None`: there is no memory.
    pub fn new(depth: usize, stack: usize) -> Option<Self> {
        if depth > COUNT {
            return None;
        }
        let mut slots = Vec::new();
        slots.try_reserve_exact(depth).ok()?;
        slots.resize_with(depth, Slot::default);
        Some(Self {
            slots,
            count: AtomicUsize::new(0),
            overrun: AtomicU32::new(0),
            stack,
        })
    }

    /// Call `n`, from the outermost, which is 0.
    #[inline]
    pub fn get(&self, n: usize) -> Option<Call> {
        let slot = self.slots.get(n)?;
        Some(Call {
            ip: slot.ip.load(Relaxed),
            parent: slot.parent.load(Relaxed),
            sp: slot.sp.load(Relaxed),
            time: slot.time.load(Relaxed),
            marks: Marks::from_bits(slot.marks.load(Relaxed)),
        })
    }

    /// How many there are. One that is just being put there does not count.
    #[inline]
    pub fn depth(&self) -> usize {
        self.count.load(Relaxed) & COUNT
    }

    /// How many calls found no room.
    pub fn overrun(&self) -> u32 {
        self.overrun.load(Relaxed)
    }

    /// Whether two stack pointers are of one stack. One that is at the end of its stack belongs to it.
    fn same_stack(&self, one: usize, other: usize) -> bool {
        (one.wrapping_sub(1) ^ other.wrapping_sub(1)) & !(self.stack - 1) == 0
    }

    /// A function begins at the stack pointer `sp`: where its call is to be put ([`Self::push_at`]). `None`:
    /// it is not the usual case, in which nothing is stale, there is room, and the outermost and innermost
    /// call are this tracer's, and so all are; nothing was done, and the caller is to call [`Self::enter`].
    #[inline(always)]
    pub fn enter_plain(&self, sp: usize, only: &Only) -> Option<Place<'_>> {
        let depth = self.depth();
        let slot = self.slots.get(depth)?;
        if let Some(top) = depth.checked_sub(1) {
            let top = self.slots.get(top)?;
            if top.sp.load(Relaxed) <= sp || !top.is_traced_by(only) {
                return None;
            }
            if depth > 1 && !self.slots.first()?.is_traced_by(only) {
                return None;
            }
        }
        Some(Place { slot, depth })
    }

    /// A function has returned to the trampoline, and its stack pointer is `sp` again. `None`: it is not the
    /// usual case, in which its call is the innermost one, and the tracer's as in [`Self::enter_plain`].
    #[inline(always)]
    pub fn returned_plain(&self, sp: usize, only: &Only) -> Option<Place<'_>> {
        let count = self.depth();
        let depth = count.checked_sub(1)?;
        let slot = self.slots.get(depth)?;
        if slot.sp.load(Relaxed) != sp || !slot.is_traced_by(only) {
            return None;
        }
        if depth > 0 && !self.slots.first()?.is_traced_by(only) {
            return None;
        }
        Some(Place { slot, depth })
    }

    /// A function begins at the stack pointer `sp`; `tail`: it returns to the trampoline, so it was jumped to
    /// by one that is here. Stale calls are forgotten. How many calls it is in; `None`: there is no room.
    #[inline]
    pub fn enter(&self, sp: usize, tail: bool) -> Option<usize> {
        let count = self.depth();
        // The usual case: nothing is stale.
        if count < self.slots.len() {
            match count.checked_sub(1).and_then(|top| self.slots.get(top)) {
                None => return Some(count),
                Some(top) if top.sp.load(Relaxed) > sp => return Some(count),
                Some(_) => {}
            }
        }
        self.enter_slowly(sp, tail)
    }

    #[inline(never)]
    fn enter_slowly(&self, sp: usize, tail: bool) -> Option<usize> {
        let before = self.depth();
        let mut count = before;
        while count > 0
            && let Some(top) = self.slots.get(count - 1).map(|slot| slot.sp.load(Relaxed))
            && (top < sp || top == sp && !tail)
            && self.same_stack(top, sp)
        {
            count -= 1;
        }
        if count != before {
            self.cut(count);
        }
        if count == self.slots.len() {
            self.overrun
                .store(self.overrun.load(Relaxed).wrapping_add(1), Relaxed);
            return None;
        }
        Some(count)
    }

    /// Puts a call on top, after [`Self::enter`] has said how many there are.
    #[inline]
    pub fn push(&self, depth: usize, call: Call) {
        self.push_steps(depth, call, || {});
    }

    /// Puts a call of the only tracer, whose marks it gets, where [`Self::enter_plain`] has said.
    #[inline(always)]
    pub fn push_at(&self, place: Place<'_>, only: &Only, call: Call) {
        self.push_in(place, call, only.marks, || {});
    }

    /// [`Self::push`]; an interrupt may come at each `step`.
    #[inline(always)]
    fn push_steps(&self, depth: usize, call: Call, step: impl Fn()) {
        if let Some(slot) = self.slots.get(depth) {
            self.push_in(Place { slot, depth }, call, call.marks.bits(), step);
        }
    }

    #[inline(always)]
    fn push_in(&self, Place { slot, depth }: Place<'_>, call: Call, marks: u64, step: impl Fn()) {
        loop {
            let count = self.count.load(Relaxed);
            step();
            order();
            slot.ip.store(call.ip, Relaxed);
            step();
            slot.parent.store(call.parent, Relaxed);
            slot.sp.store(call.sp, Relaxed);
            step();
            slot.time.store(call.time, Relaxed);
            slot.marks.store(marks, Relaxed);
            order();
            step();
            let new = count.wrapping_add(1 << COUNT_BITS) & !COUNT | (depth + 1);
            // Otherwise an interrupt has used this place.
            if self.count.compare_exchange(count, new, Relaxed, Relaxed).is_ok() {
                return;
            }
        }
    }

    /// A function has returned to the trampoline, and its stack pointer is `sp` again: its number and itself,
    /// or `None` if nothing is known of it. What is above it is stale.
    #[inline]
    pub fn returned(&self, sp: usize) -> Option<(usize, Call)> {
        let found = (0..self.depth()).rev().find(|n| {
            let slot = self.slots.get(*n);
            slot.is_some_and(|slot| slot.sp.load(Relaxed) == sp)
        })?;
        Some((found, self.get(found)?))
    }

    /// Only the first `depth` calls are left.
    #[inline]
    pub fn cut(&self, depth: usize) {
        order();
        let before = self.count.load(Relaxed);
        self.count.store(before & !COUNT | depth & COUNT, Relaxed);
    }

    /// For a backtrace, which has found the address of the trampoline where the return address of a function
    /// is expected: the real one. The function's stack pointer was `least` or a little more.
    pub fn original(&self, least: usize, trampoline: usize) -> Option<usize> {
        let mut found = None;
        for call in (0..self.depth()).rev().filter_map(|n| self.get(n)) {
            match found {
                None if call.sp >= least && self.same_stack(call.sp, least) => found = Some(call.sp),
                // A function that jumped to the one before.
                Some(sp) if call.sp == sp => {}
                None => continue,
                Some(_) => return None,
            }
            if call.parent != trampoline {
                return Some(call.parent);
            }
        }
        None
    }
}

/// What is stored before it is stored before what is stored after it, as an interrupt of this CPU sees it.
#[inline(always)]
fn order() {
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: usize = 0x8000;
    const BASE: usize = 0x10_0000;
    const TRAMPOLINE: usize = 0x77;

    fn call(sp: usize, parent: usize) -> Call {
        Call {
            ip: sp ^ 0xff00_0000,
            parent,
            sp,
            time: 5,
            marks: Marks {
                wanted: 1,
                inside: 0x8000,
                not: 0x1234,
            },
        }
    }

    fn begin(returns: &Returns, sp: usize, parent: usize) -> Option<usize> {
        let depth = returns.enter(sp, parent == TRAMPOLINE)?;
        returns.push(depth, call(sp, parent));
        Some(depth)
    }

    fn end(returns: &Returns, sp: usize) -> Option<usize> {
        let (depth, found) = returns.returned(sp)?;
        assert_eq!(found, call(sp, found.parent));
        returns.cut(depth);
        Some(found.parent)
    }

    fn new(depth: usize) -> Returns {
        Returns::new(depth, STACK).unwrap()
    }

    #[test]
    fn calls_return_in_their_order() {
        let returns = new(3);
        assert_eq!(begin(&returns, BASE + 0x300, 1), Some(0));
        assert_eq!(begin(&returns, BASE + 0x200, 2), Some(1));
        assert_eq!(end(&returns, BASE + 0x200), Some(2));
        assert_eq!(begin(&returns, BASE + 0x200, 3), Some(1));
        assert_eq!(begin(&returns, BASE + 0x100, 4), Some(2));
        assert_eq!(returns.depth(), 3);
        // There is no room for more.
        assert_eq!(begin(&returns, BASE + 0x80, 5), None);
        assert_eq!(returns.overrun(), 1);
        assert_eq!(end(&returns, BASE + 0x100), Some(4));
        assert_eq!(end(&returns, BASE + 0x200), Some(3));
        assert_eq!(end(&returns, BASE + 0x300), Some(1));
        assert_eq!(end(&returns, BASE + 0x300), None);
        assert_eq!((returns.depth(), returns.overrun()), (0, 1));
    }

    #[test]
    fn tail_calls_return_one_after_the_other() {
        let returns = new(4);
        begin(&returns, BASE + 0x300, 1);
        begin(&returns, BASE + 0x300, TRAMPOLINE);
        begin(&returns, BASE + 0x300, TRAMPOLINE);
        assert_eq!(returns.original(BASE + 0x2f0, TRAMPOLINE), Some(1));
        assert_eq!(end(&returns, BASE + 0x300), Some(TRAMPOLINE));
        assert_eq!(end(&returns, BASE + 0x300), Some(TRAMPOLINE));
        assert_eq!(end(&returns, BASE + 0x300), Some(1));
    }

    #[test]
    fn what_never_returned_is_forgotten() {
        let returns = new(8);
        begin(&returns, BASE + 0x300, 1);
        begin(&returns, BASE + 0x200, 2);
        begin(&returns, BASE + 0x100, 3);
        // A new function where the second was: neither that nor the third can return.
        assert_eq!(begin(&returns, BASE + 0x200, 4), Some(1));
        // Above them all.
        begin(&returns, BASE + 0x180, 5);
        assert_eq!(end(&returns, BASE + 0x300), Some(1));
        assert_eq!(returns.depth(), 0);
    }

    #[test]
    fn calls_on_another_stack_are_not_stale() {
        let returns = new(8);
        begin(&returns, BASE + 0x300, 1);
        begin(&returns, BASE + STACK + 0x7000, 2);
        // The end of a stack is not the beginning of the next.
        assert_eq!(begin(&returns, BASE + 2 * STACK, 3), Some(1));
        assert_eq!(begin(&returns, BASE + 3 * STACK, 4), Some(2));
        assert_eq!(end(&returns, BASE + 3 * STACK), Some(4));
        assert_eq!(end(&returns, BASE + 2 * STACK), Some(3));
        assert_eq!(end(&returns, BASE + 0x300), Some(1));
    }

    #[test]
    fn an_interrupt_of_a_push_is_traced() {
        // At each step of a push, and at each step of that of the interrupt another.
        for (first, second) in (0..5).flat_map(|first| (0..5).map(move |second| (first, second))) {
            let returns = new(8);
            begin(&returns, BASE + 0x300, 1);
            let nested = || {
                assert_eq!(begin(&returns, BASE + 0x80, 4), Some(returns.depth() - 1));
                assert_eq!(end(&returns, BASE + 0x80), Some(4));
            };
            let steps = core::cell::Cell::new(0);
            let interrupt = || {
                steps.set(steps.get() + 1);
                if steps.get() != first {
                    return;
                }
                let depth = returns.enter(BASE + 0x100, false).unwrap();
                assert_eq!(depth, 1);
                let inner = core::cell::Cell::new(0);
                returns.push_steps(depth, call(BASE + 0x100, 3), || {
                    inner.set(inner.get() + 1);
                    if inner.get() == second {
                        nested();
                    }
                });
                nested();
                assert_eq!(end(&returns, BASE + 0x100), Some(3));
            };
            let depth = returns.enter(BASE + 0x200, false).unwrap();
            returns.push_steps(depth, call(BASE + 0x200, 2), interrupt);
            assert_eq!((returns.depth(), returns.overrun()), (2, 0));
            assert_eq!(returns.original(BASE + 0x1f0, TRAMPOLINE), Some(2));
            assert_eq!(end(&returns, BASE + 0x200), Some(2));
            assert_eq!(end(&returns, BASE + 0x300), Some(1));
        }
    }

    #[test]
    fn the_usual_case_is_the_usual_one() {
        let only = Only::new(4, 5);
        let returns = new(3);
        let top = BASE + 0x300;
        let begin = |sp, parent, time, marks| {
            let call = Call {
                ip: 1,
                parent,
                sp,
                time,
                marks,
            };
            returns.push(returns.depth(), call);
        };
        assert_eq!(returns.enter_plain(top, &only).map(Place::depth), Some(0));
        // Another's, or of one who had the bit before.
        for (time, marks) in [(5, Marks::only(2)), (4, Marks::only(4)), (5, call(0, 0).marks)] {
            begin(top, 9, time, marks);
            assert!(returns.enter_plain(BASE + 0x200, &only).is_none());
            assert!(returns.returned_plain(top, &only).is_none());
            returns.cut(0);
        }
        let place = returns.enter_plain(top, &only).unwrap();
        let mut first = call(top, 7);
        returns.push_at(place, &only, first);
        first.marks = Marks::only(4);
        assert_eq!(returns.get(0), Some(first));
        // It is stale, or was jumped from.
        assert!(returns.enter_plain(top, &only).is_none());
        assert!(returns.returned_plain(top - 8, &only).is_none());
        let second = returns.enter_plain(BASE + 0x200, &only).unwrap();
        returns.push_at(second, &only, call(BASE + 0x200, 8));
        begin(BASE + 0x100, 9, 5, Marks::only(4));
        // There is no room.
        assert!(returns.enter_plain(BASE, &only).is_none());
        let third = returns.returned_plain(BASE + 0x100, &only).unwrap();
        assert_eq!(
            (third.depth(), third.ip(), third.parent(), third.time()),
            (2, 1, 9, 5)
        );
        returns.cut(2);
        assert_eq!(returns.returned_plain(BASE + 0x200, &only).unwrap().parent(), 8);
        returns.cut(0);
        // The outermost is another's.
        begin(top, 9, 5, Marks::only(1));
        begin(BASE + 0x200, 9, 5, Marks::only(4));
        assert!(returns.enter_plain(BASE + 0x100, &only).is_none());
        assert!(returns.returned_plain(BASE + 0x200, &only).is_none());
    }

    #[test]
    fn backtraces_find_where_functions_return_to() {
        let returns = new(8);
        begin(&returns, BASE + 0x300, 1);
        begin(&returns, BASE + 0x200, 2);
        begin(&returns, BASE + STACK + 0x200, 3);
        assert_eq!(returns.original(BASE + STACK + 0x1f8, TRAMPOLINE), Some(3));
        assert_eq!(returns.original(BASE + 0x200, TRAMPOLINE), Some(2));
        assert_eq!(returns.original(BASE + 0x201, TRAMPOLINE), Some(1));
        assert_eq!(returns.original(BASE + 0x301, TRAMPOLINE), None);
    }
}
