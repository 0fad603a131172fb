//! Loading a kernel module.
//!
//! A module is a relocatable ELF object (`ET_REL`), as compilers make it. This crate has the part of loading
//! one that needs no kernel: it checks the object, says how much memory of which kind it needs, and fills
//! that memory so that it can run. It knows nothing of pages' permissions, caches, or who else is loaded.
//!
//! ```
//! # use limen_module::*;
//! # fn load<'a, M: Machine, E: Exports>(file: &'a [u8], args: &[u8], abi: &'a str, exports: &mut E,
//! #     mut parts: Parts<'_>) -> Result<Linked<E::Owner>, Error<'a>> {
//! let object = Object::<M>::read(file)?;
//! let info = Info::read(&object)?;
//! info.check_version(abi)?;
//! let layout = Layout::new(&object, 4096, 64 << 20)?;
//! // Here the kernel allocates `layout.size(part)` bytes for each part of `Part::ALL`.
//! let linked = link(&object, &info, &layout, &mut parts, exports)?;
//! linked.parameters.parse(args, &mut parts, &mut |text| None, &mut |unused| {}).ok();
//! // Here it sets permissions, writes caches back, and calls `linked.init`.
//! # Ok(linked) }
//! ```
//!
//! **Whom it trusts.** Who loads a module may do anything, and its code can. But an object that is truncated,
//! garbled, or made to harm its reader is refused with an [`Error`]: there is no panic for any input, memory
//! is at most a dozen times the file's size (and what the caller's limit lets the parts have), and time is
//! that of sorting what is in the file. For this no byte of a file may belong to two sections, and names are
//! read up to [`MAX_NAME`] bytes. What is written lies in the section that is relocated, or in a parameter's
//! variable.
//!
//! **What a module contains**, besides code and data:
//!
//! * `.modinfo`: strings `key=value`. `name` must be there, and `limen_abi`, which must be the version of the
//!   interface that the kernel offers. `license`, `depends`, `vermagic`, `parm` and `parmtype` are Linux's.
//! * `init_module` and `cleanup_module`, functions that are global.
//! * [`.limen.exports`](EXPORTS): what it exports, entries of three words, with relocations in the first two:
//!   the name (a pointer to a string that is constant), the address, and flags (1: only for modules whose
//!   license is compatible with the GPL).
//! * [`.limen.params`](PARAMETERS): its parameters, entries of five words: the name, a pointer to the
//!   variable, one to an `unsigned int` that gets the number of an array's values (or null), how many
//!   elements the variable has (1, if it is no array; of a `string`, its bytes), and the mode of the file in
//!   sysfs. The type is that of `parmtype=name:type`: `bool`, `invbool`, `bint`, `byte`, `short`, `ushort`,
//!   `int`, `uint`, `long`, `ulong`, `ullong`, `hexint`, `charp`, `string`, `array of ...`.
//! * [`.limen.faults`](FAULTS): which of its instructions may fault, entries of three words: the first, the
//!   address behind the last, and where to go on then, all in the same part.
//! * [`.limen.formats`](FORMATS): texts to which its records in traces refer, a pointer to each, which is
//!   changed to the copy that the kernel keeps ([`Format`]).
//! * [`__patchable_function_entries`](SITES): where functions can be traced, if it was compiled so.
//! * Sections whose names begin with `.init` are freed when `init` has run; `.data..ro_after_init` is
//!   read-only from then on. No section may be written and executed, be for threads, or need an alignment
//!   larger than a page.
//!
//! **Symbols.** One that is undefined is looked up ([`Exports`]); if it is weak and nobody exports it, or it
//! is not for this module, it is 0. Common symbols are refused (`-fno-common`). What is only for the GPL is,
//! as on Linux, not there for others.
//!
//! **Veneers.** Before addresses are known it is not known which branches reach. A branch to a symbol
//! elsewhere (the kernel, another module, the other text) may need a veneer, a few instructions that go
//! anywhere; one within its part needs one if it does not reach, or must change the instruction set.
//! [`Layout::new`] makes room for one for each symbol and constant; [`link()`] uses those that are needed.
//! Those of [`Part::InitText`] are in it.
//!
//! **Processors.** What is known of one is a [`Machine`], in a file of its own under `arch`, which also says
//! how modules must be compiled. Objects are little-endian.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod arch;
mod error;
mod info;
mod layout;
mod link;
mod machine;
mod memory;
mod object;
mod params;
mod read;
mod sites;
mod symbols;
mod tables;

pub use arch::{Arm, Arm64, Powerpc64, X86_64};
pub use error::{Error, Fault, Shown};
pub use info::{Info, MAX_MODULE_NAME};
pub use layout::{Layout, PARTS, Part, Place};
pub use link::{Exported, Exports, Linked, link};
pub use machine::{Addends, Branch, Class, Machine, Site, Target, Way};
pub use memory::{Memory, Parts, Span};
pub use object::{Object, Section};
pub use params::{BadParameter, Parameter, Parameters, Type, Unused};
pub use read::MAX_NAME;
pub use sites::{SITES, Traceable, Tracing, WayOf};
pub use symbols::{Symbol, Symbols};
pub use tables::{EXPORTS, Export, FAULTS, FORMATS, Format, MayFault, PARAMETERS};
