//! The command line of `limen`: its subcommands and their options.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::arch::Arch;

/// Runs Linux programs on the Limen kernel, and builds and tests that kernel.
#[derive(Parser)]
#[command(name = "limen", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run a program (or a shell) in a virtual machine of its own
    Run(Box<RunOptions>),
    /// Build the kernel
    Build(BuildOptions),
    /// Type check, lint and test what changed, in seconds
    Check(CheckOptions),
    /// Run everything CI runs
    Test(TestOptions),
    /// Count what operations cost, beside Linux
    Bench(BenchOptions),
    /// Pack a directory and host programs into an initramfs
    Root(RootOptions),
    /// Tell rust-analyzer how the kernel is compiled
    Editor(EditorOptions),
}

/// Which accelerator QEMU uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Accel {
    /// KVM when a probe has booted with it, else TCG
    Auto,
    /// KVM, or an error
    Kvm,
    /// QEMU's own translator
    Tcg,
}

#[derive(Args)]
pub struct RunOptions {
    /// Architecture of the guest [default: the program's, else the host's]
    #[arg(long)]
    pub arch: Option<Arch>,
    /// Number of processors
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=512))]
    pub smp: u32,
    /// Memory of the guest, such as 64M or 2G
    #[arg(long, value_name = "SIZE", default_value = "512M")]
    pub mem: String,
    /// Directory that becomes the guest's root; PROGRAM is then looked up inside it
    #[arg(long, value_name = "DIR", conflicts_with = "initrd")]
    pub root: Option<PathBuf>,
    /// Your own initramfs (newc cpio; plain, gzip, zstd or lz4) with its own /init; ARGS go to that init
    #[arg(long, value_name = "FILE")]
    pub initrd: Option<PathBuf>,
    /// A Linux kernel image to run instead of Limen; `linux` is Debian's
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<PathBuf>,
    /// More words for the kernel's command line
    #[arg(long, value_name = "STR", allow_hyphen_values = true)]
    pub append: Vec<String>,
    /// End the run after this many seconds, with status 124
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<f64>,
    /// Wait for a debugger before the first instruction
    #[arg(long)]
    pub gdb: bool,
    /// Say what is done: QEMU's command line, the accelerator, the kernel's log
    #[arg(short, long)]
    pub verbose: bool,
    /// QEMU's machine: microvm or q35 on x86_64, virt on arm64, virt or vexpress-a15 on arm, pseries on
    /// powerpc64 (options after a comma are passed on)
    #[arg(long)]
    pub machine: Option<String>,
    /// QEMU's processor model [default: max; cortex-a15 on arm, power9 on powerpc64]
    #[arg(long)]
    pub cpu: Option<String>,
    /// The accelerator
    #[arg(long, value_enum, default_value = "auto")]
    pub accel: Accel,
    /// Put a host file or directory into the guest, at the same place or at GUEST
    #[arg(long, value_name = "HOST[:GUEST]")]
    pub add: Vec<OsString>,
    /// Put another host program, or a library that a program opens by itself, into the guest, with its
    /// interpreter and libraries
    #[arg(long, value_name = "PROGRAM")]
    pub with: Vec<OsString>,
    /// Set an environment variable of the program, or hand over the host's
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub env: Vec<OsString>,
    /// Directory the program starts in
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub cwd: OsString,
    /// Build the kernel with this cargo profile
    #[arg(long, default_value = "kernel")]
    pub profile: String,
    /// Build the kernel with these cargo features
    #[arg(long, value_name = "LIST", default_value = "")]
    pub features: String,
    /// Write the kernel's log to this file as well
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    #[command(flatten)]
    pub trace: TraceOptions,
    /// One more argument for QEMU, as it is
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub qemu_arg: Vec<String>,
    /// The program and its arguments [default: a BusyBox shell]
    #[arg(trailing_var_arg = true)]
    pub program: Vec<OsString>,
}

#[derive(Args)]
#[command(next_help_heading = "Tracing of the kernel while PROGRAM runs")]
pub struct TraceOptions {
    /// Trace calls of kernel functions whose names match (* and ?); several with commas
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    pub trace: Vec<String>,
    /// Trace calls and returns below these functions; with --trace, only of functions that match that too
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    pub trace_graph: Vec<String>,
    /// Trace these events, such as sched:sched_switch, or sched:* for all of a group
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub trace_events: Vec<String>,
    /// Trace the program's system calls, and show them as strace does
    #[arg(long)]
    pub trace_syscalls: bool,
    /// Write the trace to FILE instead of standard error: .json is for Perfetto, .html a page with timeline
    /// and flame graph, .dat for trace-cmd and KernelShark, any other name is text
    #[arg(long, value_name = "FILE")]
    pub trace_out: Option<PathBuf>,
}

#[derive(Args)]
pub struct BuildOptions {
    /// Architecture to build for [default: all that are supported]
    #[arg(long)]
    pub arch: Option<Arch>,
    /// Cargo profile: kernel (as shipped) or kernel-dev (quick to build, all checks)
    #[arg(long, default_value = "kernel")]
    pub profile: String,
    /// Cargo features of the kernel
    #[arg(long, value_name = "LIST", default_value = "")]
    pub features: String,
    /// Build the kernel module in DIR instead (C files, or a package in Rust), or those in the folders in it
    #[arg(long, value_name = "DIR")]
    pub module: Option<PathBuf>,
    /// Say which toolchain is used and what it is told
    #[arg(short, long)]
    pub verbose: bool,
}

