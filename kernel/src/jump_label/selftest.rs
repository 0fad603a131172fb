//! The room's own tests (see `boot::selftest`).

use super::{KEYS, SIZE, TEST, disable, enable, is_on, jump_table};
use crate::check;
use crate::sched::{CpuSet, WaitQueue, current, online, policy, spawn_kthread, yield_now};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use limen_linux_abi::Errno;

/// The room's tests.
pub const TESTS: &[crate::selftest::Test] = &[
    ("the table's places are in order, each of a key", table),
    ("a key is turned while all CPUs ask it", turned),
    ("events' keys can all be turned on and off", all),
];

fn table() -> Result<(), &'static str> {
    let sites = || jump_table::all().map(|jump| jump.site);
    check!(sites().count() == jump_table::len() && sites().count() > 0);
    check!(sites().zip(sites().skip(1)).all(|(one, next)| one + SIZE <= next));
    check!(jump_table::all().all(|jump| (jump.key as usize) < KEYS || jump.key == jump_table::PROCESSOR));
    check!(sites().all(jump_table::is_site) && !sites().any(|site| jump_table::is_site(site + 1)));
    check!(jump_table::all().filter(|jump| jump.key == TEST).count() >= 3);
    check!(enable(KEYS) == Err(Errno::EINVAL));
    Ok(())
}

/// How often a key is turned on and off.
const ROUNDS: usize = 40;

/// What a CPU does as long as the key is turned.
struct Shared {
    /// Even: the key is off (0 modulo 4) or on (2 modulo 4). Odd: it is being turned.
    epoch: AtomicUsize,
    over: AtomicBool,
    /// How often somebody asked, and how often the key was on.
    asked: AtomicUsize,
    found: AtomicUsize,
    /// Answers that cannot be, and those that must be right.
    wrong: AtomicUsize,
    sure: [AtomicUsize; 2],
    ended: AtomicUsize,
    wait: WaitQueue,
}

/// Places in functions of their own.
#[inline(never)]
fn one() -> bool {
    is_on::<TEST>()
}
#[inline(never)]
fn other(n: &mut usize) {
    if is_on::<TEST>() {
        *n += 1;
    }
}

impl Shared {
    fn ask(&self) {
        let (mut asked, mut found) = (0, 0);
        while !self.over.load(Acquire) {
            for _ in 0..64 {
                let before = self.epoch.load(Acquire);
                let mut on = usize::from(one());
                other(&mut on);
                on += usize::from(is_on::<TEST>());
                let same = before == self.epoch.load(Acquire);
                asked += 3;
                found += on;
                if same && before.is_multiple_of(2) {
                    let expected = before / 2 % 2;
                    self.sure[expected].fetch_add(1, Relaxed);
                    if on != 3 * expected {
                        self.wrong.fetch_add(1, Relaxed);
                    }
                }
            }
            yield_now();
        }
        self.asked.fetch_add(asked, Relaxed);
        self.found.fetch_add(found, Relaxed);
        self.ended.fetch_add(1, Release);
        self.wait.wake_all();
    }
}

fn turned() -> Result<(), &'static str> {
    let this = Arc::new(Shared {
        epoch: AtomicUsize::new(0),
        over: AtomicBool::new(false),
        asked: AtomicUsize::new(0),
        found: AtomicUsize::new(0),
        wrong: AtomicUsize::new(0),
        sure: [const { AtomicUsize::new(0) }; 2],
        ended: AtomicUsize::new(0),
        wait: WaitQueue::new(),
    });
    let cpus = online().iter().count();
    for cpu in online().iter() {
        let this = this.clone();
        spawn_kthread("selftest", move || {
            let _ = policy::set_affinity(&current(), CpuSet::single(cpu));
            this.ask();
        });
    }
    let mut result = Ok(());
    for n in 0..2 * ROUNDS {
        this.epoch.fetch_add(1, SeqCst);
        if n.is_multiple_of(2) {
            result = result.and(enable(TEST as usize));
        } else {
            disable(TEST as usize);
        }
        this.epoch.fetch_add(1, SeqCst);
        // Until this is known of every state that somebody has asked.
        let before = this.sure[(n + 1) % 2].load(Relaxed);
        while this.sure[(n + 1) % 2].load(Relaxed) == before {
            yield_now();
        }
    }
    this.over.store(true, Release);
    this.wait
        .wait_until_uninterruptible(|| this.ended.load(Acquire) == cpus);
    check!(result.is_ok() && !one());
    check!(this.wrong.load(Relaxed) == 0);
    let (asked, found) = (this.asked.load(Relaxed), this.found.load(Relaxed));
    check!(found > 0 && found < asked);
    check!(this.sure.iter().all(|sure| sure.load(Relaxed) >= ROUNDS));
    Ok(())
}

fn all() -> Result<(), &'static str> {
    for key in 0..KEYS {
        check!(enable(key).is_ok() && enable(key).is_ok());
    }
    // Nobody listens: what comes meanwhile finds that out.
    yield_now();
    check!(one());
    (0..KEYS).for_each(disable);
    check!(!one());
    Ok(())
}
