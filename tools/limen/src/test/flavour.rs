//! Kernels built with other options than the one that is shipped, and the steps that run on them.

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

/// With lock validation, assertions and overflow checks.
pub const LOCKDEP: Flavour = Flavour {
    name: "lockdep",
    feature: "lockdep",
};

/// For 32-bit Arm, with short descriptors (the other format of its page tables).
pub const SHORT: Flavour = Flavour {
    name: "short",
    feature: "short-descriptors",
};

/// With pages of 16 KiB.
const PAGES_16K: Flavour = Flavour {
    name: "16k",
    feature: "pages-16k",
};

/// With pages of 64 KiB.
const PAGES_64K: Flavour = Flavour {
    name: "64k",
    feature: "pages-64k",
};

/// The other page sizes of an architecture's processors.
pub const fn pages(arch: Arch) -> &'static [Flavour] {
    match arch {
        Arch::X86_64 | Arch::Arm => &[],
        Arch::Arm64 => &[PAGES_64K, PAGES_16K],
        Arch::Powerpc64 => &[PAGES_64K],
    }
}

impl Flavour {
    /// A step of the same name, on this kernel.
    pub fn named(&self, step: &str) -> String {
        format!("{}-{step}", self.name)
    }

    /// Options of `limen run` that choose this kernel.
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

    /// A step that runs on this kernel; skipped if another kernel is to be tested (`--kernel`).
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

/// The steps that build these kernels.
pub fn builds() -> Vec<Step> {
    let mut steps: Vec<Step> = Arch::ALL.into_iter().map(|arch| LOCKDEP.build(arch)).collect();
    steps.push(SHORT.build(Arch::Arm));
    for arch in Arch::ALL {
        steps.extend(pages(arch).iter().map(|flavour| flavour.build(arch)));
    }
    steps
}
