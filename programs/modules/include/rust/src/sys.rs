//! The kernel's functions themselves (`limen.h`).

/// A handle of a file's text, a file or a timer.
#[repr(C)]
pub struct Opaque([u8; 0]);

/// A row of `.limen.params`.
#[repr(C)]
#[allow(missing_docs, reason = "limen.h says it")]
pub struct Param {
    pub name: *const u8,
    pub variable: *const u8,
    pub number: *const u32,
    pub elements: usize,
    pub mode: usize,
}

/// `struct limen_patch_function`.
#[repr(C)]
#[allow(missing_docs, reason = "limen.h says it")]
pub struct PatchFunction {
    pub object: *const u8,
    pub name: *const u8,
    pub replacement: *const u8,
    pub position: usize,
}

// SAFETY: only the kernel reads it.
unsafe impl Sync for Param {}

#[allow(missing_docs, reason = "limen.h says it")]
unsafe extern "C" {
    pub fn limen_log_text(level: i32, text: *const u8, length: usize);
    pub fn limen_warn_text(text: *const u8, length: usize);
    pub fn limen_text_add(out: *mut Opaque, text: *const u8, length: usize);
    pub fn limen_vmalloc(size: usize) -> *mut u8;
    pub fn limen_vfree(at: *mut u8);
    pub fn limen_set_memory_ro(at: *mut u8, pages: i32) -> i32;
    pub fn limen_set_memory_rw(at: *mut u8, pages: i32) -> i32;
    pub fn limen_proc_create(
        name: *const u8,
        mode: u32,
        show: extern "C" fn(*mut Opaque, *mut u8) -> i32,
        data: *mut u8,
    ) -> *mut Opaque;
    pub fn limen_proc_remove(file: *mut Opaque);
    pub fn limen_timer_create(expired: extern "C" fn(*mut u8), data: *mut u8) -> *mut Opaque;
    pub fn limen_timer_start(timer: *mut Opaque, ns: u64);
    pub fn limen_timer_cancel(timer: *mut Opaque) -> i32;
    pub fn limen_timer_delete(timer: *mut Opaque);
    pub fn limen_tracer_register(
        functions: *const u8,
        flags: u32,
        trace: extern "C" fn(usize, usize, *mut u8, *mut Opaque),
        data: *mut u8,
        tracer: *mut *mut Opaque,
    ) -> i32;
    pub fn limen_tracer_unregister(tracer: *mut Opaque);
    pub fn limen_regs_argument(regs: *mut Opaque, n: u32, value: *mut usize) -> i32;
    pub fn limen_regs_get(regs: *mut Opaque, n: u32, value: *mut usize) -> i32;
    pub fn limen_regs_set_ip(regs: *mut Opaque, function: *const u8) -> i32;
    pub fn limen_direct_register(function: *const u8, direct: *const u8, tracer: *mut *mut Opaque) -> i32;
    pub fn limen_direct_modify(tracer: *mut Opaque, direct: *const u8) -> i32;
    pub fn limen_patch_enable(functions: *const PatchFunction, count: usize, flags: u32) -> i32;
    pub fn limen_now_ns() -> u64;
    pub fn limen_sleep_ms(ms: u32) -> i32;
}
