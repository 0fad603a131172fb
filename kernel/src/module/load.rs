//! Loading: `init_module` and `finit_module`.

use super::events;
use super::image::Image;
use super::list::{self, Body, CHANGED, CHANGING, Export, Module, State};
use super::params::{self, Named};
use super::{ABI, interface, traced};
use crate::arch::module::Format;
use crate::ftrace::texts::Function;
use crate::mm::PAGE_SIZE;
use crate::mm::reserve::{copy_of, room};
use crate::panic::taint;
use crate::sync::Mutex;
use crate::task::audit;
use crate::time::now_ns;
use crate::tracing::printk;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering::Release};
use limen_linux_abi::{Errno, errno::MAX_ERRNO};
use limen_module::{Error, Exported, Exports, Info, Layout, Linked, Object, Shown, Tracing, link};

/// `MODULE_INIT_IGNORE_MODVERSIONS`: there are no versions of symbols to ignore.
pub const IGNORE_MODVERSIONS: u32 = 1;
/// `MODULE_INIT_IGNORE_VERMAGIC`: the module is loaded even if it is for another version of the interface.
pub const IGNORE_VERMAGIC: u32 = 2;

/// The most bytes of memory a module may have.
const LARGEST: u64 = 64 << 20;
/// For how long a module waits for `init` of another one whose exports it uses, nanoseconds.
const PATIENCE: u64 = 30_000_000_000;

/// Marks on the kernel: proprietary, forced, built outside of its tree.
const PROPRIETARY: u32 = 1 << 0;
const FORCED: u32 = 1 << 1;
const FOREIGN: u32 = 1 << 12;

/// Finds symbols, and counts as a user of the modules that it finds them in.
struct Finder<'n> {
    /// The module that is loaded.
    name: &'n str,
    held: Vec<Arc<Module>>,
    /// Why the last symbol was not found.
    why: Errno,
    /// Somebody exports a symbol, and could not be used: not even a weak reference goes without it then.
    failed: Option<Errno>,
}

impl Finder<'_> {
    /// Waits until `init` of a module has run. `false`: it has not, and the symbol is not found for that.
    fn wait(&mut self, other: &Module) -> bool {
        let coming = || other.is_coming();
        let ready = CHANGED.wait_until_deadline(now_ns() + PATIENCE, || !coming());
        if ready == Ok(false) {
            warning!(
                "{}: gave up waiting for init of module {}.",
                self.name,
                other.name
            );
        }
        if ready != Ok(true) {
            self.fails(Errno::EBUSY);
        }
        ready == Ok(true)
    }

    fn fails(&mut self, why: Errno) {
        self.why = why;
        self.failed = Some(why);
    }

    /// Counts a use of `module`, once.
    fn hold(&mut self, module: &Arc<Module>) -> bool {
        if self.held.iter().any(|held| Arc::ptr_eq(held, module)) {
            return true;
        }
        if let Err(errno) = room(&mut self.held, 1) {
            self.fails(errno);
            return false;
        }
        if module.state() != State::Live || !module.get() {
            self.fails(Errno::ENOENT);
            return false;
        }
        self.held.push(module.clone());
        true
    }
}

impl Exports for Finder<'_> {
    /// The address of the [`Module`].
    type Owner = usize;

    fn find(&mut self, name: &[u8]) -> Option<Exported<usize>> {
        self.why = Errno::ENOENT;
        if let Some(address) = interface::find(name) {
            return Some(Exported {
                address: address as u64,
                gpl_only: false,
                owner: None,
            });
        }
        loop {
            let (module, address, gpl_only) = list::exporter(name)?;
            if !module.is_coming() {
                return self.hold(&module).then_some(Exported {
                    address,
                    gpl_only,
                    owner: Some(Arc::as_ptr(&module) as usize),
                });
            }
            if !self.wait(&module) {
                return None;
            }
        }
    }

    fn tracing(&self) -> Option<Tracing> {
        Some(traced::tracing())
    }
}

