//! The vDSO, the little shared library the kernel maps into every program so that reading a clock needs no system call.
//!
//! Three parts: [`data`], the page the kernel writes and user code reads; [`clock`], the arithmetic between them; and [`image`],
//! which puts an ELF shared object around the code, at boot. The code itself is a few functions per architecture in the kernel's section
//! `.vdso.text`: position-independent, calling nothing, copied behind the header page. In memory: data page, header page, code.

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod clock;
pub mod data;
pub mod image;

pub use data::ClockData;
