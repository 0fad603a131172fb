//! Signal frames of the i386 ABI (`struct sigframe_ia32`, `rt_sigframe_ia32`): those of handlers that its
//! calls have set. They run in 32-bit code, and what their return restores has 32 bits, too.

use super::descriptor::USER_32_CS;
use super::frame::{CHANGED, COMPAT, EFLAGS_DF, EFLAGS_RF, EFLAGS_TF, Frame, USER_DS};
use super::signal_fpu::{SW_BYTES, fpu_size, restore_fpu, save_fpu};
use super::switch::Fault;
use super::{fpu, selector};
use crate::mm::user::{UserBlock, UserPtr};
use crate::signal::deliver::SS_ONSTACK;
use crate::signal::{CompatRestored, Delivery};
use limen_linux_abi::Errno;

/// `struct sigcontext_32`: GS, FS, ES, DS, EDI, ESI, EBP, ESP, EBX, EDX, ECX, EAX, trap number, error code,
/// EIP, CS, EFLAGS, ESP once more, SS, the address of the floating-point state, the lower half of the mask,
/// the fault address.
type Context = [u32; 22];

/// Words of `struct sigframe_ia32`: restorer, signal, context; then room for an older floating-point state,
/// which nobody writes; then the mask's upper half and code.
const CONTEXT: usize = 2;
const UPPER_MASK: usize = 180;
const FRAME: usize = 183;

/// Words of `struct rt_sigframe_ia32`: restorer, signal, addresses of `siginfo_t` and `ucontext`, and these:
/// flags, link, alternate stack, context, mask; then code.
const INFO: usize = 4;
const UCONTEXT: usize = INFO + crate::signal::info::SIZE / 4;
const STACK: usize = UCONTEXT + 2;
const RT_CONTEXT: usize = STACK + 3;
const MASK: usize = RT_CONTEXT + 22;
const RT_FRAME: usize = MASK + 4;

const _: () = assert!(FRAME * 4 == 732 && RT_FRAME * 4 == 268);

/// `pop eax; mov eax, 119; int 0x80`, `sigreturn`.
const CODE: [u32; 2] = [0x0077_b858, 0x80cd_0000];
/// `mov eax, 173; int 0x80`, `rt_sigreturn`.
const RT_CODE: [u32; 2] = [0x0000_adb8, 0x0080_cd00];

/// `uc_flags`: the floating-point state is followed by extended state.
const UC_FP_XSTATE: u32 = 1;

/// The state of the x87 as `fsave` stores it, with two words of 16 bits behind it: the status once more, and
/// 0, as what `fxsave` stores comes next.
type Old = [u32; 28];
const OLD_SIZE: usize = size_of::<Old>();
/// In that, and in what `fxsave` stores: the eight registers, of ten bytes, in the latter 16 apart.
const OLD_REGISTERS: usize = 28;
const REGISTERS: usize = 32;
/// What is read of the latter.
const X87: usize = REGISTERS + 8 * 16;

/// Where addresses of 32 bits end.
const END: usize = 1 << 32;

fn half(bytes: &[u8], at: usize) -> u16 {
    let found = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    found.map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from(half(bytes, at)) | u32::from(half(bytes, at + 2)) << 16
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(to) = bytes.get_mut(at..at + value.len()) {
        to.copy_from_slice(value);
    }
}

/// The tag of a register that is in use, by its value: valid, zero, special.
fn tag(register: &[u8]) -> u32 {
    const VALID: u32 = 0;
    const ZERO: u32 = 1;
    const SPECIAL: u32 = 2;
    let whole = half(register, 6) & 0x8000 != 0;
    match half(register, 8) & 0x7fff {
        0 if register.iter().take(8).all(|byte| *byte == 0) => ZERO,
        1..0x7fff if whole => VALID,
        _ => SPECIAL,
    }
}

