//! What programs see of modules: `/proc/modules` and `/sys/module`.

use super::list::{self, Module, State};
use super::params;
use crate::fs::inode::FileType;
use crate::fs::procfs::{self, system::shows_addresses};
use crate::fs::pseudo::{Directory, Node, Store, Text};
use crate::fs::sysfs;
use crate::mm::reserve::room;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use limen_linux_abi::Errno;

/// How many hexadecimal digits an address has.
const DIGITS: usize = 2 * size_of::<usize>();

/// An address as `%px` shows it, or zero where it is hidden.
fn address(address: usize) -> String {
    let address = if shows_addresses() { address } else { 0 };
    format!("0x{address:0DIGITS$x}")
}

/// Those that use a module's exports, the newest first.
fn users(module: &Arc<Module>) -> Vec<Arc<Module>> {
    let mut all = list::all().unwrap_or_default();
    all.retain(|other| other.is_user_of(module));
    all
}

/// A line for each module: name, bytes, how many use it, who, state, address, marks.
fn modules(out: &mut Text) -> Result<(), Errno> {
    for module in list::all()? {
        let Some(body) = module.body() else { continue };
        let (core, init) = body.sizes();
        let _ = write!(out, "{} {} {} ", module.name, core + init, module.shown_users());
        let mut alone = true;
        for user in users(&module) {
            alone = false;
            let _ = write!(out, "{},", user.name);
        }
        if body.start.is_some() && body.exit.is_none() {
            alone = false;
            out.add(b"[permanent],");
        }
        if alone {
            out.add(b"-");
        }
        let (state, sign) = match module.state() {
            State::Unformed | State::Coming => ("Loading", "+"),
            State::Live => ("Live", ""),
            State::Going | State::Gone => ("Unloading", "-"),
        };
        let (at, taints) = (address(body.core.start), body.taints);
        let _ = writeln!(out, " {state} {at} ({taints}{sign})");
    }
    Ok(())
}

/// A name in one of the directories, and what is there.
type Named = (Vec<u8>, Node);

/// A directory whose names are made up when it is read.
struct Made(Arc<dyn Fn() -> Vec<Named> + Send + Sync>);

impl Directory for Made {
    fn get(&self, name: &[u8]) -> Option<Node> {
        let found = (self.0)().into_iter().find(|(known, _)| known == name);
        found.map(|(_, node)| node)
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        for (i, (name, node)) in (self.0)().iter().enumerate().skip(pos.saturating_sub(2) as usize) {
            if !add(name, node.kind(), i as u64 + 3) {
                return;
            }
        }
    }
}

/// `ENODEV`: it has been unloaded since the file was opened.
fn there(module: &Module) -> Result<(), Errno> {
    if module.state() == State::Gone {
        Err(Errno::ENODEV)
    } else {
        Ok(())
    }
}

/// A directory of a module. Whoever has it open finds nothing there any more when the module is gone.
fn directory(of: &Arc<Module>, names: impl Fn(&Arc<Module>) -> Vec<Named> + Send + Sync + 'static) -> Node {
    let of = of.clone();
    let names = move || there(&of).map_or(Vec::new(), |()| names(&of));
    Node::Directory(0o755, Arc::new(Made(Arc::new(names))))
}

/// A file with a line about a module.
fn line(of: &Arc<Module>, text: impl Fn(&Module) -> String + Send + Sync + 'static) -> Node {
    let of = of.clone();
    Node::text(move |out| {
        there(&of)?;
        let _ = writeln!(out, "{}", text(&of));
        Ok(())
    })
}

