//! Checks the linked image: no function takes more of the kernel stack than what erasing the stack relies on
//! (`kernel/src/threshold/hardened.rs`). The compiler writes each function's frame size into the section
//! `.stack_sizes`, which is not loaded.

use crate::linked;
use anyhow::{Context, Result, bail};
use object::{Object, ObjectSection};

/// The largest frame, bytes.
pub const MOST: u64 = 4096;

/// Functions that run once, on stacks of their own, before the first program.
const OF_BOOT: [&str; 6] = [
    "limen_kernel::arch::imp::boot::",
    "limen_kernel::arch::imp::devicetree::",
    "limen_kernel::arch::imp::pci::bridge",
    "limen_kernel::arch::imp::platform::init",
    "limen_kernel::boot::with_threads",
    "limen_kernel::driver::init",
];

/// The largest frame of a kernel, and the function whose it is. An error names each function that has more
/// than [`MOST`] bytes.
pub fn check_image(data: &[u8]) -> Result<(u64, String)> {
    let file = object::File::parse(data)?;
    let section = file
        .section_by_name(".stack_sizes")
        .context("the image does not say how large its frames are (section .stack_sizes)")?;
    let pointer = if file.is_64() { 8 } else { 4 };
    let sizes = sizes(section.data()?, pointer).context("the section .stack_sizes is damaged")?;
    let names = linked::functions(&file);
    let name = |address| match names.range(..=address).next_back() {
        Some((_, name)) => name.clone(),
        None => format!("{address:#x}"),
    };
    let mut frames: Vec<(u64, String)> = sizes
        .into_iter()
        .map(|(address, size)| (size, name(address)))
        .collect();
    frames.retain(|(_, name)| !OF_BOOT.iter().any(|of_boot| name.contains(of_boot)));
    frames.sort();
    let large: Vec<String> = frames
        .iter()
        .filter(|(size, _)| *size > MOST)
        .map(|(size, name)| format!("{name}: {size} bytes"))
        .collect();
    if !large.is_empty() {
        bail!(
            "functions with more than {MOST} bytes on the stack (put large things on the heap):\n{}",
            large.join("\n")
        );
    }
    frames.pop().context("the image has no frame sizes")
}

/// Address and frame size of each function: a pointer, and a number of seven bits a byte.
fn sizes(mut data: &[u8], pointer: usize) -> Option<Vec<(u64, u64)>> {
    let mut all = Vec::new();
    while !data.is_empty() {
        let (address, rest) = data.split_at_checked(pointer)?;
        let mut word = [0; 8];
        word[..pointer].copy_from_slice(address);
        let end = rest.iter().position(|byte| byte & 0x80 == 0)? + 1;
        let (number, rest) = rest.split_at(end);
        if number.len() > 9 {
            return None;
        }
        let size = number
            .iter()
            .rev()
            .fold(0, |size, byte| size << 7 | u64::from(byte & 0x7f));
        all.push((u64::from_le_bytes(word), size));
        data = rest;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::sizes;

    #[test]
    fn numbers_of_several_bytes() {
        let data = [1, 0, 0, 0, 0x28, 2, 0, 0, 0, 0x80, 0x20, 3, 0, 0, 0, 0];
        assert_eq!(sizes(&data, 4), Some(vec![(1, 40), (2, 4096), (3, 0)]));
    }

    #[test]
    fn damage_is_noticed() {
        assert_eq!(sizes(&[1, 0, 0], 4), None);
        assert_eq!(sizes(&[1, 0, 0, 0], 4), None);
        assert_eq!(sizes(&[1, 0, 0, 0, 0x80], 4), None);
    }
}
