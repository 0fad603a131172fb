//! Errors of system calls with wrong arguments, above all which error is found first (`programs/errors`): on
//! the kernel under test and on Linux, as root and as an ordinary user.

use std::hash::{DefaultHasher, Hash, Hasher};

use anyhow::Result;

use super::guest::Guest;
use super::{Context, Step, Verdict, cases};
use crate::agent;
use crate::arch::Arch;

/// The user ids with which the program runs.
const USERS: [u32; 2] = [0, 1000];

fn compare(context: &Context, arch: Arch) -> Result<Verdict> {
    let program = agent::program(arch, "errors")?;
    let mut hasher = DefaultHasher::new();
    std::fs::read(&program)?.hash(&mut hasher);
    let scripts = USERS.map(|user| cases::Case {
        name: format!("errors-{user}"),
        // The results on Linux are kept while the program is the same.
        text: format!(
            "# {:016x}\nmkdir -p /tmp/errors && mount -t tmpfs none /tmp/errors && exec /errors {user}\n",
            hasher.finish()
        ),
    });
    let guest = |guest: Guest, add: &str| {
        guest
            .option(add)
            .option(format!("--add={}:/errors", program.display()))
            .smp(2)
            .timeout(900)
            .script("sh /cases/run\n")
    };
    let kernels = (Guest::new(context, arch), Guest::linux(arch)?);
    cases::compare(context, &scripts, "sh", kernels, guest)?;
    Ok(Verdict::Passed(
        "the same as on Linux, as root and as a user".into(),
    ))
}

/// The steps of one architecture.
pub fn steps(arch: Arch) -> Vec<Step> {
    let step = Step::on(arch, "errors", move |context| compare(context, arch));
    vec![step.after(format!("boot-{arch}")).long()]
}
