//! Where the linker script puts the parts of the kernel's image, and room in it.

use super::mmu::image_to_phys;
use crate::mm::kernel_map::Image;

unsafe extern "C" {
    pub(super) static __image_start: u8;
    pub(super) static __text_end: u8;
    pub(super) static __rodata_end: u8;
    pub(super) static __init_text_end: u8;
    pub(super) static __init_end: u8;
    pub(super) static __boot_stack_guard: u8;
    pub(super) static __boot_stack_top: u8;
    pub(super) static __bss_start: u8;
    pub(super) static __bss_end: u8;
    pub(super) static __idmap_tables: u8;
    pub(super) static __table_pool_start: u8;
    pub(super) static __table_pool_end: u8;
    pub(super) static __image_end: u8;
}

/// The address of one of these.
pub(super) fn address(symbol: &'static u8) -> usize {
    core::ptr::from_ref(symbol) as usize
}

/// Where the image lies in memory.
pub fn image() -> Image {
    // SAFETY: linker symbols; only their addresses are used.
    let at = unsafe {
        [
            &__image_start,
            &__text_end,
            &__rodata_end,
            &__init_text_end,
            &__init_end,
            &__boot_stack_guard,
            &__image_end,
        ]
    };
    Image::new(at.map(|symbol| image_to_phys(address(symbol))), address(at[0]))
}
