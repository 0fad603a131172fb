//! The files about the machine: `meminfo`, `stat`, `cpuinfo`, `uptime` and the others at the top of `/proc`,
//! and `/proc/net`.

use super::TREE;
use crate::arch::mmu::VMAP;
use crate::fs::inode::{Dev, FileType};
use crate::fs::pseudo::{Directory, Node, Text, setting_file, with_string};
use crate::ipc::ns::Own;
use crate::mm::PAGE_SIZE;
use crate::sched::stats;
use crate::task::ns::time;
use crate::trace::WORD_DIGITS;
use alloc::sync::Arc;
use core::fmt::Write;
use limen_linux_abi::Errno;

/// A `USER_HZ` tick in nanoseconds.
const TICK_NS: u64 = 10_000_000;

fn add(name: &str, show: fn(&mut Text)) {
    TREE.add(
        name,
        Node::text(move |out| {
            show(out);
            Ok(())
        }),
    );
}

/// The line of `/proc/version`.
fn version(out: &mut Text) {
    use crate::task::uts::{RELEASE, VERSION};
    let _ = writeln!(out, "Linux version {RELEASE} (limen@limen) (rustc) {VERSION}");
}

/// How many pages processes have locked in memory. A page that several processes have
/// locked counts for each.
fn mlocked_pages() -> usize {
    let processes = crate::task::all_processes();
    let spaces = processes.filter_map(|process| process.mm());
    spaces.map(|mm| mm.resident_locked()).sum()
}

fn meminfo(out: &mut Text) {
    let m = crate::mm::stats();
    let kib = PAGE_SIZE / 1024;
    let cached = m.cached * kib;
    let mlocked = mlocked_pages() * kib;
    let used = m.total.saturating_sub(m.free + m.cached + m.slab) * kib;
    let rows = [
        ("MemTotal", m.total * kib),
        ("MemFree", m.free * kib),
        ("MemAvailable", m.available * kib),
        ("Buffers", 0),
        ("Cached", cached),
        ("SwapCached", 0),
        ("Active", used),
        ("Inactive", 0),
        ("Active(anon)", used),
        ("Inactive(anon)", 0),
        ("Active(file)", 0),
        ("Inactive(file)", 0),
        ("Unevictable", cached + mlocked),
        ("Mlocked", mlocked),
        ("SwapTotal", 0),
        ("SwapFree", 0),
        ("Dirty", 0),
        ("Writeback", 0),
        ("AnonPages", used),
        ("Mapped", 0),
        ("Shmem", cached),
        ("KReclaimable", 0),
        ("Slab", m.slab * kib),
        ("SReclaimable", 0),
        ("SUnreclaim", m.slab * kib),
        ("KernelStack", m.kernel_stack_kib),
        ("PageTables", 0),
        ("NFS_Unstable", 0),
        ("Bounce", 0),
        ("WritebackTmp", 0),
        ("CommitLimit", m.commit_limit.saturating_mul(kib)),
        ("Committed_AS", m.committed.saturating_mul(kib)),
        ("VmallocTotal", (VMAP.1 - VMAP.0) / 1024),
        ("VmallocUsed", m.vmalloc_used * kib),
        ("VmallocChunk", 0),
        ("Percpu", 0),
    ];
    for (name, value) in rows {
        let _ = writeln!(out, "{:<15} {value:8} kB", alloc::format!("{name}:"));
    }
    let _ = writeln!(
        out,
        "HugePages_Total:       0\nHugePages_Free:        0\nHugePages_Rsvd:        0"
    );
    let _ = writeln!(
        out,
        "HugePages_Surp:        0\nHugepagesize:       2048 kB\nHugetlb:               0 kB"
    );
    for (size, kib) in crate::mm::kernel_map::direct() {
        let (size, unit) = match size.ilog2() {
            0..20 => (size >> 10, 'k'),
            20..30 => (size >> 20, 'M'),
            _ => (size >> 30, 'G'),
        };
        let _ = writeln!(out, "{:<14} {kib:8} kB", alloc::format!("DirectMap{size}{unit}:"));
    }
}

fn uptime(out: &mut Text) {
    let up = time::shown_boottime(crate::time::now_ns()) / TICK_NS;
    let idle: u64 = crate::sched::online()
        .iter()
        .map(|c| stats::cpu_times(c).idle)
        .sum::<u64>()
        / TICK_NS;
    let _ = writeln!(
        out,
        "{}.{:02} {}.{:02}",
        up / 100,
        up % 100,
        idle / 100,
        idle % 100
    );
}

fn loadavg(out: &mut Text) {
    for load in stats::load_averages() {
        // Two decimals, rounded as Linux does.
        let load = load + stats::LOAD_ONE / 200;
        let _ = write!(
            out,
            "{}.{:02} ",
            load / stats::LOAD_ONE,
            (load % stats::LOAD_ONE) * 100 / stats::LOAD_ONE
        );
    }
    let threads: usize = crate::task::all_processes().map(|p| p.thread_count()).sum();
    let _ = writeln!(
        out,
        "{}/{threads} {}",
        stats::total_running(),
        crate::task::pid::last()
    );
}

