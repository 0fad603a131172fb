//! What programs return to seccomp.

use core::fmt;

/// What is done about a system call. The values are those of `SECCOMP_RET_*`; the order is Linux's, from the
/// strictest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// The process is killed.
    KillProcess,
    /// The thread is killed.
    KillThread,
    /// The thread gets `SIGSYS`, and the call is skipped.
    Trap,
    /// The call returns an error.
    Errno,
    /// A process that listens decides.
    UserNotif,
    /// The tracer decides.
    Trace,
    /// The call is logged and allowed.
    Log,
    /// The call is allowed.
    Allow,
}

impl Action {
    /// All of them, in order.
    pub const ALL: [Self; 8] = [
        Self::KillProcess,
        Self::KillThread,
        Self::Trap,
        Self::Errno,
        Self::UserNotif,
        Self::Trace,
        Self::Log,
        Self::Allow,
    ];

    /// Its value (`SECCOMP_RET_*`).
    pub const fn raw(self) -> u32 {
        match self {
            Self::KillProcess => 0x8000_0000,
            Self::KillThread => 0,
            Self::Trap => 0x0003_0000,
            Self::Errno => 0x0005_0000,
            Self::UserNotif => 0x7fc0_0000,
            Self::Trace => 0x7ff0_0000,
            Self::Log => 0x7ffc_0000,
            Self::Allow => 0x7fff_0000,
        }
    }

    /// The one with exactly this value (`SECCOMP_GET_ACTION_AVAIL`).
    pub fn from_raw(raw: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.raw() == raw)
    }

    /// Its name in `/proc/sys/kernel/seccomp`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::KillProcess => "kill_process",
            Self::KillThread => "kill_thread",
            Self::Trap => "trap",
            Self::Errno => "errno",
            Self::UserNotif => "user_notif",
            Self::Trace => "trace",
            Self::Log => "log",
            Self::Allow => "allow",
        }
    }
}

/// The text of `/proc/sys/kernel/seccomp/actions_avail`, without the end of the line.
pub const ACTIONS_AVAIL: &str = "kill_process kill_thread trap errno user_notif trace log allow";

/// The part of a program's result that is the action (`SECCOMP_RET_ACTION_FULL`).
const ACTION: u32 = 0xffff_0000;
/// The largest error that a call returns (`MAX_ERRNO`).
const MAX_ERRNO: u16 = 4095;

/// What a program returned: an action, and data for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict(pub u32);

impl Verdict {
    /// What is done. Values that Linux does not know kill the process.
    pub fn action(self) -> Action {
        Action::from_raw(self.0 & ACTION).unwrap_or(Action::KillProcess)
    }

    /// The data (`SECCOMP_RET_DATA`).
    pub fn data(self) -> u16 {
        self.0 as u16
    }

    /// The error that the call returns if the action is [`Action::Errno`]; 0 is success.
    pub fn errno(self) -> u16 {
        self.data().min(MAX_ERRNO)
    }

    /// Whether it prevails over one of a newer filter. What counts is the action's value, signed, even if it
    /// is none that Linux knows; the data do not.
    pub fn stricter(self, than: Self) -> bool {
        let rank = |verdict: Self| (verdict.0 & ACTION).cast_signed();
        rank(self) < rank(than)
    }

    /// What several filters come to, from the newest on: their verdict, and whose it is. If all allow the
    /// call, it is nobody's and has no data. Every filter is run.
    ///
    /// No filters at all kill the process, as in Linux: who asks has some.
    pub fn of_all<F>(
        filters: impl IntoIterator<Item = F>,
        mut run: impl FnMut(&F) -> u32,
    ) -> (Self, Option<F>) {
        let mut strictest = (Self(Action::Allow.raw()), None);
        let mut none = true;
        for filter in filters {
            none = false;
            let verdict = Self(run(&filter));
            if verdict.stricter(strictest.0) {
                strictest = (verdict, Some(filter));
            }
        }
        match none {
            true => (Self(Action::KillProcess.raw()), None),
            false => strictest,
        }
    }
}

/// Which actions are logged (`/proc/sys/kernel/seccomp/actions_logged`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logged(u8);

/// A text does not name actions that can be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotActions;

impl Logged {
    /// All that can be: every one but [`Action::Allow`]. This is what Linux starts with.
    pub const ALL: Self = Self(0x7f);

    /// The ones in `bits`, as [`Self::bits`] gave them.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & Self::ALL.0)
    }

    /// A number for them, for an atomic.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Reads names with one space between them. As in Linux the text ends where a name is empty: at two
    /// spaces, or one at its start.
    ///
    /// # Errors
    ///
    /// It has a name that no action has, or that of [`Action::Allow`] (`EINVAL`).
    pub fn parse(text: &str) -> Result<Self, NotActions> {
        let mut logged = 0;
        for name in text.split(' ').take_while(|name| !name.is_empty()) {
            let mut actions = Action::ALL.into_iter();
            let action = actions.find(|action| action.name() == name);
            logged |= 1u8 << action.ok_or(NotActions)? as u8;
        }
        match logged & !Self::ALL.0 {
            0 => Ok(Self(logged)),
            _ => Err(NotActions),
        }
    }

    /// Whether it has this action.
    pub fn has(self, action: Action) -> bool {
        self.0 >> action as u8 & 1 != 0
    }

    /// Whether a call with this action is logged. `requested`: the filter wants its actions logged
    /// (`SECCOMP_FILTER_FLAG_LOG`). Kills and [`Action::Log`] need no such wish.
    pub fn logs(self, action: Action, requested: bool) -> bool {
        use Action::{Errno, Trace, Trap, UserNotif};
        let only_if_requested = matches!(action, Trap | Errno | UserNotif | Trace);
        self.has(action) && (requested || !only_if_requested)
    }
}

/// The names, in order, with one space between them.
impl fmt::Display for Logged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for action in Action::ALL.into_iter().filter(|action| self.has(*action)) {
            write!(f, "{between}{}", action.name())?;
            between = " ";
        }
        Ok(())
    }
}
