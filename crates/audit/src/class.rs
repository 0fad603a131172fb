//! Classes of system calls: what a call may do to files, or that it sends signals. A rule names them by bits
//! of its mask, and asks for them with the field `perm`.

use crate::rule::MASK;

/// The calls that change names in a directory (`AUDIT_CLASS_DIR_WRITE`).
const DIR_WRITE: &[&str] = &[
    "rename",
    "mkdir",
    "rmdir",
    "creat",
    "link",
    "unlink",
    "symlink",
    "mknod",
    "mkdirat",
    "mknodat",
    "unlinkat",
    "renameat",
    "linkat",
    "symlinkat",
    "renameat2",
];
/// Those that change files, beside these (`AUDIT_CLASS_WRITE`).
const WRITE: &[&str] = &[
    "acct",
    "swapon",
    "quotactl",
    "truncate",
    "truncate64",
    "ftruncate",
    "ftruncate64",
    "bind",
    "fallocate",
];
/// Those that read them (`AUDIT_CLASS_READ`).
const READ: &[&str] = &[
    "readlink",
    "quotactl",
    "listxattr",
    "llistxattr",
    "flistxattr",
    "getxattr",
    "lgetxattr",
    "fgetxattr",
    "readlinkat",
    "listxattrat",
    "getxattrat",
];
/// Those that change attributes (`AUDIT_CLASS_CHATTR`).
const CHATTR: &[&str] = &[
    "chmod",
    "fchmod",
    "chown",
    "lchown",
    "fchown",
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "removexattr",
    "lremovexattr",
    "fremovexattr",
    "fchownat",
    "fchmodat",
    "fchmodat2",
    "chown32",
    "fchown32",
    "lchown32",
    "link",
    "linkat",
    "setxattrat",
    "removexattrat",
];
/// Those that send signals (`AUDIT_CLASS_SIGNAL`).
const SIGNAL: &[&str] = &["kill", "tkill", "tgkill"];

/// What `perm` asks for (`AUDIT_PERM_*`).
mod perm {
    pub const EXEC: u32 = 1;
    pub const WRITE: u32 = 2;
    pub const READ: u32 = 4;
    pub const ATTR: u32 = 8;
}

/// How many bits at the end of a mask stand for classes.
pub(crate) const CLASSES: usize = 16;
/// `SYS_BIND` of `socketcall`.
const SOCKETCALL_BIND: usize = 2;

/// A set of calls.
pub(crate) type Calls = [u32; MASK];

fn has(calls: &Calls, number: u32) -> bool {
    let word = calls.get((number / 32) as usize);
    word.is_some_and(|word| word >> (number % 32) & 1 != 0)
}

/// Which call it is, for those whose arguments say what they do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Open,
    OpenAt,
    OpenAt2,
    SocketCall,
    Execute,
}

/// The calls of the classes, by an ABI's numbers.
pub struct Classes {
    dir_write: Calls,
    write: Calls,
    read: Calls,
    chattr: Calls,
    signal: Calls,
    /// Those that the ABI has.
    special: [(Option<u32>, Which); 6],
}

impl Classes {
    /// Those of an ABI in which `name_of` is the name of a number.
    pub fn new(name_of: impl Fn(usize) -> Option<&'static str>) -> Self {
        let empty = [0; MASK];
        let mut all = Self {
            dir_write: empty,
            write: empty,
            read: empty,
            chattr: empty,
            signal: empty,
            special: [
                (None, Which::Open),
                (None, Which::OpenAt),
                (None, Which::OpenAt2),
                (None, Which::SocketCall),
                (None, Which::Execute),
                (None, Which::Execute),
            ],
        };
        const SPECIAL: [&str; 6] = ["open", "openat", "openat2", "socketcall", "execve", "execveat"];
        for number in 0..32 * MASK - CLASSES {
            let Some(name) = name_of(number) else { continue };
            if let Some(at) = SPECIAL.iter().position(|special| *special == name) {
                all.special[at].0 = Some(number as u32);
            }
            let (word, bit) = (number / 32, 1 << (number % 32));
            for (class, calls) in [
                (&[DIR_WRITE][..], &mut all.dir_write),
                (&[DIR_WRITE, WRITE], &mut all.write),
                (&[READ], &mut all.read),
                (&[CHATTR], &mut all.chattr),
                (&[SIGNAL], &mut all.signal),
            ] {
                if class.iter().any(|names| names.contains(&name)) {
                    calls[word] |= bit;
                }
            }
        }
        all
    }

