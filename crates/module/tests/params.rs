//! Parameters, as Linux reads them.

mod common;

use common::*;
use limen_module::*;

/// A module with parameters: name, type, elements, and whether the number is wanted. Each has 64 bytes.
fn module<M: Machine>(list: &[(&str, &str, u64, bool)]) -> Result<(Loaded, usize), (String, u16)> {
    module_with::<M>(list, A | W)
}

/// One whose variables are in a section with `flags`.
fn module_with<M: Machine>(
    list: &[(&str, &str, u64, bool)],
    flags: u64,
) -> Result<(Loaded, usize), (String, u16)> {
    let mut info = "name=m\0license=GPL\0limen_abi=1\0".to_string();
    let mut w = Writer::new::<M>();
    let word = M::CLASS.word();
    let (mut names, mut table) = (Vec::new(), Vec::new());
    for (name, kind, elements, _) in list {
        if !kind.is_empty() {
            info += &format!("parmtype={name}:{kind}\0");
        }
        names.extend(name.as_bytes());
        names.push(0);
        for n in 0..5 {
            let value = [0, 0, 0, *elements, 0o644][n];
            table.extend(&value.to_le_bytes()[..word]);
        }
    }
    w.section(".modinfo", A, 1, info.as_bytes());
    let names = w.section(".rodata", A, 1, &names);
    let data = w.section(".data", flags, 64, &vec![0xee; list.len() * 64]);
    let numbers = w.section(".data.numbers", A | W, 8, &vec![0xee; list.len() * 4]);
    if M::ADDENDS == Addends::InPlace {
        // Constants are in place.
        let mut at = 0;
        for (n, (name, _, _, wanted)) in list.iter().enumerate() {
            let row = n * 5 * word;
            table[row..row + 4].copy_from_slice(&(at as u32).to_le_bytes());
            table[row + word..][..4].copy_from_slice(&(n as u32 * 64).to_le_bytes());
            if *wanted {
                table[row + 2 * word..][..4].copy_from_slice(&(n as u32 * 4).to_le_bytes());
            }
            at += name.len() + 1;
        }
    }
    let params = w.section(".limen.params", A, word as u64, &table);
    let [name, variable, number] = [names, data, numbers].map(|s| w.symbol("", LOCAL, SECTION, s, 0));
    let pointer = if word == 8 { 1 } else { 2 };
    let mut at = 0;
    for (n, (text, _, _, wanted)) in list.iter().enumerate() {
        let row = (n * 5 * word) as u64;
        w.relocate(params, row, pointer, name, at);
        w.relocate(params, row + word as u64, pointer, variable, n as i64 * 64);
        if *wanted {
            w.relocate(params, row + 2 * word as u64, pointer, number, n as i64 * 4);
        }
        at += text.len() as i64 + 1;
    }
    let base = if word == 8 {
        0xffff_ffff_c000_0000
    } else {
        0xbf00_0000
    };
    load::<M>(&w.build(), from(base), Kernel::default()).map(|m| (m, data))
}

/// The result of arguments, what was not used, and the texts that were kept.
fn parse(m: &mut Loaded, args: &str) -> (Result<(), (u16, String)>, Vec<String>, Vec<String>) {
    let (mut unused, mut texts) = (Vec::new(), Vec::new());
    let result = m.with(|linked, parts| {
        let mut keep = |text: &[u8]| {
            texts.push(String::from_utf8(text.to_vec()).unwrap());
            Some(0x1000 + texts.len() as u64)
        };
        linked
            .parameters
            .parse(args.as_bytes(), parts, &mut keep, &mut |u| {
                unused.push(u.to_string())
            })
            .map_err(|bad| (bad.errno.get(), bad.to_string()))
    });
    (result, unused, texts)
}

/// What a parameter of type `kind` holds after `x=value`, in `bytes` bytes.
fn set(kind: &str, value: &str, bytes: usize) -> Result<u64, u16> {
    let (mut m, data) = module::<X86_64>(&[("x", kind, 1, false)]).unwrap();
    parse(&mut m, &format!("x={value}"))
        .0
        .map_err(|(errno, _)| errno)?;
    let at = m.address(data);
    assert_eq!(
        m.at(at + bytes as u64, 8),
        [0xee; 8],
        "nothing after it is written"
    );
    let mut value = [0; 8];
    value[..bytes].copy_from_slice(m.at(at, bytes));
    Ok(u64::from_le_bytes(value))
}

const EINVAL: u16 = 22;
const ENOSPC: u16 = 28;
const ERANGE: u16 = 34;

