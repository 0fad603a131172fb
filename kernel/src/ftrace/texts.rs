//! The sites of modules: which module has which, where they are, and what their functions are called. They
//! have the numbers behind those of the image. Whoever changes the list holds `modules`' lock.

use crate::arch::site_table::TABLE;
use crate::arch::sites;
use crate::mm::reserve::{room, room_exact};
use crate::rcu::{self, Retire, Shared, Slot};
use crate::sync::Once;
use crate::sync::lockdep::fallible;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release};
use limen_linux_abi::Errno;
use limen_trace_sites::profile::Profile;
use limen_trace_sites::{Name, Site};

/// A function of a module.
pub struct Function {
    /// Its site, as `arch::sites` takes it.
    pub site: usize,
    /// What that is to call.
    pub to: usize,
    /// What it is called.
    pub name: String,
}

/// The functions of a module that stay, or those that only its `init` needs.
pub struct Text {
    module: String,
    /// By address.
    functions: Vec<Function>,
    /// Their numbers, one behind the other.
    numbers: Vec<Site>,
    first: usize,
    /// How often they were called, for each CPU.
    profiles: Once<Vec<Profile>>,
    /// It is no more, though it may still be in the list.
    gone: AtomicBool,
}

impl Text {
    /// Where it is counted how often they were called, for each CPU: by their places among its functions.
    pub fn profiles(&self) -> &Once<Vec<Profile>> {
        &self.profiles
    }
    fn is_there(&self) -> bool {
        !self.gone.load(Acquire)
    }
    /// Their numbers.
    pub fn range(&self) -> Range<usize> {
        self.first..self.first + self.functions.len()
    }
    /// The same.
    pub fn numbers(&self) -> &[Site] {
        &self.numbers
    }
    /// The module's name.
    pub fn module(&self) -> &str {
        &self.module
    }
    /// What a function is called.
    pub fn name(&self, number: usize) -> Option<Name<'_>> {
        let function = self.functions.get(number.checked_sub(self.first)?)?;
        Some(Name {
            function: &function.name,
            module: Some(&self.module),
        })
    }
}

/// By number.
struct Texts(Vec<Arc<Text>>);

impl Retire for Texts {}

static ALL: Slot<Texts> = Slot::empty();

/// Where a site is.
#[derive(Clone, Copy)]
pub struct Place {
    /// The first number of the text that it is in; 0 for the image.
    pub text: usize,
    /// The site, as `arch::sites` takes it.
    pub site: usize,
    /// What it is to call.
    pub to: usize,
}

/// Calls `f` with the list, by number. Any context.
fn look<R>(f: impl FnOnce(&[Arc<Text>]) -> R) -> R {
    let reader = rcu::read();
    f(ALL.load(&reader).map_or(&[][..], |texts| &texts.0))
}

/// Those of a list that are there.
fn there(texts: &[Arc<Text>]) -> impl Iterator<Item = &Arc<Text>> {
    texts.iter().filter(|text| text.is_there())
}

/// The site with this number. Any context.
pub fn place(number: usize) -> Option<Place> {
    look(|texts| {
        let text = there(texts).find(|text| text.range().contains(&number))?;
        let function = text.functions.get(number - text.first)?;
        Some(Place {
            text: text.first,
            site: function.site,
            to: function.to,
        })
    })
}

/// Calls `f` with the text that the site known as `ip` is in, and its place there. Any context.
pub fn at(ip: usize, f: impl FnOnce(&Text, usize)) {
    look(|texts| {
        for text in there(texts) {
            if let Ok(n) = text
                .functions
                .binary_search_by_key(&ip, |one| sites::ip(one.site))
            {
                return f(text, n);
            }
        }
    });
}

/// The number of the first site from `address` on that is before `end`. Any context.
pub fn find(address: usize, end: usize) -> Option<usize> {
    look(|texts| {
        there(texts).find_map(|text| {
            let n = text
                .functions
                .partition_point(|one| sites::ip(one.site) < address);
            let function = text.functions.get(n)?;
            (sites::ip(function.site) < end).then_some(text.first + n)
        })
    })
}

/// The first number that no site has, nor one above it.
pub fn bound() -> usize {
    look(|texts| there(texts).fold(TABLE.len(), |end, text| end.max(text.range().end)))
}

/// All texts, by number. `ENOMEM`.
pub fn all() -> Result<Vec<Arc<Text>>, Errno> {
    loop {
        let mut all = Vec::new();
        room_exact(&mut all, look(|texts| there(texts).count()))?;
        let whole = look(|texts| {
            for text in there(texts) {
                if all.len() == all.capacity() {
                    return false;
                }
                all.push(text.clone());
            }
            true
        });
        if whole {
            return Ok(all);
        }
    }
}

/// The lowest number from `least` on with which as many as `count` that no site has begin.
fn vacant(texts: &[Arc<Text>], count: usize, least: usize) -> usize {
    let mut first = least.max(TABLE.len());
    for range in texts.iter().map(|text| text.range()) {
        if range.start >= first + count {
            break;
        }
        first = first.max(range.end);
    }
    first
}

/// Puts the functions of a module into the list, by address, with numbers from `least` on. `ENOMEM`.
pub fn add(module: String, functions: Vec<Function>, least: usize) -> Result<Arc<Text>, Errno> {
    let mut texts = all()?;
    room(&mut texts, 1)?;
    let first = vacant(&texts, functions.len(), least);
    let mut numbers = Vec::new();
    room_exact(&mut numbers, functions.len())?;
    numbers.extend((first..first + functions.len()).map(|n| Site(n as u32)));
    let text = Arc::new(Text {
        module,
        functions,
        numbers,
        first,
        profiles: Once::new(),
        gone: AtomicBool::new(false),
    });
    let at = texts.partition_point(|other| other.first <= first);
    texts.insert(at, text.clone());
    let new = fallible(|| Shared::try_new(Texts(texts))).ok_or(Errno::ENOMEM)?;
    drop(ALL.replace(Some(new)));
    Ok(text)
}

/// Takes it out again: nobody finds its sites any more.
pub fn remove(text: &Text) {
    text.gone.store(true, Release);
    // Without memory it stays in the list, unseen, until the next change.
    if let Ok(texts) = all()
        && let Some(new) = fallible(|| Shared::try_new(Texts(texts)))
    {
        drop(ALL.replace(Some(new)));
    }
}
