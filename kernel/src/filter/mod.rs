//! Who decides about a system call before it runs: syscall user dispatch, seccomp, views of the table. The
//! threshold asks them on each call of a thread whose work word says so, and in Linux's order. What threads
//! have chosen is in `task::dispatch`, `task::seccomp` and `task::calls`.

#![forbid(unsafe_code)]

pub mod dispatch;
mod log;
pub mod seccomp;
pub mod view;
