//! The page size, for processors that have several: a feature of the build chooses it.

/// log2 of the page size.
pub const SHIFT: usize = if cfg!(feature = "pages-64k") {
    16
} else if cfg!(feature = "pages-16k") {
    14
} else {
    12
};

#[cfg(all(feature = "pages-16k", feature = "pages-64k"))]
compile_error!("a kernel has pages of one size: pages-16k or pages-64k");