#[test]
fn numbers() {
    for (kind, bytes, least, most) in [
        ("byte", 1, 0, 255),
        ("short", 2, -32768, 32767),
        ("ushort", 2, 0, 65535),
        ("int", 4, i32::MIN.into(), i32::MAX.into()),
        ("uint", 4, 0, u32::MAX.into()),
        ("hexint", 4, 0, u32::MAX.into()),
        ("long", 8, i64::MIN.into(), i64::MAX.into()),
        ("ulong", 8, 0, u64::MAX.into()),
        ("ullong", 8, 0, i128::from(u64::MAX)),
    ] {
        let mask = u64::MAX >> (64 - 8 * bytes);
        for value in [least, most, 0, 1, least + 1, most - 1] {
            assert_eq!(
                set(kind, &value.to_string(), bytes),
                Ok(value as u64 & mask),
                "{kind} {value}"
            );
        }
        let signed = least < 0;
        for value in [most + 1, most * 300] {
            assert_eq!(
                set(kind, &value.to_string(), bytes),
                Err(ERANGE),
                "{kind} {value}"
            );
        }
        let below = if signed { ERANGE } else { EINVAL };
        assert_eq!(set(kind, &(least - 1).to_string(), bytes), Err(below));
        assert_eq!(set(kind, "-0", bytes), if signed { Ok(0) } else { Err(EINVAL) });
        for (text, right) in [
            ("0x1f", Ok(31)),
            ("0X1F", Ok(31)),
            ("017", Ok(15)),
            ("+7", Ok(7)),
            ("7\n", Err(EINVAL)),
            ("\"7\n\"", Ok(7)),
            ("", Err(EINVAL)),
            ("+", Err(EINVAL)),
            ("-+1", Err(EINVAL)),
            ("08", Err(EINVAL)),
            ("0x", Err(EINVAL)),
            ("0xg", Err(EINVAL)),
            ("1f", Err(EINVAL)),
            ("1 ", Ok(1)),
            ("\" 1\"", Err(EINVAL)),
            ("99999999999999999999x", Err(ERANGE)),
            ("0x10000000000000000", Err(ERANGE)),
        ] {
            // A line feed without quotes ends the argument.
            let right = if text == "7\n" { Ok(7) } else { right };
            assert_eq!(set(kind, text, bytes), right, "{kind} {text:?}");
        }
    }
    // Words of 32 bits.
    let (mut m, data) = module::<Arm>(&[("x", "long", 1, false), ("y", "charp", 1, false)]).unwrap();
    assert_eq!(parse(&mut m, "x=2147483648").0.unwrap_err().0, ERANGE);
    assert_eq!(parse(&mut m, "x=-2 y=text").0, Ok(()));
    assert_eq!(m.u32(m.address(data)), -2i32 as u32);
    assert_eq!(m.at(m.address(data) + 4, 4), [0xee; 4]);
    assert_eq!(m.u32(m.address(data) + 64), 0x1001);
    assert_eq!(m.at(m.address(data) + 68, 4), [0xee; 4]);
}

#[test]
fn truth_values() {
    for (text, right) in [
        ("y", Ok(1)),
        ("Yes", Ok(1)),
        ("true", Ok(1)),
        ("1", Ok(1)),
        ("on", Ok(1)),
        ("n", Ok(0)),
        ("0", Ok(0)),
        ("False", Ok(0)),
        ("OFF", Ok(0)),
        ("o", Err(EINVAL)),
        ("2", Err(EINVAL)),
        ("", Err(EINVAL)),
    ] {
        assert_eq!(set("bool", text, 1), right, "{text}");
        assert_eq!(set("bint", text, 4), right, "{text}");
        assert_eq!(set("invbool", text, 1), right.map(|v| 1 - v), "{text}");
    }
    for (kind, right) in [
        ("bool", Ok(())),
        ("bint", Err(EINVAL)),
        ("invbool", Err(EINVAL)),
        ("int", Err(EINVAL)),
    ] {
        let (mut m, data) = module::<X86_64>(&[("x", kind, 1, false)]).unwrap();
        assert_eq!(parse(&mut m, "x").0.map_err(|e| e.0), right);
        if right.is_ok() {
            assert_eq!(m.at(m.address(data), 2), [1, 0xee]);
        }
    }
}

#[test]
fn texts() {
    let (mut m, data) = module::<X86_64>(&[("a", "charp", 1, false), ("b", "string", 8, false)]).unwrap();
    for (args, kept) in [
        ("a=one", "one"),
        ("a=\"one two\"", "one two"),
        ("\"a=one two\"", "one two"),
        ("a=", ""),
        ("a=\"", ""),
        ("a=\"\"", ""),
        ("\"a=\"", ""),
        ("a=\"open end", "open end"),
        ("a=x\"y z\"", "x\"y z\""),
        ("a=x=y", "x=y"),
        ("  \t a=one\0b=garbage", "one"),
    ] {
        assert_eq!(
            parse(&mut m, args),
            (Ok(()), vec![], vec![kept.to_string()]),
            "{args}"
        );
        assert_eq!(m.u64(m.address(data)), 0x1001);
    }
    assert_eq!(parse(&mut m, &format!("a={}", "x".repeat(1024))).0, Ok(()));
    let (result, ..) = parse(&mut m, &format!("a={}", "x".repeat(1025)));
    let (errno, told) = result.unwrap_err();
    assert_eq!(errno, ENOSPC);
    assert_eq!(
        told,
        format!("`{}...' too large for parameter `a'", "x".repeat(80))
    );
    assert_eq!(parse(&mut m, "b=1234567").0, Ok(()));
    assert_eq!(m.at(m.address(data) + 64, 9), b"1234567\0\xee");
    assert_eq!(parse(&mut m, "b=12345678").0.unwrap_err().0, ENOSPC);
    assert_eq!(parse(&mut m, "b").0.unwrap_err().0, EINVAL);
    let failed = m.with(|linked, parts| {
        linked
            .parameters
            .parse(b"a=x", parts, &mut |_| None, &mut |_| ())
            .unwrap_err()
            .errno
    });
    assert_eq!(failed.get(), 12);
}

