//! Records that wait for the daemon or the log, and the thread that passes them on.

use super::record::kind;
use super::serving;
use super::settings::{self, BACKLOG_LIMIT, BACKLOG_WAIT_TIME, Daemon, FAILURE, HZ, RATE_LIMIT};
use crate::mm::reserve::{handling, room_behind};
use crate::net::netlink::{self, Datagram};
use crate::sched::{WaitQueue, spawn_kthread};
use crate::sync::SpinLock;
use crate::task::current;
use crate::time::{NSEC_PER_SEC, now_ns};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use limen_audit::Rate;
use limen_linux_abi::Errno;
use limen_netlink::{Header, packed};

/// The protocol, and the group that hears all records.
pub const PROTOCOL: u32 = 9;
pub const READLOG: u32 = 1;

/// At most so many records (`kernel.printk_ratelimit_burst`) go to the log in so many nanoseconds.
const BURST: u32 = 10;
const INTERVAL_NS: u64 = 5 * NSEC_PER_SEC;
/// How long a daemon without room is waited for, and how often for a record that it has not taken before.
const TRY_NS: u64 = NSEC_PER_SEC / 10;
const TRIES: usize = 5;
/// After that it is asked again when there is another record, or so much later.
const AGAIN_NS: u64 = NSEC_PER_SEC;

struct Record {
    kind: u16,
    text: Vec<u8>,
}

/// Those that were not passed on yet.
static WAITING: SpinLock<VecDeque<Record>> = SpinLock::new(VecDeque::new());
/// Those that the daemon had no room for.
static RETRIED: SpinLock<VecDeque<Record>> = SpinLock::new(VecDeque::new());
/// Those that went to the log, for a daemon that starts later.
static HELD: SpinLock<VecDeque<Record>> = SpinLock::new(VecDeque::new());
/// Whether any are held.
static HOLDS: AtomicBool = AtomicBool::new(false);
static RATE: SpinLock<Rate> = SpinLock::new(Rate::new());
static LOG_RATE: SpinLock<Rate> = SpinLock::new(Rate::new());
static LOST_RATE: SpinLock<Rate> = SpinLock::new(Rate::new());
static UNLOGGED: AtomicU32 = AtomicU32::new(0);
static LOST: AtomicU32 = AtomicU32::new(0);
/// How long threads have waited for room, in nanoseconds.
static WAITED_NS: AtomicU64 = AtomicU64::new(0);
/// The thread that passes records on waits here, and those who wait for room.
static NEWS: WaitQueue = WaitQueue::new();
static ROOM: WaitQueue = WaitQueue::new();
/// A daemon has begun.
static FRESH: AtomicBool = AtomicBool::new(false);

/// Starts the thread. `holds`: records are kept for a daemon that starts later.
pub fn start(holds: bool) {
    HOLDS.store(holds, Relaxed);
    spawn_kthread("kauditd", || {
        loop {
            let is_news = || FRESH.load(Relaxed) || !WAITING.lock().is_empty();
            let again = match RETRIED.lock().is_empty() {
                true => u64::MAX,
                false => now_ns().saturating_add(AGAIN_NS),
            };
            NEWS.wait_until_deadline_uninterruptible(again, is_news);
            FRESH.store(false, Relaxed);
            pass_all();
        }
    });
}

pub fn lost_count() -> u32 {
    LOST.load(Relaxed)
}
pub fn reset_lost() -> u32 {
    LOST.swap(0, Relaxed)
}
pub fn length() -> u32 {
    u32::try_from(WAITING.lock().len()).unwrap_or(u32::MAX)
}
/// How long threads have waited for room, in ticks.
pub fn waited() -> u32 {
    (WAITED_NS.load(Relaxed) / (NSEC_PER_SEC / u64::from(HZ))) as u32
}
pub fn reset_waited() -> u32 {
    (WAITED_NS.swap(0, Relaxed) / (NSEC_PER_SEC / u64::from(HZ))) as u32
}

/// There is another daemon.
pub fn daemon_changed() {
    FRESH.store(true, Relaxed);
    NEWS.wake_all();
}

/// A record is lost.
pub fn lost(why: &str) {
    let lost = LOST.fetch_add(1, Relaxed).wrapping_add(1);
    let failure = FAILURE.load(Relaxed);
    if failure == settings::PANICS {
        panic!("audit: {why}");
    }
    if failure != settings::SILENT && LOST_RATE.lock().allows(1, NSEC_PER_SEC, now_ns()) {
        let (rate, backlog) = (RATE_LIMIT.load(Relaxed), BACKLOG_LIMIT.load(Relaxed));
        crate::warning!("audit: audit_lost={lost} audit_rate_limit={rate} audit_backlog_limit={backlog}");
        crate::error!("audit: {why}");
    }
}

/// Whether one more may wait.
fn has_room() -> bool {
    let limit = BACKLOG_LIMIT.load(Relaxed);
    limit == 0 || WAITING.lock().len() <= limit as usize
}

/// Waits until there is room, unless the running thread is the one that makes it, or others wait for it.
fn await_room() -> bool {
    if has_room() || serving::is_own() {
        return true;
    }
    let own = settings::daemon().is_some_and(|daemon| daemon.pid == current().tgid());
    let ns = u64::from(BACKLOG_WAIT_TIME.load(Relaxed)) * (NSEC_PER_SEC / u64::from(HZ));
    if own {
        return true;
    }
    let begun = now_ns();
    let room = ROOM.wait_until_deadline_uninterruptible(begun.saturating_add(ns), has_room);
    WAITED_NS.fetch_add(now_ns().saturating_sub(begun), Relaxed);
    room
}

