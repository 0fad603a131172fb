//! Kernels built otherwise than the one that ships, and the steps that run on them.

use anyhow::Result;

use super::{Context, Step, Verdict};
use crate::arch::Arch;
use crate::build::Kernel;

/// A way to build the kernel.
pub struct Flavour {
    name: &'static str,
    /// Cargo's feature.
    feature: &'static str,
}

/// Validates its locks, checks its assertions and arithmetic.
pub const LOCKDEP: Flavour = Flavour {
    name: "lockdep",
    feature: "lockdep",
};

/// Has 32-bit Arm's other table format.
pub const SHORT: Flavour = Flavour {
    name: "short",
    feature: "short-descriptors",
};

impl Flavour {
    /// What `limen run` is told to take it.
    pub const fn options(&self) -> [&'static str; 2] {
        ["--features", self.feature]
    }

    /// The step that builds it.
    fn build(&self, arch: Arch) -> Step {
        let kernel = Kernel {
            arch,
            profile: "kernel".into(),
            features: self.feature.into(),
        };
        self.step(arch, &format!("build-{}", self.name), move |_| {
            let built = kernel.build_quietly()?;
            Ok(Verdict::Passed(format!(
                "{} bytes",
                std::fs::metadata(&built.image)?.len()
            )))
        })
        .after(format!("build-{arch}"))
        .long()
    }

    /// A step that runs on it; there is nothing to do when another kernel is to be tested.
    pub fn on(
        &self,
        arch: Arch,
        name: &str,
        work: impl Fn(&Context) -> Result<Verdict> + Send + Sync + 'static,
    ) -> Step {
        self.step(arch, name, work)
            .after(format!("build-{}-{arch}", self.name))
            .after(format!("boot-{arch}"))
            .long()
    }

    fn step(
        &self,
        arch: Arch,
        name: &str,
        work: impl Fn(&Context) -> Result<Verdict> + Send + Sync + 'static,
    ) -> Step {
        Step::on(arch, name, move |context| {
            if context.kernel.is_some() {
                return Ok(Verdict::Skipped("only for Limen".into()));
            }
            work(context)
        })
    }
}

/// The steps that build them all.
pub fn builds() -> Vec<Step> {
    let mut steps: Vec<Step> = Arch::ALL.into_iter().map(|arch| LOCKDEP.build(arch)).collect();
    steps.push(SHORT.build(Arch::Arm));
    steps
}
