//! Input that cannot work: one line each, with what to do, and the right status.

use std::process::Command;

use anyhow::{Context as _, Result};

use super::{expect_line, folder};
use crate::arch::Arch;
use crate::test::{Context, Verdict};
use crate::tree;

/// Input that cannot work: one line each, with what to do, and the right status.
pub(super) fn bad_input(context: &Context) -> Result<Verdict> {
    let dir = folder("bad-input")?;
    let make = |name: &str, content: &[u8], mode: u32| -> Result<String> {
        use std::os::unix::fs::PermissionsExt;
        let path = dir.join(name);
        std::fs::write(&path, content)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
        Ok(path.to_string_lossy().into_owned())
    };
    let mut other = std::fs::read(tree::own_program())?;
    other.truncate(4 << 20);
    other[18..20].copy_from_slice(&243u16.to_le_bytes());
    let foreign = make("riscv", &other, 0o755)?;
    let script = make("script", b"#!/no/such/interpreter\necho hi\n", 0o755)?;
    let plain = make("plain", b"just text\n", 0o755)?;
    let locked = make("locked", b"#!/bin/sh\n", 0o644)?;
    let windows = make("windows", b"#!/bin/sh\r\necho hi\r\n", 0o755)?;
    let relative = make("relative", b"#!sh\necho hi\n", 0o755)?;
    let socket = dir.join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket)?;
    let socket = socket.to_string_lossy().into_owned();
    std::os::unix::fs::symlink("loop", dir.join("loop"))?;
    let looped = dir.join("loop").to_string_lossy().into_owned();
    let over = (format!("--add={plain}:/a"), format!("--add={plain}:/a/b"));
    let not_cpio = make("not-cpio", b"hello\n", 0o644)?;
    let bad_gzip = make("bad.gz", &[0x1f, 0x8b, 8, 0, 1, 2, 3], 0o644)?;
    let no_init = dir.join("no-init.cpio");
    let mut archive = crate::cpio::Archive::default();
    archive.file("etc/x", 0o644, b"x");
    std::fs::write(&no_init, archive.finish())?;
    let no_init = no_init.to_string_lossy().into_owned();
    let folder = dir.to_string_lossy().into_owned();
    let old = make(
        "qemu-system-x86_64",
        b"#!/bin/sh\necho 'QEMU emulator version 2.5.0'\n",
        0o755,
    )?;
    let with_old = std::path::Path::new(&old)
        .parent()
        .map(|p| p.to_string_lossy().into_owned())
        .unwrap_or_default();
    // What is asked, the status, and a word the message must have.
    let cases: Vec<(Vec<&str>, i32, &str)> = vec![
        (vec!["--", "no-such-program-here"], 127, "PATH"),
        (vec!["--", "/no/such/file"], 127, "no such file"),
        (vec!["--", &folder], 126, "--root"),
        (vec!["--", &foreign], 126, "RISC-V"),
        (vec!["--", &script], 126, "/no/such/interpreter"),
        (vec!["--", &plain], 126, "neither an ELF"),
        (vec!["--", &locked], 126, "chmod"),
        (vec!["--initrd=/no/such/initrd"], 125, "cannot read the initrd"),
        (vec!["--initrd", &not_cpio], 125, "newc"),
        (vec!["--initrd", &bad_gzip], 125, "unpacked"),
        (vec!["--initrd", &no_init], 125, "/init"),
        (vec!["--root=/no/such/dir"], 125, "no such directory"),
        (vec!["--mem=banana"], 125, "--mem"),
        (vec!["--mem=1M", "--", "true"], 125, "too little"),
        (vec!["--arch=x86_64", "--mem=6M", "--", "true"], 125, "too little"),
        (
            vec!["--kernel=/no/such/kernel", "--", "true"],
            125,
            "cannot read the kernel",
        ),
        (vec!["--kernel", &plain, "--", "true"], 125, "no kernel image"),
        (vec!["--timeout=-3", "--", "true"], 125, "--timeout"),
        (vec!["--", ""], 127, "empty"),
        (vec!["--", &windows], 126, "dos2unix"),
        (vec!["--", &relative], 126, "whole path"),
        (vec!["--add=", "--", "true"], 125, "empty"),
        (vec!["--add=/no/such/file", "--", "true"], 125, "/no/such/file"),
        (vec!["--add", &socket, "--", "true"], 125, "socket"),
        (vec!["--add", &looped, "--", "true"], 125, "links"),
        (
            vec![&over.0, &over.1, "--", "true"],
            125,
            "/a is to be a file and a directory",
        ),
        (vec!["--with=no-such-program-here", "--", "true"], 127, "PATH"),
        (vec!["--root", &looped, "--", "true"], 125, "no such directory"),
        (vec!["--cwd=place", "--", "true"], 125, "from /"),
        (vec!["--cwd=/etc/passwd", "--", "true"], 125, "a file"),
        (vec!["--env=", "--", "true"], 125, "NAME=VALUE"),
        (vec!["--env==x", "--", "true"], 125, "NAME=VALUE"),
        (vec!["--log=/dev/full", "--", "true"], 125, "No space left"),
    ];
    let kernel = context
        .kernel
        .as_ref()
        .map(|k| format!("--kernel={}", k.display()));
    for (arguments, status, word) in &cases {
        let given = arguments.iter().any(|a| a.starts_with("--kernel"));
        let mut command = Command::new(tree::own_program());
        command
            .arg("run")
            .args(kernel.iter().filter(|_| !given))
            .args(arguments);
        expect_line(command, None, *status, word).with_context(|| arguments.join(" "))?;
    }
    if Arch::host() == Some(Arch::X86_64) {
        let mut command = Command::new(tree::own_program());
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env("PATH", format!("{with_old}:{path}"))
            .args(["run"])
            .args(&kernel)
            .args(["--", "true"]);
        expect_line(command, None, 125, "newer").context("an old QEMU")?;
    }
    Ok(Verdict::Passed(format!(
        "{} kinds, one line each",
        cases.len() + 1
    )))
}
