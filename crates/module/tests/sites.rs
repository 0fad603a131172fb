//! Sites of functions: what compilers leave becomes what the kernel expects, and nothing else is touched.

use limen_module::{Arm, Arm64, Machine, Powerpc64, X86_64};

const NOTHING: u64 = 0x1122_3344_5566_7788;
const AT: u64 = 0x10_0000;
const TO: u64 = 0x12_3450;

/// The site, what it calls, the trampoline's number and from where it is called, and the bytes afterwards.
type Made = (Option<(u64, u64)>, Vec<(usize, u64)>, Vec<u8>);

fn make<M: Machine>(bytes: &[u8], address: u64) -> Made {
    let (mut bytes, mut asked) = (bytes.to_vec(), Vec::new());
    let made = M::make_site(&mut bytes, address, NOTHING, &mut |n, from| {
        asked.push((n, from));
        Some(TO)
    });
    (made, asked, bytes)
}

/// Whatever is changed in what the compiler leaves, or where it is, it is left alone.
fn refuses<M: Machine>(good: &[u8], len: usize, align: u64) {
    assert!(make::<M>(good, AT).0.is_some());
    assert_eq!(make::<M>(good, AT + align / 2).0, None);
    for n in 0..len {
        let mut bad = good.to_vec();
        bad[n] ^= 0x40;
        let (made, _, after) = make::<M>(&bad, AT);
        assert_eq!((made, after), (None, bad), "{n}");
    }
    for n in 0..len {
        let (made, _, after) = make::<M>(&good[..n], AT);
        assert_eq!((made, &*after), (None, &good[..n]), "{n}");
    }
    let mut far = good.to_vec();
    assert_eq!(M::make_site(&mut far, AT, NOTHING, &mut |_, _| None), None);
    assert_eq!(far, good);
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn x86_64() {
    let mut gcc = vec![0x90; 13];
    gcc.extend([0x55, 0xc3, 0xcc]);
    let (made, asked, after) = make::<X86_64>(&gcc, AT);
    assert_eq!((made, asked), (Some((AT + 8, TO)), vec![(0, AT + 13)]));
    assert_eq!(after[..8], NOTHING.to_le_bytes());
    assert_eq!(after[8..], [0x0f, 0x1f, 0x44, 0, 8, 0x55, 0xc3, 0xcc]);
    // LLVM's is one instruction.
    let mut llvm = gcc.clone();
    llvm[8..13].copy_from_slice(&after[8..13]);
    assert_eq!(make::<X86_64>(&llvm, AT).2, after);
    refuses::<X86_64>(&gcc, 13, 8);
}

#[test]
fn arm64() {
    let code = words(&[0xd503_201f, 0xd503_201f, 0xd503_201f, 0xd503_201f, 0xd65f_03c0]);
    let (made, asked, after) = make::<Arm64>(&code, AT);
    assert_eq!((made, asked), (Some((AT + 8, TO)), vec![(0, AT + 12)]));
    assert_eq!(after[..8], NOTHING.to_le_bytes());
    assert_eq!(after[8..], words(&[0xaa1e_03e9, 0xd503_201f, 0xd65f_03c0]));
    refuses::<Arm64>(&code, 16, 8);
}

#[test]
fn arm() {
    let nop = 0xe320_f000;
    let gcc = words(&[nop, nop, nop, nop, nop, nop, nop, 0xe12f_ff1e]);
    let (made, asked, after) = make::<Arm>(&gcc, AT);
    assert_eq!((made, asked), (Some((AT, TO)), vec![(0, AT + 16)]));
    let call = 0xeb00_0000 | ((TO - AT - 16) >> 2) as u32;
    let slot = NOTHING as u32;
    let wanted = [
        0xea00_0005,
        0xe1a0_c00e,
        call,
        0xea00_0002,
        slot,
        nop,
        nop,
        0xe12f_ff1e,
    ];
    assert_eq!(after, words(&wanted));
    let mut llvm = gcc.clone();
    llvm[..4].copy_from_slice(&after[..4]);
    assert_eq!(make::<Arm>(&llvm, AT).2, after);
    refuses::<Arm>(&gcc, 28, 4);
}

#[test]
fn powerpc64() {
    let nop = 0x6000_0000;
    let leaf = words(&[nop, nop, nop, nop, 0x4e80_0020, 0, 0]);
    let (made, asked, after) = make::<Powerpc64>(&leaf, AT);
    assert_eq!((made, asked), (Some((AT + 8, TO)), vec![(0, AT + 12)]));
    assert_eq!(after[..8], NOTHING.to_le_bytes());
    assert_eq!(after[8..], words(&[0x7c08_02a6, nop, 0x4e80_0020, 0, 0]));
    refuses::<Powerpc64>(&leaf, 16, 8);
    // The address of the table of contents comes first.
    let toc = [0x3c4c_0001, 0x3842_8000];
    let code = words(&[nop, nop, toc[0], toc[1], nop, nop, 0x4e80_0020]);
    let (made, asked, after) = make::<Powerpc64>(&code, AT);
    assert_eq!((made, asked), (Some(((AT + 16) | 1, TO)), vec![(1, AT + 20)]));
    assert_eq!(
        after[8..],
        words(&[toc[0], toc[1], 0x7c08_02a6, nop, 0x4e80_0020])
    );
    // Where only calls through pointers pass (GCC 12).
    let other = words(&[nop, nop, nop, nop, toc[0], toc[1], 0x4e80_0020]);
    assert_eq!(make::<Powerpc64>(&other, AT).0, None);
}