fn stat(out: &mut Text) {
    let mut total = [0u64; 4];
    let each = |c| {
        let t = stats::cpu_times(c);
        [t.user, t.nice, t.system, t.idle].map(|ns| ns / TICK_NS)
    };
    for cpu in crate::sched::online().iter() {
        let times = each(cpu);
        (0..4).for_each(|i| total[i] += times[i]);
    }
    let [user, nice, system, idle] = total;
    let _ = writeln!(out, "cpu  {user} {nice} {system} {idle} 0 0 0 0 0 0");
    for cpu in crate::sched::online().iter() {
        let [user, nice, system, idle] = each(cpu);
        let _ = writeln!(out, "cpu{cpu} {user} {nice} {system} {idle} 0 0 0 0 0 0");
    }
    let boot = time::shown_boot() / 1_000_000_000;
    let _ = writeln!(
        out,
        "intr {}\nctxt {}\nbtime {boot}\nprocesses {}\nprocs_running {}\nprocs_blocked 0\nsoftirq 0 0 0 0 0 \
         0 0 0 0 0 0",
        stats::total_interrupts(),
        stats::total_switches(),
        crate::task::pid::last_of_all(),
        stats::total_running()
    );
}

fn interrupts(out: &mut Text) {
    let cpus = crate::sched::online().iter().count();
    out.add(b"    ");
    for cpu in crate::sched::online().iter() {
        let _ = write!(out, "       CPU{cpu:<2}");
    }
    out.add(b"\n");
    crate::arch::interrupt::for_each(|number, name, count| {
        // All interrupts go to the boot CPU.
        let _ = write!(out, "{number:3}: {count:10} ");
        for _ in 1..cpus {
            let _ = write!(out, "{:10} ", 0);
        }
        let _ = writeln!(out, "  {name}");
    });
    out.add(b"ALL: ");
    for cpu in crate::sched::online().iter() {
        let _ = write!(out, "{:10} ", crate::sched::stats::interrupts_of(cpu));
    }
    out.add(b"  Interrupts of all kinds\n");
}

/// Whether the running task is shown addresses of the kernel's.
pub fn shows_addresses() -> bool {
    let hidden = crate::driver::kmsg::HIDE_ADDRESSES.load(core::sync::atomic::Ordering::Relaxed) >= 2;
    !hidden
        && crate::task::current()
            .creds()
            .capable(crate::task::creds::cap::SYSLOG)
}

fn kallsyms(out: &mut Text) {
    let Some(table) = crate::trace::symbols::table() else {
        return;
    };
    let shown = shows_addresses();
    for i in 0..table.len() {
        let address = if shown { table.address(i).unwrap_or(0) } else { 0 };
        let _ = write!(out, "{address:0WORD_DIGITS$x} t ");
        table.name(i, |piece| out.add(piece));
        out.add(b"\n");
    }
    crate::trace::symbols::each_outside(|symbol| {
        let address = if shown { symbol.address } else { 0 };
        let _ = write!(out, "{address:0WORD_DIGITS$x} {} ", symbol.letter);
        out.add(symbol.name);
        let _ = writeln!(out, "\t[{}]", symbol.module);
    });
}

fn devices(out: &mut Text) {
    out.add(b"Character devices:\n");
    for (major, name) in [
        (1, "mem"),
        (4, "ttyS"),
        (5, "/dev/tty"),
        (5, "/dev/console"),
        (5, "/dev/ptmx"),
        (10, "misc"),
        (136, "pts"),
        (229, "hvc"),
        (247, "virtio-portsdev"),
    ] {
        let _ = writeln!(out, "{major:3} {name}");
    }
    out.add(b"\nBlock devices:\n254 virtblk\n");
}

fn partitions(out: &mut Text) {
    out.add(b"major minor  #blocks  name\n\n");
    for d in crate::driver::virtio::blk::all() {
        let _ = writeln!(
            out,
            "{:4}  {:7} {:10} {}",
            d.dev.major(),
            d.dev.minor(),
            d.sectors / 2,
            d.name
        );
    }
}

fn diskstats(out: &mut Text) {
    for d in crate::driver::virtio::blk::all() {
        let [reads, read, writes, written] = d
            .statistics
            .each_ref()
            .map(|n| n.load(core::sync::atomic::Ordering::Relaxed));
        let _ = writeln!(
            out,
            "{:4} {:7} {} {reads} 0 {read} 0 {writes} 0 {written} 0 0 0 0 0 0 0 0 0 0",
            d.dev.major(),
            d.dev.minor(),
            d.name
        );
    }
}

