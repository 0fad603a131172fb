//! Dynamic programs, unmodified: the scripts of `tests/host`, on the kernel under test and on Linux. On
//! x86_64 these are the host's own programs, and parts of Python's test suite; on 32-bit Arm and powerpc64
//! they are from Debian's packages.

use anyhow::{Result, bail};

use super::cases;
use super::guest::Guest;
use super::{Context, Step, Verdict};
use crate::arch::Arch;
use crate::{made, packages, tree};

/// The programs that the scripts call, and the packages they are in.
const PROGRAMS: [(&str, &str); 31] = [
    ("bash", "bash"),
    ("ls", "coreutils"),
    ("grep", "grep"),
    ("sed", "sed"),
    ("gawk", "gawk"),
    ("awk", "gawk"),
    ("tar", "tar"),
    ("gzip", "gzip"),
    ("xz", "xz-utils"),
    ("git", "git"),
    ("git-upload-pack", "git"),
    ("git-receive-pack", "git"),
    ("perl", "perl"),
    ("find", "findutils"),
    ("xargs", "findutils"),
    ("diff", "diffutils"),
    ("cmp", "diffutils"),
    ("sdiff", "diffutils"),
    ("mount", "mount"),
    ("umount", "mount"),
    ("ps", "procps"),
    ("pkill", "procps"),
    ("pgrep", "procps"),
    ("free", "procps"),
    ("uptime", "procps"),
    ("vmstat", "procps"),
    ("top", "procps"),
    ("dmesg", "util-linux"),
    ("python3", "python3"),
    ("file", "file"),
    ("less", "less"),
];

/// The programs of coreutils that the scripts use.
const COREUTILS: &str = "basename cat chmod chown cp cut date dd df du echo env expr factor false head id \
    install join ln md5sum mkdir mkfifo \
    mktemp mv nice nl nproc od paste printf pwd readlink realpath rm rmdir seq sha256sum shuf sleep \
    sort split stat stdbuf sum \
    sync tac tail tee test timeout touch tr true truncate uname uniq unlink wc who yes";

/// Packages with all these programs, for another architecture.
const PACKAGES: [&str; 18] = [
    "bash",
    "coreutils",
    "dash",
    "diffutils",
    "file",
    "findutils",
    "gawk",
    "git",
    "grep",
    "gzip",
    "libc-bin",
    "mount",
    "perl",
    "procps",
    "sed",
    "tar",
    "util-linux",
    "xz-utils",
];

/// Scripts that take long on another architecture and test nothing that others do not.
const LONG: [&str; 4] = ["bash-long", "many-forks", "perl-sort-big", "xz-big"];

/// Commands that replace the packages' installation scripts; the cases follow.
const INSTALLED: &str = "ln -sf gawk /usr/bin/awk
echo root:x:0:0:root:/root:/bin/bash >/etc/passwd
echo root:x:0: >/etc/group
exec bash /cases/run";

/// The steps of an architecture that is not the host's.
pub fn debian_steps(arch: Arch) -> Vec<Step> {
    if !matches!(arch, Arch::Arm | Arch::Powerpc64) {
        return Vec::new();
    }
    let programs = Step::on(arch, "debian-programs", move |context| {
        let mut cases = cases::read("host")?;
        cases.retain(|case| !LONG.contains(&case.name.as_str()));
        let root = packages::tree_with(arch, "programs", &PACKAGES)?;
        let root = format!("--root={}", root.display());
        cases::by_bash(context, arch, &cases, &[root], &["/bin/bash", "-c", INSTALLED])
    });
    vec![programs.after(format!("boot-{arch}")).long()]
}

/// What Debian's programs for audit need, and the cases.
const AUDIT: [&str; 7] = [
    "auditd",
    "bash",
    "coreutils",
    "grep",
    "libc-bin",
    "mount",
    "sysvinit-utils",
];

/// Configures the daemon; the cases follow.
const CONFIGURED: &str = "echo root:x:0:0:root:/root:/bin/bash >/etc/passwd
echo root:x:0: >/etc/group
mkdir -p /etc/audit/plugins.d /var/log/audit /run
chmod 750 /var/log/audit
printf '%s\n' 'log_file = /var/log/audit/audit.log' 'log_group = root' 'log_format = RAW' 'flush = NONE' \
    'space_left = 2' 'space_left_action = IGNORE' 'admin_space_left = 1' 'admin_space_left_action = IGNORE' \
    'plugin_dir = /etc/audit/plugins.d' >/etc/audit/auditd.conf
chmod 640 /etc/audit/auditd.conf
exec bash /cases/run";

/// The step in which Debian's `auditctl`, `auditd`, `ausearch` and `aureport` run, on both kernels.
pub fn audit_steps(arch: Arch) -> Vec<Step> {
    let step = Step::on(arch, "auditctl", move |context| {
        let root = packages::tree_with(arch, "audit", &AUDIT)?;
        let root = format!("--root={}", root.display());
        let cases = cases::read("audit")?;
        cases::by_bash(context, arch, &cases, &[root], &["/bin/bash", "-c", CONFIGURED])
    });
    let step = step.after(format!("boot-{arch}"));
    vec![if arch == Arch::X86_64 { step } else { step.long() }]
}

