//! The line discipline as a user at a terminal sees it.

use limen_tty::{Discipline, InputFlags, Line, LocalFlags, OutputFlags, Read, Signal, Termios, cc};

#[derive(Default)]
struct Screen {
    out: Vec<u8>,
    signals: Vec<Signal>,
    stopped: bool,
    flushed: usize,
}

impl Line for Screen {
    fn output(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }
    fn signal(&mut self, signal: Signal) {
        self.signals.push(signal);
    }
    fn flush_output(&mut self) {
        self.flushed += 1;
    }
    fn set_stopped(&mut self, stopped: bool) {
        self.stopped = stopped;
    }
    fn stopped(&self) -> bool {
        self.stopped
    }
}

fn standard() -> (Discipline, Screen) {
    (Discipline::new(Termios::standard()), Screen::default())
}

fn with(change: impl FnOnce(&mut Termios)) -> (Discipline, Screen) {
    let mut t = Termios::standard();
    change(&mut t);
    (Discipline::new(t), Screen::default())
}

fn read(d: &mut Discipline, n: usize) -> Option<Vec<u8>> {
    let mut buf = vec![0; n];
    match d.read(&mut buf) {
        Read::Empty => None,
        Read::More(n) | Read::Done(n) => {
            buf.truncate(n);
            Some(buf)
        }
    }
}

#[test]
fn a_line_is_read_after_its_end() {
    let (mut d, mut s) = standard();
    d.receive(b"hel", &mut s);
    assert_eq!(read(&mut d, 100), None);
    d.receive(b"lo\rnext", &mut s);
    assert_eq!(s.out, b"hello\r\nnext");
    assert_eq!(d.readable(), 6);
    assert_eq!(read(&mut d, 2).unwrap(), b"he");
    assert_eq!(read(&mut d, 100).unwrap(), b"llo\n");
    assert_eq!(read(&mut d, 100), None);
}

#[test]
fn end_of_file_alone_after_text_and_after_a_full_read() {
    let (mut d, mut s) = standard();
    d.receive(b"\x04", &mut s);
    assert!(d.ready(1));
    assert_eq!(read(&mut d, 10).unwrap(), b"");
    assert!(!d.ready(1));
    d.receive(b"abc\x04", &mut s);
    assert_eq!(d.readable(), 3);
    assert_eq!(read(&mut d, 3).unwrap(), b"abc");
    assert_eq!(read(&mut d, 3), None, "the end of file went with the text");
    assert_eq!(s.out, b"abc");
}

#[test]
fn erase_word_and_line() {
    let (mut d, mut s) = standard();
    d.receive(b"ab\x7fc", &mut s);
    assert_eq!(s.out, b"ab\x08 \x08c");
    s.out.clear();
    d.receive(b" foo.bar\x17", &mut s);
    assert_eq!(s.out, b" foo.bar\x08 \x08\x08 \x08\x08 \x08");
    d.receive(b"\n", &mut s);
    assert_eq!(read(&mut d, 100).unwrap(), b"ac foo.\n");
    s.out.clear();
    d.receive(b"xy\x15z\n", &mut s);
    assert_eq!(s.out, b"xy\x08 \x08\x08 \x08z\r\n");
    assert_eq!(read(&mut d, 100).unwrap(), b"z\n");
}

#[test]
fn erase_of_control_tab_and_utf8() {
    let (mut d, mut s) = with(|t| t.input |= InputFlags::IUTF8);
    d.receive(b"\x01\x7f", &mut s);
    assert_eq!(s.out, b"^A\x08 \x08\x08 \x08");
    s.out.clear();
    d.receive(b"ab\t\x7f", &mut s);
    assert_eq!(s.out, b"ab\t\x08\x08\x08\x08\x08\x08");
    s.out.clear();
    d.receive("é\x7f".as_bytes(), &mut s);
    assert_eq!(s.out, b"\xc3\xa9\x08 \x08");
    d.receive(b"\n", &mut s);
    assert_eq!(read(&mut d, 100).unwrap(), b"ab\n");
}

#[test]
fn signals_flush_and_echo() {
    let (mut d, mut s) = standard();
    d.receive(b"abc\x03", &mut s);
    assert_eq!(s.signals, [Signal::Interrupt]);
    assert_eq!(s.out, b"abc^C");
    assert_eq!(s.flushed, 1);
    d.receive(b"x\n", &mut s);
    assert_eq!(read(&mut d, 9).unwrap(), b"x\n");
    d.receive(b"\x1c\x1a", &mut s);
    assert_eq!(s.signals[1..], [Signal::Quit, Signal::Suspend]);
}

