//! A process's interval timers (`setitimer`, `alarm`) and POSIX timers (`timer_create`), and what the tick
//! does for timers of CPU time. `Process` has them as `timers`.

pub mod clock;
pub mod posix;

use crate::mm::reserve::room_behind;
use crate::signal::{self, SIGALRM, SIGKILL, SIGPROF, SIGVTALRM, SIGXCPU, SigInfo};
use crate::sync::{IrqSpinGuard, IrqSpinLock, Once, SpinLock};
use crate::task::timers::clock::{Clock, CpuKind, process_time};
use crate::task::{Process, Task, current, rlimit};
use crate::time::{NSEC_PER_SEC, Timer, now_ns};
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use limen_linux_abi::Errno;
use posix::PosixTimer;

/// How often, in nanoseconds, a repeating timer whose signal nobody will take expires at most, so that no
/// program can keep a CPU busy with timer interrupts. Otherwise a timer continues when its signal is taken.
const UNHEARD_REPEAT: u64 = 4_000_000;

/// When a timer expires next, and how often from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// A time of the timer's clock in nanoseconds. 0: disarmed.
    pub expires: u64,
    /// Nanoseconds between expiries. 0: it expires once.
    pub interval: u64,
}

/// The timers of a process. They take two words until the first one is used.
pub struct ProcessTimers {
    inner: Once<Arc<Inner>>,
    /// Whether a timer counts CPU time, so that the tick has to check.
    counts_cpu: AtomicBool,
}

/// One of the three interval timers.
#[derive(Default)]
struct Interval {
    setting: Setting,
    /// `ITIMER_REAL`: it repeats, has expired, and continues when its signal is taken.
    parked: bool,
    sending: Sending,
}

/// An expired timer's signal on its way. Until it has been sent, whoever reads or sets the timer waits: a
/// program that finds it disarmed, or sets it, gets no signal of it any more. Only the sender, in an
/// interrupt, ends this: the signal may be taken, and the timer expire again, before the sender has seen that
/// it was sent.
#[derive(Clone, Copy, Default)]
struct Sending {
    now: bool,
    /// The timer expired meanwhile: the sender looks at it once more.
    again: bool,
}

impl Sending {
    /// A timer expires: whether its signal is to be sent now, and not by the one who is sending.
    fn may_begin(&mut self) -> bool {
        self.again = self.now;
        !self.now
    }
    /// The signal has been sent: a timer that does not repeat is off. Whether to look at it once more.
    fn ends(&mut self, setting: &mut Setting) -> bool {
        if self.now && setting.interval == 0 {
            setting.expires = 0;
        }
        core::mem::take(self).again
    }
}

/// Locks a timer of the running process when no signal of it is being sent. The sender is an interrupt on
/// another CPU.
fn lock_settled<T>(of: &IrqSpinLock<T>, sending: impl Fn(&T) -> bool) -> IrqSpinGuard<'_, T> {
    loop {
        let timer = of.lock();
        if !sending(&timer) {
            return timer;
        }
        drop(timer);
        crate::arch::irq::spin_hint();
    }
}

struct Inner {
    real: IrqSpinLock<Interval>,
    real_timer: Once<Timer>,
    virt: IrqSpinLock<Interval>,
    prof: IrqSpinLock<Interval>,
    posix: SpinLock<PosixTimers>,
    /// Timers that count the CPU time of the process or of a thread of it: its own, or another process's.
    cpu: IrqSpinLock<Vec<Weak<PosixTimer>>>,
}

#[derive(Default)]
struct PosixTimers {
    next: i32,
    timers: BTreeMap<i32, Arc<PosixTimer>>,
}

/// `setitimer`'s kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Itimer {
    /// `ITIMER_REAL`.
    Real,
    /// `ITIMER_VIRTUAL`.
    Virtual,
    /// `ITIMER_PROF`.
    Prof,
}

impl ProcessTimers {
    /// No timers.
    pub const fn new() -> Self {
        Self {
            inner: Once::new(),
            counts_cpu: AtomicBool::new(false),
        }
    }

