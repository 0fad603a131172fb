//! The numbers of 32-bit and 64-bit powerpc. Its `ioctl`s, terminal settings, `mmap` flags and socket options
//! come from other systems.

use super::constants;

/// How `ioctl` numbers are made: direction in the top three bits, then 13 bits of size.
pub mod ioc {
    /// `_IO`.
    pub const fn none(group: u8, number: u8) -> u32 {
        1 << 29 | (group as u32) << 8 | number as u32
    }
    /// `_IOR`: the kernel writes `size` bytes.
    pub const fn read(group: u8, number: u8, size: usize) -> u32 {
        2 << 29 | (size as u32) << 16 | (group as u32) << 8 | number as u32
    }
    /// `_IOW`: the kernel reads `size` bytes.
    pub const fn write(group: u8, number: u8, size: usize) -> u32 {
        4 << 29 | (size as u32) << 16 | (group as u32) << 8 | number as u32
    }
}

/// Commands of `ioctl` that differ between architectures.
pub mod ioctl {
    #![allow(missing_docs, reason = "ioctl_tty(2) and others say what they do")]
    use super::ioc::{none, read, write};
    use super::termios;
    super::constants! {
        TCGETS: u32 = read(b't', 19, termios::SIZE);
        TCSETS: u32 = write(b't', 20, termios::SIZE);
        TCSETSW: u32 = write(b't', 21, termios::SIZE);
        TCSETSF: u32 = write(b't', 22, termios::SIZE);
        TCGETA: u32 = read(b't', 23, termios::OLD_SIZE);
        TCSETA: u32 = write(b't', 24, termios::OLD_SIZE);
        TCSETAW: u32 = write(b't', 25, termios::OLD_SIZE);
        TCSETAF: u32 = write(b't', 28, termios::OLD_SIZE);
        TCSBRK: u32 = none(b't', 29);
        TCXONC: u32 = none(b't', 30);
        TCFLSH: u32 = none(b't', 31);
        TIOCGPGRP: u32 = read(b't', 119, 4);
        TIOCSPGRP: u32 = write(b't', 118, 4);
        TIOCOUTQ: u32 = read(b't', 115, 4);
        TIOCGWINSZ: u32 = read(b't', 104, 8);
        TIOCSWINSZ: u32 = write(b't', 103, 8);
        FIONREAD: u32 = read(b'f', 127, 4);
        FIONBIO: u32 = write(b'f', 126, 4);
        FIONCLEX: u32 = none(b'f', 2);
        FIOCLEX: u32 = none(b'f', 1);
        FIOASYNC: u32 = write(b'f', 125, 4);
        FIOQSIZE: u32 = read(b'f', 128, 8);
    }
}

/// `termios(3)`: offsets, and the names of flags.
pub mod termios {
    #![allow(missing_docs, reason = "termios(3) says what they do")]
    super::constants! {
        VINTR: usize = 0;
        VQUIT: usize = 1;
        VERASE: usize = 2;
        VKILL: usize = 3;
        VEOF: usize = 4;
        VMIN: usize = 5;
        VEOL: usize = 6;
        VTIME: usize = 7;
        VEOL2: usize = 8;
        VSWTC: usize = 9;
        VWERASE: usize = 10;
        VREPRINT: usize = 11;
        VSUSP: usize = 12;
        VSTART: usize = 13;
        VSTOP: usize = 14;
        VLNEXT: usize = 15;
        VDISCARD: usize = 16;
        IXON: u32 = 0x200;
        IXOFF: u32 = 0x400;
        IUCLC: u32 = 0x1000;
        IMAXBEL: u32 = 0x2000;
        IUTF8: u32 = 0x4000;
        ONLCR: u32 = 2;
        OLCUC: u32 = 4;
        XTABS: u32 = 0xc00;
        CBAUD: u32 = 0xff;
        CBAUDEX: u32 = 0;
        BOTHER: u32 = 0x1f;
        CSIZE: u32 = 0x300;
        CS8: u32 = 0x300;
        CSTOPB: u32 = 0x400;
        CREAD: u32 = 0x800;
        PARENB: u32 = 0x1000;
        PARODD: u32 = 0x2000;
        HUPCL: u32 = 0x4000;
        CLOCAL: u32 = 0x8000;
        ECHOKE: u32 = 1;
        ECHOE: u32 = 2;
        ECHOK: u32 = 4;
        ECHO: u32 = 8;
        ECHONL: u32 = 0x10;
        ECHOPRT: u32 = 0x20;
        ECHOCTL: u32 = 0x40;
        ISIG: u32 = 0x80;
        ICANON: u32 = 0x100;
        IEXTEN: u32 = 0x400;
        XCASE: u32 = 0x4000;
        TOSTOP: u32 = 0x40_0000;
        FLUSHO: u32 = 0x80_0000;
        EXTPROC: u32 = 0x1000_0000;
        PENDIN: u32 = 0x2000_0000;
        NOFLSH: u32 = 0x8000_0000;
    }
    /// The offset of the line discipline's number in `struct termios`.
    pub const LINE_AT: usize = 35;
    /// The offset of the control characters.
    pub const CHARS_AT: usize = 16;
    /// The size in bytes of the `struct termios` that `TCGETS` passes: with speeds.
    pub const SIZE: usize = 44;
    /// How many control characters the old `struct termio` has.
    pub const OLD_CHARS: usize = 10;
    /// The size of `struct termio` in bytes.
    pub const OLD_SIZE: usize = 20;
}

/// `mmap` and its like.
pub mod mman {
    #![allow(missing_docs, reason = "mmap(2) and mlock(2) say what they do")]
    super::constants! {
        MAP_NORESERVE: u32 = 0x40;
        MAP_LOCKED: u32 = 0x80;
        MAP_GROWSDOWN: u32 = 0x100;
        MAP_DENYWRITE: u32 = 0x800;
        MAP_EXECUTABLE: u32 = 0x1000;
        MAP_POPULATE: u32 = 0x8000;
        MAP_NONBLOCK: u32 = 0x1_0000;
        MAP_STACK: u32 = 0x2_0000;
        MAP_HUGETLB: u32 = 0x4_0000;
        MCL_CURRENT: u32 = 0x2000;
        MCL_FUTURE: u32 = 0x4000;
        MCL_ONFAULT: u32 = 0x8000;
    }
}

/// Socket options of `SOL_SOCKET`, and a flag that only kernels with a compat ABI know.
pub mod socket {
    #![allow(missing_docs, reason = "socket(7) says what they do")]
    pub const MSG_CMSG_COMPAT: Option<u32> = None;
    super::constants! {
        SO_RCVLOWAT: u32 = 16;
        SO_SNDLOWAT: u32 = 17;
        SO_RCVTIMEO_OLD: u32 = 18;
        SO_SNDTIMEO_OLD: u32 = 19;
        SO_PASSCRED: u32 = 20;
        SO_PEERCRED: u32 = 21;
    }
}