/// The steps of the host's architecture.
pub fn steps() -> Vec<Step> {
    if Arch::host() != Some(Arch::X86_64) {
        return Vec::new();
    }
    let programs = Step::on(Arch::X86_64, "host-programs", |context| {
        let cases = cases::read("host")?;
        cases::by_bash(
            context,
            Arch::X86_64,
            &cases,
            &programs()?,
            &["bash", "/cases/run"],
        )
    });
    let python = Step::on(Arch::X86_64, "python", python).long();
    let boot = format!("boot-{}", Arch::X86_64);
    vec![programs.after(&boot), python.after(&boot)]
}

/// The options that bring every program and the files it reads.
fn programs() -> Result<Vec<String>> {
    let missing: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(p, _)| tree::find_tool(p).is_none())
        .map(|(_, package)| *package)
        .collect();
    if !missing.is_empty() {
        packages::install(&missing)?;
    }
    let mut options: Vec<String> = PROGRAMS
        .iter()
        .filter(|(p, _)| *p != "python3")
        .map(|(p, _)| format!("--with={p}"))
        .chain(COREUTILS.split_whitespace().map(|p| format!("--with={p}")))
        .collect();
    options.push("--with=/usr/bin/perl".into());
    for file in [
        "/usr/lib/git-core/git",
        "/usr/share/git-core/templates",
        "/usr/libexec/coreutils",
        "/usr/lib/locale/C.utf8",
    ] {
        if std::path::Path::new(file).exists() {
            options.push(format!("--add={file}"));
        }
    }
    // Perl's own library, as in the package perl-base.
    for entry in std::fs::read_dir("/usr/lib/x86_64-linux-gnu")?.flatten() {
        if entry.file_name().to_string_lossy().starts_with("perl-base") {
            options.push(format!("--add={}", entry.path().display()));
        }
    }
    Ok(options)
}

/// The tests of Python's suite that must pass; then classes of tests that are left out, with the reason.
const PYTHON_TESTS: [&str; 4] = ["test_grammar", "test_math", "test_json", "test_os"];
const PYTHON_IGNORED: [(&str, &str); 1] = [(
    "TestSendfile",
    "sends over a TCP connection to itself; Limen has no network yet",
)];

fn python(context: &Context) -> Result<Verdict> {
    // Debian's interpreter with its library and tests as packaged: the host's may be any version.
    let arch = Arch::X86_64;
    let dir = tree::cache("test")?.join("python");
    let dir = made::ensure(&dir, &[], |new| {
        std::fs::create_dir_all(new)?;
        for package in [
            "python3.11-minimal",
            "libpython3.11-minimal",
            "libpython3.11-stdlib",
            "libpython3.11-testsuite",
        ] {
            let from = packages::fetch(arch, package)?;
            let copy = std::process::Command::new("cp")
                .arg("-a")
                .arg(from.join("usr"))
                .arg(new)
                .status()?;
            if !copy.success() {
                bail!("cannot copy {}", from.display());
            }
        }
        Ok(())
    })?;
    let interpreter = dir.join("usr/bin/python3.11");
    let mut guest = Guest::new(context, arch).option("--mem=2G").smp(2).timeout(900);
    guest = guest.option(format!("--with={}", interpreter.display()));
    let module_libraries = [
        "libssl.so.3",
        "libcrypto.so.3",
        "libffi.so.8",
        "libbz2.so.1.0",
        "liblzma.so.5",
        "libsqlite3.so.0",
        "libuuid.so.1",
        "libncursesw.so.6",
        "libtinfo.so.6",
        "libdb-5.3.so",
        "libexpat.so.1",
        "libz.so.1",
    ];
    for library in module_libraries {
        for place in ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"] {
            let path = std::path::Path::new(place).join(library);
            if path.exists() {
                guest = guest.option(format!("--add={}", path.display()));
                break;
            }
        }
    }
    guest = guest.option(format!("--add={}/usr:/usr", dir.display()));
    guest = guest
        .option("--env=HOME=/root")
        .option("--env=LC_ALL=C.UTF-8")
        .option("--cwd=/tmp");
    let path = interpreter.to_string_lossy().into_owned();
    let mut words = vec![path.as_str(), "-m", "test", "-W", "--timeout", "400"];
    for (ignored, _) in PYTHON_IGNORED {
        words.extend(["-i", ignored]);
    }
    words.extend(PYTHON_TESTS);
    let ran = guest.program(&words).run()?;
    if ran.status != 0 {
        let text = ran.text();
        let lines: Vec<&str> = text.lines().collect();
        bail!(
            "{}\n{}",
            lines[lines.len().saturating_sub(100)..].join("\n"),
            ran.everything()
        );
    }
    ran.clean_log()?;
    Ok(Verdict::Passed(format!(
        "{} pass, {} cases left out",
        PYTHON_TESTS.join(" "),
        PYTHON_IGNORED.len()
    )))
}