    fn inner(&self) -> &Arc<Inner> {
        self.inner.get_or_init(|| {
            Arc::new(Inner {
                real: IrqSpinLock::new(Interval::default()),
                real_timer: Once::new(),
                virt: IrqSpinLock::new(Interval::default()),
                prof: IrqSpinLock::new(Interval::default()),
                posix: SpinLock::new(PosixTimers::default()),
                cpu: IrqSpinLock::new(Vec::new()),
            })
        })
    }
}

impl ProcessTimers {
    /// The ticks of this process have to look at `timer`, another process's perhaps. `ENOMEM`.
    fn count(&self, timer: &Arc<PosixTimer>) -> Result<(), Errno> {
        let inner = self.inner();
        {
            let mut cpu = inner.cpu.lock();
            // A process that sleeps has no ticks that would take deleted ones out.
            if cpu.len() == cpu.capacity() {
                cpu.retain(|timer| timer.strong_count() > 0);
            }
        }
        room_behind(|| inner.cpu.lock(), |cpu| cpu, 1)?.push(Arc::downgrade(timer));
        self.counts_cpu.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// The time left until expiry, and the interval, as `getitimer` returns them.
fn remaining(setting: Setting, now: u64) -> (u64, u64) {
    match setting.expires {
        0 => (0, setting.interval),
        // It has just expired, but must not look disarmed yet.
        at => (at.saturating_sub(now).max(1000), setting.interval),
    }
}

/// `getitimer` of the running process: nanoseconds left, and interval.
pub fn get_itimer(which: Itimer) -> (u64, u64) {
    let process = &current().process;
    let Some(inner) = process.timers.inner.get() else {
        return (0, 0);
    };
    let setting = |of| lock_settled(of, |timer: &Interval| timer.sending.now).setting;
    match which {
        Itimer::Real => remaining(setting(&inner.real), now_ns()),
        Itimer::Virtual => remaining(setting(&inner.virt), process_time(process, CpuKind::User)),
        Itimer::Prof => remaining(setting(&inner.prof), process_time(process, CpuKind::UserSystem)),
    }
}

/// `setitimer` of the running process: expires in `value` nanoseconds (0: disarms it), then every `interval`
/// nanoseconds. Returns the former setting.
pub fn set_itimer(which: Itimer, value: u64, interval: u64) -> (u64, u64) {
    let process = &current().process;
    let inner = process.timers.inner();
    let replace = |slot: &mut Setting, now: u64| {
        let expires = if value == 0 { 0 } else { now.saturating_add(value) };
        remaining(core::mem::replace(slot, Setting { expires, interval }), now)
    };
    match which {
        Itimer::Real => {
            let timer = inner.real_timer.get_or_init(|| {
                let process = Arc::downgrade(process);
                Timer::new(move || {
                    if let Some(process) = process.upgrade() {
                        real_expired(&process);
                    }
                })
            });
            // Armed under the lock of the setting, so that it never expires by an older one.
            let mut real = lock_settled(&inner.real, |real| real.sending.now);
            let now = now_ns();
            real.parked = false;
            let old = replace(&mut real.setting, now);
            if value == 0 {
                timer.cancel_under(&real);
            } else {
                timer.arm_under(&real, now.saturating_add(value));
            }
            old
        }
        Itimer::Virtual => {
            process.timers.counts_cpu.store(true, Ordering::Relaxed);
            let now = process_time(process, CpuKind::User);
            replace(
                &mut lock_settled(&inner.virt, |virt| virt.sending.now).setting,
                now,
            )
        }
        Itimer::Prof => {
            process.timers.counts_cpu.store(true, Ordering::Relaxed);
            let now = process_time(process, CpuKind::UserSystem);
            replace(
                &mut lock_settled(&inner.prof, |prof| prof.sending.now).setting,
                now,
            )
        }
    }
}

/// Runs in interrupt context.
fn real_expired(process: &Arc<Process>) {
    let Some(inner) = process.timers.inner.get() else {
        return;
    };
    loop {
        {
            let mut real = inner.real.lock();
            let expires = real.setting.expires;
            if real.parked || expires == 0 || !real.sending.may_begin() {
                return;
            }
            if expires > now_ns()
                && let Some(timer) = inner.real_timer.get()
            {
                // It was set again meanwhile.
                return timer.arm_under(&real, expires);
            }
            real.parked = real.setting.interval != 0;
            real.sending.now = true;
        }
        if !signal::itimer_to_process(process, SIGALRM) {
            inner.real_goes_on(UNHEARD_REPEAT);
        }
        let real = &mut *inner.real.lock();
        if !real.sending.ends(&mut real.setting) {
            return;
        }
    }
}

impl Inner {
    /// If `ITIMER_REAL` waits for its signal to be taken, lets it continue, but not earlier than `pause`
    /// nanoseconds from now.
    fn real_goes_on(&self, pause: u64) {
        let mut real = self.real.lock();
        if !real.parked {
            return;
        }
        real.parked = false;
        let now = now_ns();
        if now >= real.setting.expires {
            advance(&mut real.setting, now);
        }
        if let Some(timer) = self.real_timer.get() {
            timer.arm_under(&real, real.setting.expires.max(now + pause));
        }
    }
}

/// The running thread took a signal that a timer sent (`info` is not settled): the timer continues, and the
/// signal says how many expiries it stands for. `false`: the timer has been set or deleted since, and nobody
/// gets the signal. With no lock of signals held.
#[cold]
#[inline(never)]
#[must_use]
pub fn signal_taken(info: &mut SigInfo) -> bool {
    let task = current();
    if info.is_of_itimer() {
        if let Some(inner) = task.process.timers.inner.get() {
            inner.real_goes_on(0);
        }
    } else {
        let timer = info.timer_id().and_then(|id| find_posix(id).ok());
        let Some(overrun) = timer.and_then(|timer| timer.heard()) else {
            return false;
        };
        info.set_overrun(overrun);
    }
    info.settle();
    true
}

/// The running process ignores `sig` from now on, and a pending one was dropped: `ITIMER_REAL`, which may
/// have waited for it to be taken, continues. POSIX timers go on waiting.
pub fn signal_discarded(sig: u32) {
    if sig == SIGALRM
        && let Some(inner) = current().process.timers.inner.get()
    {
        inner.real_goes_on(UNHEARD_REPEAT);
    }
}

/// The running process does not ignore `sig` any more: POSIX timers that expired meanwhile send it.
pub fn signal_heeded(sig: u32) {
    let task = current();
    let Some(inner) = task.process.timers.inner.get() else {
        return;
    };
    // One at a time, as there may be very many.
    let mut from = 0;
    loop {
        let next = {
            let posix = inner.posix.lock();
            let next = posix.timers.range(from..).next();
            next.map(|(id, timer)| (*id, timer.clone()))
        };
        let Some((id, timer)) = next else { break };
        timer.signal_heeded(sig);
        let Some(behind) = id.checked_add(1) else { break };
        from = behind;
    }
}

/// Moves the next expiry of an expired timer behind `now`. Returns how many further expiries were skipped.
pub fn advance(setting: &mut Setting, now: u64) -> u64 {
    if setting.interval == 0 {
        setting.expires = 0;
        return 0;
    }
    let missed = now.saturating_sub(setting.expires) / setting.interval;
    setting.expires = setting
        .expires
        .saturating_add((missed + 1).saturating_mul(setting.interval));
    missed
}

/// Adds a POSIX timer to the running process. Returns its id.
pub fn add_posix(make: impl FnOnce(i32) -> Arc<PosixTimer>) -> Result<i32, Errno> {
    let process = &current().process;
    let inner = process.timers.inner();
    let mut posix = inner.posix.lock();
    if posix.timers.len() as u64 >= rlimit(rlimit_sigpending()) {
        return Err(Errno::EAGAIN);
    }
    let mut id = posix.next;
    while posix.timers.contains_key(&id) {
        id = id.checked_add(1).unwrap_or(0);
    }
    posix.next = id.checked_add(1).unwrap_or(0);
    let timer = make(id);
    posix.timers.insert(id, timer.clone());
    drop(posix);
    if let Some(timed) = timer.clock.timed_process()
        && timed.timers.count(&timer).is_err()
    {
        drop(inner.posix.lock().timers.remove(&id));
        return Err(Errno::EAGAIN);
    }
    Ok(id)
}

const fn rlimit_sigpending() -> usize {
    rlimit::which::SIGPENDING
}

/// The running process's POSIX timer `id`. `EINVAL`: there is none.
pub fn find_posix(id: i32) -> Result<Arc<PosixTimer>, Errno> {
    let process = &current().process;
    let inner = process.timers.inner.get().ok_or(Errno::EINVAL)?;
    inner.posix.lock().timers.get(&id).cloned().ok_or(Errno::EINVAL)
}

/// Removes the running process's POSIX timer `id`.
pub fn remove_posix(id: i32) -> Result<(), Errno> {
    let process = &current().process;
    let inner = process.timers.inner.get().ok_or(Errno::EINVAL)?;
    let timer = inner.posix.lock().timers.remove(&id).ok_or(Errno::EINVAL)?;
    timer.delete();
    Ok(())
}

/// The running process executes another program: its POSIX timers are deleted, with their signals that are
/// pending; its interval timers stay. Comes before the handlers of signals are forgotten.
pub fn exec() {
    if let Some(inner) = current().process.timers.inner.get() {
        let old = core::mem::take(&mut inner.posix.lock().timers);
        for timer in old.values() {
            timer.stop();
        }
        if !old.is_empty() {
            signal::mask::forget_timers();
        }
    }
}

/// The last thread has left `process`: its timers are deleted. Some may have a reference to the process.
pub fn ended(process: &Process) {
    if let Some(inner) = process.timers.inner.get() {
        if let Some(timer) = inner.real_timer.get() {
            timer.cancel();
        }
        *inner.real.lock() = Interval::default();
        let old = core::mem::take(&mut inner.posix.lock().timers);
        for timer in old.values() {
            timer.disarm();
        }
    }
}

/// Whether the process has timers or limits of CPU time, so that ticks have to check.
pub fn counts_cpu(process: &Process) -> bool {
    process.limits.soft(rlimit::which::CPU) != rlimit::INFINITY
        || process.timers.counts_cpu.load(Ordering::Relaxed)
}

/// For the task that the tick interrupted: timers and limits of CPU time. Interrupts are off.
pub fn cpu_tick(task: &Arc<Task>) {
    let process = &task.process;
    if !counts_cpu(process) {
        return;
    }
    let limit = process.limits.soft(rlimit::which::CPU);
    if limit != rlimit::INFINITY {
        let used = process_time(process, CpuKind::UserSystem) / NSEC_PER_SEC;
        if used >= process.limits.get(rlimit::which::CPU).hard {
            signal::send_to_running(task, SIGKILL, SigInfo::kernel(SIGKILL));
        } else if used >= limit && process.limits.move_soft(rlimit::which::CPU, limit, used + 1) {
            // From now on once a second. Another CPU's tick may have found the same, or the limit was set.
            signal::send_to_running(task, SIGXCPU, SigInfo::kernel(SIGXCPU));
        }
    }
    let Some(inner) = process.timers.inner.get() else {
        return;
    };
    for (slot, kind, sig) in [
        (&inner.virt, CpuKind::User, SIGVTALRM),
        (&inner.prof, CpuKind::UserSystem, SIGPROF),
    ] {
        let mut timer = slot.lock();
        if timer.setting.expires != 0 && !timer.sending.now {
            let now = process_time(process, kind);
            if now >= timer.setting.expires {
                timer.sending.now = true;
                if timer.setting.interval != 0 {
                    advance(&mut timer.setting, now);
                }
                drop(timer);
                signal::send_to_running(task, sig, SigInfo::kernel(sig));
                let timer = &mut *slot.lock();
                timer.sending.ends(&mut timer.setting);
            }
        }
    }
    {
        let mut cpu = inner.cpu.lock();
        if cpu.is_empty() {
            return;
        }
        cpu.retain(|t| t.strong_count() > 0);
    }
    // One at a time, without collecting them: this runs in an interrupt.
    for n in 0.. {
        let next = inner.cpu.lock().get(n).map(Weak::upgrade);
        let Some(timer) = next else { break };
        let Some(timer) = timer else { continue };
        if !matches!(&timer.clock, Clock::Thread(of, _) if !Arc::ptr_eq(of, task)) {
            timer.check_cpu();
        }
    }
}
