//! The vDSO: the small shared library that the kernel maps into every program, so that reading a clock needs
//! no system call.
//!
//! It has three parts: [`data`], the page that the kernel writes and user code reads; [`clock`], the
//! arithmetic; and [`image`], which makes an ELF shared object around the code, at boot. The code consists of
//! some functions per architecture in the kernel's section `.vdso.text`. They are position-independent, call
//! nothing, and are copied behind the header page. In memory the data page comes first, then the header page,
//! then the code.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod clock;
pub mod data;
pub mod image;
pub mod scale;
pub mod steer;
pub mod unwind;

pub use data::ClockData;
pub use steer::Steering;
