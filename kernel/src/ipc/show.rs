//! The text of `/proc/sysvipc/shm`, `sem` and `msg`. All objects of the namespace are shown, whoever looks.

use super::ns::Own;
use crate::task::ns::user::{gid_shown, uid_shown};
use core::fmt::Write;
use limen_linux_abi::Errno;

/// How many columns a size has.
const WIDTH: usize = if usize::BITS > 32 { 21 } else { 10 };

/// `/proc/sysvipc/shm`.
pub fn shm<W: Write>(ns: &Own, out: &mut W) -> Result<(), Errno> {
    let mut good = writeln!(
        out,
        "       key      shmid perms {:>WIDTH$}  cpid  lpid nattch   uid   gid  cuid  cgid      atime      \
         dtime      ctime {:>WIDTH$} {:>WIDTH$}",
        "size", "rss", "swap"
    );
    ns.shm().each(|s, id, resident| {
        let p = &s.perm;
        good = good.and_then(|()| {
            writeln!(
                out,
                "{:10} {id:10}  {:4o} {:WIDTH$} {:5} {:5}  {:5} {:5} {:5} {:5} {:5} {:10} {:10} {:10} \
                 {resident:WIDTH$} {:WIDTH$}",
                p.key,
                p.mode,
                s.size,
                s.cpid,
                s.lpid,
                s.attached,
                uid_shown(p.uid),
                gid_shown(p.gid),
                uid_shown(p.cuid),
                gid_shown(p.cgid),
                s.atime,
                s.dtime,
                s.ctime,
                0
            )
        });
    });
    good.map_err(|_| Errno::ENOMEM)
}

/// `/proc/sysvipc/sem`.
pub fn sem<W: Write>(ns: &Own, out: &mut W) -> Result<(), Errno> {
    let mut good = writeln!(
        out,
        "       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime"
    );
    ns.sem().each(|s, id| {
        let p = &s.perm;
        good = good.and_then(|()| {
            writeln!(
                out,
                "{:10} {id:10}  {:4o} {:10} {:5} {:5} {:5} {:5} {:10} {:10}",
                p.key,
                p.mode,
                s.count,
                uid_shown(p.uid),
                gid_shown(p.gid),
                uid_shown(p.cuid),
                gid_shown(p.cgid),
                s.otime,
                s.ctime
            )
        });
    });
    good.map_err(|_| Errno::ENOMEM)
}

/// `/proc/sysvipc/msg`.
pub fn msg<W: Write>(ns: &Own, out: &mut W) -> Result<(), Errno> {
    let mut good = writeln!(
        out,
        "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid \
         \x20    stime      rtime      ctime"
    );
    ns.msg().each(|m, id| {
        let p = &m.perm;
        good = good.and_then(|()| {
            writeln!(
                out,
                "{:10} {id:10}  {:4o}  {:10} {:10} {:5} {:5} {:5} {:5} {:5} {:5} {:10} {:10} {:10}",
                p.key,
                p.mode,
                m.bytes,
                m.count,
                m.lspid,
                m.lrpid,
                uid_shown(p.uid),
                gid_shown(p.gid),
                uid_shown(p.cuid),
                gid_shown(p.cgid),
                m.stime,
                m.rtime,
                m.ctime
            )
        });
    });
    good.map_err(|_| Errno::ENOMEM)
}
