//! A small sysfs: CPUs, terminals, virtio ports, disks, the kernel itself. Fixed names are in [`TREE`]; names
//! of things that come and go are made up when they are asked for.

use crate::driver::tty;
use crate::driver::virtio::{blk, console};
use crate::fs::dentry::Dentry;
use crate::fs::inode::FileType;
use crate::fs::pseudo::{self, Directory, MountPoint, Node, Tree};
use crate::fs::superblock::FsType;
use crate::rcu::Shared;
use crate::task::ns::net::NetRef;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use limen_linux_abi::Errno;

/// `SYSFS_MAGIC`.
const MAGIC: u64 = 0x6265_6572;

/// The file system type.
pub static SYSFS: FsType = FsType {
    name: "sysfs",
    for_users: Some(|| NetRef::of_current().owner().clone()),
    revealing: true,
    needs_device: false,
    mount,
};

/// The fixed names.
pub static TREE: Tree = Tree::new();

fn mount(_: &[u8], _: &str) -> Result<Shared<Dentry>, Errno> {
    static ONLY: pseudo::Only = pseudo::Only::new();
    Ok(ONLY.root("sysfs", pseudo::Plain(MAGIC), pseudo::Fixed(&TREE)))
}

/// A directory whose names are made up when it is read.
struct Made {
    names: fn() -> Vec<String>,
    make: fn(&str) -> Node,
}

impl Directory for Made {
    fn get(&self, name: &[u8]) -> Option<Node> {
        let name = core::str::from_utf8(name).ok()?;
        (self.names)()
            .iter()
            .any(|n| n == name)
            .then(|| (self.make)(name))
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        for (i, name) in (self.names)()
            .iter()
            .enumerate()
            .skip(pos.saturating_sub(2) as usize)
        {
            if !add(name.as_bytes(), FileType::Directory, i as u64 + 3) {
                return;
            }
        }
    }
}