impl Drop for Finder<'_> {
    fn drop(&mut self) {
        self.held.iter().for_each(|module| module.put());
    }
}

/// What `init` may call is there until it returns: its name is in the list. Dropping it takes it off, unless
/// the module stays, or must: then it is about to be gone for ever.
struct Claim {
    module: Arc<Module>,
    stays: bool,
}

impl Claim {
    /// Waits for another module of that name whose `init` runs. `EEXIST`: it is loaded; `EBUSY`: it was not,
    /// or is about to be gone; `ENOMEM`.
    fn new(name: &str) -> Result<Self, Errno> {
        let changing = CHANGING.lock();
        if let Some(other) = list::named(name.as_bytes()) {
            drop(changing);
            CHANGED.wait_until(|| !matches!(other.state(), State::Unformed | State::Coming))?;
            let _changing = CHANGING.lock();
            let live = list::named(name.as_bytes()).is_some_and(|now| now.state() == State::Live);
            return Err(if live { Errno::EEXIST } else { Errno::EBUSY });
        }
        let module = Module::new(String::from(name));
        list::add(&module)?;
        drop(changing);
        Ok(Self { module, stays: false })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        let changing = CHANGING.lock();
        self.module.set_state(State::Going);
        drop(changing);
        interface::clean(&self.module);
        if !self.module.shut() {
            // Only a patch that was forced to go still counts as a user: a thread may be in it for ever.
            warning!("{}: stays in memory, its patch was forced", self.module.name);
            return;
        }
        self.module.wait_until_left();
        let changing = CHANGING.lock();
        list::remove(&self.module);
        drop(changing);
        forget(&self.module);
    }
}

/// Frees what a module that is in no list had.
pub fn forget(module: &Arc<Module>) {
    traced::end(module, true);
    if let Some(body) = module.body() {
        drop(body.image.lock().take());
        body.uses.iter().for_each(|used| used.put());
    }
}

/// Logs why an object is no module, and returns the error.
fn refuse(name: &str, error: &Error<'_>, why: Errno) -> Errno {
    match error {
        Error::Unknown(symbol) => {
            warning!("{name}: Unknown symbol {} (err -{})", Shown(symbol), why.get());
            return why;
        }
        Error::GplOnly(_) => warning!("{name}: {error} (err -{})", Errno::ENOENT.get()),
        _ => error!("{name}: {error}"),
    }
    error.errno()
}

/// What a vector of `count` elements is made in. `ENOMEM`.
fn collect<T>(items: impl Iterator<Item = T>) -> Result<Vec<T>, Errno> {
    let mut list = Vec::new();
    for item in items {
        room(&mut list, 1)?;
        list.push(item);
    }
    Ok(list)
}

/// What is known of the module before it has memory.
struct Read<'a> {
    object: Object<'a, Format>,
    info: Info<'a>,
    layout: Layout,
    name: &'a str,
    /// Whether it is loaded although it is for another interface.
    forced: bool,
}

fn read(file: &[u8], flags: u32) -> Result<Read<'_>, Errno> {
    let nameless = |error: Error<'_>| refuse("module", &error, Errno::ENOEXEC);
    let object = Object::<Format>::read(file).map_err(nameless)?;
    let info = Info::read(&object).map_err(nameless)?;
    // `Info` accepts printable characters only.
    let name = core::str::from_utf8(info.name).map_err(|_| Errno::ENOEXEC)?;
    let wrong = |error: Error<'_>| refuse(name, &error, Errno::ENOEXEC);
    let forced = match info.check_version(ABI) {
        Ok(()) => false,
        Err(_) if flags & IGNORE_VERMAGIC != 0 => true,
        Err(error) => return Err(wrong(error)),
    };
    let layout = Layout::new(&object, PAGE_SIZE as u64, LARGEST).map_err(wrong)?;
    Ok(Read {
        object,
        info,
        layout,
        name,
        forced,
    })
}

/// A module that is linked: what is kept of it, its parameters, and its functions that can be traced.
type Formed = (Body, limen_module::Parameters, [Vec<Function>; 2]);

