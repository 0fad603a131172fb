//! The hostile program (`programs/hostile`): every system call number with random and boundary arguments, as root and as
//! an ordinary user, on two processors. The kernel must not panic or hang, and a shell must still work afterwards.

use anyhow::bail;

use super::guest::Guest;
use super::{Step, Verdict};
use crate::agent;
use crate::arch::Arch;

/// Calls per user in CI; two users make two million and more.
const CALLS: u32 = 1_050_000;

/// The steps of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let hostile = Step::on(arch, "hostile", move |context| {
        let program = agent::program(arch, "hostile")?;
        let mut total = 0u64;
        for uid in [0, 1000] {
            let script = format!(
                "mkdir -p /tmp/h && chmod 777 /tmp/h && cd /tmp/h && /hostile {CALLS} {uid} 7; echo status $?; \
                 echo alive | tr a-z A-Z; ls / > /dev/null && echo shell works\n"
            );
            let guest = Guest::new(context, arch).smp(2).timeout(500).option("--mem=256M");
            let ran = guest
                .option(format!("--add={}:/hostile", program.display()))
                .script(&script)
                .run()?;
            let text = ran.text();
            if ran.status != 0 || !text.contains("status 0\nALIVE\nshell works\n") {
                bail!("as user {uid}: status {}\n{}", ran.status, ran.everything());
            }
            ran.clean_log()?;
            let calls = text
                .lines()
                .find_map(|l| l.strip_prefix("calls "))
                .and_then(|n| n.parse::<u64>().ok());
            total += calls.unwrap_or(0);
        }
        if total < 2_000_000 {
            bail!("only {total} calls were made");
        }
        Ok(Verdict::Passed(format!("{total} calls, as root and as a user")))
    });
    vec![hostile.after(format!("boot-{arch}")).long()]
}
