//! Which functions are traced: the files of filters, the lists of processes, and what there is to choose
//! from.

use super::instance::{Row, number, setting, shown, special};
use super::{BOTH, READ};
use crate::fs::file::{File, FileOps};
use crate::fs::io::{IoDst, IoSrc};
use crate::fs::pseudo::{Text, setting_file};
use crate::ftrace::function::Functions;
use crate::ftrace::graph;
use crate::ftrace::ops::{self, errno};
use crate::ftrace::threads::List;
use crate::ftrace::{modules, names, site, stack_tracer};
use crate::mm::reserve::handling;
use crate::sync::Mutex;
use crate::trace::symbols::Symbol;
use crate::tracing::{Instance, Special, Use};
use alloc::sync::Arc;
use core::fmt::{Display, Write};
use limen_linux_abi::{Errno, SysResult, raw::general as abi};
use limen_trace_sites::command::{self, Command, File as Kind};
use limen_trace_sites::filter::Which;
use limen_trace_sites::hash::Hash;
use limen_trace_sites::pids;
use limen_trace_sites::report::{Available, Enabled};
use limen_trace_sites::sets::Flags;
use limen_trace_sites::tokens::Tokens;
use limen_trace_sites::{Names, Site};

pub const ROWS: &[Row] = &[
    Row {
        name: "available_filter_functions",
        only_top: true,
        node: |instance| shown(READ, instance, |_, out| show_available(out, false)),
    },
    Row {
        name: "available_filter_functions_addrs",
        only_top: true,
        node: |instance| shown(READ, instance, |_, out| show_available(out, true)),
    },
    Row {
        name: "enabled_functions",
        only_top: true,
        node: |instance| shown(READ, instance, show_enabled),
    },
    Row {
        name: "touched_functions",
        only_top: true,
        node: |instance| shown(READ, instance, show_touched),
    },
    Row {
        name: "set_ftrace_filter",
        only_top: false,
        node: |instance| {
            special(BOTH, instance, |used, flags| {
                open(used, flags, Set::Calls(Which::Filter))
            })
        },
    },
    Row {
        name: "set_ftrace_notrace",
        only_top: false,
        node: |instance| {
            special(BOTH, instance, |used, flags| {
                open(used, flags, Set::Calls(Which::Notrace))
            })
        },
    },
    Row {
        name: "set_graph_function",
        only_top: true,
        node: |instance| {
            special(BOTH, instance, |used, flags| {
                open(used, flags, Set::Graph(Which::Filter))
            })
        },
    },
    Row {
        name: "set_graph_notrace",
        only_top: true,
        node: |instance| {
            special(BOTH, instance, |used, flags| {
                open(used, flags, Set::Graph(Which::Notrace))
            })
        },
    },
    Row {
        name: "stack_trace_filter",
        only_top: true,
        node: |instance| special(BOTH, instance, |used, flags| open(used, flags, Set::Stack)),
    },
    Row {
        name: "max_graph_depth",
        only_top: true,
        node: |instance| setting(BOTH, instance, show_depth, store_depth),
    },
    Row {
        name: "set_ftrace_pid",
        only_top: false,
        node: |instance| list(instance, List::Only),
    },
    Row {
        name: "set_ftrace_notrace_pid",
        only_top: false,
        node: |instance| list(instance, List::Not),
    },
];

/// The longest word of a file of filters.
const WORD: usize = 1024;
/// How much of a file of filters is written at once, bytes.
const AT_ONCE: usize = 4096;

fn show_available(out: &mut Text, addresses: bool) -> Result<(), Errno> {
    for (site, name) in names::known()?.named() {
        let address = site::address(site.0 as usize).filter(|_| addresses);
        let _ = write!(out, "{}", Available { name, address });
    }
    Ok(())
}

fn write_traced(names: &impl Names, site: Site, flags: Flags, out: &mut Text) {
    if let Some(name) = names.name(site) {
        let direct = flags.direct.map(Symbol);
        let line = Enabled {
            name,
            flags,
            trampoline: None,
            ops: None,
            direct: direct.as_ref().map(|direct| direct as &dyn Display),
        };
        let _ = write!(out, "{line}");
    }
}

fn show_enabled(_: &Arc<Instance>, out: &mut Text) -> Result<(), Errno> {
    let names = names::known()?;
    ops::each_traced(|site, flags, _| write_traced(&names, site, flags, out))
}

fn show_touched(_: &Arc<Instance>, out: &mut Text) -> Result<(), Errno> {
    let names = names::known()?;
    ops::each_touched(|site, flags| write_traced(&names, site, flags, out));
    Ok(())
}

fn show_depth(_: &Arc<Instance>, out: &mut Text) -> Result<(), Errno> {
    let _ = writeln!(out, "{}", graph::max_depth());
    Ok(())
}

fn store_depth(_: &Arc<Instance>, bytes: &[u8]) -> Result<(), Errno> {
    let depth = u32::try_from(number(bytes)?).map_err(|_| Errno::ERANGE)?;
    graph::set_max_depth(depth)
}

/// What a file of filters is about.
#[derive(Clone, Copy)]
enum Set {
    /// The functions that an instance traces.
    Calls(Which),
    /// Those whose calls `function_graph` traces, with what they call.
    Graph(Which),
    /// Those at which the stack tracer looks.
    Stack,
}

