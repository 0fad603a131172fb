//! The architectures Limen runs on, and what each is called by the tools around it.

use clap::ValueEnum;

/// An architecture of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "lower")]
pub enum Arch {
    /// 64-bit x86.
    #[value(name = "x86_64", alias = "amd64", alias = "x86-64")]
    X86_64,
    /// 64-bit Arm.
    #[value(name = "arm64", alias = "aarch64")]
    Arm64,
}

impl Arch {
    /// Every architecture.
    pub const ALL: [Arch; 2] = [Arch::X86_64, Arch::Arm64];

    /// Limen's name, which is Linux's.
    pub fn name(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64",
            Arch::Arm64 => "arm64",
        }
    }

    /// Debian's name.
    pub fn debian(self) -> &'static str {
        match self {
            Arch::X86_64 => "amd64",
            Arch::Arm64 => "arm64",
        }
    }

    /// The prefix of Debian's cross compilers and of library directories.
    pub fn gnu(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64-linux-gnu",
            Arch::Arm64 => "aarch64-linux-gnu",
        }
    }

    /// The C compiler for guest programs, and the packages that bring it.
    pub fn compiler(self) -> (String, &'static [&'static str]) {
        let cc = format!("{}-gcc", self.gnu());
        match self {
            Arch::X86_64 => (cc, &["gcc", "libc6-dev"]),
            Arch::Arm64 => (cc, &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"]),
        }
    }

    /// The Rust target of the kernel.
    pub fn kernel_target(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64-unknown-none",
            Arch::Arm64 => "aarch64-unknown-none-softfloat",
        }
    }

    /// QEMU's program and the package that has it.
    pub fn qemu(self) -> (&'static str, &'static str) {
        match self {
            Arch::X86_64 => ("qemu-system-x86_64", "qemu-system-x86"),
            Arch::Arm64 => ("qemu-system-aarch64", "qemu-system-arm"),
        }
    }

    /// The architecture of this host, when it is one of ours.
    pub fn host() -> Option<Arch> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Arch::X86_64),
            "aarch64" => Some(Arch::Arm64),
            _ => None,
        }
    }

    /// The architecture a program was built for, from the `e_machine` field of its ELF header.
    pub fn of_elf_machine(machine: u16) -> Option<Arch> {
        match machine {
            62 => Some(Arch::X86_64),
            183 => Some(Arch::Arm64),
            _ => None,
        }
    }
}

impl std::fmt::Display for Arch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
