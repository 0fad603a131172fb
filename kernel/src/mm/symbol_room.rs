//! Memory in the kernel's image for its own symbols. After linking, the build writes the compressed table
//! into it (`tools/symbols`); `trace::symbols` reads it.

/// Its size in bytes. Unoptimised kernels have many more functions.
const ROOM: usize = if cfg!(debug_assertions) {
    512 << 10
} else {
    160 << 10
};

// SAFETY: no other symbol has this name, and the section is one of constants, as this is.
#[used]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".rodata.kallsyms")]
#[allow(non_upper_case_globals, reason = "the build looks for this name")]
static __kallsyms_start: [u8; ROOM] = [0xff; ROOM];

/// What the build wrote there.
pub fn symbol_room() -> &'static [u8] {
    // Keeps the compiler from using the value in the source, which the build changes after linking.
    core::hint::black_box(&__kallsyms_start)
}
