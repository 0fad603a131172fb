//! Concurrency ids.

use limen_rseq::cid::{Cids, Mode, Own};

#[test]
fn threads_keep_the_lowest_ids() {
    let mut cids = Cids::new();
    let given: Vec<_> = (0..5).map(|_| cids.take_for_thread(4)).collect();
    assert_eq!(given, [Some(0), Some(1), Some(2), Some(3), None]);
    cids.give_back(1);
    assert_eq!(cids.take_for_thread(4), Some(1));
    cids.give_back(3);
    assert_eq!(
        cids.take_for_thread(3),
        None,
        "bounded by what the thread may run on"
    );
}

/// Three threads run on three CPUs, a fourth waits. Each CPU answers the hand-over at any moment, before or
/// after its thread was switched away from, and meanwhile CPUs ask for ids. No two CPUs ever have the same
/// id.
#[test]
fn every_order_of_a_hand_over() {
    fn go(cids: &Cids, has: [Option<u32>; 4], answered: u8, steps: u32) {
        for a in 0..4 {
            for b in 0..a {
                assert!(has[a].is_none() || has[a] != has[b], "{has:?}");
            }
            assert!(has[a].is_none_or(|cid| cid < 4));
        }
        if answered == 0b1111 {
            let mut cids = cids.clone();
            cids.end_hand_over();
            assert_eq!(cids.mode(), Mode::Cpus);
            let mut all: Vec<_> = (0..4).filter_map(|cpu| cids.of_cpu(cpu, 4)).collect();
            for (cpu, cid) in has.iter().enumerate() {
                assert!(cid.is_none_or(|cid| all[cpu] == cid), "what a CPU uses stays");
            }
            all.sort();
            assert_eq!(all, [0, 1, 2, 3]);
            return;
        }
        if steps == 0 {
            return;
        }
        for cpu in 0..4 {
            let mut next = cids.clone();
            let mut has = has;
            if answered & 1 << cpu == 0 {
                if let Some(cid) = has[cpu] {
                    assert!(next.hand_over(cpu, Own(cid)).is_some());
                }
                go(&next, has, answered | 1 << cpu, steps - 1);
                // Or its thread goes to sleep first.
                if has[cpu].is_some() {
                    has[cpu] = None;
                    go(cids, has, answered, steps - 1);
                }
            } else {
                // It has answered: the thread that runs there now asks for the CPU's id.
                let mine = next.of_cpu(cpu, 4);
                if has[cpu].is_some() {
                    assert_eq!(mine, has[cpu]);
                } else if mine.is_some() {
                    has[cpu] = mine;
                    go(&next, has, answered, steps - 1);
                }
            }
        }
    }
    for running in [[true, true, true, false], [true, false, true, true], [false; 4]] {
        let mut cids = Cids::new();
        let has = running.map(|_| cids.take_for_thread(4));
        let has = core::array::from_fn(|cpu| has[cpu].filter(|_| running[cpu]));
        assert!(cids.take_for_thread(4).is_none());
        assert!(cids.begin_hand_over() && !cids.begin_hand_over());
        go(&cids, has, 0, 8);
    }
}
