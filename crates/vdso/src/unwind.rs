//! What unwinders need to know of the trampoline that ends a signal handler: where the registers of the
//! interrupted code are (`.eh_frame` and `.eh_frame_hdr`; DWARF 5 section 6.4, Linux Standard Base chapter
//! 10.6). An exception, a cancelled thread and a debugger go through a signal's frame by it.

/// The trampoline, and where the signal frame above it has the registers.
#[derive(Clone, Copy, Debug)]
pub struct SignalFrame {
    /// The trampoline's address in the kernel's image. Handlers return to its second instruction: unwinders
    /// look a return address up one byte before it, where a call would be.
    pub trampoline: fn() -> usize,
    /// Its size in bytes.
    pub size: usize,
    /// After so many bytes of it, `stack` bytes have been taken off the stack; below 64.
    pub taken_after: u8,
    /// See `taken_after`.
    pub stack: usize,
    /// The stack pointer, from which everything is found, and where that of the interrupted code is.
    pub stack_pointer: Saved,
    /// DWARF's number of the register that says where the code was interrupted.
    pub return_register: u8,
    /// All registers, that one included.
    pub registers: &'static [Registers],
}

/// Where a register is.
#[derive(Clone, Copy, Debug)]
pub struct Saved {
    /// DWARF's number of it.
    pub register: u8,
    /// Bytes from the stack pointer, as the handler returns, to it; or, if it is `behind` a pointer, to that.
    pub at: usize,
    /// If set: bytes from where the pointer points.
    pub behind: Option<usize>,
}

/// Registers one behind the other: the first, how many, bytes of each.
#[derive(Clone, Copy, Debug)]
pub struct Registers(pub Saved, pub u8, pub usize);

/// `DW_OP_breg0`, to which a register's number below 32 is added.
const BASE_OP: u8 = 0x70;
const DW_OP_DEREF: u8 = 0x06;
const DW_OP_PLUS_UCONST: u8 = 0x23;
const DW_CFA_ADVANCE_LOC: u8 = 0x40;
const DW_CFA_DEF_CFA_EXPRESSION: u8 = 0x0f;
const DW_CFA_EXPRESSION: u8 = 0x10;
/// Relative to where it is; four bytes, signed.
const PCREL_SDATA4: u8 = 0x1b;
/// Relative to the table's head; four bytes, signed.
const DATAREL_SDATA4: u8 = 0x3b;
const UDATA4: u8 = 0x03;

/// Bytes of `.eh_frame_hdr` with one entry.
pub const HEAD: usize = 20;

/// Takes bytes in order. Counts them even where there is no room.
struct Out<'a> {
    to: &'a mut [u8],
    at: usize,
}

impl Out<'_> {
    fn byte(&mut self, byte: u8) {
        if let Some(to) = self.to.get_mut(self.at) {
            *to = byte;
        }
        self.at += 1;
    }
    fn bytes(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.byte(*byte));
    }
    fn word(&mut self, word: u32) {
        self.bytes(&word.to_le_bytes());
    }
    /// The distance from here to `target`, an offset as `at` is.
    fn distance(&mut self, target: usize) {
        self.word((target as i64 - self.at as i64) as u32);
    }
    fn unsigned(&mut self, mut value: usize) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }
    fn signed(&mut self, mut value: isize) {
        while !(-0x40..0x40).contains(&value) {
            self.byte(value as u8 & 0x7f | 0x80);
            value >>= 7;
        }
        self.byte(value as u8 & 0x7f);
    }
    /// What `write` puts out, with its length in front, which must be below 128.
    fn with_length(&mut self, write: impl FnOnce(&mut Self)) {
        let length = self.at;
        self.byte(0);
        write(self);
        let bytes = self.at - length - 1;
        if let Some(to) = self.to.get_mut(length) {
            *to = bytes as u8;
        }
    }
    /// An entry of `.eh_frame`: its length, then what `write` puts out, filled up to eight bytes.
    fn entry(&mut self, write: impl FnOnce(&mut Self)) {
        let length = self.at;
        self.word(0);
        write(self);
        while !self.at.is_multiple_of(8) {
            self.byte(0);
        }
        let bytes = (self.at - length - 4) as u32;
        if let Some(to) = self.to.get_mut(length..length + 4) {
            to.copy_from_slice(&bytes.to_le_bytes());
        }
    }
    /// Where `saved` is, when `taken` bytes have been taken off the stack.
    fn place(&mut self, stack_pointer: u8, saved: Saved, taken: usize) {
        self.byte(BASE_OP + stack_pointer);
        self.signed(saved.at as isize - taken as isize);
        if let Some(behind) = saved.behind {
            self.byte(DW_OP_DEREF);
            self.byte(DW_OP_PLUS_UCONST);
            self.unsigned(behind);
        }
    }
    /// Where everything is, when `taken` bytes have been taken off the stack.
    fn rules(&mut self, frame: &SignalFrame, taken: usize) {
        let sp = frame.stack_pointer;
        self.byte(DW_CFA_DEF_CFA_EXPRESSION);
        self.with_length(|out| {
            out.place(sp.register, sp, taken);
            out.byte(DW_OP_DEREF);
        });
        for &Registers(first, count, size) in frame.registers {
            for n in 0..count {
                let far = usize::from(n) * size;
                let saved = Saved {
                    register: first.register + n,
                    at: first.at + if first.behind.is_none() { far } else { 0 },
                    behind: first.behind.map(|behind| behind + far),
                };
                self.byte(DW_CFA_EXPRESSION);
                self.byte(saved.register);
                self.with_length(|out| out.place(sp.register, saved, taken));
            }
        }
    }
}