fn vmstat(out: &mut Text) {
    let m = crate::mm::stats();
    let _ = writeln!(
        out,
        "nr_free_pages {}\nnr_file_pages {}\nnr_slab_unreclaimable {}",
        m.free, m.cached, m.slab
    );
    let _ = writeln!(
        out,
        "pgpgin 0\npgpgout 0\npswpin 0\npswpout 0\npgfault {}\npgmajfault 0",
        crate::task::process::all_faults()
    );
    // As Linux counts levels: 2 is the one above pages.
    for (n, (splits, collapses)) in crate::mm::kernel_map::changes().enumerate() {
        let level = n + 2;
        let _ = writeln!(
            out,
            "direct_map_level{level}_splits {splits}\ndirect_map_level{level}_collapses {collapses}"
        );
    }
}

/// `/proc/net` of a machine without network devices.
pub struct Net;

const NET: &[(&str, &str)] = &[
    (
        "dev",
        "Inter-|   Receive                                                |  Transmit\n face |bytes    \
         packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier \
         compressed\n",
    ),
    ("if_inet6", ""),
    (
        "protocols",
        "protocol  size sockets  memory press maxhdr  slab module     cl co di ac io in de sh ss gs se re sp \
         bi br ha uh gp em\n",
    ),
    (
        "route",
        concat!(
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT",
            "                                                       \n"
        ),
    ),
    ("sockstat", "sockets: used 0\n"),
    (
        "tcp",
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout \
         inode                                                     \n",
    ),
    (
        "tcp6",
        "  sl  local_address                         remote_address                        st tx_queue \
         rx_queue tr tm->when retrnsmt   uid  timeout inode\n",
    ),
    (
        "udp",
        "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode \
         ref pointer drops             \n",
    ),
    (
        "udp6",
        "  sl  local_address                         remote_address                        st tx_queue \
         rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n",
    ),
    (
        "unix",
        "Num       RefCount Protocol Flags    Type St Inode Path\n",
    ),
];

impl Directory for Net {
    fn get(&self, name: &[u8]) -> Option<Node> {
        let text = NET.iter().find(|n| n.0.as_bytes() == name)?.1;
        Some(Node::text(move |out| {
            out.add(text);
            Ok(())
        }))
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        for (i, (name, _)) in NET.iter().enumerate().skip(pos.saturating_sub(2) as usize) {
            if !add(name.as_bytes(), FileType::Regular, i as u64 + 3) {
                return;
            }
        }
    }
}

/// `cmdline`: a function of its own, as in Linux, where examples of live patching replace it.
#[inline(never)]
fn cmdline_proc_show(out: &mut Text) {
    with_string(out, |s| s.push_str(&crate::cmdline::for_proc()));
}

/// A text about the IPC namespace of whoever opens it.
fn of_ipc(show: fn(&Own, &mut Text) -> Result<(), Errno>) -> Node {
    let open = move |_| {
        let ns = Own::of_current();
        Ok(setting_file(Arc::new(move |out| show(&ns, out)), None))
    };
    Node::Special(0o444, FileType::Regular, Dev::default(), Arc::new(open))
}

/// Registers the files.
pub fn init() {
    add("cmdline", cmdline_proc_show);
    add("consoles", |out| {
        let name = crate::driver::tty::console::active();
        if let Some(tty) = crate::driver::tty::console::console() {
            let (major, minor) = tty.dev();
            let _ = writeln!(out, "{name:<20} -W- (EC p  ) {major:4}:{minor}");
        }
    });
    add("cpuinfo", |out| {
        for cpu in crate::sched::online().iter() {
            with_string(out, |s| crate::arch::cpuinfo::show(cpu, s));
        }
    });
    add("devices", devices);
    add("diskstats", diskstats);
    add("filesystems", |out| {
        with_string(out, crate::fs::superblock::show_fs_types)
    });
    add("interrupts", interrupts);
    TREE.add(
        "kallsyms",
        Node::text(|out| {
            kallsyms(out);
            Ok(())
        }),
    );
    add("loadavg", loadavg);
    TREE.add("locks", Node::text(|out| crate::fs::locks::show_all(&None, out)));
    add("meminfo", meminfo);
    add("misc", |out| out.add(b"183 hw_random\n"));
    add("partitions", partitions);
    add("softirqs", |_| ());
    add("stat", stat);
    add("swaps", |out| {
        out.add(b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n")
    });
    TREE.add("sysvipc/msg", of_ipc(crate::ipc::show::msg));
    TREE.add("sysvipc/sem", of_ipc(crate::ipc::show::sem));
    TREE.add("sysvipc/shm", of_ipc(crate::ipc::show::shm));
    add("uptime", uptime);
    add("version", version);
    add("vmstat", vmstat);
    TREE.add(
        "kmsg",
        Node::File(
            0o400,
            alloc::sync::Arc::new(|_: &mut Text| Err(Errno::EAGAIN)),
            None,
        ),
    );
}