/// The running thread's requests have made records whether there was room or not: it waits for that now.
pub fn penalize() {
    await_room();
}

/// A record begins to wait. May sleep.
pub fn put(kind: u16, text: Vec<u8>) {
    if !await_room() {
        return lost("backlog limit exceeded");
    }
    if !RATE
        .lock()
        .allows(RATE_LIMIT.load(Relaxed), NSEC_PER_SEC, now_ns())
    {
        return lost("rate limit exceeded");
    }
    let Ok(mut waiting) = room_behind(|| WAITING.lock(), |list| list, 1) else {
        return lost("out of memory in audit_log_start");
    };
    waiting.push_back(Record { kind, text });
    drop(waiting);
    NEWS.wake_all();
}

/// Passes on all records that wait: to those who hear all, and to the daemon or the log; the oldest first.
fn pass_all() {
    let mut daemon = settings::daemon();
    // Whether the daemon has room.
    let mut takes = true;
    if let Some(to) = daemon {
        for older in [&HELD, &RETRIED] {
            match tell_all(to, older, &mut takes) {
                Ok(()) => {}
                Err(Gone) => daemon = None,
            }
        }
    }
    if daemon.is_none() {
        give_up();
    }
    // Those that come meanwhile are for the next time, when the daemon may have room again.
    let count = WAITING.lock().len();
    for _ in 0..count {
        let Some(record) = WAITING.lock().pop_front() else {
            break;
        };
        ROOM.wake_all();
        let header = Header {
            kind: record.kind,
            ..Header::default()
        };
        if let Ok(bytes) = handling(|| packed(header, &[&record.text])) {
            netlink::broadcast(PROTOCOL, 0, &Datagram::of_kernel(bytes, READLOG), [0; 2]);
        }
        let told = match daemon {
            Some(to) if takes => tell(to, &record),
            Some(_) => Ok(false),
            None => Err(Gone),
        };
        match told {
            Ok(true) => {}
            Ok(false) => {
                takes = false;
                retry(record);
            }
            Err(Gone) => {
                if daemon.take().is_some() {
                    give_up();
                }
                print(&record);
                hold(record);
            }
        }
    }
    ROOM.wake_all();
}

/// The daemon is gone.
struct Gone;

/// Tells the daemon what it was not told before, until it has no room (`takes`).
fn tell_all(daemon: Daemon, older: &SpinLock<VecDeque<Record>>, takes: &mut bool) -> Result<(), Gone> {
    while *takes {
        let Some(record) = older.lock().pop_front() else {
            break;
        };
        let mut told = Ok(false);
        for _ in 0..TRIES {
            told = tell(daemon, &record);
            if !matches!(told, Ok(false)) {
                break;
            }
        }
        if !matches!(told, Ok(true)) {
            *takes = false;
            // It is still the oldest. Only this thread puts any there: it has the place that it had.
            older.lock().push_front(record);
        }
        told?;
    }
    Ok(())
}

/// Tells the daemon of a record. `false`: it has no room now. If it is gone it is no longer the daemon.
fn tell(daemon: Daemon, record: &Record) -> Result<bool, Gone> {
    let header = Header {
        kind: record.kind,
        ..Header::default()
    };
    let Ok(mut bytes) = handling(|| packed(header, &[&record.text])) else {
        return Ok(false);
    };
    // The daemon takes the length for that of the text, as Linux tells it.
    let len = (record.text.len() as u32).max(limen_netlink::HEADER as u32);
    bytes[..4].copy_from_slice(&len.to_ne_bytes());
    bytes.truncate(limen_netlink::HEADER + record.text.len());
    match netlink::unicast(daemon.socket, bytes, now_ns() + TRY_NS) {
        Ok(()) => Ok(true),
        Err(Errno::ECONNREFUSED | Errno::EPERM) => {
            settings::lose_daemon(daemon);
            Err(Gone)
        }
        Err(_) => Ok(false),
    }
}

/// There is no daemon any more that could take what it had no room for.
fn give_up() {
    loop {
        let Some(record) = RETRIED.lock().pop_front() else {
            return;
        };
        print(&record);
        hold(record);
    }
}

/// Keeps a record for the daemon, which has no room.
fn retry(record: Record) {
    if let Err(record) = keep(&RETRIED, record) {
        print(&record);
        lost("kauditd retry queue overflow");
    }
}

/// Keeps a record for a daemon that starts later, if that is wanted.
fn hold(record: Record) {
    if HOLDS.load(Relaxed) && keep(&HELD, record).is_err() {
        lost("kauditd hold queue overflow");
    }
}

/// Puts a record into a list. An error: the list is full, or there is no memory.
fn keep(list: &SpinLock<VecDeque<Record>>, record: Record) -> Result<(), Record> {
    let limit = BACKLOG_LIMIT.load(Relaxed) as usize;
    match room_behind(|| list.lock(), |list| list, 1) {
        Ok(mut list) if limit == 0 || list.len() < limit => list.push_back(record),
        _ => return Err(record),
    }
    Ok(())
}

fn print(record: &Record) {
    if record.kind == kind::EOE {
        return;
    }
    if !LOG_RATE.lock().allows(BURST, INTERVAL_NS, now_ns()) {
        UNLOGGED.fetch_add(1, Relaxed);
        return;
    }
    match UNLOGGED.swap(0, Relaxed) {
        0 => {}
        left_out => crate::warning!("audit: {left_out} lines suppressed"),
    }
    let text = core::str::from_utf8(&record.text).unwrap_or("?");
    crate::log!(Notice, "audit: type={} {text}", record.kind);
}
