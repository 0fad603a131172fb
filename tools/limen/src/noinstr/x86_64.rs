//! Flow of control of x86-64 instructions, from the `iced-x86` decoder.

use super::{Flow, Step};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};

/// Decodes the instruction at `address`.
pub(crate) fn decode(code: &[u8], address: u64) -> Step {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let instruction: Instruction = decoder.decode();
    let flow = match instruction.flow_control() {
        FlowControl::Next | FlowControl::Interrupt | FlowControl::XbeginXabortXend => Flow::Next,
        FlowControl::UnconditionalBranch => Flow::Jump(instruction.near_branch_target()),
        FlowControl::ConditionalBranch => Flow::Branch(instruction.near_branch_target()),
        FlowControl::Call => Flow::Call(instruction.near_branch_target()),
        FlowControl::IndirectBranch => Flow::IndirectJump,
        FlowControl::IndirectCall => Flow::IndirectCall,
        FlowControl::Return if instruction.mnemonic() == Mnemonic::Ret => Flow::Return,
        FlowControl::Return | FlowControl::Exception => Flow::End,
    };
    Step {
        length: instruction.len().max(1) as u64,
        flow,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches() {
        let flow = |code: &[u8]| {
            let step = decode(code, 0x1000);
            assert_eq!(step.length, code.len() as u64);
            step.flow
        };
        assert_eq!(flow(&[0x90]), Flow::Next);
        assert_eq!(flow(&[0xe8, 0xfb, 0xff, 0xff, 0xff]), Flow::Call(0x1000));
        assert_eq!(flow(&[0xeb, 0x02]), Flow::Jump(0x1004));
        assert_eq!(flow(&[0x74, 0x02]), Flow::Branch(0x1004));
        assert_eq!(flow(&[0xff, 0xd0]), Flow::IndirectCall);
        assert_eq!(flow(&[0xff, 0xe0]), Flow::IndirectJump);
        assert_eq!(flow(&[0xc3]), Flow::Return);
        assert_eq!(flow(&[0x48, 0xcf]), Flow::End);
        assert_eq!(flow(&[0x0f, 0x0b]), Flow::End);
        // sysretq
        assert_eq!(flow(&[0x48, 0x0f, 0x07]), Flow::End);
    }
}
