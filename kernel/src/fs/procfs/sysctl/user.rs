//! `/proc/sys/user`: how many namespaces each user may make, in the user namespace of whoever opens the file.

use super::TREE;
use crate::fs::pseudo::{Node, Text, parse, setting_file};
use crate::task::creds::cap;
use crate::task::current;
use crate::task::ns::{self, user};
use alloc::format;
use alloc::sync::Arc;
use core::fmt::Write;
use limen_linux_abi::Errno;

/// Who may do anything to resources in a user namespace sets its limits; others read them.
fn rights(want: u32) -> bool {
    const READ: u32 = 4;
    const WRITE: u32 = 2;
    let may = || current().with_creds(|creds| creds.capable_own(cap::SYS_RESOURCE));
    want & !(READ | WRITE) == 0 && (want & WRITE == 0 || may())
}

fn limit(kind: ns::Kind) -> Node {
    let open = move |_| {
        let ns = current().creds().user.clone();
        let of = ns.clone();
        let show = move |out: &mut Text| {
            // A lack of memory is told when the text is complete.
            let _ = writeln!(out, "{}", user::limit(&of, kind));
            Ok(())
        };
        let store = move |text: &[u8]| {
            // Whoever writes, not whoever opened it and passed it on.
            if !current().with_creds(|creds| creds.capable_in(&ns, cap::SYS_RESOURCE)) {
                return Err(Errno::EPERM);
            }
            let most: i32 = parse(text)?;
            if most < 0 {
                return Err(Errno::EINVAL);
            }
            user::set_limit(&ns, kind, most);
            Ok(())
        };
        Ok(setting_file(Arc::new(show), Some(Arc::new(store))))
    };
    Node::Decided(0o644, rights, Arc::new(open))
}

/// Registers the settings.
pub fn init() {
    for kind in ns::Kind::ALL {
        TREE.add(&format!("sys/user/max_{}_namespaces", kind.name()), limit(kind));
    }
}