/// A file of filters that is written: what it will hold when it is closed.
struct Written {
    used: Use,
    /// Functions of modules keep their numbers as long as it may take the filter's place.
    _copy: modules::Copy,
    set: Set,
    state: Mutex<(Hash, Tokens)>,
    shown: Arc<dyn FileOps>,
}

fn open(used: Use, flags: u32, set: Set) -> Result<Arc<dyn FileOps>, Errno> {
    let functions = Functions::of(&used)?;
    let copy = modules::Copy::new();
    let listed = functions.clone();
    let show = move |out: &mut Text| {
        let names = names::known()?;
        let _ = match set {
            Set::Calls(which) => {
                let filter = listed.with_filter(|filter| filter.list(which, &names, out));
                match which {
                    Which::Filter => filter.and_then(|()| listed.probes.list(&names, out)),
                    Which::Notrace => filter,
                }
            }
            Set::Graph(which) => graph::with_hash(which, |hash| hash.list(&names, which.empty_text(), out)),
            Set::Stack => stack_tracer::with_hash(|hash| hash.list(&names, Which::Filter.empty_text(), out)),
        };
        Ok(())
    };
    let shown = setting_file(Arc::new(show), None);
    if flags & abi::O_ACCMODE == abi::O_RDONLY {
        return Ok(Arc::new(Read { _used: used, shown }));
    }
    let hash = if flags & abi::O_TRUNC != 0 {
        Hash::new()
    } else {
        match set {
            Set::Calls(which) => functions.hash(which)?,
            Set::Graph(which) => graph::with_hash(which, Hash::try_clone).map_err(errno)?,
            Set::Stack => handling(|| stack_tracer::with_hash(Hash::try_clone)).map_err(errno)?,
        }
    };
    Ok(Arc::new(Written {
        used,
        _copy: copy,
        set,
        state: Mutex::new((hash, Tokens::new(WORD))),
        shown,
    }))
}

/// A file of filters that is only read.
struct Read {
    _used: Use,
    shown: Arc<dyn FileOps>,
}

impl FileOps for Read {
    fn read(&self, file: &File, dst: &mut IoDst<'_>, pos: Option<u64>) -> SysResult {
        self.shown.read(file, dst, pos)
    }
}

impl Written {
    fn apply(&self, hash: &mut Hash, word: &[u8]) -> Result<(), Errno> {
        let kind = match self.set {
            Set::Calls(Which::Filter) => Kind::Filter,
            // It has no actions either.
            Set::Calls(Which::Notrace) | Set::Stack => Kind::Notrace,
            Set::Graph(_) => Kind::Graph,
        };
        match command::parse(word, kind).map_err(errno)? {
            Command::Select(select) => {
                let names = names::known()?;
                handling(|| hash.apply(&names, &select)).map_err(errno)
            }
            Command::Probe {
                remove,
                functions,
                probe,
            } => {
                let probes = &Functions::of(&self.used)?.probes;
                match remove {
                    true => probes.remove(functions, &probe),
                    false => probes.add(&self.used, functions, &probe),
                }
            }
        }
    }
}

impl FileOps for Written {
    fn read(&self, file: &File, dst: &mut IoDst<'_>, pos: Option<u64>) -> SysResult {
        self.shown.read(file, dst, pos)
    }
    fn write(&self, _: &File, src: &mut IoSrc<'_>, _: Option<u64>) -> SysResult {
        // The rest is for another write, so that a signal can come between.
        let mut bytes = crate::mm::copy::zeroed(src.remaining().min(AT_ONCE))?;
        let len = src.take(&mut bytes)?;
        let mut text = bytes.get(..len).unwrap_or_default();
        let mut state = self.state.lock();
        let (hash, tokens) = &mut *state;
        while let Some(word) = tokens.next(&mut text).map_err(errno)? {
            self.apply(hash, word)?;
        }
        Ok(len)
    }
    fn release(&self, _: &File) {
        let mut state = self.state.lock();
        let (hash, tokens) = &mut *state;
        let mut hash = core::mem::replace(hash, Hash::new());
        // Nobody hears of what is wrong now.
        if let Some(word) = tokens.last() {
            let _ = self.apply(&mut hash, word);
        }
        let _ = match self.set {
            Set::Calls(which) => {
                Functions::of(&self.used).and_then(|functions| functions.set_hash(&self.used, which, hash))
            }
            Set::Graph(which) => graph::set_hash(which, hash),
            Set::Stack => stack_tracer::set_hash(hash),
        };
    }
}

/// A file with a list of processes.
fn list(instance: &Arc<Instance>, list: List) -> crate::fs::pseudo::Node {
    special(BOTH, instance, move |used, flags| {
        let functions = Functions::of(&used)?;
        let writes = flags & abi::O_ACCMODE != abi::O_RDONLY;
        if writes && flags & abi::O_TRUNC != 0 {
            let told = |any| used.set_special(Special::THREADS, any);
            functions.shared.threads.clear(list, told)?;
        }
        let shown = functions.clone();
        let show = move |out: &mut Text| {
            let empty = match list {
                List::Only => "no pid",
                List::Not => "",
            };
            shown.shared.threads.with(list, |pids| {
                let _ = match pids {
                    None if !empty.is_empty() => writeln!(out, "{empty}"),
                    pids => write!(out, "{}", pids::Shown(pids)),
                };
            });
            Ok(())
        };
        let store = move |bytes: &[u8]| {
            let told = |any| used.set_special(Special::THREADS, any);
            functions.shared.threads.add(list, bytes, told)
        };
        Ok(setting_file(Arc::new(show), Some(Arc::new(store))))
    })
}