/// Writes both parts to `out` at `at`, a multiple of 8: first the head, of [`HEAD`] bytes. The trampoline is
/// at offset `code` of the object, as `at` is one. Returns where they end, even if that is beyond `out`.
pub fn write(out: &mut [u8], at: usize, code: usize, frame: &SignalFrame) -> usize {
    let mut w = Out { to: out, at };
    let frames = at + HEAD.next_multiple_of(8);
    w.bytes(&[1, PCREL_SDATA4, UDATA4, DATAREL_SDATA4]);
    w.distance(frames);
    w.word(1);
    w.word((code as i64 - at as i64) as u32);
    let described = w.at;
    w.word(0);
    w.at = frames;
    w.entry(|w| {
        w.word(0);
        w.byte(1);
        // With augmentation data, the encoding of addresses, and of a signal: what is told holds before the
        // instruction at the caller's address, not behind a call.
        w.bytes(b"zRS\0");
        w.unsigned(1);
        w.signed(-8);
        w.byte(frame.return_register);
        w.unsigned(1);
        w.byte(PCREL_SDATA4);
    });
    let description = w.at;
    w.entry(|w| {
        w.word((w.at - frames) as u32);
        w.distance(code);
        w.word(frame.size as u32);
        w.unsigned(0);
        w.rules(frame, 0);
        w.byte(DW_CFA_ADVANCE_LOC | frame.taken_after);
        w.rules(frame, frame.stack);
    });
    w.word(0);
    let end = w.at;
    w.at = described;
    w.word((description - at) as u32);
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use gimli::{BaseAddresses, CfaRule, EhFrame, EhFrameHdr, LittleEndian, RegisterRule, UnwindContext};
    use gimli::{EvaluationResult, Location, Register, UnwindSection, Value};

    const AT: usize = 0x340;
    const CODE: usize = 0x1188;

    const fn word(register: u8, at: usize) -> Saved {
        Saved {
            register,
            at,
            behind: None,
        }
    }

    const FRAME: SignalFrame = SignalFrame {
        trampoline: || 0,
        size: 16,
        taken_after: 8,
        stack: 128,
        stack_pointer: word(1, 368),
        return_register: 67,
        registers: &[
            Registers(word(0, 360), 32, 8),
            Registers(word(67, 616), 1, 8),
            Registers(
                Saved {
                    register: 77,
                    at: 1000,
                    behind: Some(16),
                },
                32,
                16,
            ),
        ],
    };

    /// What an expression gives if the stack pointer is `sp`, and a word of memory holds `!` its address.
    fn evaluated(expression: gimli::Expression<gimli::EndianSlice<'_, LittleEndian>>, sp: u64) -> u64 {
        let encoding = gimli::Encoding {
            format: gimli::Format::Dwarf32,
            version: 4,
            address_size: 8,
        };
        let mut evaluation = expression.evaluation(encoding);
        let mut result = evaluation.evaluate().unwrap();
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    assert_eq!(register, Register(1));
                    evaluation.resume_with_register(Value::Generic(sp)).unwrap()
                }
                EvaluationResult::RequiresMemory { address, .. } => {
                    evaluation.resume_with_memory(Value::Generic(!address)).unwrap()
                }
                other => panic!("{other:?}"),
            };
        }
        match evaluation.result()[..] {
            [
                gimli::Piece {
                    location: Location::Address { address },
                    ..
                },
            ] => address,
            ref other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_unwinder_finds_every_register() {
        let mut out = vec![0u8; 4096];
        let end = write(&mut out, AT, CODE, &FRAME);
        assert!(end < 4096 && out[end..].iter().all(|byte| *byte == 0));
        let bases = BaseAddresses::default()
            .set_eh_frame_hdr(AT as u64)
            .set_eh_frame((AT + HEAD.next_multiple_of(8)) as u64);
        let head = EhFrameHdr::new(&out[AT..end], LittleEndian)
            .parse(&bases, 8)
            .unwrap();
        let frames = EhFrame::new(&out[AT + HEAD.next_multiple_of(8)..end], LittleEndian);
        let table = head.table().unwrap();
        let mut context = UnwindContext::new();
        // Before the second instruction, at it, and behind what takes the frame off.
        for (at, sp) in [(3, 5000), (4, 5000), (8, 5128), (15, 5128)] {
            let found = table
                .fde_for_address(&frames, &bases, (CODE + at) as u64, EhFrame::cie_from_offset)
                .unwrap();
            assert!(found.cie().is_signal_trampoline());
            assert_eq!(found.cie().return_address_register(), Register(67));
            let row = found
                .unwind_info_for_address(&frames, &bases, &mut context, (CODE + at) as u64)
                .unwrap();
            let CfaRule::Expression(cfa) = row.cfa() else {
                panic!("no expression");
            };
            assert_eq!(evaluated(cfa.get(&frames).unwrap(), sp), !5368);
            for (register, place) in [
                (0, 5360),
                (31, 5608),
                (67, 5616),
                (77, !6000 + 16),
                (108, !6000 + 512),
            ] {
                let RegisterRule::Expression(rule) = row.register(Register(register)) else {
                    panic!("no expression");
                };
                assert_eq!(evaluated(rule.get(&frames).unwrap(), sp), place, "{register}");
            }
        }
        assert!(
            table
                .fde_for_address(&frames, &bases, (CODE + 16) as u64, EhFrame::cie_from_offset)
                .is_err()
        );
    }

    #[test]
    fn its_end_is_known_without_room() {
        let mut out = vec![0u8; 4096];
        let end = write(&mut out, AT, CODE, &FRAME);
        assert_eq!(write(&mut out[..AT + 30], AT, CODE, &FRAME), end);
    }
}
