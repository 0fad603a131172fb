//! The architectures Limen runs on, and what each is called by the tools around it.

use clap::ValueEnum;

/// The name of the Debian release that packages come from.
pub const DEBIAN: &str = "bookworm";
/// Newer packages for it.
pub const BACKPORTS: &str = "bookworm-backports";
/// Where Debian's newest released Linux is: the backports of the release after it.
pub const NEWEST: &str = "trixie-backports";

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
    /// 32-bit Arm, v7-A.
    #[value(
        name = "arm",
        alias = "armhf",
        alias = "armv7",
        alias = "armv7l",
        alias = "armv7a"
    )]
    Arm,
    /// 64-bit Power, little-endian.
    #[value(
        name = "powerpc64",
        alias = "ppc64el",
        alias = "ppc64le",
        alias = "powerpc64le"
    )]
    Powerpc64,
}

impl Arch {
    /// Every architecture.
    pub const ALL: [Arch; 4] = [Arch::X86_64, Arch::Arm64, Arch::Arm, Arch::Powerpc64];

    /// The architectures on which all tests pass: `build`, `test` and `bench` work on these when no `--arch`
    /// is given, and so does CI. Others, while they are being ported, are reached by `--arch` alone.
    pub const SUPPORTED: [Arch; 4] = Arch::ALL;

    /// The architectures a command works on: the one asked for, else all supported ones. Prints a warning if
    /// the one asked for is not supported yet.
    pub fn chosen(asked: Option<Arch>) -> Vec<Arch> {
        if let Some(arch) = asked
            && !arch.is_supported()
        {
            eprintln!("limen: the port to {arch} is not finished: what fails may be what is missing");
        }
        asked.map_or_else(|| Arch::SUPPORTED.to_vec(), |a| vec![a])
    }

    /// Whether all tests pass on it.
    pub fn is_supported(self) -> bool {
        Arch::SUPPORTED.contains(&self)
    }

    /// The names of all, as a sentence lists them.
    pub fn names() -> String {
        let names = Arch::ALL.map(Arch::name);
        let (last, others) = names.split_last().expect("there are architectures");
        format!("{} and {last}", others.join(", "))
    }