/// Links the module in `image`, and puts together what is kept of it.
fn form(read: &Read<'_>, mut image: Image) -> Result<Formed, Errno> {
    let mut finder = Finder {
        name: read.name,
        held: Vec::new(),
        why: Errno::ENOENT,
        failed: None,
    };
    let mut parts = image.parts();
    let linked = link(&read.object, &read.info, &read.layout, &mut parts, &mut finder)
        .map_err(|error| refuse(read.name, &error, finder.why))?;
    if let Some(why) = finder.failed {
        warning!(
            "{}: a module that it uses is not ready (err -{})",
            read.name,
            why.get()
        );
        return Err(why);
    }
    let Linked {
        init,
        exit,
        uses,
        symbols,
        exports,
        faults,
        formats,
        parameters,
        sites,
        untraceable,
        ..
    } = linked;
    if untraceable > 0 {
        warning!(
            "{}: {untraceable} functions cannot be traced: bad patch-sites",
            read.name
        );
    }
    let functions = traced::functions(&symbols, &sites)?;
    if !formats.is_empty() {
        printk::begin()?;
    }
    for format in &formats {
        let kept = printk::keep(format.text.bytes(&parts))?;
        format.point_to(&mut parts, kept as u64);
    }
    let mut offered = Vec::new();
    for export in exports.iter() {
        room(&mut offered, 1)?;
        offered.push(Export {
            name: copy_of(export.name.bytes(&parts))?,
            address: export.address,
            gpl_only: export.gpl_only,
        });
    }
    offered.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let mut named = Vec::new();
    for parameter in parameters.iter() {
        room(&mut named, 1)?;
        named.push(Named {
            name: copy_of(parameter.name.bytes(&parts))?,
            parameter: *parameter,
        });
    }
    let mut sections = Vec::new();
    for (index, section) in read.object.sections().iter().enumerate() {
        if let Some(place) = read.layout.place(index)
            && !section.name.is_empty()
            && section.size > 0
        {
            room(&mut sections, 1)?;
            let address = parts[place.part as usize].address + place.offset;
            sections.push((copy_of(section.name)?, address));
        }
    }
    // Those that it does not use in the end are given back with the finder.
    let used = |module: &Arc<Module>| uses.contains(&(Arc::as_ptr(module) as usize));
    let uses = collect(finder.held.iter().filter(|module| used(module)).cloned())?;
    finder.held.retain(|module| !used(module));
    let taints = match (read.info.is_gpl(), read.forced) {
        (true, false) => "O",
        (true, true) => "FO",
        (false, false) => "PO",
        (false, true) => "PFO",
    };
    let (core, init_range) = (image.core(), image.init());
    let body = Body {
        image: Mutex::new(Some(image)),
        core,
        init: init_range,
        init_gone: AtomicBool::new(false),
        symbols,
        exports: offered,
        faults,
        parameters: named,
        sections,
        texts: Mutex::new(Vec::new()),
        uses,
        start: init,
        exit,
        traced: Mutex::new([None, None]),
        taints,
    };
    Ok((body, parameters, functions))
}

/// `ENOEXEC` and a line in the log: somebody else exports what the module does. The caller holds `CHANGING`.
fn check_exports(name: &str, exports: &[Export]) -> Result<(), Errno> {
    let mut before: &[u8] = b"";
    for export in exports {
        let owner = if export.name == before {
            Some(String::from(name))
        } else if interface::find(&export.name).is_some() {
            Some(String::from("kernel"))
        } else {
            list::exporter(&export.name).map(|(module, ..)| module.name.clone())
        };
        if let Some(owner) = owner {
            let symbol = Shown(&export.name);
            error!("{name}: exports duplicate symbol {symbol} (owned by {owner})");
            return Err(Errno::ENOEXEC);
        }
        before = &export.name;
    }
    Ok(())
}