#[derive(Args)]
pub struct CheckOptions {
    /// Check the kernel for this architecture only [default: all that are supported]
    #[arg(long)]
    pub arch: Option<Arch>,
    /// Lint and test all packages, not only those that differ from the last commit
    #[arg(long)]
    pub all: bool,
}

#[derive(Args)]
pub struct EditorOptions {
    /// Architecture whose code the editor understands
    #[arg(long, default_value = "x86_64")]
    pub arch: Arch,
    /// Cargo features of the kernel
    #[arg(long, value_name = "LIST", default_value = "")]
    pub features: String,
    /// Print the settings instead of writing .vscode/settings.json
    #[arg(long)]
    pub print: bool,
}

#[derive(Args)]
pub struct TestOptions {
    /// Only the tests of this architecture (and those of none) [default: all that are supported]
    #[arg(long)]
    pub arch: Option<Arch>,
    /// Only the test of this name, or, if there is none, those whose names contain it
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// List the tests instead of running them
    #[arg(long)]
    pub list: bool,
    /// Leave out the tests that take long
    #[arg(long)]
    pub quick: bool,
    /// Run those, too, that otherwise run only when their name is given
    #[arg(long, conflicts_with = "quick")]
    pub all: bool,
    /// Steps that run at the same time
    #[arg(short, long, default_value_t = 2)]
    pub jobs: usize,
    /// Ask Debian's Linux even where its answers are known, and note them in tests/linux-answers
    #[arg(long)]
    pub update_answers: bool,
    /// Run the whole-system tests on this Linux image (`linux`: Debian's) instead of Limen, to check the
    /// tests
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<PathBuf>,
}

#[derive(Args)]
pub struct BenchOptions {
    /// Architecture to measure [default: all that are supported]
    #[arg(long)]
    pub arch: Option<Arch>,
    /// What to compare with: linux (Debian 12's image), lean (a newer Linux without what no row needs, built
    /// once; x86_64 and arm64), none, or a kernel file; several with commas
    #[arg(
        long,
        value_name = "linux|lean|none|FILE",
        value_delimiter = ',',
        default_value = "linux"
    )]
    pub against: Vec<String>,
    /// Only these rows (a * at the end stands for any ending; boot, perf and image size are rows too)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Write the figures to this file, as docs/bench.md describes
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page with plots to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write one plot, an SVG image, to this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Measure nanoseconds of wall clock as well: several runs of each kernel, in turn
    #[arg(long)]
    pub wall: bool,
    /// Compare Limen's counts with bench/limits.toml; status 1 when one got worse
    #[arg(long, conflicts_with_all = ["update_limits", "wall", "profile"])]
    pub check: bool,
    /// Rewrite bench/limits.toml with today's counts
    #[arg(long, conflicts_with_all = ["wall", "profile"])]
    pub update_limits: bool,
    /// Where the kernel's instructions go during a row (NAME or NAME/SIZE, or boot), by symbol
    #[arg(long, value_name = "NAME", conflicts_with = "wall")]
    pub profile: Option<String>,
    /// Count what there is to do for restartable sequences on the way out to user mode, for three jobs,
    /// beside the series' figures
    #[arg(long, conflicts_with_all = ["check", "update_limits", "wall", "profile", "html", "svg"])]
    pub rseq: bool,
    /// Which lines of memory several processors write while they do the same, and who writes them
    #[arg(
        long,
        conflicts_with_all = ["check", "update_limits", "wall", "profile", "html", "svg", "json", "rseq"]
    )]
    pub shared_lines: bool,
    /// What the kernel's map costs by blocks and by pages: tables, memory, and the misses of simulated TLBs
    #[arg(
        long,
        conflicts_with_all = [
            "against", "check", "update_limits", "wall", "profile", "rseq", "shared_lines"
        ]
    )]
    pub map: bool,
    /// What a call of a traced function costs, by how many trace it, and how many trace others
    #[arg(
        long,
        conflicts_with_all = [
            "against", "check", "update_limits", "wall", "profile", "rseq", "shared_lines", "map", "html",
            "svg", "only"
        ]
    )]
    pub trace: bool,
    /// A Limen kernel to measure instead of the tree's (for --profile, its ELF file with symbols); `linux`
    /// measures Debian's, `lean` the lean one
    #[arg(long, value_name = "FILE")]
    pub kernel: Option<PathBuf>,
    /// QEMU's processor model [default: max without rep's byte counting and 5-level paging, cortex-a57,
    /// cortex-a15, power9]
    #[arg(long)]
    pub cpu: Option<String>,
    /// Say what is done
    #[arg(short, long)]
    pub verbose: bool,
}

#[derive(Args)]
pub struct RootOptions {
    /// Directory to pack
    pub dir: Option<PathBuf>,
    /// Where the initramfs goes
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Architecture of the programs
    #[arg(long)]
    pub arch: Option<Arch>,
    /// Put a host file or directory in, at the same place or at GUEST
    #[arg(long, value_name = "HOST[:GUEST]")]
    pub add: Vec<OsString>,
    /// Put a host program in, with its interpreter and libraries
    #[arg(long, value_name = "PROGRAM")]
    pub with: Vec<OsString>,
    /// Put BusyBox in, with a link for each of its programs
    #[arg(long)]
    pub busybox: bool,
}
