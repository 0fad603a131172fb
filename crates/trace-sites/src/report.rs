//! Lines of `available_filter_functions`, `available_filter_functions_addrs`, `enabled_functions` and
//! `touched_functions`, each with its end.

use crate::Name;
use crate::sets::Flags;
use core::fmt;

/// Text that a program has written: what is no UTF-8 is shown as U+FFFD.
pub(crate) struct Text<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            f.write_str(chunk.valid())?;
            if !chunk.invalid().is_empty() {
                f.write_str("\u{fffd}")?;
            }
        }
        Ok(())
    }
}

/// A line of `available_filter_functions`: `schedule`, `open [ext4]`. With an address, one of
/// `available_filter_functions_addrs`.
#[derive(Clone, Copy, Debug)]
pub struct Available<'a> {
    /// What it is called.
    pub name: Name<'a>,
    /// Where its branch is.
    pub address: Option<usize>,
}

impl fmt::Display for Available<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(address) = self.address {
            write!(f, "{address:x} ")?;
        }
        writeln!(f, "{}", self.name)
    }
}

/// Ops, or a trampoline, and what they call; shown as symbols with offsets and sizes.
#[derive(Clone, Copy)]
pub struct Called<'a> {
    /// The ops, or the trampoline.
    pub by: &'a dyn fmt::Display,
    /// What they call.
    pub function: &'a dyn fmt::Display,
}

/// A line of `enabled_functions` or `touched_functions`:
/// `name [module] (1) R I D O M ` + `\ttramp: symbol (symbol)\tops: symbol (symbol)`, and if there is a
/// function that is called directly a second line `\tdirect-->symbol`. Letters that do not apply are blanks.
///
/// O, that ops are found through the site itself, is true of each that is traced here. The ops are all of
/// the site's, in the order in which they are called (in Linux: one, or a list of all in the system).
pub struct Enabled<'a, T, P> {
    /// What it is called.
    pub name: Name<'a>,
    /// What is known of it.
    pub flags: Flags,
    /// The trampoline its branch goes to, if it is not the common one.
    pub trampoline: T,
    /// Its ops.
    pub ops: P,
    /// The function that is called directly.
    pub direct: Option<&'a dyn fmt::Display>,
}

impl<'a, T, P> fmt::Display for Enabled<'_, T, P>
where
    T: IntoIterator<Item = Called<'a>> + Clone,
    P: IntoIterator<Item = Called<'a>> + Clone,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = &self.flags;
        write!(f, "{} ({})", self.name, flags.count)?;
        for (set, cell) in [
            (flags.regs, " R"),
            (flags.ip_modify, " I"),
            (flags.direct.is_some(), " D"),
            (flags.count > 0, " O"),
            (flags.modified, " M "),
        ] {
            f.write_str(if set { cell } else { &"   "[..cell.len()] })?;
        }
        for called in self.trampoline.clone() {
            write!(f, "\ttramp: {} ({})", called.by, called.function)?;
        }
        for called in self.ops.clone() {
            write!(f, "\tops: {} ({})", called.by, called.function)?;
        }
        if let Some(direct) = self.direct {
            write!(f, "\n\tdirect-->{direct}")?;
        }
        f.write_str("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const NAME: Name<'_> = Name {
        function: "open",
        module: Some("ext4"),
    };

    #[test]
    fn available() {
        let kernel = Name {
            function: "schedule",
            module: None,
        };
        assert_eq!(
            Available {
                name: kernel,
                address: None
            }
            .to_string(),
            "schedule\n"
        );
        assert_eq!(
            Available {
                name: NAME,
                address: Some(0xffff_8000)
            }
            .to_string(),
            "ffff8000 open [ext4]\n"
        );
    }

    #[test]
    fn enabled() {
        let ops = Called {
            by: &"ops+0x0/0x20",
            function: &"handler+0x0/0x40",
        };
        let mut line = Enabled {
            name: NAME,
            flags: Flags {
                count: 1,
                ..Flags::default()
            },
            trampoline: None,
            ops: [ops],
            direct: None,
        };
        assert_eq!(
            line.to_string(),
            "open [ext4] (1)       O   \tops: ops+0x0/0x20 (handler+0x0/0x40)\n"
        );
        line.flags = Flags {
            count: 2,
            regs: true,
            ip_modify: true,
            direct: Some(1),
            touched: true,
            modified: true,
        };
        line.trampoline = Some(ops);
        line.direct = Some(&"direct+0x0/0x10");
        assert_eq!(
            line.to_string(),
            "open [ext4] (2) R I D O M \ttramp: ops+0x0/0x20 (handler+0x0/0x40)\
             \tops: ops+0x0/0x20 (handler+0x0/0x40)\n\tdirect-->direct+0x0/0x10\n"
        );
    }
}
