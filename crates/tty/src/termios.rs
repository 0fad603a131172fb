//! Terminal settings: flags, control characters, speeds, and their layouts in user memory. Numbers that
//! differ between ABIs come from `limen_linux_abi`, so settings are kept as programs have them.

#![allow(missing_docs)] // the flags have the names of termios(3), which says what they do

use bitflags::bitflags;

/// How many control characters a terminal has.
pub const NCCS: usize = 19;

use limen_linux_abi::native::termios as native;

/// Indices of the control characters.
pub mod cc {
    pub use super::native::{
        VDISCARD, VEOF, VEOL, VEOL2, VERASE, VINTR, VKILL, VLNEXT, VMIN, VQUIT, VREPRINT, VSTART, VSTOP,
        VSUSP, VTIME, VWERASE,
    };
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
        const IUCLC = native::IUCLC;
        const IXON = native::IXON;
        const IXANY = 0o4000;
        const IXOFF = native::IXOFF;
        const IMAXBEL = native::IMAXBEL;
        const IUTF8 = native::IUTF8;
        const _ = !0;
    }
}

bitflags! {
    /// `c_oflag`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OutputFlags: u32 {
        const OPOST = 0o1;
        const OLCUC = native::OLCUC;
        const ONLCR = native::ONLCR;
        const OCRNL = 0o10;
        const ONOCR = 0o20;
        const ONLRET = 0o40;
        const OFILL = 0o100;
        /// Both bits of `TABDLY`: tabs become spaces.
        const XTABS = native::XTABS;
        const _ = !0;
    }
}

bitflags! {
    /// `c_cflag`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ControlFlags: u32 {
        const CBAUD = native::CBAUD;
        const CS8 = native::CS8;
        const CSTOPB = native::CSTOPB;
        const CREAD = native::CREAD;
        const PARENB = native::PARENB;
        const PARODD = native::PARODD;
        const HUPCL = native::HUPCL;
        const CLOCAL = native::CLOCAL;
        /// An arbitrary speed, in `c_ospeed`.
        const BOTHER = native::BOTHER;
        const _ = !0;
    }
}

bitflags! {
    /// `c_lflag`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LocalFlags: u32 {
        const ISIG = native::ISIG;
        const ICANON = native::ICANON;
        const XCASE = native::XCASE;
        const ECHO = native::ECHO;
        const ECHOE = native::ECHOE;
        const ECHOK = native::ECHOK;
        const ECHONL = native::ECHONL;
        const NOFLSH = native::NOFLSH;
        const TOSTOP = native::TOSTOP;
        const ECHOCTL = native::ECHOCTL;
        const ECHOPRT = native::ECHOPRT;
        const ECHOKE = native::ECHOKE;
        const FLUSHO = native::FLUSHO;
        const PENDIN = native::PENDIN;
        const IEXTEN = native::IEXTEN;
        const EXTPROC = native::EXTPROC;
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
    /// Properties of the line.
    pub control: ControlFlags,
    /// Editing, echo, signals.
    pub local: LocalFlags,
    /// The line discipline's number (0).
    pub discipline: u8,
    /// Control characters. 0 means "none".
    pub chars: [u8; NCCS],
    /// Input and output speed, bits per second.
    pub speed: (u32, u32),
}

/// `B9600`.
pub const B9600: u32 = 0o15;
/// `B38400`, the speed of a new terminal.
const B38400: u32 = 0o17;
/// The size of `struct termios` in bytes.
pub const SIZE: usize = native::SIZE;
/// The size in bytes of `struct termios2`, or of a `struct termios` that has speeds.
pub const SIZE2: usize = 44;

impl Termios {
    /// The settings of a new terminal on Linux (`tty_std_termios`).
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

    /// The settings of a pseudo-terminal's master: no processing.
    pub const fn raw() -> Self {
        let mut raw = Self::standard();
        raw.input = InputFlags::empty();
        raw.output = OutputFlags::empty();
        raw.local = LocalFlags::empty();
        raw
    }

    /// As `struct termios2`: with speeds.
    pub fn to_bytes2(&self) -> [u8; SIZE2] {
        let mut out = [0; SIZE2];
        out[0..4].copy_from_slice(&self.input.bits().to_ne_bytes());
        out[4..8].copy_from_slice(&self.output.bits().to_ne_bytes());
        out[8..12].copy_from_slice(&self.control.bits().to_ne_bytes());
        out[12..16].copy_from_slice(&self.local.bits().to_ne_bytes());
        out[native::LINE_AT] = self.discipline;
        out[native::CHARS_AT..native::CHARS_AT + NCCS].copy_from_slice(&self.chars);
        out[36..40].copy_from_slice(&self.speed.0.to_ne_bytes());
        out[40..44].copy_from_slice(&self.speed.1.to_ne_bytes());
        out
    }

    /// As `struct termios`, which ends before the speeds on most ABIs.
    pub fn to_bytes(&self) -> [u8; SIZE] {
        let mut out = [0; SIZE];
        out.copy_from_slice(&self.to_bytes2()[..SIZE]);
        out
    }

    /// From `struct termios`. If it has no speeds, they follow from `c_cflag`.
    pub fn from_bytes(bytes: &[u8; SIZE]) -> Self {
        let mut full = [0; SIZE2];
        full[..SIZE].copy_from_slice(bytes);
        let mut termios = Self::from_bytes2(&full);
        if SIZE < SIZE2 && speed_to_baud(termios.control.bits()).is_none() {
            termios.speed = (38400, 38400);
        }
        termios
    }

    /// From `struct termios2`. Its speeds are used if `c_cflag` has `BOTHER`.
    pub fn from_bytes2(bytes: &[u8; SIZE2]) -> Self {
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let mut chars = [0; NCCS];
        chars.copy_from_slice(&bytes[native::CHARS_AT..native::CHARS_AT + NCCS]);
        let named = |control: u32| speed_to_baud(control).map(|baud| (baud, baud));
        Self {
            input: InputFlags::from_bits_retain(word(0)),
            output: OutputFlags::from_bits_retain(word(4)),
            control: ControlFlags::from_bits_retain(word(8)),
            local: LocalFlags::from_bits_retain(word(12)),
            discipline: bytes[native::LINE_AT],
            chars,
            speed: named(word(8)).unwrap_or((word(36), word(40))),
        }
    }
}

/// The speed in bits per second that `c_cflag` names. `None`: `BOTHER`.
pub fn speed_to_baud(control: u32) -> Option<u32> {
    const SPEEDS: [u32; 31] = [
        0, 50, 75, 110, 134, 150, 200, 300, 600, 1200, 1800, 2400, 4800, 9600, 19200, 38400, 57600, 115_200,
        230_400, 460_800, 500_000, 576_000, 921_600, 1_000_000, 1_152_000, 1_500_000, 2_000_000, 2_500_000,
        3_000_000, 3_500_000, 4_000_000,
    ];
    let code = control & native::CBAUD;
    if code == native::BOTHER {
        return None;
    }
    // The faster half has a bit of its own, or continues the numbers.
    #[allow(
        clippy::bad_bit_mask,
        reason = "where it simply goes on counting there is no such bit"
    )]
    let faster = if code & native::CBAUDEX != 0 { 15 } else { 0 };
    SPEEDS.get((code & !native::CBAUDEX) as usize + faster).copied()
}