/// What `fsave` would have stored instead of `new`. The selectors of the last instruction and operand are
/// not known: those of now, `cs` and `ds`, are in their places.
fn old_state(new: &[u8; X87], cs: u16, ds: u16) -> Old {
    const EMPTY: u32 = 3;
    const UPPER: u32 = 0xffff_0000;
    let status = half(new, 2);
    let top = usize::from(status >> 11 & 7);
    let mut tags = UPPER;
    for n in 0..8usize {
        let at = REGISTERS + 16 * (n.wrapping_sub(top) & 7);
        let tag = match new[4] >> n & 1 {
            0 => EMPTY,
            _ => tag(new.get(at..at + 10).unwrap_or(&[])),
        };
        tags |= tag << (2 * n);
    }
    let mut bytes = [0; OLD_SIZE];
    let words = [
        u32::from(half(new, 0)) | UPPER,
        u32::from(status) | UPPER,
        tags,
        word(new, 8),
        u32::from(cs),
        word(new, 16),
        u32::from(ds) | UPPER,
    ];
    for (n, word) in words.into_iter().enumerate() {
        put(&mut bytes, 4 * n, &word.to_le_bytes());
    }
    for n in 0..8 {
        let from = REGISTERS + 16 * n;
        put(
            &mut bytes,
            OLD_REGISTERS + 10 * n,
            new.get(from..from + 10).unwrap_or(&[]),
        );
    }
    put(&mut bytes, OLD_SIZE - 4, &status.to_le_bytes());
    core::array::from_fn(|n| word(&bytes, 4 * n))
}

/// Makes `new`, what `fxsave` stores, say of the x87 what `old` says.
fn put_old_state(new: &mut [u8], old: &Old) {
    let mut bytes = [0; OLD_SIZE];
    for (n, word) in old.iter().enumerate() {
        put(&mut bytes, 4 * n, &word.to_le_bytes());
    }
    let [control, status, tags, ip, cs, operand, ..] = *old;
    // (Tags of two bits become one: whether the register is in use.)
    let used = (0..8).fold(0u16, |used, n| used | u16::from(tags >> (2 * n) & 3 != 3) << n);
    put(new, 0, &(control as u16).to_le_bytes());
    put(new, 2, &(status as u16).to_le_bytes());
    put(new, 4, &used.to_le_bytes());
    put(new, 6, &((cs >> 16) as u16).to_le_bytes());
    put(new, 8, &u64::from(ip).to_le_bytes());
    put(new, 16, &u64::from(operand).to_le_bytes());
    for n in 0..8 {
        let from = OLD_REGISTERS + 10 * n;
        put(new, REGISTERS + 16 * n, bytes.get(from..from + 10).unwrap_or(&[]));
    }
}

/// Writes the floating-point state to the user stack: the extended one at `at + OLD_SIZE`, 64-byte aligned,
/// of `size` bytes, and the old one at `at`.
fn save_state(at: usize, size: usize, cs: u16, ds: u16) -> Result<(), Errno> {
    let new = at.wrapping_add(OLD_SIZE);
    save_fpu(new, size)?;
    if fpu::components() != 0 {
        UserPtr::new(new + SW_BYTES + 4).write((size + OLD_SIZE) as u32)?;
    }
    let image = UserPtr::<[u8; X87]>::new(new).read()?;
    UserPtr::new(at).write(old_state(&image, cs, ds))
}

/// Loads it from there; 0: that of a fresh program.
fn restore_state(at: usize) -> Result<(), Errno> {
    if at == 0 {
        return restore_fpu(0);
    }
    let old: Old = UserPtr::new(at).read()?;
    restore_fpu(at + OLD_SIZE)?;
    fpu::change_legacy(|image| put_old_state(image, &old));
    Ok(())
}

