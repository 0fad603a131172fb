//! The kernel's own map of memory, changed while everything runs on it.
//!
//! RAM is mapped with the largest blocks there are. Then a module's text becomes read-only, a secret page
//! goes away, and the block around it has to become smaller ones. Other CPUs use the same block at that
//! moment, and have translations of it in their TLBs. This crate says in which order tables are written, made
//! visible, invalidated and freed, so that nobody sees anything but what was mapped before and what is mapped
//! then.
//!
//! It writes nothing itself. A [`Change`] says one [`Step`] after the other, and the kernel does them:
//!
//! ```
//! # use limen_linear_map::*;
//! # fn set_read_only<T: Tables>(tables: &mut T, map: &Map, start: u64, end: u64, reserve: Reserve,
//! #     mut act: impl FnMut(&mut T, &Step)) -> Result<Report, Error> {
//! let edit = Edit { clear: Access::WRITE, set: Access::empty() };
//! let mut change = Change::new(map, start, end, edit, reserve, true)?;
//! while let Some(step) = change.next(tables) {
//!     act(tables, &step); // on `Step::Pause` locks may be let go
//! }
//! # change.outcome().copied() }
//! ```
//!
//! **What it knows** is data: the tables' [`Geometry`], and the processor's [`Rule`] for sizes ([`rule`] has
//! the manuals' sections). How an entry is written in bits is behind [`Tables`], and in the kernel's doing of
//! [`Step::Write`]. A write of many entries is one step, so that it can be a plain loop: encode the first and
//! the second, and add the difference. (This holds for inverted addresses of entries that are not present, as
//! Linux's for L1TF, too. In a format where a group's entries are equal, it holds from group to group.)
//!
//! **Nothing becomes writable and executable**: a change that would make it so ends there, with
//! [`Error::WriteAndExecute`].
//!
//! **Splitting** is done at the two ends of a range, and only as far as needed: what lies within it is
//! changed in blocks. All tables that an end needs are filled and linked to each other before the one write
//! that puts them in place of the block. They come from the caller ([`Map::needs`] says how many,
//! [`Reserve`]), so that nothing is allocated here, and a change can be made in any context. A table of the
//! reserve must have room for any level below the root.
//!
//! **Merging** comes at the end of a change, or at another time ([`Change::merge`]): a table whose entries
//! all say the same becomes a block, and is freed after the invalidation; so for groups.
//!
//! **Groups** are entries that the processor may keep as one translation (Arm's contiguous hint; large pages
//! of short descriptors). A group has one set of attributes; before one of its entries is changed alone, the
//! group becomes single entries, by the rule.
//!
//! **Leaves that are not present** keep their address and attributes, in bits that the processor ignores in
//! an invalid entry; one is told from an empty entry by not being zero. So they are split and merged as
//! others are, without any rule: nothing of them is in a TLB. Nothing need be invalidated when one becomes
//! present.
//!
//! **Where nothing may be done live** ([`Resize::Break`], or a rule that is not [`Rule::quiet`]) a change of
//! size is between [`Step::Park`] and [`Step::Unpark`]: other CPUs wait on a map of their own, or where they
//! use nothing of the range; the stack is not in it; tables that lie in it are written through another
//! mapping. Who cannot give that builds the map of pages in the first place and has [`rule::FIXED`]: then
//! a change that would need more is refused, never widened. [`Map::needs`] says beforehand whether a split
//! will need it.
//!
//! **Time.** From one [`Step::Pause`] to the next a change writes and looks at a few tables at most. Nothing
//! is stale at a pause. Other changes may be made there, even of the same range: a change goes down from the
//! root again afterwards. `end` is exclusive, so that the last page of the address space is in no range.
//!
//! The tests have a model of a memory management unit that keeps all it may keep and fetches at any moment.

#![no_std]
#![forbid(unsafe_code)]

mod build;
mod change;
pub mod geometry;
mod map;
mod merge;
mod queue;
pub mod rule;
mod split;
mod step;

pub use build::Build;
pub use change::{Change, Edit, MAX_RESERVE, Report, Reserve};
pub use geometry::{Geometry, Level, MAX_LEVELS};
pub use map::{Count, Error, Leaves, Map, Mapped, Needs};
pub use rule::{Resize, Rule};
pub use step::{Access, Attributes, Entry, Leaf, Step, Table, Tables};
