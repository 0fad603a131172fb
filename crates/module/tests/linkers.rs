//! The same bytes as a linker's: objects that compilers made are loaded here, and linked by `ld` to the same
//! addresses. A test whose compiler is not installed says so and does nothing.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::*;
use limen_module::*;

/// Whether a program can be started.
fn have(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        eprintln!("{program} is not installed: not compared with its linker");
    }
    found
}

fn run(command: &mut Command) {
    let out = command.output().unwrap();
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {told}");
}

/// A directory that is gone in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("limen-module-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    let mut value = [0; 8];
    value[..len].copy_from_slice(&bytes[at..at + len]);
    u64::from_le_bytes(value)
}

/// The content of a linked file's sections, with address and name.
fn sections(file: &[u8]) -> Vec<(String, u64, Vec<u8>)> {
    let wide = file[4] == 2;
    let word = if wide { 8 } else { 4 };
    let (table, at) = if wide { (40, 58) } else { (32, 46) };
    let (table, size) = (number(file, table, word) as usize, number(file, at, 2) as usize);
    let field = |n: usize, f: usize| number(file, table + n * size + 8 + f * word, word) as usize;
    let (count, names) = (number(file, at + 2, 2) as usize, number(file, at + 4, 2) as usize);
    (1..count)
        .map(|n| {
            let header = table + n * size;
            let name = &file[field(names, 2) + number(file, header, 4) as usize..];
            let name = String::from_utf8_lossy(name.split(|b| *b == 0).next().unwrap()).into_owned();
            let zeros = number(file, header + 4, 4) == 8;
            let (start, len) = (field(n, 2), if zeros { 0 } else { field(n, 3) });
            (name, field(n, 1) as u64, file[start..start + len].to_vec())
        })
        .collect()
}

struct Case<'c> {
    /// What programs of the tool chain begin with.
    prefix: &'c str,
    /// Options for the linker, so that it changes nothing but what relocations say.
    ld: &'c [&'c str],
    /// What the kernel exports; functions.
    exports: &'c [(&'c str, u64)],
    base: u64,
}

/// Loads and links `object`, and compares. Returns how many bytes relocations changed.
fn compare<M: Machine>(case: &Case<'_>, dir: &Path, object: &Path, base: u64) -> usize {
    let file = fs::read(object).unwrap();
    let loaded = match load::<M>(&file, from(base), Kernel::with(case.exports)) {
        Ok(loaded) => loaded,
        Err((told, _)) => panic!("{object:?}: {told}"),
    };
    assert_eq!(loaded.linked.veneers, 0, "a linker's veneers are others");
    let read = Object::<M>::read(&file).unwrap();
    let placed = || {
        let all = read.sections().iter().enumerate();
        all.filter_map(|(n, s)| loaded.layout.place(n).map(|_| (n, s, loaded.address(n))))
    };
    let mut script = String::from("SECTIONS {\n");
    let mut in_order: Vec<_> = placed().collect();
    in_order.sort_by_key(|(_, s, address)| (*address, s.size));
    for (_, section, address) in in_order {
        let name = String::from_utf8_lossy(section.name);
        if name == ".toc" {
            script += &format!(".TOC. = {:#x};\n", address + 0x8000);
        }
        script += &format!("{name} {address:#x} : {{ *({name}) }}\n");
    }
    script += "/DISCARD/ : { *(.modinfo) *(.comment) *(.note*) *(.ARM.attributes) *(.gnu.attributes) }\n}\n";
    let mut kernel = String::new();
    for (name, address) in case.exports {
        kernel += &format!(".globl {name}\n.type {name},%function\n{name} = {address:#x}\n");
    }
    let at = |name: &str| dir.join(name);
    fs::write(at("script"), script).unwrap();
    fs::write(at("kernel.s"), kernel).unwrap();
    run(Command::new(format!("{}as", case.prefix))
        .arg(at("kernel.s"))
        .arg("-o")
        .arg(at("kernel.o")));
    let mut ld = Command::new(format!("{}ld", case.prefix));
    ld.args([
        "-e",
        "0",
        "--no-warnings",
        "--build-id=none",
        "-z",
        "norelro",
        "-T",
    ]);
    run(ld
        .arg(at("script"))
        .args(case.ld)
        .arg(object)
        .arg(at("kernel.o"))
        .arg("-o")
        .arg(at("linked")));
    let linked = sections(&fs::read(at("linked")).unwrap());
    let mut changed = 0;
    for (_, section, address) in placed() {
        let name = String::from_utf8_lossy(section.name);
        if section.data.is_empty() {
            continue;
        }
        let found = linked.iter().find(|(n, ..)| *n == name);
        let (_, theirs_at, theirs) = found.unwrap_or_else(|| panic!("{object:?}: no {name}"));
        assert_eq!(*theirs_at, address, "{name}");
        let ours = loaded.at(address, section.data.len());
        for (offset, (a, b)) in ours.chunks(4).zip(theirs.chunks(4)).enumerate() {
            let offset = offset * 4;
            // With `-mcmodel=large`, Power's linker makes other instructions of `ld 2, -8(12); add 2, 2, 12`
            // at the start of a function (R_PPC64_ENTRY): the same value.
            let entry = M::NUMBER == 21
                && [[0xf8, 0xff, 0x4c, 0xe8], [0x14, 0x62, 0x42, 0x7c]]
                    .iter()
                    .any(|e| a == e);
            if entry && section.data[offset..offset + 4] == *a {
                continue;
            }
            assert_eq!(
                a, b,
                "{object:?} {name}+{offset:#x} at {address:#x}, linked to {base:#x}"
            );
        }
        changed += ours.iter().zip(section.data).filter(|(a, b)| a != b).count();
    }
    changed
}

