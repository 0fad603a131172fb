//! Short turns on the host's processors while guests run.
//!
//! A guest has often more CPUs than the host. Where one of its CPUs spins until another has done something
//! (an invalidation, a lock), QEMU's thread for the other may wait for a host processor, until the host's
//! next tick: 4 ms on many. So while a guest runs, a thread on each host processor wakes every 100
//! microseconds and sleeps again; at each of these the host's scheduler may choose another thread. Measured
//! on two processors, with a guest of four: a change of the kernel's map that all must hear of takes 2.5 ms
//! instead of 25.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the threads sleep.
const SLEEP: Duration = Duration::from_micros(100);

/// The guests that run now, and the threads that serve them.
static RUNNING: Mutex<Running> = Mutex::new(Running {
    guests: 0,
    threads: None,
});

struct Running {
    guests: usize,
    threads: Option<Threads>,
}

struct Threads {
    stop: Arc<AtomicBool>,
    all: Vec<JoinHandle<()>>,
}

/// Turns are short as long as one of these lives.
pub struct ShortTurns(());

impl ShortTurns {
    /// Starts the threads if this is the first.
    pub fn begin() -> Self {
        let mut running = lock();
        running.guests += 1;
        if running.guests == 1 {
            running.threads = Some(Threads::start());
        }
        Self(())
    }
}

impl Drop for ShortTurns {
    fn drop(&mut self) {
        let mut running = lock();
        running.guests -= 1;
        if running.guests == 0 {
            drop(running.threads.take());
        }
    }
}

impl Threads {
    fn start() -> Self {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
        let stop = Arc::new(AtomicBool::new(false));
        let mut all = Vec::new();
        let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        for cpu in (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)) {
            let stop = Arc::clone(&stop);
            all.push(std::thread::spawn(move || {
                let mut own = CpuSet::new();
                own.set(cpu);
                // A processor that went offline since: its thread runs on another and does no harm.
                let _ = sched_setaffinity(None, &own);
                while !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(SLEEP);
                }
            }));
        }
        Self { stop, all }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.all.drain(..) {
            let _ = thread.join();
        }
    }
}

fn lock() -> std::sync::MutexGuard<'static, Running> {
    RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
