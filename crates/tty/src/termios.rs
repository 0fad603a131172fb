//! Terminal settings: flags, control characters, speeds, and their layouts in user memory (the generic ones, which x86, arm and
//! arm64 share).

#![allow(missing_docs)] // the flags have the names of termios(3), which says what they do

use bitflags::bitflags;

/// Control characters of a terminal.
pub const NCCS: usize = 19;

/// Indices of the control characters.
pub mod cc {
    pub const VINTR: usize = 0;
    pub const VQUIT: usize = 1;
    pub const VERASE: usize = 2;
    pub const VKILL: usize = 3;
    pub const VEOF: usize = 4;
    pub const VTIME: usize = 5;
    pub const VMIN: usize = 6;
    pub const VSWTC: usize = 7;
    pub const VSTART: usize = 8;
    pub const VSTOP: usize = 9;
    pub const VSUSP: usize = 10;
    pub const VEOL: usize = 11;
    pub const VREPRINT: usize = 12;
    pub const VDISCARD: usize = 13;
    pub const VWERASE: usize = 14;
    pub const VLNEXT: usize = 15;
    pub const VEOL2: usize = 16;
}

bitflags! {
    /// `c_iflag`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct InputFlags: u32 {
        const IGNBRK = 0o1;
        const BRKINT = 0o2;
        const IGNPAR = 0o4;
        const PARMRK = 0o10;
        const INPCK = 0o20;
        const ISTRIP = 0o40;
        const INLCR = 0o100;
        const IGNCR = 0o200;
        const ICRNL = 0o400;
        const IUCLC = 0o1000;
        const IXON = 0o2000;
        const IXANY = 0o4000;
        const IXOFF = 0o10000;
        const IMAXBEL = 0o20000;
        const IUTF8 = 0o40000;
        const _ = !0;
    }
}

bitflags! {
    /// `c_oflag`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OutputFlags: u32 {
        const OPOST = 0o1;
        const OLCUC = 0o2;
        const ONLCR = 0o4;
        const OCRNL = 0o10;
        const ONOCR = 0o20;
        const ONLRET = 0o40;
        const OFILL = 0o100;
        /// Both bits of `TABDLY`: tabs become spaces.
        const XTABS = 0o14000;
        const _ = !0;
    }
}

bitflags! {
    /// `c_cflag`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ControlFlags: u32 {
        const CBAUD = 0o10017;
        const CS8 = 0o60;
        const CSTOPB = 0o100;
        const CREAD = 0o200;
        const PARENB = 0o400;
        const PARODD = 0o1000;
        const HUPCL = 0o2000;
        const CLOCAL = 0o4000;
        /// An arbitrary speed, in `c_ospeed`.
        const BOTHER = 0o10000;
        const _ = !0;
    }
}

bitflags! {
    /// `c_lflag`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LocalFlags: u32 {
        const ISIG = 0o1;
        const ICANON = 0o2;
        const XCASE = 0o4;
        const ECHO = 0o10;
        const ECHOE = 0o20;
        const ECHOK = 0o40;
        const ECHONL = 0o100;
        const NOFLSH = 0o200;
        const TOSTOP = 0o400;
        const ECHOCTL = 0o1000;
        const ECHOPRT = 0o2000;
        const ECHOKE = 0o4000;
        const FLUSHO = 0o10000;
        const PENDIN = 0o40000;
        const IEXTEN = 0o100000;
        const EXTPROC = 0o200000;
        const _ = !0;
    }
}

/// A terminal's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Termios {
    /// How input is treated.
    pub input: InputFlags,
    /// How output is treated.
    pub output: OutputFlags,
    /// The line itself.
    pub control: ControlFlags,
    /// Editing, echo, signals.
    pub local: LocalFlags,
    /// The line discipline's number (0).
    pub discipline: u8,
    /// Control characters; 0 is "none".
    pub chars: [u8; NCCS],
    /// Input and output speed, bits per second.
    pub speed: (u32, u32),
}

/// `B38400`, what a terminal starts with.
const B38400: u32 = 0o17;

