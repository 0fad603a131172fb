//! Debian packages: installs those of this host that are missing, and fetches single packages of any
//! architecture into the tree without touching the host's package state.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Flock, FlockType, fcntl_getlk};

use crate::arch::{self, Arch};
use crate::{made, tree};

/// Makes sure that the host has `tool`; `packages` contain it.
pub fn ensure_tool(tool: &str, packages: &[&str]) -> Result<PathBuf> {
    if let Some(path) = tree::find_tool(tool) {
        return Ok(path);
    }
    install(packages)?;
    tree::find_tool(tool)
        .with_context(|| format!("{tool} is missing although {} is installed", packages.join(" ")))
}

/// Locks out other runs of this command while they would install or fetch.
fn alone() -> Result<std::fs::File> {
    made::alone(&tree::cache("apt")?.join("all"))
}

/// Waits, at most ten minutes, while another program holds the lock on apt's package lists: `apt-get update`
/// does not wait for it, whatever `DPkg::Lock::Timeout` says.
fn wait_for_lists() {
    // Only root may open it; others cannot install anyway.
    let Ok(lists) = std::fs::File::open("/var/lib/apt/lists/lock") else {
        return;
    };
    let all = Flock::from(FlockType::WriteLock);
    for second in 0..600 {
        let Ok(Some(holder)) = fcntl_getlk(&lists, &all) else {
            return;
        };
        if second == 0 {
            let pid = holder.pid.map_or(0, |pid| pid.as_raw_nonzero().get());
            eprintln!("limen: waiting for process {pid}, which holds apt's package lists");
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Installs packages as root or through sudo; without either, says which line to run.
pub fn install(packages: &[&str]) -> Result<()> {
    let _alone = alone()?;
    let line = format!(
        "apt-get -q -o DPkg::Lock::Timeout=600 update && \
         apt-get -q -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0 install -y --no-install-recommends {}",
        packages.join(" ")
    );
    let apt = tree::find_tool("apt-get");
    let root = rustix::process::geteuid().is_root();
    let sudo = !root
        && tree::find_tool("sudo").is_some()
        && Command::new("sudo")
            .args(["-n", "true"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|s| s.success());
    if apt.is_none() || !(root || sudo) {
        bail!(
            "{} must be installed; run this as root: {line}",
            packages.join(" ")
        );
    }
    wait_for_lists();
    eprintln!("limen: installing {}", packages.join(" "));
    let mut shell = if root {
        Command::new("sh")
    } else {
        Command::new("sudo")
    };
    if sudo {
        shell.args(["-n", "sh"]);
    }
    let done = shell
        .args(["-c", &line])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdout(std::io::stderr())
        .stdin(Stdio::null())
        .status()
        .context("cannot start apt-get")?;
    if !done.success() {
        bail!(
            "apt-get could not install {}; run this as root to see why: {line}",
            packages.join(" ")
        );
    }
    Ok(())
}

/// Fetches `package` for `arch`, as Debian's mirror has it today, and unpacks it below
/// `target/limen/packages`. Fetched once; the folder is the result. `NAME/bookworm-backports` is the one of
/// Debian 12's backports where its own is older.
pub fn fetch(arch: Arch, package: &str) -> Result<PathBuf> {
    fetch_from(arch, arch::DEBIAN, package)
}

/// As [`fetch`], from a suite that need not be Debian 12's.
pub fn fetch_from(arch: Arch, suite: &str, package: &str) -> Result<PathBuf> {
    let all = tree::cache(&format!("packages/{}", arch.debian()))?;
    let name = package.replace('/', "_");
    let made = all.join(&name);
    if made.is_dir() {
        return Ok(made);
    }
    let _alone = alone()?;
    if made.is_dir() {
        return Ok(made); // another run was quicker
    }
    let mut apt = Apt::new(arch, suite)?;
    eprintln!("limen: fetching {package} for {arch}");
    forget_begun(&all, &name);
    let work = all.join(format!(".{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&work);
    std::fs::create_dir_all(work.join("root"))?;
    if apt.run("apt-get", &["-qq", "download", package], &work).is_err() {
        // The mirror may have a newer version than the local list names.
        outdated(arch, suite)?;
        apt = Apt::new(arch, suite)?;
        apt.run("apt-get", &["-qq", "download", package], &work)
            .with_context(|| format!("cannot fetch {package}; is the network there?"))?;
    }
    let deb = std::fs::read_dir(&work)?
        .flatten()
        .map(|e| e.path())
        .find(|p| p.extension().is_some_and(|x| x == "deb"))
        .with_context(|| format!("apt-get fetched no {package}"))?;
    unpack(&deb, &work.join("root"))?;
    for merged in ["bin", "sbin", "lib"] {
        merge(&work.join("root"), merged)?;
    }
    if std::fs::rename(work.join("root"), &made).is_err() && !made.is_dir() {
        bail!("cannot make {}", made.display());
    }
    let _ = std::fs::remove_dir_all(&work);
    Ok(made)
}

/// A root directory, `name`, with `packages` for `arch` and all their dependencies, as Debian's mirror has
/// them today. Made once. Documentation is left out, and `/usr` is merged, as on an installed system.
pub fn tree_with(arch: Arch, name: &str, packages: &[&str]) -> Result<PathBuf> {
    let place = tree::cache(&format!("packages/{}", arch.debian()))?;
    let made = place.join(format!("{name}.tree"));
    if made.is_dir() {
        return Ok(made);
    }
    let _alone = alone()?;
    if made.is_dir() {
        return Ok(made); // another run was quicker
    }
    let shown = packages.join(" ");
    eprintln!("limen: fetching {shown} and what it needs for {arch}");
    forget_begun(&place, &format!("{name}.tree"));
    let work = place.join(format!(".{name}.tree-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&work);
    std::fs::create_dir_all(work.join("root"))?;
    let fetch = |apt: &Apt| -> Result<()> {
        // With nothing installed, apt would install everything that is needed. It prints: 'URI'
        // name_version_arch.deb size checksum.
        let list = ["-qq", "-y", "--no-install-recommends", "--print-uris", "install"];
        let text = apt.run("apt-get", &[&list, packages].concat(), &work)?;
        let names: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1)?.split('_').next())
            .collect();
        apt.run("apt-get", &[&["-qq", "download"], &names[..]].concat(), &work)?;
        Ok(())
    };
    if fetch(&Apt::new(arch, arch::DEBIAN)?).is_err() {
        // The mirror may have newer versions than the local list names.
        outdated(arch, arch::DEBIAN)?;
        fetch(&Apt::new(arch, arch::DEBIAN)?)
            .with_context(|| format!("cannot fetch {shown}; is the network there?"))?;
    }
    for file in std::fs::read_dir(&work)?.flatten().map(|e| e.path()) {
        if file.extension().is_some_and(|x| x == "deb") {
            unpack(&file, &work.join("root"))?;
        }
    }
    for needless in ["usr/share/doc", "usr/share/man", "usr/share/locale"] {
        let _ = std::fs::remove_dir_all(work.join("root").join(needless));
    }
    if std::fs::rename(work.join("root"), &made).is_err() && !made.is_dir() {
        bail!("cannot make {}", made.display());
    }
    let _ = std::fs::remove_dir_all(&work);
    Ok(made)
}

/// Removes leftovers of runs that were interrupted while they fetched `name`. The caller holds the lock.
fn forget_begun(place: &Path, name: &str) {
    let begun = format!(".{name}-");
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let other = entry.file_name().to_string_lossy().into_owned();
        if other
            .strip_prefix(&begun)
            .is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
        {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Replaces a folder of `root` by a link to the folder of that name in `usr`, and moves its files there.
fn merge(root: &Path, name: &str) -> Result<()> {
    let (own, usr) = (root.join(name), root.join("usr").join(name));
    if own.is_dir() {
        std::fs::create_dir_all(&usr)?;
        let copied = Command::new("cp").arg("-a").arg(own.join(".")).arg(&usr).status();
        if !copied.context("cannot start cp")?.success() {
            bail!("cannot copy {}", own.display());
        }
        std::fs::remove_dir_all(&own)?;
        std::os::unix::fs::symlink(Path::new("usr").join(name), &own)?;
    }
    Ok(())
}

fn unpack(deb: &Path, root: &Path) -> Result<()> {
    let done = Command::new("dpkg-deb").arg("-x").arg(deb).arg(root).status();
    if !done.context("cannot start dpkg-deb")?.success() {
        bail!("dpkg-deb could not unpack {}", deb.display());
    }
    Ok(())
}

/// The name of a package that `package` of `suite` depends on and that starts with `prefix`.
pub fn dependency(arch: Arch, suite: &str, package: &str, prefix: &str) -> Result<String> {
    let remembered =
        tree::cache(&format!("packages/{}", arch.debian()))?.join(format!("{package}.{suite}.depends"));
    if let Ok(name) = std::fs::read_to_string(&remembered) {
        return Ok(name);
    }
    let _alone = alone()?;
    let release = format!("APT::Default-Release={suite}");
    let ask = |apt: &Apt| apt.run("apt-cache", &["-o", &release, "depends", package], Path::new("/"));
    let text = match ask(&Apt::new(arch, suite)?) {
        Ok(text) => text,
        Err(_) => {
            outdated(arch, suite)?;
            ask(&Apt::new(arch, suite)?)?
        }
    };
    let name = text
        .split_whitespace()
        .find(|w| w.starts_with(prefix) && *w != package)
        .with_context(|| format!("{package} depends on no {prefix}*"))?
        .to_owned();
    made::replace(&remembered, name.as_bytes())?;
    Ok(name)
}

/// Has the package list of an architecture fetched again before its next use.
fn outdated(arch: Arch, suite: &str) -> Result<()> {
    Ok(std::fs::remove_file(state(arch, suite)?.join("updated"))?)
}

/// The suites whose lists are kept together with that of `suite`. Debian 12's own and its backports are one
/// set: a package in both comes from the first, unless the second suite is named.
fn suites(suite: &str) -> Vec<&str> {
    if [arch::DEBIAN, arch::BACKPORTS].contains(&suite) {
        vec![arch::DEBIAN, arch::BACKPORTS]
    } else {
        vec![suite]
    }
}

/// The folder of the lists.
fn state(arch: Arch, suite: &str) -> Result<PathBuf> {
    match suites(suite)[..] {
        [alone] => tree::cache(&format!("apt/{}-{alone}", arch.debian())),
        _ => tree::cache(&format!("apt/{}", arch.debian())),
    }
}

/// A private package state for one architecture and the suites of one set.
struct Apt {
    options: Vec<String>,
}

impl Apt {
    fn new(arch: Arch, suite: &str) -> Result<Apt> {
        let a = arch.debian();
        if tree::find_tool("apt-get").is_none() {
            bail!(
                "apt-get is missing: fetching Debian packages needs a Debian host; give --root or --initrd \
                 instead"
            );
        }
        let dir = state(arch, suite)?;
        for sub in ["lists/partial", "cache/archives/partial"] {
            std::fs::create_dir_all(dir.join(sub))?;
        }
        std::fs::write(dir.join("status"), "")?;
        let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
        let sources: String = suites(suite)
            .iter()
            .map(|suite| format!("deb [signed-by={keys}] http://deb.debian.org/debian {suite} main\n"))
            .collect();
        std::fs::write(dir.join("sources.list"), &sources)?;
        let d = dir.display();
        let options = [
            format!("APT::Architecture={a}"),
            format!("APT::Architectures={a}"),
            format!("Dir::State::lists={d}/lists"),
            format!("Dir::State::status={d}/status"),
            format!("Dir::Cache={d}/cache"),
            format!("Dir::Etc::sourcelist={d}/sources.list"),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::Retries=3".to_owned(),
            "APT::Sandbox::User=root".to_owned(),
            // Without this, a list that could not be fetched is only a warning.
            "APT::Update::Error-Mode=any".to_owned(),
        ];
        let options = options.into_iter().flat_map(|o| ["-o".to_owned(), o]).collect();
        let apt = Apt { options };
        let marker = dir.join("updated");
        if std::fs::read_to_string(&marker).ok().as_ref() != Some(&sources) {
            eprintln!("limen: fetching Debian's package list for {arch}");
            apt.run("apt-get", &["-qq", "update"], &dir)
                .context("cannot fetch the package list; is the network there?")?;
            std::fs::write(marker, sources)?;
        }
        Ok(apt)
    }

    fn run(&self, tool: &str, arguments: &[&str], dir: &Path) -> Result<String> {
        let output = Command::new(tool)
            .args(&self.options)
            .args(arguments)
            .current_dir(dir)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot start {tool}"))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            bail!(
                "{tool} {}: {}",
                arguments.join(" "),
                text.lines().next().unwrap_or("failed")
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
