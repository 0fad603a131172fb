//! Self-tests inside the kernel: with `limen.selftest` on the command line they run instead of init, one line each, and the machine ends with a
//! status the host can tell apart. A room adds its list to [`ROOMS`].

use crate::arch::platform;

/// A test: `Err` says what was wrong. It may also panic.
pub type Test = (&'static str, fn() -> Result<(), &'static str>);

/// Every room's tests.
const ROOMS: &[(&str, &[Test])] = &[
    ("mm", crate::mm::selftest::TESTS),
    ("sched", crate::sched::selftest::TESTS),
];

/// Fails a test unless the condition holds.
#[macro_export]
macro_rules! check {
    ($cond:expr) => {
        if !$cond {
            return Err(concat!(file!(), ": ", stringify!($cond)));
        }
    };
}

/// Whether the command line asks for the self-tests.
pub fn wanted() -> bool {
    super::cmdline::flag("limen.selftest")
}

/// Runs all tests on a kernel thread of their own, then ends the machine.
pub fn start() {
    crate::sched::spawn_kthread("selftest", run);
}

fn run() {
    let (mut passed, mut failed) = (0, 0);
    for (room, tests) in ROOMS {
        for (name, test) in *tests {
            match test() {
                Ok(()) => {
                    passed += 1;
                    info!("selftest {room}: {name}: ok");
                }
                Err(what) => {
                    failed += 1;
                    crate::log!(Err, "selftest {room}: {name}: FAILED: {what}");
                }
            }
        }
    }
    info!("selftest: {passed} passed, {failed} failed");
    if failed == 0 {
        platform::power_off();
    }
    platform::panic_exit();
}