impl Termios {
    /// What Linux gives a new terminal (`tty_std_termios`).
    pub const fn standard() -> Self {
        let mut chars = [0; NCCS];
        chars[cc::VINTR] = 3;
        chars[cc::VQUIT] = 0o34;
        chars[cc::VERASE] = 0o177;
        chars[cc::VKILL] = 0o25;
        chars[cc::VEOF] = 4;
        chars[cc::VMIN] = 1;
        chars[cc::VSTART] = 0o21;
        chars[cc::VSTOP] = 0o23;
        chars[cc::VSUSP] = 0o32;
        chars[cc::VREPRINT] = 0o22;
        chars[cc::VDISCARD] = 0o17;
        chars[cc::VWERASE] = 0o27;
        chars[cc::VLNEXT] = 0o26;
        Self {
            input: InputFlags::ICRNL.union(InputFlags::IXON),
            output: OutputFlags::OPOST.union(OutputFlags::ONLCR),
            control: ControlFlags::from_bits_retain(
                B38400 | ControlFlags::CS8.bits() | ControlFlags::CREAD.bits() | ControlFlags::HUPCL.bits(),
            ),
            local: LocalFlags::from_bits_retain(
                LocalFlags::ISIG.bits()
                    | LocalFlags::ICANON.bits()
                    | LocalFlags::ECHO.bits()
                    | LocalFlags::ECHOE.bits()
                    | LocalFlags::ECHOK.bits()
                    | LocalFlags::ECHOCTL.bits()
                    | LocalFlags::ECHOKE.bits()
                    | LocalFlags::IEXTEN.bits(),
            ),
            discipline: 0,
            chars,
            speed: (38400, 38400),
        }
    }

    /// What a pseudo-terminal's master end has: everything as it comes.
    pub const fn raw() -> Self {
        let mut raw = Self::standard();
        raw.input = InputFlags::empty();
        raw.output = OutputFlags::empty();
        raw.local = LocalFlags::empty();
        raw
    }

    /// As `struct termios` (36 bytes).
    pub fn to_bytes(&self) -> [u8; 36] {
        let mut out = [0; 36];
        out[0..4].copy_from_slice(&self.input.bits().to_ne_bytes());
        out[4..8].copy_from_slice(&self.output.bits().to_ne_bytes());
        out[8..12].copy_from_slice(&self.control.bits().to_ne_bytes());
        out[12..16].copy_from_slice(&self.local.bits().to_ne_bytes());
        out[16] = self.discipline;
        out[17..36].copy_from_slice(&self.chars);
        out
    }

    /// As `struct termios2` (44 bytes): with speeds.
    pub fn to_bytes2(&self) -> [u8; 44] {
        let mut out = [0; 44];
        out[..36].copy_from_slice(&self.to_bytes());
        out[36..40].copy_from_slice(&self.speed.0.to_ne_bytes());
        out[40..44].copy_from_slice(&self.speed.1.to_ne_bytes());
        out
    }

    /// From `struct termios`; the speed follows from `c_cflag`.
    pub fn from_bytes(bytes: &[u8; 36]) -> Self {
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let mut chars = [0; NCCS];
        chars.copy_from_slice(&bytes[17..36]);
        let baud = speed_to_baud(word(8)).unwrap_or(38400);
        Self {
            input: InputFlags::from_bits_retain(word(0)),
            output: OutputFlags::from_bits_retain(word(4)),
            control: ControlFlags::from_bits_retain(word(8)),
            local: LocalFlags::from_bits_retain(word(12)),
            discipline: bytes[16],
            chars,
            speed: (baud, baud),
        }
    }

    /// From `struct termios2`.
    pub fn from_bytes2(bytes: &[u8; 44]) -> Self {
        let mut first = [0; 36];
        first.copy_from_slice(&bytes[..36]);
        let mut termios = Self::from_bytes(&first);
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if termios.control.bits() & ControlFlags::CBAUD.bits() == ControlFlags::BOTHER.bits() {
            termios.speed = (word(36), word(40));
        }
        termios
    }
}

/// The bits per second that `c_cflag` names; `None` for `BOTHER`.
pub fn speed_to_baud(control: u32) -> Option<u32> {
    const LOW: [u32; 16] = [
        0, 50, 75, 110, 134, 150, 200, 300, 600, 1200, 1800, 2400, 4800, 9600, 19200, 38400,
    ];
    const HIGH: [u32; 15] = [
        57600, 115_200, 230_400, 460_800, 500_000, 576_000, 921_600, 1_000_000, 1_152_000, 1_500_000,
        2_000_000, 2_500_000, 3_000_000, 3_500_000, 4_000_000,
    ];
    let code = (control & 0o17) as usize;
    if control & 0o10000 == 0 {
        Some(LOW[code])
    } else {
        HIGH.get(code.checked_sub(1)?).copied()
    }
}
