//! The memory of a module: two areas of kernel addresses, one for what stays and one for what only `init`
//! needs. Both can be written and nothing in them executed until the module is linked; then each part gets
//! the permissions that are its own.

use crate::mm::linear::Reason;
use crate::mm::vmap::{self, Zone};
use crate::mm::{PAGE_SHIFT, PAGE_SIZE, Prot};
use core::ops::Range;
use limen_linux_abi::Errno;
use limen_module::{Layout, Memory, PARTS, Part, Parts};

/// Mapped pages, freed when it is dropped.
struct Area {
    at: usize,
    size: usize,
}

impl Area {
    /// `size` bytes, whole pages. `ENOMEM`.
    fn new(size: usize) -> Result<Self, Errno> {
        let at = if size == 0 {
            core::ptr::null_mut()
        } else {
            vmap::alloc(size >> PAGE_SHIFT, Zone::Modules)
        };
        if at.is_null() && size > 0 {
            return Err(Errno::ENOMEM);
        }
        Ok(Self {
            at: at as usize,
            size,
        })
    }

    fn range(&self) -> Range<usize> {
        self.at..self.at + self.size
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        if self.size > 0 {
            vmap::free(self.at as *mut u8);
        }
    }
}

/// A module's memory.
pub struct Image {
    core: Area,
    init: Option<Area>,
    /// Address and size in bytes of each part, whole pages.
    parts: [(usize, usize); PARTS],
    /// Whether all of it can still be written, and nothing executed.
    open: bool,
}

impl Image {
    /// Room for a module. Its content is not known. `ENOMEM`.
    pub fn new(layout: &Layout) -> Result<Self, Errno> {
        let mut parts = [(0, 0); PARTS];
        let mut sizes = [0usize; 2];
        for part in Part::ALL {
            let size = usize::try_from(layout.size(part)).map_err(|_| Errno::ENOMEM)?;
            let total = &mut sizes[usize::from(part.is_init())];
            parts[part as usize] = (*total, size);
            *total = total.checked_add(size).ok_or(Errno::ENOMEM)?;
        }
        let (core, init) = (Area::new(sizes[0])?, Area::new(sizes[1])?);
        for part in Part::ALL {
            let area = if part.is_init() { &init } else { &core };
            parts[part as usize].0 += area.at;
        }
        Ok(Self {
            core,
            init: Some(init),
            parts,
            open: true,
        })
    }

    /// All parts, to be filled. Only before [`Image::close`]: then they are empty.
    pub fn parts(&mut self) -> Parts<'_> {
        let open = self.open;
        self.parts.map(|(at, size)| Memory {
            address: at as u64,
            bytes: if open { Self::bytes(at, size) } else { &mut [] },
        })
    }

    /// The parts that can still be written, to set parameters in; the others are empty.
    pub fn written_parts(&mut self) -> Parts<'_> {
        let after_init = self.init.is_none();
        core::array::from_fn(|n| {
            let (part, (at, size)) = (Part::ALL[n], self.parts[n]);
            let written = part.is_written() && !(after_init && part == Part::AfterInit);
            Memory {
                address: at as u64,
                bytes: if written && !(after_init && part.is_init()) {
                    Self::bytes(at, size)
                } else {
                    &mut []
                },
            }
        })
    }

    /// The memory of a part.
    fn bytes<'b>(at: usize, size: usize) -> &'b mut [u8] {
        if size == 0 {
            return &mut [];
        }
        // SAFETY: the part is mapped and can be written as long as the image lives, whose borrow the callers'
        // results are bound to. Parts do not overlap. The module may write it at the same time, as C does
        // with parameters: bytes have no value that would be wrong.
        unsafe { core::slice::from_raw_parts_mut(at as *mut u8, size) }
    }

    /// Reads `out.len()` bytes at an offset of a part, as the module left them. `false`: they are not there.
    pub fn read(&self, part: Part, offset: u64, out: &mut [u8]) -> bool {
        let (at, size) = self.parts[part as usize];
        let there = usize::try_from(offset)
            .ok()
            .filter(|offset| offset.checked_add(out.len()).is_some_and(|end| end <= size));
        let Some(offset) = there.filter(|_| !part.is_init() || self.init.is_some()) else {
            return false;
        };
        for (n, byte) in out.iter_mut().enumerate() {
            // SAFETY: inside the part, which is mapped; volatile, as the module may write it meanwhile.
            *byte = unsafe { ((at + offset + n) as *const u8).read_volatile() };
        }
        true
    }

    /// The byte at an address in the module's memory. `None`: it is not there.
    pub fn byte(&self, address: u64) -> Option<u8> {
        Part::ALL.into_iter().find_map(|part| {
            let offset = address.checked_sub(self.parts[part as usize].0 as u64)?;
            let mut byte = [0];
            self.read(part, offset, &mut byte).then_some(byte[0])
        })
    }

    fn protect(&self, part: Part, prot: Prot) -> Result<(), Errno> {
        let (at, size) = self.parts[part as usize];
        vmap::protect(at, size / PAGE_SIZE, prot, Reason::Module)
    }

    /// The module is linked: code can be executed, and neither it nor constants written. May sleep.
    pub fn close(&mut self) -> Result<(), Errno> {
        self.open = false;
        self.protect(Part::Rodata, Prot::READ)?;
        for part in [Part::Text, Part::InitText] {
            self.protect(part, Prot::READ | Prot::EXEC)?;
        }
        Ok(())
    }

    /// `init` has run: what is read-only from then on is, and what only it needs is freed. May sleep.
    pub fn init_has_run(&mut self) -> Result<(), Errno> {
        self.init = None;
        self.protect(Part::AfterInit, Prot::READ)
    }

    /// The addresses of what stays.
    pub fn core(&self) -> Range<usize> {
        self.core.range()
    }

    /// The addresses of what only `init` needs.
    pub fn init(&self) -> Range<usize> {
        self.init.as_ref().map_or(0..0, Area::range)
    }
}