/// A directory of attributes.
struct Attributes(Vec<(&'static str, Node)>);

impl Directory for Attributes {
    fn get(&self, name: &[u8]) -> Option<Node> {
        self.0
            .iter()
            .find(|a| a.0.as_bytes() == name)
            .map(|a| a.1.clone())
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        for (i, (name, _)) in self.0.iter().enumerate().skip(pos.saturating_sub(2) as usize) {
            if !add(name.as_bytes(), FileType::Regular, i as u64 + 3) {
                return;
            }
        }
    }
}

fn line(text: impl Fn() -> String + Send + Sync + 'static) -> Node {
    Node::text(move |out| {
        let _ = writeln!(out, "{}", text());
        Ok(())
    })
}

fn attributes(list: Vec<(&'static str, Node)>) -> Node {
    Node::Directory(0o755, Arc::new(Attributes(list)))
}

fn device(major: u32, minor: u32, name: &str) -> [(&'static str, Node); 2] {
    let event = format!("MAJOR={major}\nMINOR={minor}\nDEVNAME={name}");
    [
        ("dev", line(move || format!("{major}:{minor}"))),
        ("uevent", line(move || event.clone())),
    ]
}

fn terminal(name: &str) -> Node {
    let mut list = Vec::new();
    if let Some(tty) = tty::all().into_iter().find(|t| t.name() == name) {
        let (major, minor) = tty.dev();
        list.extend(device(major, minor, name));
    }
    match name {
        "console" => {
            list.extend(device(5, 1, name));
            list.push(("active", line(tty::console::active)));
        }
        "tty" => list.extend(device(5, 0, name)),
        "ptmx" => list.extend(device(5, 2, name)),
        _ => {}
    }
    attributes(list)
}

fn terminals() -> Vec<String> {
    let mut names: Vec<String> = ["console", "ptmx", "tty"].map(String::from).into();
    names.extend(
        tty::all()
            .iter()
            .filter(|t| t.driver().as_pty().is_none())
            .map(|t| String::from(t.name())),
    );
    names
}

fn ports() -> Vec<String> {
    console::all_ports()
        .iter()
        .map(|p| crate::driver::virtio::port_name(p))
        .collect()
}

fn port(name: &str) -> Node {
    let mut list = Vec::new();
    if let Some(port) = console::all_ports()
        .into_iter()
        .find(|p| crate::driver::virtio::port_name(p) == name)
    {
        let dev = crate::driver::virtio::port_dev(&port);
        list.extend(device(dev.major(), dev.minor(), name));
        list.push(("name", line(move || port.name.lock().clone())));
    }
    attributes(list)
}

fn disks() -> Vec<String> {
    blk::all().iter().map(|d| d.name.clone()).collect()
}

fn disk(name: &str) -> Node {
    let mut list = Vec::new();
    if let Some(disk) = blk::all().into_iter().find(|d| d.name == name) {
        list.extend(device(disk.dev.major(), disk.dev.minor(), name));
        let (sectors, read_only) = (disk.sectors, disk.read_only);
        list.push(("size", line(move || format!("{sectors}"))));
        list.push(("ro", line(move || format!("{}", u8::from(read_only)))));
        list.push(("removable", line(|| "0".into())));
    }
    attributes(list)
}

fn cpus() -> Vec<String> {
    crate::sched::online().iter().map(|c| format!("cpu{c}")).collect()
}

fn cpu_ranges() -> String {
    format!("{}", crate::sched::online())
}

fn cpu_mask() -> String {
    format!("{:x}", crate::sched::online().bits())
}

fn node_memory() -> String {
    let m = crate::mm::stats();
    let kib = crate::mm::PAGE_SIZE / 1024;
    let (total, free) = (m.total * kib, m.free * kib);
    format!(
        "Node 0 MemTotal:       {total:8} kB\nNode 0 MemFree:        {free:8} kB\nNode 0 MemUsed:        \
         {:8} kB",
        total - free.min(total)
    )
}

/// `/sys/devices/system/cpu`: fixed files, and a directory for each CPU.
struct Cpus;

const CPU_FILES: [&str; 5] = ["kernel_max", "nohz_full", "online", "possible", "present"];

impl Directory for Cpus {
    fn get(&self, name: &[u8]) -> Option<Node> {
        match name {
            b"kernel_max" => Some(line(|| format!("{}", crate::sync::MAX_CPUS - 1))),
            b"nohz_full" => Some(line(|| format!("{}", crate::sched::nohz::full()))),
            b"online" | b"possible" | b"present" => Some(line(cpu_ranges)),
            _ => {
                let name = core::str::from_utf8(name).ok()?;
                let number = cpus().iter().position(|c| c == name)?;
                let topology = attributes(Vec::from([
                    ("core_id", line(move || format!("{number}"))),
                    ("physical_package_id", line(|| "0".into())),
                    ("die_id", line(|| "0".into())),
                    ("thread_siblings", line(move || format!("{:x}", 1u64 << number))),
                    ("thread_siblings_list", line(move || format!("{number}"))),
                    ("core_cpus", line(move || format!("{:x}", 1u64 << number))),
                    ("core_cpus_list", line(move || format!("{number}"))),
                    ("core_siblings", line(cpu_mask)),
                    ("core_siblings_list", line(cpu_ranges)),
                    ("package_cpus", line(cpu_mask)),
                    ("package_cpus_list", line(cpu_ranges)),
                    ("die_cpus", line(cpu_mask)),
                    ("die_cpus_list", line(cpu_ranges)),
                ]));
                // No file `online`: no CPU can be taken off.
                Some(attributes(Vec::from([("topology", topology)])))
            }
        }
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        let dirs = cpus();
        let all = CPU_FILES.iter().map(|n| (*n, FileType::Regular));
        let all = all.chain(dirs.iter().map(|n| (n.as_str(), FileType::Directory)));
        for (i, (name, kind)) in all.enumerate().skip(pos.saturating_sub(2) as usize) {
            if !add(name.as_bytes(), kind, i as u64 + 3) {
                return;
            }
        }
    }
}

fn made(path: &str, names: fn() -> Vec<String>, make: fn(&str) -> Node) {
    TREE.add(path, Node::Directory(0o755, Arc::new(Made { names, make })));
}

/// Registers the type and the fixed names.
pub fn init() {
    crate::fs::superblock::register_fs_type(&SYSFS);
    TREE.add("devices/system/cpu", Node::Directory(0o755, Arc::new(Cpus)));
    TREE.add("devices/system/node/online", line(|| "0".into()));
    TREE.add("devices/system/node/possible", line(|| "0".into()));
    // libnuma gives up if the directory of nodes has no node: this one has all CPUs and memory.
    TREE.add("devices/system/node/node0/cpulist", line(cpu_ranges));
    TREE.add("devices/system/node/node0/cpumap", line(cpu_mask));
    TREE.add("devices/system/node/node0/distance", line(|| "10".into()));
    TREE.add("devices/system/node/node0/meminfo", line(node_memory));
    TREE.add(
        "devices/system/clocksource/clocksource0/current_clocksource",
        line(|| "limen".into()),
    );
    made("class/tty", terminals, terminal);
    made("class/virtio-ports", ports, port);
    made("class/block", disks, disk);
    made("block", disks, disk);
    made("class/net", Vec::new, |_| attributes(Vec::new()));
    made("bus", Vec::new, |_| attributes(Vec::new()));
    made("dev/char", Vec::new, |_| attributes(Vec::new()));
    made("dev/block", Vec::new, |_| attributes(Vec::new()));
    made("firmware", Vec::new, |_| attributes(Vec::new()));
    made("power", Vec::new, |_| attributes(Vec::new()));
    for path in ["fs/cgroup", "kernel/debug", "kernel/tracing"] {
        TREE.add(path, Node::Directory(0o755, Arc::new(MountPoint)));
    }
    TREE.add(
        "kernel/mm/transparent_hugepage/enabled",
        line(|| "always madvise [never]".into()),
    );
    TREE.add("kernel/uevent_seqnum", line(|| "0".into()));
    TREE.add("kernel/profiling", line(|| "0".into()));
}