    /// Limen's name, which is Linux's.
    pub fn name(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64",
            Arch::Arm64 => "arm64",
            Arch::Arm => "arm",
            Arch::Powerpc64 => "powerpc64",
        }
    }

    /// Debian's name.
    pub fn debian(self) -> &'static str {
        match self {
            Arch::X86_64 => "amd64",
            Arch::Arm64 => "arm64",
            Arch::Arm => "armhf",
            Arch::Powerpc64 => "ppc64el",
        }
    }

    /// The part of Debian 12 (its own, or backports) and the package that depends on the Linux image to
    /// compare with. For powerpc64, Debian 12's own image has pages of 64 KiB, so it cannot be compared; the
    /// backports' image has 4 KiB, as Limen.
    pub fn linux_package(self) -> (&'static str, &'static str) {
        match self {
            Arch::X86_64 => (DEBIAN, "linux-image-amd64"),
            Arch::Arm64 => (DEBIAN, "linux-image-arm64"),
            Arch::Arm => (DEBIAN, "linux-image-armmp"),
            Arch::Powerpc64 => (BACKPORTS, "linux-image-powerpc64le"),
        }
    }

    /// The prefix of Debian's cross compilers and of library directories.
    pub fn gnu(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64-linux-gnu",
            Arch::Arm64 => "aarch64-linux-gnu",
            Arch::Arm => "arm-linux-gnueabihf",
            Arch::Powerpc64 => "powerpc64le-linux-gnu",
        }
    }

    /// The C compiler for guest programs, and the packages that bring it.
    pub fn compiler(self) -> (String, &'static [&'static str]) {
        let cc = format!("{}-gcc", self.gnu());
        match self {
            Arch::X86_64 => (cc, &["gcc", "libc6-dev"]),
            Arch::Arm64 => (cc, &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"]),
            Arch::Arm => (cc, &["gcc-arm-linux-gnueabihf", "libc6-dev-armhf-cross"]),
            Arch::Powerpc64 => (cc, &["gcc-powerpc64le-linux-gnu", "libc6-dev-ppc64el-cross"]),
        }
    }

    /// musl: the name of its directories in Debian, its loader, and what the C compiler must be told to build
    /// for it.
    pub fn musl(self) -> (&'static str, &'static str, &'static [&'static str]) {
        match self {
            Arch::X86_64 => ("x86_64-linux-musl", "/lib/ld-musl-x86_64.so.1", &[]),
            // libgcc asks glibc which atomic instructions the processor has; musl has no such function.
            Arch::Arm64 => (
                "aarch64-linux-musl",
                "/lib/ld-musl-aarch64.so.1",
                &["-mno-outline-atomics"],
            ),
            Arch::Arm => ("arm-linux-musleabihf", "/lib/ld-musl-armhf.so.1", &[]),
            Arch::Powerpc64 => (
                "powerpc64le-linux-musl",
                "/lib/ld-musl-powerpc64le.so.1",
                &["-mlong-double-64"],
            ),
        }
    }

    /// The largest page size that its kernels use, for the layout of guest programs.
    pub fn largest_page(self) -> u32 {
        match self {
            Arch::X86_64 | Arch::Arm => 4096,
            Arch::Arm64 | Arch::Powerpc64 => 65536,
        }
    }

    /// The Rust target of the kernel.
    pub fn kernel_target(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64-unknown-none",
            Arch::Arm64 => "aarch64-unknown-none-softfloat",
            Arch::Arm => "armv7a-none-eabi",
            Arch::Powerpc64 => "powerpc64le-unknown-linux-gnu",
        }
    }

    /// QEMU's program and the package that has it.
    pub fn qemu(self) -> (&'static str, &'static str) {
        match self {
            Arch::X86_64 => ("qemu-system-x86_64", "qemu-system-x86"),
            Arch::Arm64 => ("qemu-system-aarch64", "qemu-system-arm"),
            Arch::Arm => ("qemu-system-arm", "qemu-system-arm"),
            Arch::Powerpc64 => ("qemu-system-ppc64", "qemu-system-ppc"),
        }
    }

    /// The terminal of the console that carries the kernel's log.
    pub fn log_console(self) -> &'static str {
        match self {
            Arch::X86_64 => "ttyS0",
            Arch::Arm64 | Arch::Arm => "ttyAMA0",
            Arch::Powerpc64 => "hvc0",
        }
    }

    /// The terminal of a run: the first virtio console. On `pseries` the hypervisor's own console is `hvc0`.
    pub fn terminal(self) -> &'static str {
        match self {
            Arch::X86_64 | Arch::Arm64 | Arch::Arm => "/dev/hvc0",
            Arch::Powerpc64 => "/dev/hvc1",
        }
    }

    /// The architecture of this host, when it is one of ours.
    pub fn host() -> Option<Arch> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Arch::X86_64),
            "aarch64" => Some(Arch::Arm64),
            "arm" => Some(Arch::Arm),
            "powerpc64" if cfg!(target_endian = "little") => Some(Arch::Powerpc64),
            _ => None,
        }
    }

    /// The architecture a program was built for, from the start of its ELF header: class, byte order and
    /// machine.
    pub fn of_elf(header: &[u8]) -> Option<Arch> {
        const BITS_32: u8 = 1;
        const BITS_64: u8 = 2;
        const LITTLE: u8 = 1;
        if !header.starts_with(b"\x7fELF") || header.len() < 20 {
            return None;
        }
        let machine = u16::from_le_bytes([header[18], header[19]]);
        match (header[4], header[5], machine) {
            (BITS_64, LITTLE, 62) => Some(Arch::X86_64),
            (BITS_64, LITTLE, 183) => Some(Arch::Arm64),
            (BITS_32, LITTLE, 40) => Some(Arch::Arm),
            (BITS_64, LITTLE, 21) => Some(Arch::Powerpc64),
            _ => None,
        }
    }
}

impl std::fmt::Display for Arch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
