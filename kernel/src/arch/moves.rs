//! Moves of memory (`limen_memory::Moves`) on 64-bit processors with unaligned loads and stores: what is left
//! for the architecture's `copy` are the instructions.

/// Runs the instructions given, of which those with user memory may fault: the function returns `false` then.
/// `USER` is 1 if there are any.
macro_rules! access {
    ([$($line:expr),+], $($operand:tt)+) => {{
        // SAFETY: as the caller promises; faults on the user's side are in the exception table.
        unsafe {
            asm!(
                "2:",
                $($line,)+
                "3: .if {user}",
                $crate::arch::imp::extable::may_fault!("2b", "3b", "{fault}"),
                ".endif",
                $($operand)+, user = const USER, fault = label { return false },
                    options(nostack, preserves_flags)
            );
        }
        true
    }};
}
pub(super) use access;

/// What all kinds of moves have in common: chunks of so many bytes, and `$move`, a macro that moves as many
/// bytes as it is told.
macro_rules! moves {
    ($move:ident, $chunk:literal) => {
        const WORD: usize = 8;
        const CHUNK: usize = $chunk;
        const ALIGN: usize = 1;
        const PARTS: bool = true;

        #[inline(always)]
        unsafe fn word<const AT: usize>(&self, to: usize, from: usize) -> bool {
            $move!(self, 8, 8 * AT, to, from)
        }

        #[inline(always)]
        unsafe fn part<const BYTES: usize>(&self, to: usize, from: usize) -> bool {
            match BYTES {
                4 => $move!(self, 4, 0, to, from),
                _ => $move!(self, 2, 0, to, from),
            }
        }

        #[inline(always)]
        unsafe fn byte(&self, to: usize, from: usize) -> bool {
            $move!(self, 1, 0, to, from)
        }
    };
}
pub(super) use moves;
