//! `limen`, the host side of the Limen kernel: one command that builds the kernel, runs Linux programs on it
//! in a virtual machine of their own, and tests it. The shell script `limen` at the top of the tree builds
//! and starts this program; people and CI call that script.

mod accel;
mod agent;
mod applets;
mod arch;
mod bench;
mod build;
mod check;
mod cli;
mod cpio;
mod editor;
mod elf;
mod frames;
mod guest_files;
mod image;
mod init_sections;
mod initrd;
mod kernel;
mod linked;
mod linux;
mod machine;
mod made;
mod missing;
mod modules;
mod noinstr;
mod packages;
mod program;
mod pump;
mod references;
mod relay;
mod root;
mod run;
mod session;
mod status;
mod target_spec;
mod term;
mod test;
mod toolchain;
mod trace;
mod tree;

use clap::Parser;
use std::panic;

fn main() {
    let cli = cli::Cli::try_parse().unwrap_or_else(|error| {
        let _ = error.print();
        std::process::exit(if error.use_stderr() { status::HOST } else { 0 })
    });
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !status::is_closed_output(info.payload()) {
            report(info);
        }
    }));
    let outcome = panic::catch_unwind(|| match &cli.command {
        cli::Command::Run(options) => run::run(options),
        cli::Command::Build(options) => build::build(options).map(|()| 0),
        cli::Command::Check(options) => check::check(options).map(|()| 0),
        cli::Command::Test(options) => test::test(options),
        cli::Command::Bench(options) => bench::bench(options),
        cli::Command::Root(options) => root::root(options).map(|()| 0),
        cli::Command::Editor(options) => editor::editor(options).map(|()| 0),
    });
    let status = match outcome {
        Ok(Ok(status)) => status,
        Ok(Err(error)) => {
            eprintln!("limen: {error:#}");
            status::of_error(&error)
        }
        Err(payload) if status::is_closed_output(&*payload) => status::CLOSED_OUTPUT,
        Err(payload) => panic::resume_unwind(payload),
    };
    std::process::exit(status);
}