#[test]
fn arrays() {
    let list = [
        ("a", "array of int", 4, true),
        ("t", "array of charp", 2, false),
        ("f", "array of bool", 2, true),
    ];
    let (mut m, data) = module::<X86_64>(&list).unwrap();
    let numbers = data + 1;
    assert_eq!(parse(&mut m, "a=1,-2,0x3 t=x,\"y z\" f=1,n").2, ["x", "\"y z\""]);
    let at = m.address(data);
    assert_eq!(
        [0, 4, 8, 12].map(|o| m.u32(at + o)),
        [1, -2i32 as u32, 3, 0xeeee_eeee]
    );
    assert_eq!((m.u64(at + 64), m.u64(at + 72)), (0x1001, 0x1002));
    assert_eq!(m.at(at + 128, 3), [1, 0, 0xee]);
    assert_eq!(
        [0, 4, 8].map(|o| m.u32(m.address(numbers) + o)),
        [3, 0xeeee_eeee, 2]
    );
    assert_eq!(parse(&mut m, "a=1,2,3,4").0, Ok(()));
    assert_eq!(m.u32(at + 16), 0xeeee_eeee);
    for args in ["a=1,2,3,4,5", "a", "a=", "a=1,", "a=,1", "f", "a=1,x"] {
        assert_eq!(parse(&mut m, args).0.unwrap_err().0, EINVAL, "{args}");
    }
}

#[test]
fn what_is_not_used() {
    let (mut m, data) =
        module::<X86_64>(&[("my_int", "int", 1, false), ("my_inter", "int", 1, false)]).unwrap();
    let (result, unused, _) = parse(&mut m, "other=1 my-int=5 =x flag my_inte=3 -- my_int=6 rest");
    assert_eq!(result, Ok(()));
    let ignored = |name: &str| format!("unknown parameter '{name}' ignored");
    assert_eq!(
        unused,
        [
            ignored("other"),
            ignored("=x"),
            ignored("flag"),
            ignored("my_inte"),
            "parameters 'my_int=6 rest' after `--' ignored".into()
        ]
    );
    assert_eq!(
        (m.u32(m.address(data)), m.u32(m.address(data) + 64)),
        (5, 0xeeee_eeee)
    );
    assert_eq!(parse(&mut m, "--").1, [""; 0]);
    let (result, ..) = parse(&mut m, "my_inter=2 my-int=5x my_inter=3");
    assert_eq!(
        result,
        Err((EINVAL, "`5x' invalid for parameter `my-int'".into()))
    );
    assert_eq!(m.u32(m.address(data) + 64), 2, "what stands before it is set");
    m.with(|linked, parts| {
        let names: Vec<_> = linked
            .parameters
            .iter()
            .map(|p| (p.name.bytes(parts).to_vec(), p.mode))
            .collect();
        assert_eq!(
            names,
            [(b"my_int".to_vec(), 0o644), (b"my_inter".to_vec(), 0o644)]
        );
    });
}

#[test]
fn descriptions_that_are_refused() {
    for (list, text) in [
        (("x", "", 1, false), "without a type"),
        (("x", "strange", 1, false), "unknown type"),
        (("x", "array of strange", 1, false), "unknown type"),
        (("x", "array of string", 1, false), "described wrongly"),
        (("x", "int", 2, false), "described wrongly"),
        (("x", "array of int", 100, false), "not in the module's data"),
        (
            ("x", "array of int", u64::MAX / 4, false),
            "not in the module's data",
        ),
        (
            ("x", "array of int", u64::MAX / 2, false),
            "not in the module's data",
        ),
        (("x", "string", 0, false), "not in the module's data"),
        (("a=b", "int", 1, false), "bad name"),
        (("", "int", 1, false), "bad name"),
    ] {
        let (told, errno) = module::<X86_64>(&[list]).err().unwrap();
        assert!(told.contains(text), "{list:?}: {told}");
        assert_eq!(errno, 8);
    }
    for flags in [A, A | X] {
        let (told, _) = module_with::<X86_64>(&[("x", "int", 1, false)], flags)
            .err()
            .unwrap();
        assert!(told.contains("not in the module's data"), "{told}");
    }
}
