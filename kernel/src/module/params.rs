//! Parameters while a module is loaded: their files show and set its variables, in Linux's notation.

use super::image::Image;
use super::list::Module;
use crate::fs::pseudo::Text;
use crate::mm::reserve::room_exact;
use crate::sched::WaitQueue;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use limen_linux_abi::Errno;
use limen_module::{Parameter, Type};

/// The longest text that is shown of a parameter, in bytes.
const LONGEST: usize = 4096;

/// A parameter with its name.
pub struct Named {
    /// Its name.
    pub name: Vec<u8>,
    /// What `crates/module` knows of it.
    pub parameter: Parameter,
}

/// Whether a module reads texts of parameters, or one is set: those that are replaced are freed at once.
static IN_USE: AtomicBool = AtomicBool::new(false);
static FREE: WaitQueue = WaitQueue::new();

/// Texts of parameters stay while this lives.
struct Reading;

impl Reading {
    fn begin() -> Self {
        lock();
        Self
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        unlock();
    }
}

/// `void limen_param_lock(void)`: parameters that are texts keep their values until `limen_param_unlock`.
/// May sleep; not while the caller has it.
pub extern "C" fn lock() {
    FREE.wait_until_uninterruptible(|| !IN_USE.swap(true, Acquire));
}

/// `void limen_param_unlock(void)`: the inverse. In a thread.
pub extern "C" fn unlock() {
    IN_USE.store(false, Release);
    FREE.wake_all();
}

/// A copy of a text with a NUL, and its address. `None`: no memory.
pub fn keep(text: &[u8], kept: &mut Vec<Box<[u8]>>) -> Option<u64> {
    let mut copy = Vec::new();
    room_exact(&mut copy, text.len() + 1).ok()?;
    room_exact(kept, 1).ok()?;
    copy.extend_from_slice(text);
    copy.push(0);
    let copy = copy.into_boxed_slice();
    let address = copy.as_ptr() as u64;
    kept.push(copy);
    Some(address)
}

/// The value with number `index`, as bits.
fn value(image: &Image, parameter: &Parameter, index: u32) -> Option<u64> {
    let size = usize::from(parameter.kind.size());
    let offset = parameter.variable.offset + u64::from(index) * size as u64;
    let mut bytes = [0; 8];
    let read = image.read(parameter.variable.part, offset, bytes.get_mut(..size)?);
    read.then(|| u64::from_le_bytes(bytes))
}

/// How many values it has now.
fn count(image: &Image, parameter: &Parameter) -> u32 {
    let Some(place) = parameter.number else {
        return parameter.elements;
    };
    let mut bytes = [0; 4];
    if image.read(place.part, place.offset, &mut bytes) {
        u32::from_le_bytes(bytes).min(parameter.elements)
    } else {
        0
    }
}

/// Writes the text at `address` of the kernel: one that was kept, or one of the module's own.
fn show_text(image: &Image, kept: &[Box<[u8]>], address: u64, out: &mut Text) {
    if address == 0 {
        return out.add(b"(null)");
    }
    if let Some(text) = kept.iter().find(|text| text.as_ptr() as u64 == address) {
        return out.add(text.strip_suffix(b"\0").unwrap_or(text));
    }
    for n in 0..LONGEST as u64 {
        match image.byte(address.wrapping_add(n)) {
            None | Some(0) => break,
            Some(byte) => out.add([byte]),
        }
    }
}

/// Writes one value.
fn show_one(image: &Image, kept: &[Box<[u8]>], parameter: &Parameter, index: u32, out: &mut Text) {
    let Some(bits) = value(image, parameter, index) else {
        return;
    };
    let _ = match parameter.kind {
        Type::Bool => out.write_char(if bits != 0 { 'Y' } else { 'N' }),
        Type::InvertedBool => out.write_char(if bits != 0 { 'N' } else { 'Y' }),
        Type::BoolInt => write!(out, "{}", bits as i32),
        Type::Number { hex: true, .. } if bits == 0 => out.write_str("00000000"),
        Type::Number { hex: true, .. } => write!(out, "{bits:#08x}"),
        Type::Number {
            size, signed: true, ..
        } => {
            let unused = 64 - 8 * u32::from(size.clamp(1, 8));
            write!(out, "{}", (bits << unused).cast_signed() >> unused)
        }
        Type::Number { .. } => write!(out, "{bits}"),
        Type::Text(_) => {
            show_text(image, kept, bits, out);
            Ok(())
        }
        Type::Buffer => Ok(()),
    };
}

/// Writes a parameter's value as its file shows it. `ENODEV`: the module is gone.
pub fn show(module: &Module, named: &Named, out: &mut Text) -> Result<(), Errno> {
    let body = module.body().ok_or(Errno::ENODEV)?;
    let image = body.image.lock();
    let image = image.as_ref().ok_or(Errno::ENODEV)?;
    let kept = body.texts.lock();
    let parameter = &named.parameter;
    if parameter.kind == Type::Buffer {
        for offset in 0..u64::from(parameter.elements) {
            let mut byte = [0];
            let read = image.read(
                parameter.variable.part,
                parameter.variable.offset + offset,
                &mut byte,
            );
            if !read || byte == [0] {
                break;
            }
            out.add(byte);
        }
    } else if parameter.array {
        for index in 0..count(image, parameter) {
            if index > 0 {
                out.add(b",");
            }
            show_one(image, &kept, parameter, index, out);
        }
    } else {
        show_one(image, &kept, parameter, 0, out);
    }
    out.add(b"\n");
    Ok(())
}

/// Sets a parameter to what was written to its file. `EPERM`: it cannot be set any more; `ENODEV`: the module
/// is gone; else what the value is.
pub fn set(module: &Module, named: &Named, text: &[u8]) -> Result<(), Errno> {
    let body = module.body().ok_or(Errno::ENODEV)?;
    let _theirs = Reading::begin();
    let mut image = body.image.lock();
    let image = image.as_mut().ok_or(Errno::ENODEV)?;
    let mut kept = body.texts.lock();
    let parameter = &named.parameter;
    let before: Vec<u64> = match parameter.kind {
        Type::Text(_) => {
            let mut before = Vec::new();
            room_exact(&mut before, parameter.elements as usize)?;
            before.extend((0..parameter.elements).filter_map(|index| value(image, parameter, index)));
            before
        }
        _ => Vec::new(),
    };
    let mut parts = image.written_parts();
    if parts[parameter.variable.part as usize].bytes.is_empty() {
        return Err(Errno::EPERM);
    }
    let text = text.split(|b| *b == 0).next().unwrap_or(b"");
    let result = parameter.set(Some(text), &mut parts, &mut |text| keep(text, &mut kept));
    // Whatever no value points to any more is freed.
    let now = |address| (0..parameter.elements).any(|n| value(image, parameter, n) == Some(address));
    let gone = |address: u64| before.contains(&address) && !now(address);
    kept.retain(|text| !gone(text.as_ptr() as u64));
    result
}
