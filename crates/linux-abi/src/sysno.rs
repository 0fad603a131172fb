//! System call numbers by ABI: each ABI is a list of names in number order.

/// One user-space ABI's system call numbering.
pub struct Abi {
    /// The name Linux's tools use for it (`x86_64`, `aarch64`, ...).
    pub name: &'static str,
    /// One past the largest number.
    pub limit: usize,
    /// The name of a number, `None` for a hole in the numbering.
    pub name_of: fn(usize) -> Option<&'static str>,
}

/// Builds an ABI's dispatch table at compile time: entry `n` is the handler registered under the name that number `n`
/// has in the ABI, or `default`. `$module` is a module of the `syscalls` crate, `$handlers` a constant slice of
/// `(&str, T)` with `T: Copy`.
#[macro_export]
macro_rules! syscall_table {
    ($module:ident, $handlers:expr, $default:expr, $len:expr) => {{
        let mut table = [$default; $len];
        let mut n = 0;
        while n < $len {
            if let Some(sysno) = $crate::sysno::syscalls::$module::Sysno::new(n) {
                let mut i = 0;
                while i < $handlers.len() {
                    if $crate::sysno::same($handlers[i].0, $crate::sysno::canonical(sysno.name())) {
                        table[n] = $handlers[i].1;
                    }
                    i += 1;
                }
            }
            n += 1;
        }
        table
    }};
}

pub use syscalls;

/// One name per call: on the generic numbering the crate calls number 79 by its C library's name.
pub const fn canonical(name: &'static str) -> &'static str {
    if same(name, "fstatat") { "newfstatat" } else { name }
}

/// Whether two names are equal, usable in constants.
pub const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

macro_rules! abis {
    ($($constant:ident = $module:ident, $doc:literal;)*) => {
        $(#[doc = $doc]
        pub const $constant: Abi = Abi {
            name: stringify!($module),
            limit: syscalls::$module::Sysno::last().id() as usize + 1,
            name_of: |n| syscalls::$module::Sysno::new(n).map(|s| canonical(s.name())),
        };)*
    };
}

abis! {
    X86_64 = x86_64, "The 64-bit x86 ABI.";
    AARCH64 = aarch64, "The arm64 ABI (the generic numbering).";
    ARM_EABI = arm, "The 32-bit Arm EABI.";
    POWERPC64 = powerpc64, "The 64-bit Power ABI.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_numbers() {
        assert_eq!((X86_64.name_of)(0), Some("read"));
        assert_eq!((X86_64.name_of)(110), Some("getppid"));
        assert_eq!((AARCH64.name_of)(63), Some("read"));
        assert_eq!((AARCH64.name_of)(173), Some("getppid"));
        assert_eq!((AARCH64.name_of)(79), Some("newfstatat"));
        assert_eq!((ARM_EABI.name_of)(64), Some("getppid"));
        assert_eq!((POWERPC64.name_of)(64), Some("getppid"));
        assert_eq!((X86_64.name_of)(4000), None);
    }

    #[test]
    fn tables_are_built_by_name() {
        const HANDLERS: &[(&str, u8)] = &[("read", 1), ("getppid", 2)];
        const TABLE: [u8; 512] = crate::syscall_table!(aarch64, HANDLERS, 0u8, 512);
        assert_eq!((TABLE[63], TABLE[173], TABLE[0]), (1, 2, 0));
    }
}
