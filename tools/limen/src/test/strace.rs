//! Ten minutes of four `strace -f find /` at a time, on four processors, with lock validation: tracers that
//! stop and read their tracees all the time, while these look at every file of `/proc`, each other's, too.

use anyhow::{Result, bail};

use super::flavour::LOCKDEP;
use super::guest::Guest;
use super::{Context, Step, Verdict};
use crate::arch::Arch;
use crate::packages;

/// What the guest has.
const PACKAGES: [&str; 5] = ["bash", "coreutils", "findutils", "grep", "strace"];

/// `find` says 1 when a process has ended since it saw its folder.
const SCRIPT: &str = "
end=$((SECONDS + 600))
one() {
    runs=0 lines=0 trace=/tmp/trace.$1
    while [ $SECONDS -lt $end ]; do
        strace -f -o $trace find / >/dev/null 2>/tmp/said.$1
        status=$?
        if [ $status -gt 1 ] || ! tail -n 1 $trace | grep -q 'exited with'; then
            echo \"strace $1 ends with status $status; its last lines:\"
            tail -n 5 $trace /tmp/said.$1
            return 1
        fi
        runs=$((runs + 1)) lines=$((lines + $(wc -l <$trace)))
    done
    echo \"$runs runs with $lines calls\"
}
for i in 1 2 3 4; do one $i & all=\"$all $!\"; done
bad=0
for one in $all; do wait $one || bad=1; done
exit $bad
";

fn run(context: &Context, arch: Arch) -> Result<Verdict> {
    let root = packages::tree_with(arch, "strace", &PACKAGES)?;
    let ran = Guest::new(context, arch)
        .options(&LOCKDEP.options())
        .option(format!("--root={}", root.display()))
        .option("--mem=1G")
        .smp(4)
        .timeout(1200)
        .program(&["/bin/bash", "-c", SCRIPT])
        .run()?;
    if ran.status != 0 {
        bail!("status {}\n{}", ran.status, ran.everything());
    }
    ran.clean_log()?;
    Ok(Verdict::Passed(ran.text().trim().replace('\n', "; ")))
}

/// The step of an architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let long = LOCKDEP.on(arch, "strace-long", move |context| run(context, arch));
    vec![long.alone()]
}