const C: &str = r#"
#define SECTION(name) __attribute__((section(name)))
const char info[] SECTION(".modinfo") = "name=test\0license=GPL\0limen_abi=1";
extern int ext_var;
extern int ext_fun(int, const char *);
#ifdef WEAK
extern int weak_fun(int) __attribute__((weak));
#else
#define weak_fun 0
#endif
static int local; int shared = 3; static long zeros[300]; int once SECTION(".data..ro_after_init") = 1;
static const char *const names[] = {"none", "one", "two", "three"};
struct ops { int (*get)(int); const int *value; char name[8]; };
static int __attribute__((noinline)) get(int i) { return (int)zeros[i & 255] + local; }
static int __attribute__((noinline)) put(int i) { zeros[i & 7] = i; return local += i; }
const struct ops table[] = {{get, &shared, "get"}, {put, &once, "put"}};
struct ops *current_ops = (struct ops *)&table[1];
#ifdef CALLS
#define CALL(i, s) ext_fun(i, s)
#else
#define CALL(i, s) ((int)(long)&ext_fun + (i) + *(s))
#endif
int choose(int i) {
    switch (i) {
    case 0: return ext_var;
    case 1: return local++;
    case 2: return shared;
    case 3: return CALL(i, names[i & 3]);
    case 4: return i * 7;
    case 5: return CALL(3, "text");
    case 6: return table[i & 1].get(i) + *table[0].value;
    case 7: return put(get(i));
    case 9: return (long)weak_fun ? 1 : 2;
    }
    return once + current_ops->get(i);
}
int far_one(int i) { return choose(i + 1) + get(i); }
int SECTION(".init.text") init_module(void) { zeros[5] = 1; return far_one(2) + CALL(1, "init"); }
void cleanup_module(void) { local = choose(3); }
"#;

