//! What is in the guest: programs of the guest's own, files of the host, the user's initramfs.

use std::process::Command;

use anyhow::Result;

use super::{check, executable, folder};
use crate::arch::Arch;
use crate::test::guest::{Guest, Ran};
use crate::test::{Context, Verdict};
use crate::{agent, tree};

/// What the host has not, or only for another processor, is one of the guest's: BusyBox's, or what was added.
pub(super) fn guest_programs(context: &Context, arch: Arch) -> Result<Verdict> {
    let dir = folder(&format!("guest-{arch}"))?;
    let script = executable(
        dir.join("script"),
        b"#!/bin/sh\necho \"$1\" > x; cat x; echo $PATH | grep -c '/.limen/bin$'\n",
    )?;
    let by_env = executable(dir.join("by-env"), b"#!/usr/bin/env sh\necho env $1\n")?;
    let memory = agent::program(arch, "memory")?.to_string_lossy().into_owned();
    let add = format!("--add={memory}:/usr/bin/limen-test-program");
    let tiny = folder(&format!("guest-{arch}/tree"))?;
    std::fs::copy(&memory, tiny.join("memory"))?;
    let root = format!("--root={}", tiny.display());
    let empty = folder(&format!("guest-{arch}/empty"))?;
    let cases: [(&str, &[&str], &[&str], &str); 8] = [
        (
            "a shell and what it starts",
            &[],
            &["sh", "-c", "echo hi > x; cat x"],
            "hi\n",
        ),
        ("BusyBox itself", &[], &["busybox", "echo", "hi"], "hi\n"),
        (
            "a shell by its path",
            &[],
            &["/bin/sh", "-c", "echo hi | cat"],
            "hi\n",
        ),
        ("a script", &[], &[&script, "hi"], "hi\n1\n"),
        ("a script by env", &[], &[&by_env, "hi"], "env hi\n"),
        (
            "an added program",
            &[&add],
            &["limen-test-program", "nothing"],
            "",
        ),
        (
            "a name in a tree that has it not",
            &[&root],
            &["sh", "-c", "/memory nothing; echo hi | cat"],
            "hi\n",
        ),
        // Of a static program's guest: the shell that scripts and `system` name.
        ("a shell for others", &["--with=sh"], &[&memory, "nothing"], ""),
    ];
    for (what, options, program, wanted) in cases {
        let ran = Guest::new(context, arch)
            .options(options)
            .program(program)
            .run()?;
        let right = ran.status == 0 && ran.text() == wanted;
        check(what, right, || ran.everything())?;
    }
    // BusyBox is behind everything else.
    if Arch::host() == Some(arch) {
        let ran = Guest::new(context, arch)
            .program(&["cat", "/proc/self/cmdline"])
            .run()?;
        let right = ran.status == 0 && !ran.text().contains(".limen");
        check("the host's program is not first", right, || ran.everything())?;
    }
    let _ = std::fs::remove_dir_all(empty);
    Ok(Verdict::Passed(
        "BusyBox's programs behind all others, by name, path and #! line; added ones; in a tree".into(),
    ))
}

/// Files with unusual names, links that lead out of the way, permissions, and how little memory is enough.
pub(super) fn files(context: &Context, arch: Arch) -> Result<Verdict> {
    use std::os::unix::ffi::OsStrExt;
    let dir = folder("files")?;
    for (name, content) in [
        (&b"a b"[..], "1"),
        (b"c\nd", "2"),
        (b"\xff\xfe", "3"),
        (b"e:f", "4"),
    ] {
        std::fs::write(dir.join(std::ffi::OsStr::from_bytes(name)), content)?;
    }
    std::os::unix::fs::symlink("loop", dir.join("loop"))?;
    std::os::unix::fs::symlink("/no/such", dir.join("dangling"))?;
    let pipe = dir.join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0)?;
    let script = "\
        for f in /n/*; do [ -f \"$f\" ] && cat \"$f\"; done; echo
        [ -L /n/loop ] && [ -L /n/dangling ] && [ -p /n/pipe ] && echo kinds
        cat /tmp/e; ls -ld /tmp | cut -c1-10
        [ -c /zero ] && echo device
        ls -ld /bin | cut -c1 | tr -d '\\n'; ls -l /bin/sh | grep -c sh; pwd\n";
    let shown = dir.display();
    let ran = Guest::new(context, arch)
        .option(format!("--add={shown}:/n"))
        .option(format!("--add={shown}/e:f"))
        .option(format!("--add={shown}/a b:/tmp/e"))
        .option("--add=/dev/zero:/zero")
        .option("--cwd=/no/such/../place")
        .program(&["sh", "-c", script])
        .run()?;
    let wanted = "1243\nkinds\n1drwxrwxrwt\ndevice\n";
    let right = ran.status == 0 && ran.text().starts_with(wanted) && ran.text().ends_with("/no/place\n");
    check("files in the guest", right, || ran.everything())?;
    let raw = std::ffi::OsStr::from_bytes(b"x\xff y\n");
    let mut command = Command::new(tree::own_program());
    command.args(["run", "--accel=tcg", &format!("--arch={arch}")]);
    if let Some(kernel) = &context.kernel {
        command.arg(format!("--kernel={}", kernel.display()));
    }
    let output = command.args(["--", "printf", "%s"]).arg(raw).output()?;
    check("words that are no text", output.stdout == raw.as_bytes(), || {
        String::from_utf8_lossy(&output.stdout).into_owned()
    })?;
    if context.kernel.is_none() {
        // The least that was enough for a program without what is behind it still is.
        let memory = agent::program(arch, "memory")?.to_string_lossy().into_owned();
        let ran = Guest::new(context, arch)
            .option("--mem=16M")
            .program(&["sh", "-c", "echo hi | cat"])
            .run()?;
        check(
            "a shell in 16 MiB",
            ran.status == 0 && ran.text() == "hi\n",
            || ran.everything(),
        )?;
        let ran = Guest::new(context, arch)
            .option("--mem=9M")
            .program(&[&memory, "nothing"])
            .run()?;
        check("a small program in 9 MiB", ran.status == 0, || ran.everything())?;
    }
    Ok(Verdict::Passed(
        "names of any bytes, links, pipes, devices, permissions, little memory".into(),
    ))
}