    /// Puts the calls of classes in place of the classes' bits in a rule's mask. Every second class is of the
    /// calls of another ABI, of which there are none.
    pub(crate) fn resolve(&self, mask: &mut Calls) {
        let classes = [
            &self.dir_write,
            &self.chattr,
            &self.read,
            &self.write,
            &self.signal,
        ];
        for n in 0..CLASSES {
            let bit = 32 * MASK - 1 - n;
            let is_named = has(mask, bit as u32);
            mask[bit / 32] &= !(1 << (bit % 32));
            if let (true, true, Some(class)) = (is_named, n % 2 == 0, classes.get(n / 2)) {
                mask.iter_mut().zip(*class).for_each(|(to, from)| *to |= from);
            }
        }
    }

    /// Whether a mask has calls that send signals.
    pub(crate) fn has_signals(&self, mask: &Calls) -> bool {
        mask.iter().zip(&self.signal).any(|(a, b)| a & b != 0)
    }

    /// Whether a call with these arguments wants one of the rights in `wanted` (`perm`). `how`: the flags of
    /// `openat2`.
    pub fn wants(&self, wanted: u32, number: u32, arguments: &[usize; 4], how: u32) -> bool {
        let access = |flags: u32| wanted & [perm::READ, perm::WRITE, 6, 6][(flags & 3) as usize] != 0;
        match self.special.iter().find(|(special, _)| *special == Some(number)) {
            Some((_, Which::Open)) => access(arguments[1] as u32),
            Some((_, Which::OpenAt)) => access(arguments[2] as u32),
            Some((_, Which::OpenAt2)) => access(how),
            Some((_, Which::SocketCall)) => wanted & perm::WRITE != 0 && arguments[0] == SOCKETCALL_BIND,
            Some((_, Which::Execute)) => wanted & perm::EXEC != 0,
            None => [
                (perm::WRITE, &self.write),
                (perm::READ, &self.read),
                (perm::ATTR, &self.chattr),
            ]
            .into_iter()
            .any(|(right, calls)| wanted & right != 0 && has(calls, number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 9] = [
        "read", "open", "openat", "openat2", "execve", "unlink", "chmod", "readlink", "kill",
    ];

    #[test]
    fn masks_and_rights() {
        let classes = Classes::new(|n| NAMES.get(n).copied());
        let mut mask = [0; MASK];
        mask[MASK - 1] = 1 << 31 | 1 << 29 | 1 << 30;
        classes.resolve(&mut mask);
        assert_eq!((mask[0], mask[MASK - 1]), (1 << 5 | 1 << 6, 0));
        assert!(!classes.has_signals(&mask));
        let mut all = [!0; MASK];
        classes.resolve(&mut all);
        assert!(all[MASK - 1] == 0xffff && classes.has_signals(&all));
        let wants = |wanted, number, a| classes.wants(wanted, number, &[a; 4], a as u32);
        assert!(wants(4, 1, 0) && !wants(2, 1, 0) && wants(2, 2, 1) && wants(4, 3, 2) && wants(2, 3, 2));
        assert!(wants(1, 4, 0) && !wants(14, 4, 0) && wants(2, 5, 0) && wants(8, 6, 0) && wants(4, 7, 0));
        assert!(!wants(15, 0, 0) && !wants(15, 8, 0) && !wants(15, u32::MAX, 2));
    }
}