/// Compiles and compares C with each of `options`, and `assembly`, at several addresses.
fn check<M: Machine>(case: &Case<'_>, options: &[&str], assembly: &str) {
    let compiler = format!("{}gcc", case.prefix);
    if !have(&compiler) || !have(&format!("{}ld", case.prefix)) {
        return;
    }
    let dir = Scratch::new(if case.prefix.is_empty() {
        "host"
    } else {
        case.prefix
    });
    let (c, s) = (dir.0.join("module.c"), dir.0.join("relocations.S"));
    fs::write(&c, C).unwrap();
    let modinfo = ".section .modinfo,\"a\"\n.asciz \"name=test\"\n.asciz \"limen_abi=1\"\n";
    fs::write(&s, format!("{assembly}\n{modinfo}")).unwrap();
    let object = dir.0.join("object.o");
    let shared = [
        "-ffreestanding",
        "-fno-pic",
        "-fno-pie",
        "-fno-common",
        "-fno-asynchronous-unwind-tables",
        "-fno-unwind-tables",
        "-fno-stack-protector",
        // `ld` merges these; a kernel does not.
        "-fno-merge-constants",
        "-c",
    ];
    let mut sources: Vec<(&Path, &str)> = options.iter().map(|o| (c.as_path(), *o)).collect();
    sources.push((&s, ""));
    for (source, options) in sources {
        let mut compile = Command::new(&compiler);
        compile.args(shared).args(options.split_whitespace());
        run(compile.arg(source).arg("-o").arg(&object));
        for offset in [0, 0x7000, 0x12_3000] {
            let changed = compare::<M>(case, &dir.0, &object, case.base + offset);
            assert!(changed > 50, "{options}: relocations changed {changed} bytes");
        }
    }
}

#[test]
fn x86_64() {
    if cfg!(not(target_arch = "x86_64")) {
        eprintln!("this compiler makes no objects for x86_64: not compared");
        return;
    }
    let kernel = 0xffff_ffff_8123_4560;
    let case = Case {
        prefix: "",
        ld: &["--no-relax"],
        exports: &[
            ("ext_var", kernel),
            ("ext_fun", kernel + 0x1233),
            ("low", 0x8765_4321),
            ("tiny", 0x7f),
        ],
        base: 0xffff_ffff_c000_0000,
    };
    let kinds =
        ["-O0", "-O1", "-O2", "-Os"].map(|o| format!("-DCALLS -DWEAK -mcmodel=kernel -mno-red-zone {o}"));
    check::<X86_64>(
        &case,
        &kinds.each_ref().map(String::as_str),
        r#"
        .text
f:      call ext_fun
        jmp ext_fun
        jne ext_fun
        mov $low, %edi
        movq $ext_var, %rdi
        movabs $ext_var, %rdi
        lea ext_var+20(%rip), %rax
        cmpl $5, ext_var-4(%rip)
        mov ext_var(,%rax,4), %eax
        call other
        .section .text.other,"ax"
other:  ret
        .data
        .quad ext_var, ext_var - ., other + 3, low
        .long ext_var - ., low, other - .
        .word tiny, other + 7 - .text.other
        .byte tiny
"#,
    );
}

