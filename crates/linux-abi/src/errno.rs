//! Error numbers as system calls return them, and the restart codes, which only the kernel uses.

use core::fmt;
use core::num::NonZeroUsize;

/// A Linux error number (1 to 4095), or one of the internal restart codes (512 to 516) that never reach user
/// space. A whole register wide, so that `Result<usize, Errno>` is returned in two registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Errno(NonZeroUsize);

/// The largest error number a system call's return value can carry (`MAX_ERRNO`).
pub const MAX_ERRNO: u16 = 4095;

/// How an interrupted system call continues if no signal handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// `ERESTARTSYS`: restart, unless a handler without `SA_RESTART` runs.
    Sys,
    /// `ERESTARTNOINTR`: always restart, even after a handler.
    NoIntr,
    /// `ERESTARTNOHAND`: restart only if no handler runs.
    NoHand,
    /// `ERESTART_RESTARTBLOCK`: continue through `restart_syscall`, only if no handler runs.
    Block,
}

/// What a system call returns.
pub type SysResult = Result<usize, Errno>;

impl Errno {
    /// The error with number `n`; `n` must be 1 to 4095.
    pub const fn new(n: u16) -> Self {
        match NonZeroUsize::new(n as usize) {
            Some(n) if n.get() <= MAX_ERRNO as usize => Self(n),
            _ => panic!("error numbers are 1 to 4095"),
        }
    }

    /// The positive number.
    pub const fn get(self) -> u16 {
        self.0.get() as u16
    }

    /// The value a system call returns in its result register on ABIs with negative errors: `-errno`.
    pub const fn to_return_value(self) -> usize {
        self.0.get().wrapping_neg()
    }

    /// The inverse of [`Errno::to_return_value`]; `None` if `value` is not an error.
    pub const fn from_return_value(value: usize) -> Option<Self> {
        let n = value.wrapping_neg();
        match NonZeroUsize::new(n) {
            Some(n) if n.get() <= MAX_ERRNO as usize => Some(Self(n)),
            _ => None,
        }
    }

    /// How the system call restarts if this is a restart code, `None` for an ordinary error.
    pub const fn restart(self) -> Option<Restart> {
        match self.0.get() {
            512 => Some(Restart::Sys),
            513 => Some(Restart::NoIntr),
            514 => Some(Restart::NoHand),
            516 => Some(Restart::Block),
            _ => None,
        }
    }
}

macro_rules! errnos {
    ($($name:ident = $n:expr, $text:literal;)*) => {
        #[allow(missing_docs)]
        impl Errno {
            $(#[doc = $text] pub const $name: Errno = Errno::new($n as u16);)*

            /// The symbolic name, for logs.
            pub const fn name(self) -> &'static str {
                $(if self.0.get() == Self::$name.0.get() { return stringify!($name); })*
                "E?"
            }

            /// What it means, in a few words; none for a number that is not listed here.
            pub const fn text(self) -> &'static str {
                $(if self.0.get() == Self::$name.0.get() { return $text; })*
                ""
            }
        }
    };
}

