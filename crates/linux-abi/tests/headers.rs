//! Compares every constant, layout and system call number of the four ABIs with the C headers with which
//! programs are compiled. For each ABI it writes a C file of static assertions, which a cross compiler
//! checks. An ABI without compiler or headers is skipped with a message.

use limen_linux_abi::abi::ipc::{Msginfo, Sembuf, Seminfo};
use limen_linux_abi::abi::statx::{Statx, StatxTimestamp};
use limen_linux_abi::abi::{Layout, aarch64, arm, powerpc64, x86_64};
use limen_linux_abi::sysno;
use std::fmt::Write as _;
use std::process::{Command, Stdio};

const INCLUDES: &str = "
#define _GNU_SOURCE
#include <stddef.h>
typedef long long loff_t;
#include <asm/unistd.h>
#include <asm/stat.h>
#include <asm/statfs.h>
#include <asm/termios.h>
#include <asm/termbits.h>
#include <asm/ioctls.h>
#include <asm/socket.h>
#include <asm/mman.h>
#include <linux/fcntl.h>
#include <linux/stat.h>
#include <linux/sysinfo.h>
#include <linux/eventpoll.h>
#include <linux/ipc.h>
#include <linux/shm.h>
#include <linux/sem.h>
#include <linux/msg.h>
#define member_size(t, m) sizeof(((t *)0)->m)
";

struct Check {
    text: String,
}

impl Check {
    fn new() -> Self {
        Self {
            text: INCLUDES.into(),
        }
    }

    fn constants(&mut self, names: &[(&str, u64)]) -> &mut Self {
        for (name, value) in names {
            self.constant(name, *value);
        }
        self
    }

    fn constant(&mut self, name: &str, value: u64) -> &mut Self {
        writeln!(
            self.text,
            "_Static_assert((unsigned){name} == {value}u, \"{name} is not {value:#x}\");"
        )
        .unwrap();
        self
    }

    fn layout<T: Layout>(&mut self) -> &mut Self {
        let c = T::C_NAME;
        for (field, at, size) in T::FIELDS {
            if field.starts_with('_') {
                continue;
            }
            writeln!(
                self.text,
                "_Static_assert(offsetof({c}, {field}) == {at} && member_size({c}, {field}) == \
                 {size}, \"{c}.{field} is not {size} bytes at {at}\");"
            )
            .unwrap();
        }
        let size = size_of::<T>();
        writeln!(
            self.text,
            "_Static_assert(sizeof({c}) == {size}, \"{c} has not {size} bytes\");"
        )
        .unwrap();
        self
    }

    /// Every number of the table whose name the headers know is the same there.
    fn numbers(&mut self, abi: &sysno::Abi) -> &mut Self {
        for n in 0..abi.limit {
            if let Some(name) = (abi.name_of)(n) {
                writeln!(
                    self.text,
                    "#ifdef __NR_{name}\n_Static_assert(__NR_{name} == {n}, \"{name} is not {n}\");\n#endif"
                )
                .unwrap();
            }
        }
        self
    }

    fn run(&self, compiler: &str) {
        let child = Command::new(compiler)
            .args(["-x", "c", "-fsyntax-only", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            eprintln!("no {compiler}: not checked");
            return;
        };
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), self.text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        if errors.contains("No such file or directory") {
            eprintln!("no headers for {compiler}: not checked");
            return;
        }
        let errors: Vec<&str> = errors.lines().filter(|l| l.contains("error")).collect();
        assert!(output.status.success(), "{}", errors.join("\n"));
    }
}

/// What every ABI has, from its own module.
macro_rules! check {
    ($abi:ident) => {{
        let mut check = Check::new();
        check
            .constants($abi::ioctl::NAMES)
            .constants($abi::termios::NAMES)
            .constants($abi::mman::NAMES)
            .constants($abi::socket::NAMES)
            .constant("FIOQSIZE", $abi::FIOQSIZE.into())
            .layout::<$abi::Stat>()
            .layout::<$abi::Statfs>()
            .layout::<$abi::Flock>()
            .layout::<$abi::Sysinfo>()
            .layout::<$abi::EpollEvent>()
            .layout::<$abi::Shmid64Ds>()
            .layout::<$abi::Semid64Ds>()
            .layout::<$abi::Msqid64Ds>()
            .layout::<$abi::Shminfo64>()
            .layout::<$abi::ShmInfo>()
            .layout::<Sembuf>()
            .layout::<Seminfo>()
            .layout::<Msginfo>()
            .layout::<StatxTimestamp>()
            .layout::<Statx>();
        check
            .constant("offsetof(struct termios, c_line)", $abi::termios::LINE_AT as u64)
            .constant("offsetof(struct termios, c_cc)", $abi::termios::CHARS_AT as u64)
            .constant("offsetof(struct termio, c_cc)", 9)
            .constant("sizeof(struct termios)", $abi::termios::SIZE as u64)
            .constant("sizeof(struct termio)", $abi::termios::OLD_SIZE as u64)
            .constant("NCC", $abi::termios::OLD_CHARS as u64)
            .constant("_IO('T', 0x41)", $abi::ioc::none(b'T', 0x41).into())
            .constant(
                "_IOR('T', 0x30, unsigned int)",
                $abi::ioc::read(b'T', 0x30, 4).into(),
            )
            .constant("_IOW('R', 3, int[2])", $abi::ioc::write(b'R', 3, 8).into());
        check
    }};
}

#[test]
fn x86_64_is_as_in_c() {
    check!(x86_64)
        .constants(x86_64::termios2::NAMES)
        .numbers(&sysno::X86_64)
        .run("x86_64-linux-gnu-gcc");
}

#[test]
fn aarch64_is_as_in_c() {
    check!(aarch64)
        .constants(aarch64::termios2::NAMES)
        .numbers(&sysno::AARCH64)
        .run("aarch64-linux-gnu-gcc");
}

#[test]
fn arm_is_as_in_c() {
    check!(arm)
        .constants(arm::termios2::NAMES)
        .layout::<arm::Stat64>()
        .layout::<arm::Statfs64>()
        .numbers(&sysno::ARM_EABI)
        .run("arm-linux-gnueabihf-gcc");
}

#[test]
fn powerpc64_is_as_in_c() {
    check!(powerpc64)
        .numbers(&sysno::POWERPC64)
        .run("powerpc64le-linux-gnu-gcc");
}