#[test]
fn literal_next_takes_everything() {
    let (mut d, mut s) = standard();
    d.receive(b"\x16\x03\x16\n\n", &mut s);
    assert!(s.signals.is_empty());
    assert_eq!(read(&mut d, 9).unwrap(), b"\x03\n\n");
    assert_eq!(s.out, b"^\x08^C^\x08\r\n\r\n");
}

#[test]
fn flow_control() {
    let (mut d, mut s) = standard();
    d.receive(b"\x13", &mut s);
    assert!(s.stopped);
    d.receive(b"\x11", &mut s);
    assert!(!s.stopped);
    assert!(s.out.is_empty());
    assert_eq!(d.readable(), 0);
}

#[test]
fn reprint_shows_the_line_again() {
    let (mut d, mut s) = standard();
    d.receive(b"ab\x12", &mut s);
    assert_eq!(s.out, b"ab^R\r\nab");
}

#[test]
fn raw_mode_gives_bytes_at_once() {
    let (mut d, mut s) = with(|t| {
        t.local = LocalFlags::empty();
        t.input = InputFlags::empty();
    });
    d.receive(b"\x03\r\n\x04", &mut s);
    assert!(d.ready(4));
    assert!(!d.ready(5));
    assert_eq!(read(&mut d, 9).unwrap(), b"\x03\r\n\x04");
    assert!(s.out.is_empty());
}

#[test]
fn switching_modes_keeps_what_waits() {
    let (mut d, mut s) = standard();
    d.receive(b"abc", &mut s);
    let mut raw = *d.termios();
    raw.local.remove(LocalFlags::ICANON);
    d.set_termios(raw);
    assert!(d.ready(1));
    d.set_termios(Termios::standard());
    assert_eq!(read(&mut d, 9).unwrap(), b"abc");
    assert_eq!(read(&mut d, 9), None);
}

#[test]
fn output_processing() {
    let (mut d, mut s) = with(|t| t.output |= OutputFlags::XTABS);
    assert_eq!(d.write(b"a\tb\nc", 100, &mut s), (5, 12));
    assert_eq!(s.out, b"a       b\r\nc");
    s.out.clear();
    // "\r\n" does not fit into one byte.
    assert_eq!(d.write(b"x\n", 2, &mut s), (1, 1));
    assert_eq!(d.write(b"\n", 2, &mut s), (1, 2));
}

#[test]
fn a_long_line_is_cut_but_can_end() {
    let (mut d, mut s) = with(|t| t.local.remove(LocalFlags::ECHO));
    let long = vec![b'x'; 10000];
    for chunk in long.chunks(100) {
        assert!(d.room() > 0);
        d.receive(chunk, &mut s);
    }
    d.receive(b"\n", &mut s);
    assert_eq!(d.room(), 0);
    let got = read(&mut d, 10000).unwrap();
    assert_eq!(got.len(), 4096);
    assert_eq!(got[4095], b'\n');
}

#[test]
fn user_layout_round_trips() {
    let t = Termios::standard();
    assert_eq!(Termios::from_bytes(&t.to_bytes()), t);
    assert_eq!(Termios::from_bytes2(&t.to_bytes2()), t);
    assert_eq!(t.control.bits(), 0o2277);
    assert_eq!(t.chars[cc::VINTR], 3);
}

#[test]
fn any_bytes_in_any_mode_keep_the_invariants() {
    let mut seed = 12345u64;
    let mut random = move || {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (seed >> 33) as u32
    };
    let (mut d, mut s) = standard();
    for round in 0..200_000u32 {
        match random() % 8 {
            0 => {
                let mut t = Termios::standard();
                t.input = InputFlags::from_bits_retain(random() & 0o77777);
                t.local = LocalFlags::from_bits_retain(random() & 0o177777);
                t.output = OutputFlags::from_bits_retain(random() & 0o14077);
                d.set_termios(t);
            }
            1 => {
                let n = random() as usize % 300 + 1;
                let before = d.readable();
                let mut buf = vec![0; n];
                match d.read(&mut buf) {
                    Read::Empty => assert!(!d.ready(1)),
                    Read::More(k) | Read::Done(k) => assert_eq!(d.readable() + k, before),
                }
            }
            _ => {
                let bytes: Vec<u8> = (0..random() % 40).map(|_| random() as u8).collect();
                d.receive(&bytes, &mut s);
            }
        }
        assert!(d.readable() <= limen_tty::INPUT_SIZE, "round {round}");
        s.out.clear();
        s.signals.clear();
    }
}
