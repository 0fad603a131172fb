//! `/proc/sys/user`: how many namespaces each user may make, in the user namespace of whoever reads and writes.

use super::number::Hook;
use super::{Kind, Number, Setting};
use crate::task::creds::cap;
use crate::task::current;
use crate::task::ns::{self, user};

const MAX: i64 = i32::MAX as i64;

/// Who may do anything to resources in a user namespace sets its limits; others read them.
fn rights(mode: u32, want: u32) -> bool {
    let may = current().with_creds(|creds| creds.capable_in(&creds.user, cap::SYS_RESOURCE));
    let bits = if may { mode >> 6 } else { mode & 4 };
    want & !bits & 7 == 0
}

macro_rules! limits {
    ($($static:ident: $path:literal, $kind:ident;)*) => {
        $(
            static $static: Hook = Hook(
                || current().with_creds(|creds| user::limit(&creds.user, ns::Kind::$kind).into()),
                |most| current().with_creds(|creds| user::set_limit(&creds.user, ns::Kind::$kind, most as i32)),
            );
        )*
        /// The table.
        pub static SETTINGS: &[Setting] = &[$(
            Setting::new($path, 0o644, Kind::Ints(&[Number::new(&$static, 0, MAX)])).with_rights(rights),
        )*];
    };
}

limits! {
    CGROUP: "user/max_cgroup_namespaces", Cgroup;
    IPC: "user/max_ipc_namespaces", Ipc;
    MNT: "user/max_mnt_namespaces", Mnt;
    NET: "user/max_net_namespaces", Net;
    PID: "user/max_pid_namespaces", Pid;
    TIME: "user/max_time_namespaces", Time;
    USER: "user/max_user_namespaces", User;
    UTS: "user/max_uts_namespaces", Uts;
}