/// Builds the signal frame of 32-bit words and makes `frame` enter the handler in 32-bit code. `legacy`: the
/// top of a stack that the action names instead of a restorer; it counts if the thread has an unusual stack
/// segment. `EFAULT` if the stack is not there, or not below 4 GiB.
#[cold]
pub fn setup_compat(frame: &mut Frame, delivery: &Delivery<'_>, legacy: Option<usize>) -> Result<(), Errno> {
    let mut sp = delivery.stack_top;
    let (bottom, flags, size) = delivery.altstack;
    let mut alternate = sp != frame.rsp || flags & SS_ONSTACK != 0;
    if let Some(top) = legacy
        && !alternate
        && frame.ss != USER_DS
    {
        (sp, alternate) = (top, true);
    }
    if sp > END {
        return Err(Errno::EFAULT);
    }
    let fpu_size = fpu_size();
    let fp = (sp.wrapping_sub(fpu_size) & !63).wrapping_sub(OLD_SIZE);
    let words = if delivery.siginfo { RT_FRAME } else { FRAME };
    // As after a call: 4 below a multiple of 16.
    let at = (fp.wrapping_sub(4 * words).wrapping_add(4) & !15).wrapping_sub(4);
    if alternate && !(at > bottom && at - bottom <= size) {
        return Err(Errno::EFAULT);
    }
    crate::mm::user::check(at, 4 * words)?;
    let [ds, es, fs, gs] = selector::all();
    save_state(fp, fpu_size, frame.cs as u16, ds)?;
    let fault = Fault::of_current();
    let f = &*frame;
    let context: Context = [
        gs.into(),
        fs.into(),
        es.into(),
        ds.into(),
        f.rdi as u32,
        f.rsi as u32,
        f.rbp as u32,
        f.rsp as u32,
        f.rbx as u32,
        f.rdx as u32,
        f.rcx as u32,
        f.rax as u32,
        fault.trap as u32,
        fault.error as u32,
        f.rip as u32,
        u32::from(f.cs as u16),
        f.eflags as u32,
        f.rsp as u32,
        u32::from(f.ss as u16),
        fp as u32,
        delivery.mask as u32,
        fault.cr2 as u32,
    ];
    // There is no vDSO of 32-bit code: without a restorer, the code is in the frame.
    let code_at = at + 4 * (words - 2);
    let restorer = delivery.restorer.unwrap_or(code_at) as u32;
    let arguments = if delivery.siginfo {
        let [info, ucontext] = [at + 4 * INFO, at + 4 * UCONTEXT];
        let extended = if fpu_size != fpu::LEGACY { UC_FP_XSTATE } else { 0 };
        let place = UserBlock::<{ 4 * RT_FRAME }>::new(at)?;
        place.write(0, &[restorer, delivery.signal, info as u32, ucontext as u32])?;
        place.write(4 * INFO, &delivery.info.narrow_bytes())?;
        place.write(4 * UCONTEXT, &[extended, 0, bottom as u32, flags, size as u32])?;
        place.write(4 * RT_CONTEXT, &context)?;
        place.write(4 * MASK, &delivery.mask)?;
        place.write(4 * (RT_FRAME - 2), &RT_CODE)?;
        [info, ucontext]
    } else {
        let place = UserBlock::<{ 4 * FRAME }>::new(at)?;
        place.write(0, &[restorer, delivery.signal])?;
        place.write(4 * CONTEXT, &context)?;
        place.write(4 * UPPER_MASK, &[(delivery.mask >> 32) as u32, CODE[0], CODE[1]])?;
        [0, 0]
    };
    fpu::load_initial();
    selector::enter_32_bits();
    [frame.rdx, frame.rcx] = arguments;
    frame.rax = delivery.signal as usize;
    frame.rip = delivery.handler;
    frame.rsp = at;
    frame.cs = USER_32_CS | CHANGED;
    frame.ss = USER_DS;
    frame.eflags &= !(EFLAGS_DF | EFLAGS_RF | EFLAGS_TF);
    Ok(())
}

/// Restores the registers of 32 bits from the signal frame at the user stack pointer, which the return from
/// the handler (and, without `siginfo`, the restorer's `pop`) has moved; what user mode may not choose is
/// masked. The others stay. `EFAULT`: the frame cannot be read.
pub fn restore_compat(frame: &mut Frame, siginfo: bool) -> Result<CompatRestored, Errno> {
    let (context, mask, altstack): (Context, u64, _) = if siginfo {
        let block = UserBlock::<{ 4 * RT_FRAME }>::new(frame.rsp.wrapping_sub(4))?;
        let [sp, flags, size]: [u32; 3] = block.read(4 * STACK)?;
        (
            block.read(4 * RT_CONTEXT)?,
            block.read(4 * MASK)?,
            Some((sp as usize, flags, size as usize)),
        )
    } else {
        let block = UserBlock::<{ 4 * FRAME }>::new(frame.rsp.wrapping_sub(8))?;
        let context: Context = block.read(4 * CONTEXT)?;
        let upper: u32 = block.read(4 * UPPER_MASK)?;
        (context, u64::from(upper) << 32 | u64::from(context[20]), None)
    };
    let wide = |n: usize| context[n] as usize;
    frame.rdi = wide(4);
    frame.rsi = wide(5);
    frame.rbp = wide(6);
    frame.rsp = wide(7);
    frame.rbx = wide(8);
    frame.rdx = wide(9);
    frame.rcx = wide(10);
    frame.rax = wide(11);
    frame.rip = wide(14);
    frame.set_user_flags(wide(16));
    // It stays a call of this ABI until user mode goes on.
    frame.cs = wide(15) & 0xffff | 3 | frame.cs & COMPAT | CHANGED;
    frame.ss = wide(18) & 0xffff | 3;
    frame.forget_syscall();
    selector::reload([3, 2, 1, 0].map(|n| context[n] as u16));
    restore_state(wide(19))?;
    Ok(CompatRestored { mask, altstack })
}
