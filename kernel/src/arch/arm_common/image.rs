//! Where the linker script puts the parts of the kernel's image, and room in it.

unsafe extern "C" {
    pub(super) static __image_start: u8;
    pub(super) static __text_end: u8;
    pub(super) static __rodata_end: u8;
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