#[test]
fn arm64() {
    let kernel = 0xffff_8000_0812_3450;
    let case = Case {
        prefix: "aarch64-linux-gnu-",
        ld: &[
            "--no-relax",
            "--no-fix-cortex-a53-843419",
            "--no-fix-cortex-a53-835769",
        ],
        exports: &[
            ("ext_var", kernel),
            ("ext_fun", kernel + 0x10_0004),
            ("small", 0xfedc),
            ("medium", 0x1234_5678),
            ("large", 0x9abc_def0_1234),
            ("negative", -0x1234i64 as u64),
            ("low", -0x1234_5678i64 as u64),
            ("lower", -0x1234_5678_9abci64 as u64),
        ],
        base: 0xffff_8000_0a00_0000,
    };
    let kinds = ["-O0", "-O1", "-O2", "-Os", "-O2 -fno-section-anchors"];
    // Addresses of weak symbols are among the veneers: other tests look there.
    let kinds = kinds.map(|o| format!("-DCALLS -mcmodel=small -mgeneral-regs-only -mno-outline-atomics {o}"));
    check::<Arm64>(
        &case,
        &kinds.each_ref().map(String::as_str),
        r#"
        .text
f:      bl ext_fun
        b ext_fun + 8
        b.ne other
        cbz x3, other
        tbz x0, #3, other
        tbnz x9, #43, other - 4
        ldr x1, other
        ldrsw x2, other
        adr x1, other + 3
        adrp x1, ext_var + 0x12345
        add x1, x1, :lo12:ext_var + 0x345
        ldrb w2, [x1, :lo12:ext_var + 1]
        strh w2, [x1, :lo12:ext_var + 2]
        ldr w2, [x1, :lo12:ext_var + 4]
        ldr x2, [x1, :lo12:ext_var + 8]
        ldr q2, [x1, :lo12:ext_var + 16]
        movz x0, #:abs_g0:small
        movz x0, #:abs_g1:medium
        movk x0, #:abs_g0_nc:medium
        movz x0, #:abs_g2:large
        movk x0, #:abs_g1_nc:large
        movz x0, #:abs_g3:ext_var
        movk x0, #:abs_g2_nc:ext_var
        movz x0, #:abs_g0_s:small
        movz x0, #:abs_g0_s:negative
        movz x0, #:abs_g1_s:low
        movz x0, #:abs_g1_s:medium
        movz x0, #:abs_g2_s:large
        movz x0, #:abs_g2_s:lower
        movz x0, #:prel_g0:other
        movz x0, #:prel_g1:ext_var
        movk x0, #:prel_g0_nc:ext_var
        movz x0, #:prel_g2:ext_var
        movk x0, #:prel_g1_nc:ext_var
        movz x0, #:prel_g3:ext_var
        movk x0, #:prel_g2_nc:ext_var
        movz x0, #:prel_g3:small
        movz x0, #:prel_g2:other + 0x1000000
        .section .text.other,"ax"
        .balign 4
        ret
other:  movz x0, #:prel_g0:f
        b.eq f
        tbz w0, #1, f
        adr x2, f
        ret
        .data
        .xword ext_var, ext_var - ., other + 3
        .word ext_var - ., medium, negative
        .hword small, negative
"#,
    );
}

#[test]
fn arm() {
    let case = Case {
        prefix: "arm-linux-gnueabihf-",
        ld: &["--no-fix-cortex-a8", "--no-relax"],
        exports: &[
            ("ext_var", 0x8012_3450),
            ("ext_fun", 0xbf80_1234),
            ("ext_thumb", 0xbf7a_bcdf),
        ],
        base: 0xbf00_0000,
    };
    let kinds = [
        "-O0",
        "-O1",
        "-O2",
        "-Os",
        "-O2 -fno-section-anchors",
        "-O1 -mslow-flash-data",
    ];
    let mut all = Vec::new();
    for o in &kinds[..5] {
        all.push(format!("-marm -DCALLS -DWEAK {o}"));
        // Tail calls of a function in the other state go through veneers.
        all.push(format!("-mthumb -DCALLS -DWEAK -fno-optimize-sibling-calls {o}"));
    }
    all.push("-marm -march=armv7-a+fp -mword-relocations -DCALLS -O2".into());
    check::<Arm>(
        &case,
        &all.iter().map(String::as_str).collect::<Vec<_>>(),
        r#"
        .syntax unified
        .arch armv7-a
        .text
        .arm
        .type f,%function
f:      bl ext_fun
        bl ext_thumb
        blx ext_fun
        blx ext_thumb
        bleq ext_fun
        b ext_fun
        bne ext_fun + 8
        bl arm
        bl thumb
        blx thumb
        b arm
        movw r0, #:lower16:ext_var
        movt r0, #:upper16:ext_var
        movw r1, #:lower16:(ext_var + 0x1234)
        movt r1, #:upper16:(ext_var + 0x1234)
        movw r2, #:lower16:ext_thumb
        movt r2, #:upper16:ext_thumb
        movw r3, #:lower16:(ext_var - .)
        movt r3, #:upper16:(ext_var - .)
        movw r12, #:lower16:(arm - 0x20)
        movt r12, #:upper16:(arm - 0x20)
        .section .text.thumb,"ax"
        .thumb
        .thumb_func
        .type thumb,%function
thumb:  nop
        bl ext_fun
        bl ext_thumb
        blx ext_fun
        nop
        bl ext_fun
        blx ext_thumb
        b.w ext_thumb
        bl f
        bl second
        b.w second
        bne.w second
        movw r0, #:lower16:ext_var
        movt r0, #:upper16:ext_var
        movw r1, #:lower16:(ext_var + 0x1234)
        movt r1, #:upper16:(ext_var + 0x1234)
        movw r9, #:lower16:(ext_var - .)
        movt r9, #:upper16:(ext_var - .)
        movw r11, #:lower16:second
        movt r11, #:upper16:second
        .section .text.other,"ax"
        .arm
        .type arm,%function
arm:    bl f
        bl thumb
        bx lr
        .thumb
        .thumb_func
        .globl second
        .type second,%function
second: beq.w thumb
        b.w thumb
        .data
        .word ext_var, ext_fun, ext_thumb, thumb, arm + 4
        .word ext_var - ., thumb - .
1:      .word 0x80000000, 8, 0x7ffffff0
        .reloc 1b, R_ARM_PREL31, arm
        .reloc 1b + 4, R_ARM_PREL31, ext_fun
        .reloc 1b + 8, R_ARM_PREL31, thumb
        .word ext_var(target1)
"#,
    );
}