/// Sets the parameters as `args` says.
fn set_parameters(
    name: &str,
    body: &Body,
    parameters: &limen_module::Parameters,
    args: &[u8],
) -> Result<(), Errno> {
    let mut image = body.image.lock();
    let image = image.as_mut().ok_or(Errno::ENODEV)?;
    let mut texts: Vec<Box<[u8]>> = Vec::new();
    let result = parameters.parse(
        args,
        &mut image.parts(),
        &mut |text| params::keep(text, &mut texts),
        &mut |unused| warning!("{name}: {unused}"),
    );
    *body.texts.lock() = texts;
    result.map_err(|bad| {
        error!("{name}: {bad}");
        bad.errno
    })
}

fn mark(name: &str, body: &Body) {
    let marks = [('P', PROPRIETARY), ('F', FORCED), ('O', FOREIGN)];
    let set = marks.iter().filter(|(letter, _)| body.taints.contains(*letter));
    let marks = set.fold(0, |all, (_, mark)| all | mark);
    if crate::panic::tainted() & FOREIGN == 0 {
        info!("{name}: loading out-of-tree module taints kernel.");
    }
    if marks & PROPRIETARY != 0 && crate::panic::tainted() & PROPRIETARY == 0 {
        info!("{name}: module license taints kernel.");
    }
    taint(marks);
}

/// Loads the module in `file`, with `flags` of `finit_module`; `args` reads its parameters. Returns when its
/// `init` has. Errors: `ENOEXEC` if it is no module for this kernel, `ENOENT` if it uses what nobody exports,
/// `EEXIST` if one of its name is loaded, `EBUSY` if another thread loads one or a module it needs is not
/// ready, `ENOMEM`, those of parameters, and what `init` returns. For most of them the log has a line.
pub fn load(file: Vec<u8>, args: impl FnOnce() -> Result<Vec<u8>, Errno>, flags: u32) -> Result<(), Errno> {
    let read = read(&file, flags)?;
    if audit::wants_details() {
        audit::details::module(read.name.as_bytes());
    }
    let claim = Claim::new(read.name)?;
    let (body, parameters, functions) = form(&read, Image::new(&read.layout)?)?;
    let release = |body: &Body| body.uses.iter().for_each(|used| used.put());
    let name = claim.module.name.clone();
    let prepare = || {
        set_parameters(&name, &body, &parameters, &args()?)?;
        let mut image = body.image.lock();
        image.as_mut().map_or(Ok(()), Image::close)
    };
    if let Err(error) = prepare() {
        release(&body);
        return Err(error);
    }
    mark(&name, &body);
    let changing = CHANGING.lock();
    if let Err(error) = check_exports(&name, &body.exports) {
        drop(changing);
        release(&body);
        return Err(error);
    }
    let start = body.start;
    claim.module.set_body(body);
    claim.module.set_state(State::Coming);
    drop(changing);
    drop(read);
    drop(file);
    traced::begin(&claim.module, functions)?;
    events::loaded(&name);
    if let Some(start) = start {
        run(&name, start)?;
    }
    finish(claim)
}

/// Calls `init`.
fn run(name: &str, start: u64) -> Result<(), Errno> {
    let result = interface::call_init(start);
    if result > 0 {
        warning!("{name}: '{name}'->init suspiciously returned {result}, it should follow 0/-E convention");
    }
    if result >= 0 {
        return Ok(());
    }
    let number = u16::try_from(result.unsigned_abs()).ok();
    let number = number.filter(|number| *number <= MAX_ERRNO);
    Err(number.map_or(Errno::EINVAL, Errno::new))
}

/// `init` was successful.
fn finish(mut claim: Claim) -> Result<(), Errno> {
    let body = claim.module.body().ok_or(Errno::ENODEV)?;
    traced::end(&claim.module, false);
    body.init_gone.store(true, Release);
    let protected = body.image.lock().as_mut().map_or(Ok(()), Image::init_has_run);
    if let Err(error) = protected {
        warning!("{}: data stays writable ({})", claim.module.name, error.name());
    }
    let _changing = CHANGING.lock();
    claim.stays = true;
    claim.module.set_state(State::Live);
    Ok(())
}