/// A program that fails for want of a file of the host's: what brings it is said, and does.
pub(super) fn missing(context: &Context, arch: Arch) -> Result<Verdict> {
    if context.kernel.is_some() {
        return Ok(Verdict::Skipped(
            "Linux does not tell which files were missing".into(),
        ));
    }
    let dir = folder("missing")?;
    std::fs::write(dir.join("data"), "data\n")?;
    let source = dir.join("open.c");
    std::fs::write(
        &source,
        "#include <dlfcn.h>\n#include <stdio.h>\n#include <pthread.h>\n\
         static void *end(void *x) { pthread_exit(x); }\n\
         int main(int n, char **words) {\n\
             pthread_t t; pthread_create(&t, 0, end, 0); pthread_join(t, 0);\n\
             if (n > 1 && !dlopen(words[1], RTLD_NOW)) { fprintf(stderr, \"%s\\n\", dlerror()); return 1; }\n\
             puts(\"opened\"); return 0; }\n",
    )?;
    let opener = agent::parts(arch, "test-open", &[source], &["-pthread"])?;
    let opener = opener.to_string_lossy().into_owned();
    let said = |ran: &Ran| String::from_utf8_lossy(&ran.stderr).into_owned();

    // What glibc opens itself comes along.
    let ran = Guest::new(context, arch).program(&[&opener]).run()?;
    check("the end of a thread", ran.status == 0, || ran.everything())?;
    let library = format!("/usr/lib/{}/libstdc++.so.6", arch.gnu());
    let ran = Guest::new(context, arch)
        .program(&[&opener, "libstdc++.so.6"])
        .run()?;
    let advised = said(&ran).contains(&format!("--with {library}"));
    check("a library that was opened", ran.status == 1 && advised, || {
        ran.everything()
    })?;
    let ran = Guest::new(context, arch)
        .option(format!("--with={library}"))
        .program(&[&opener, "libstdc++.so.6"])
        .run()?;
    check("the library that was brought", ran.status == 0, || {
        ran.everything()
    })?;

    let data = dir.join("data").to_string_lossy().into_owned();
    let ran = Guest::new(context, arch)
        .program(&["cat", &data, "/no/such"])
        .run()?;
    let advised = said(&ran).contains("--add /") && !said(&ran).contains("/no/such\n  ");
    check("a file", ran.status == 1 && advised, || ran.everything())?;
    // Nothing to say: it did not fail, or for nothing that the host has.
    for script in [
        "cat /no/such",
        "cat /usr/lib/os-release /no/such 2>/dev/null; true",
    ] {
        let ran = Guest::new(context, arch).program(&["sh", "-c", script]).run()?;
        check(script, !said(&ran).contains("what brings them"), || {
            ran.everything()
        })?;
    }
    // However many names there are, the last are kept, once.
    let script =
        "i=0; while [ $i -lt 3000 ]; do [ -e /no/such/$i ]; i=$((i+1)); done; cat /usr/lib/os-release";
    let ran = Guest::new(context, arch).program(&["sh", "-c", script]).run()?;
    check("many names", said(&ran).contains("os-release"), || {
        ran.everything()
    })?;
    Ok(Verdict::Passed(
        "a library that is opened, a file, a name after 3,000 others".into(),
    ))
}

/// The user's own initramfs, plain and compressed.
pub(super) fn own_initrd(context: &Context, arch: Arch) -> Result<Verdict> {
    let dir = folder("initrd")?;
    let mut archive = crate::cpio::Archive::default();
    crate::applets::Applets::fetch(arch)?.add_installed(&mut archive)?;
    archive.file(
        "init",
        0o755,
        b"#!/bin/sh\necho own init says $1\nmount -t proc proc /proc\npoweroff -f\n",
    );
    crate::guest_files::add_basics(&mut archive);
    let plain = dir.join("plain.cpio");
    std::fs::write(&plain, archive.finish())?;
    let mut files = vec![plain.clone()];
    for (tool, package, ending) in [
        ("gzip", "gzip", "gz"),
        ("zstd", "zstd", "zst"),
        ("lz4", "lz4", "lz4"),
    ] {
        crate::packages::ensure_tool(tool, &[package])?;
        let packed = plain.with_extension(format!("cpio.{ending}"));
        let output = Command::new(tool).arg("-c").arg(&plain).output()?;
        std::fs::write(&packed, output.stdout)?;
        files.push(packed);
    }
    for file in &files {
        let guest = Guest::new(context, arch)
            .option(format!("--initrd={}", file.display()))
            .program(&["hello"]);
        let ran = guest.run()?;
        let right = ran.status == 0 && ran.text().contains("own init says hello");
        check(&format!("{}", file.display()), right, || ran.everything())?;
    }
    Ok(Verdict::Passed(format!("{} formats", files.len())))
}
