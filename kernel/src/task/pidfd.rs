//! Descriptors that stand for processes.

use super::access::{self, By};
use super::ns::pid::{PidRef, each_down_to};
use super::ns::{self, Kind};
use super::{ExitState, Process, current};
use crate::fs::anon;
use crate::fs::file::{File, FileMode, FileOps};
use crate::fs::nsfs;
use crate::fs::poll::{PollEvents, PollTable};
use alloc::sync::Arc;
use core::fmt::Write;
use limen_linux_abi::native::ioc;
use limen_linux_abi::{Errno, SysResult, raw::general as abi};

/// `PIDFD_GET_*_NAMESPACE`: commands, kinds, and whether they are those of the thread's children.
const NAMESPACES: [(u32, Kind, bool); 10] = [
    (command(1), Kind::Cgroup, false),
    (command(2), Kind::Ipc, false),
    (command(3), Kind::Mnt, false),
    (command(4), Kind::Net, false),
    (command(5), Kind::Pid, false),
    (command(6), Kind::Pid, true),
    (command(7), Kind::Time, false),
    (command(8), Kind::Time, true),
    (command(9), Kind::User, false),
    (command(10), Kind::Uts, false),
];

/// `PIDFS_IOCTL_MAGIC`.
const fn command(number: u8) -> u32 {
    ioc::none(0xff, number)
}

struct PidFd {
    process: Arc<Process>,
}

impl FileOps for PidFd {
    fn poll(&self, _: &File, table: Option<&mut PollTable<'_>>) -> PollEvents {
        if let Some(table) = table {
            table.register(&self.process.exit_wait);
        }
        match self.process.exit_state() {
            ExitState::Alive => PollEvents::empty(),
            ExitState::Zombie => PollEvents::READABLE,
            ExitState::Dead => PollEvents::READABLE | PollEvents::HUP,
        }
    }

    fn ioctl(&self, _: &File, cmd: u32, arg: usize) -> SysResult {
        if arg != 0 {
            return Err(Errno::EINVAL);
        }
        let task = self.process.leader().ok_or(Errno::ESRCH)?;
        ns::set_of(&task).ok_or(Errno::ESRCH)?;
        let found = access::look(&task, By::Files, |_| {
            NAMESPACES
                .iter()
                .find(|(command, ..)| *command == cmd)
                .map(|&(_, kind, children)| match children {
                    true => ns::for_children(&task, kind),
                    false => ns::of_task(&task, kind),
                })
        });
        let found = found.map_err(|_| Errno::EACCES)?.ok_or(Errno::ENOTTY)?;
        nsfs::open_namespace(found.ok_or(Errno::ESRCH)?)
    }

    fn show_fdinfo_in(&self, _: &File, ns: &PidRef, out: &mut crate::fs::pseudo::Text) {
        let process = &self.process;
        let number = process.number_in(ns);
        // Writing to a string does not fail.
        let _ = match process.exit_state() {
            ExitState::Dead => write!(out, "Pid:\t-1\nNSpid:\t-1"),
            _ => write!(out, "Pid:\t{number}\nNSpid:\t{number}"),
        };
        // Nothing more is told of what is not seen from there.
        if number != 0 && process.exit_state() != ExitState::Dead {
            let mut first = true;
            each_down_to(ns, &process.pid_ns, &mut |level| {
                if !core::mem::take(&mut first) {
                    let _ = write!(out, "\t{}", process.number_in(level));
                }
            });
        }
        out.add(b"\n");
    }
}

/// A file that stands for `process`. `flags` may have `PIDFD_NONBLOCK` (`O_NONBLOCK`). `ENFILE`.
pub fn file(process: &Arc<Process>, flags: u32) -> Result<Arc<File>, Errno> {
    anon::file(
        "[pidfd]",
        Arc::new(PidFd {
            process: process.clone(),
        }),
        abi::O_RDWR | flags,
        FileMode::STREAM | FileMode::NO_READ | FileMode::NO_WRITE,
    )
}

/// Opens a pidfd for `process`. `flags` as for [`file()`].
pub fn open(process: &Arc<Process>, flags: u32) -> Result<i32, Errno> {
    current().files().install(file(process, flags)?, true)
}

/// The process for which descriptor `fd` stands, and whether the descriptor is non-blocking. `EBADF`: it is
/// no pidfd.
pub fn process_and_mode(fd: i32) -> Result<(Arc<Process>, bool), Errno> {
    let file = current().file(fd)?;
    let pidfd = file.ops().downcast::<PidFd>().ok_or(Errno::EBADF)?;
    Ok((pidfd.process.clone(), file.nonblocking()))
}

/// The process to which signals through descriptor `fd` go. `fd` is a pidfd, or a directory of procfs.
/// `EBADF`.
pub fn signal_target(fd: i32) -> Result<Arc<Process>, Errno> {
    let file = current().file(fd)?;
    match file.ops().downcast::<PidFd>() {
        Some(pidfd) => Ok(pidfd.process.clone()),
        None => {
            let subject = file.inode().ops.subject().filter(|subject| !subject.thread);
            subject.map(|subject| subject.process.clone()).ok_or(Errno::EBADF)
        }
    }
}

/// The process for which descriptor `fd` stands. `EBADF`.
pub fn process_of(fd: i32) -> Result<Arc<Process>, Errno> {
    process_and_mode(fd).map(|(process, _)| process)
}