errnos! {
    EPERM = 1, "operation not permitted";
    ENOENT = 2, "no such file or directory";
    ESRCH = 3, "no such process";
    EINTR = 4, "interrupted system call";
    EIO = 5, "input/output error";
    ENXIO = 6, "no such device or address";
    E2BIG = 7, "argument list too long";
    ENOEXEC = 8, "exec format error";
    EBADF = 9, "bad file descriptor";
    ECHILD = 10, "no child processes";
    EAGAIN = 11, "try again";
    ENOMEM = 12, "out of memory";
    EACCES = 13, "permission denied";
    EFAULT = 14, "bad address";
    ENOTBLK = 15, "block device required";
    EBUSY = 16, "device or resource busy";
    EEXIST = 17, "file exists";
    EXDEV = 18, "cross-device link";
    ENODEV = 19, "no such device";
    ENOTDIR = 20, "not a directory";
    EISDIR = 21, "is a directory";
    EINVAL = 22, "invalid argument";
    ENFILE = 23, "too many open files in system";
    EMFILE = 24, "too many open files";
    ENOTTY = 25, "not a terminal";
    ETXTBSY = 26, "text file busy";
    EFBIG = 27, "file too large";
    ENOSPC = 28, "no space left on device";
    ESPIPE = 29, "illegal seek";
    EROFS = 30, "read-only file system";
    EMLINK = 31, "too many links";
    EPIPE = 32, "broken pipe";
    EDOM = 33, "argument out of domain";
    ERANGE = 34, "result out of range";
    EDEADLK = 35, "resource deadlock would occur";
    ENAMETOOLONG = 36, "file name too long";
    ENOLCK = 37, "no record locks available";
    ENOSYS = 38, "function not implemented";
    ENOTEMPTY = 39, "directory not empty";
    ELOOP = 40, "too many symbolic links";
    ENOMSG = 42, "no message of desired type";
    EIDRM = 43, "identifier removed";
    ENODATA = 61, "no data available";
    ETIME = 62, "timer expired";
    ENOLINK = 67, "link has been severed";
    EPROTO = 71, "protocol error";
    EBADMSG = 74, "not a data message";
    EOVERFLOW = 75, "value too large for data type";
    EBADFD = 77, "file descriptor in bad state";
    ELIBBAD = 80, "corrupted shared library";
    EILSEQ = 84, "illegal byte sequence";
    EUSERS = 87, "too many users";
    ENOTSOCK = 88, "not a socket";
    EDESTADDRREQ = 89, "destination address required";
    EMSGSIZE = 90, "message too long";
    EPROTOTYPE = 91, "wrong protocol type for socket";
    ENOPROTOOPT = 92, "protocol not available";
    EPROTONOSUPPORT = 93, "protocol not supported";
    ESOCKTNOSUPPORT = 94, "socket type not supported";
    EOPNOTSUPP = 95, "operation not supported";
    EPFNOSUPPORT = 96, "protocol family not supported";
    EAFNOSUPPORT = 97, "address family not supported";
    EADDRINUSE = 98, "address already in use";
    EADDRNOTAVAIL = 99, "cannot assign requested address";
    ENETDOWN = 100, "network is down";
    ENETUNREACH = 101, "network is unreachable";
    ECONNABORTED = 103, "software caused connection abort";
    ECONNRESET = 104, "connection reset by peer";
    ENOBUFS = 105, "no buffer space available";
    EISCONN = 106, "already connected";
    ENOTCONN = 107, "not connected";
    ESHUTDOWN = 108, "cannot send after shutdown";
    ETOOMANYREFS = 109, "too many references";
    ETIMEDOUT = 110, "timed out";
    ECONNREFUSED = 111, "connection refused";
    EHOSTUNREACH = 113, "no route to host";
    EALREADY = 114, "operation already in progress";
    EINPROGRESS = 115, "operation now in progress";
    ESTALE = 116, "stale file handle";
    EDQUOT = 122, "quota exceeded";
    ECANCELED = 125, "operation cancelled";
    EOWNERDEAD = 130, "owner died";
    ENOTRECOVERABLE = 131, "state not recoverable";
    ERESTARTSYS = 512, "internal: see Restart::Sys";
    ERESTARTNOINTR = 513, "internal: see Restart::NoIntr";
    ERESTARTNOHAND = 514, "internal: see Restart::NoHand";
    ERESTART_RESTARTBLOCK = 516, "internal: see Restart::Block";
    ENOTSUPP = 524, "operation is not supported (leaks to user space in a few documented places)";
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn return_values_round_trip() {
        for n in 1..=MAX_ERRNO {
            let e = Errno::new(n);
            assert_eq!(Errno::from_return_value(e.to_return_value()), Some(e));
        }
        assert_eq!(Errno::from_return_value(0), None);
        assert_eq!(Errno::from_return_value(4096usize.wrapping_neg()), None);
        assert_eq!(Errno::from_return_value(1), None);
    }

    #[test]
    fn an_option_costs_nothing() {
        assert_eq!(size_of::<Option<Errno>>(), size_of::<Errno>());
        // What a system call returns fits two registers.
        assert_eq!(size_of::<Result<usize, Errno>>(), 2 * size_of::<usize>());
    }
}
