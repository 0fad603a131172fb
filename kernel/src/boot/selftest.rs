//! Self-tests of the kernel. With `limen.selftest` on the command line they run instead of init, each with a
//! line of output, and the machine ends with a status that tells the host the result. A room adds its list to
//! [`ROOMS`].

use crate::arch::platform;
use crate::selftest::Test;

/// The tests of all rooms.
const ROOMS: &[(&str, &[Test])] = &[
    ("arch", crate::arch::index::TESTS),
    ("mm", crate::mm::selftest::TESTS),
    ("map", crate::mm::MAP_FAULT_TESTS),
    ("map", crate::mm::MAP_COST_TESTS),
    ("map", crate::mm::MAP_TESTS),
    ("map", crate::arch::kernel_map::TESTS),
    ("sched", crate::sched::selftest::TESTS),
    ("sched", crate::sched::nmi::TESTS),
    ("rcu", crate::rcu::selftest::TESTS),
    ("fs", crate::fs::selftest::TESTS),
    ("jump_label", crate::jump_label::selftest::TESTS),
    ("ftrace", crate::ftrace::selftest::TESTS),
    ("ftrace", crate::ftrace::selftest_cost::TESTS),
    ("ftrace", crate::ftrace::selftest_probes::TESTS),
    ("ftrace", crate::ftrace::selftest_patch::TESTS),
    ("livepatch", crate::livepatch::selftest::TESTS),
    ("function_graph", crate::ftrace::graph::selftest::TESTS),
    ("tracing", crate::tracing::selftest::TESTS),
    ("tracing", crate::tracing::event::selftest::TESTS),
];

/// Whether the command line asks for the self-tests.
pub fn wanted() -> bool {
    crate::cmdline::flag("limen.selftest")
}

/// Runs all tests in a kernel thread, then ends the machine.
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