#[test]
fn powerpc64() {
    let case = Case {
        prefix: "powerpc64le-linux-gnu-",
        ld: &[
            "--no-toc-optimize",
            "--no-plt-localentry",
            "--no-tls-optimize",
            "--traditional-format",
        ],
        exports: &[
            ("ext_var", 0xc000_0000_8123_4560),
            ("ext_fun", 0xc000_0000_0123_4560),
            ("low", 0x7654_8321),
        ],
        base: 0xc008_0000_0000_0000,
    };
    // Calls of the kernel go through veneers: other tests follow them.
    let kinds = ["-O0", "-O1", "-O2", "-O3"];
    let kinds = kinds.map(|o| {
        ["medium", "large"].map(|m| format!("-DWEAK -mcmodel={m} -mno-pcrel -mno-vsx -mno-altivec {o}"))
    });
    check::<Powerpc64>(
        &case,
        &kinds.iter().flatten().map(String::as_str).collect::<Vec<_>>(),
        r#"
        .abiversion 2
        .text
        .globl f
        .type f,@function
f:      addis 2, 12, .TOC.-f@ha
        addi 2, 2, .TOC.-f@l
        .localentry f, .-f
        addis 3, 2, var@toc@ha
        addi 3, 3, var@toc@l
        ld 4, var@toc@l(3)
        std 4, var+8@toc@l(3)
        lwa 4, var+4@toc@l(3)
        addi 5, 2, var@toc
        ld 5, var@toc(2)
        addis 5, 2, var@toc@h
        bl g
        nop
        bl f
        b g + 4
        lis 4, ext_var@highest
        ori 4, 4, ext_var@higher
        oris 4, 4, ext_var@high
        ori 4, 4, ext_var@l
        lis 4, ext_var@highesta
        addi 4, 4, ext_var@highera
        addis 4, 4, ext_var@higha
        addi 4, 4, ext_var@l
        lis 5, low@h
        lis 5, low@ha
        ld 6, low+3@l(5)
        .section .text.other,"ax"
        .balign 4
        nop
        .globl g
        .type g,@function
g:      addis 2, 12, .TOC.-g@ha
        addi 2, 2, .TOC.-g@l
        .localentry g, .-g
        bl f
        nop
        blr
        .section .toc,"aw"
        .quad ext_var, ext_var - ., .TOC.@tocbase
        .section .sdata,"aw"
        .balign 8
var:    .quad var, g, f + 4, .TOC. - .
        .long g - ., low
"#,
    );
}