/// `parameters`: those with a mode, and with a variable that stays.
fn parameters(module: &Arc<Module>) -> Vec<Named> {
    let named = module.body().map_or(&[][..], |body| &body.parameters);
    let mut files = Vec::new();
    for (index, named) in named.iter().enumerate() {
        let parameter = &named.parameter;
        if parameter.mode == 0 || parameter.variable.part.is_init() {
            continue;
        }
        let of = module.clone();
        let show = move |out: &mut Text| match of.body().and_then(|body| body.parameters.get(index)) {
            Some(named) => params::show(&of, named, out),
            None => Err(Errno::ENODEV),
        };
        let of = module.clone();
        let store = move |text: &[u8]| match of.body().and_then(|body| body.parameters.get(index)) {
            Some(named) => params::set(&of, named, text),
            None => Err(Errno::ENODEV),
        };
        if room(&mut files, 1).is_err() {
            return Vec::new();
        }
        let mode = u32::from(parameter.mode) & 0o777;
        let store: Option<Store> = (mode & 0o222 != 0).then(|| Arc::new(store) as Store);
        files.push((named.name.clone(), Node::File(mode, Arc::new(show), store)));
    }
    files
}

/// `sections`: where each is. Of several with one name the first.
fn sections(module: &Arc<Module>) -> Vec<Named> {
    let sections = module.body().map_or(&[][..], |body| &body.sections);
    let mut files: Vec<Named> = Vec::new();
    for (name, at) in sections {
        if files.iter().any(|(known, _)| known == name) || name.contains(&b'/') {
            continue;
        }
        if room(&mut files, 1).is_err() {
            return Vec::new();
        }
        let (of, at) = (module.clone(), *at as usize);
        let node = Node::private(move |out| {
            there(&of)?;
            let _ = writeln!(out, "{}", address(at));
            Ok(())
        });
        files.push((name.clone(), node));
    }
    files
}

/// `holders`: links to those that use it.
fn holders(module: &Arc<Module>) -> Vec<Named> {
    let link = |user: Arc<Module>| {
        let to = Node::link(&format!("../../{}", user.name));
        (user.name.clone().into_bytes(), to)
    };
    users(module).into_iter().map(link).collect()
}

/// The directory of a module.
fn module(of: &Arc<Module>) -> Vec<Named> {
    let state = |module: &Module| match module.state() {
        State::Unformed | State::Coming => "coming",
        State::Live => "live",
        State::Going | State::Gone => "going",
    };
    let sizes = |module: &Module| module.body().map_or((0, 0), |body| body.sizes());
    let taints = |module: &Module| module.body().map_or("", |body| body.taints);
    let mut files = Vec::new();
    let mut add = |name: &str, node: Node| files.push((name.as_bytes().to_vec(), node));
    add("refcnt", line(of, |module| format!("{}", module.shown_users())));
    add("initstate", line(of, move |module| String::from(state(module))));
    add("coresize", line(of, move |module| format!("{}", sizes(module).0)));
    add("initsize", line(of, move |module| format!("{}", sizes(module).1)));
    add("taint", line(of, move |module| String::from(taints(module))));
    add("holders", directory(of, holders));
    add("sections", directory(of, sections));
    if !parameters(of).is_empty() {
        add("parameters", directory(of, parameters));
    }
    files
}

/// `/sys/module`.
struct Modules;

impl Directory for Modules {
    fn get(&self, name: &[u8]) -> Option<Node> {
        let found = list::named(name).filter(|module| module.body().is_some())?;
        Some(directory(&found, module))
    }
    fn which(&self, name: &[u8]) -> u64 {
        list::named(name).map_or(0, |module| Arc::as_ptr(&module) as u64)
    }
    fn list(&self, pos: u64, add: &mut dyn FnMut(&[u8], FileType, u64) -> bool) {
        let all = list::all().unwrap_or_default();
        let formed = all.iter().filter(|module| module.body().is_some());
        for (i, module) in formed.enumerate().skip(pos.saturating_sub(2) as usize) {
            if !add(module.name.as_bytes(), FileType::Directory, i as u64 + 3) {
                return;
            }
        }
    }
}

/// Registers the files.
pub fn init() {
    procfs::TREE.add("modules", Node::text(modules));
    sysfs::TREE.add("module", Node::Directory(0o755, Arc::new(Modules)));
}
