//! Which names belong to which files.

extern crate std;
use super::*;
use proptest::prelude::*;
use std::format;

fn file(ino: u64) -> FileFacts {
    FileFacts {
        id: FileId { dev: 7, ino },
        ..FileFacts::default()
    }
}

fn told(names: &Names) -> Vec<(Told<'_>, Kind, u64)> {
    let all = names.all().iter();
    all.map(|name| {
        (
            names.told(name),
            name.kind,
            name.file.map_or(0, |file| file.id.ino),
        )
    })
    .collect()
}

#[test]
fn directories_of_paths() {
    for (path, len) in [
        ("", 0),
        ("a", 0),
        ("a/", 0),
        ("/", 1),
        ("///", 1),
        ("/a", 1),
        ("a/b", 2),
        ("a//b//", 3),
        ("../b", 3),
    ] {
        assert_eq!(parent_len(path.as_bytes()), len, "{path}");
    }
    assert!(is_named(b"/a/b", b"b") && is_named(b"/a/b/", b"b") && !is_named(b"/a/b", b"a"));
    assert!(!is_named(b"/a/bb", b"b") && is_named(b"b", b"b"));
}

#[test]
fn a_file_is_opened() {
    let mut names = Names::new();
    names.begin(b"/etc/x").unwrap();
    assert_eq!(told(&names), [(Told::Text(b"/etc/x"), Kind::Unknown, 0)]);
    names.found(file(5), false).unwrap();
    names.found(file(5), false).unwrap();
    assert_eq!(told(&names), [(Told::Text(b"/etc/x"), Kind::Normal, 5)]);
    assert!(names.has(FileId { dev: 7, ino: 5 }) && !names.has(FileId { dev: 8, ino: 5 }));
}

#[test]
fn a_queue_is_made() {
    let mut names = Names::new();
    names.begin(b"queue").unwrap();
    names.found_hidden(file(1)).unwrap();
    names
        .child(file(1), b"queue", Some(file(5)), Kind::Create)
        .unwrap();
    let shown = [
        (Told::Here, Kind::Parent, 1),
        (Told::Text(b"queue"), Kind::Create, 5),
    ];
    assert_eq!(told(&names), shown);
    let hidden = |name: &Name| name.hidden;
    assert!(names.all().first().is_some_and(hidden) && !names.all().last().is_some_and(hidden));
}

#[test]
fn a_file_is_made() {
    let mut names = Names::new();
    names.begin(b"/etc/x/").unwrap();
    names.found(file(2), true).unwrap();
    names.child(file(2), b"x", None, Kind::Create).unwrap();
    names.child(file(2), b"x", Some(file(9)), Kind::Create).unwrap();
    assert_eq!(
        told(&names),
        [
            (Told::Text(b"/etc/"), Kind::Parent, 2),
            (Told::Text(b"/etc/x/"), Kind::Create, 9)
        ]
    );
    names.begin(b"y").unwrap();
    names.found(file(2), true).unwrap();
    assert_eq!(told(&names)[2], (Told::Here, Kind::Parent, 2));
}

#[test]
fn a_file_is_renamed_over_another() {
    let mut names = Names::new();
    names.begin(b"a").unwrap();
    names.found(file(1), true).unwrap();
    names.begin(b"d/b").unwrap();
    names.found(file(2), true).unwrap();
    names.child(file(1), b"a", Some(file(10)), Kind::Delete).unwrap();
    names.child(file(2), b"b", Some(file(11)), Kind::Delete).unwrap();
    names.child(file(2), b"b", Some(file(10)), Kind::Create).unwrap();
    assert_eq!(
        told(&names),
        [
            (Told::Here, Kind::Parent, 1),
            (Told::Text(b"d/"), Kind::Parent, 2),
            (Told::Text(b"a"), Kind::Delete, 10),
            (Told::Text(b"d/b"), Kind::Delete, 11),
            (Told::Text(b"d/b"), Kind::Create, 10),
        ]
    );
}

#[test]
fn two_names_are_exchanged() {
    let mut names = Names::new();
    for path in [b"d/q", b"d/p"] {
        names.pass(path).unwrap();
    }
    for path in [b"d/p", b"d/q"] {
        names.begin(path).unwrap();
        names.found(file(1), true).unwrap();
    }
    for (name, ino, kind) in [
        (b"p", 10, Kind::Delete),
        (b"q", 11, Kind::Delete),
        (b"q", 10, Kind::Create),
        (b"p", 11, Kind::Create),
    ] {
        names.child(file(1), name, Some(file(ino)), kind).unwrap();
    }
    assert_eq!(
        told(&names),
        [
            (Told::Text(b"d/"), Kind::Parent, 1),
            (Told::Text(b"d/"), Kind::Parent, 1),
            (Told::Text(b"d/p"), Kind::Delete, 10),
            (Told::Text(b"d/q"), Kind::Delete, 11),
            (Told::Text(b"d/q"), Kind::Create, 10),
            (Told::Text(b"d/p"), Kind::Create, 11),
        ]
    );
}

#[test]
fn an_opened_file_that_was_to_be_made() {
    let mut names = Names::new();
    names.begin(b"/a").unwrap();
    names.found(file(1), true).unwrap();
    names.found(file(3), false).unwrap();
    assert_eq!(
        told(&names),
        [
            (Told::Text(b"/"), Kind::Parent, 1),
            (Told::Text(b"/a"), Kind::Normal, 3)
        ]
    );
}

#[test]
fn a_link_is_made() {
    let mut names = Names::new();
    names.pass(b"l").unwrap();
    names.pass(b"target").unwrap();
    names.begin(b"l").unwrap();
    names.found(file(1), true).unwrap();
    names.child(file(1), b"l", Some(file(4)), Kind::Create).unwrap();
    assert_eq!(
        told(&names),
        [
            (Told::Here, Kind::Parent, 1),
            (Told::Text(b"target"), Kind::Unknown, 0),
            (Told::Text(b"l"), Kind::Create, 4)
        ]
    );
    names.used(file(8)).unwrap();
    assert_eq!(told(&names)[3], (Told::Nothing, Kind::Normal, 8));
    names.clear();
    assert!(told(&names).is_empty());
}

#[test]
fn a_name_without_a_known_directory() {
    let mut names = Names::new();
    names.child(file(1), b"x", Some(file(2)), Kind::Delete).unwrap();
    assert_eq!(
        told(&names),
        [(Told::Nothing, Kind::Parent, 1), (Told::Nothing, Kind::Delete, 2)]
    );
}

#[test]
fn capabilities_of_files() {
    let words = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
    let caps = FileCaps::from_bytes(&words(&[0x0200_0001, 0x400, 7, 1, 2])).unwrap();
    assert_eq!((caps.permitted, caps.inheritable), (0x1_0000_0400, 0x2_0000_0007));
    assert!(caps.effective && caps.version == 2 && caps.root == 0);
    let caps = FileCaps::from_bytes(&words(&[0x0300_0000, 1, 0, 0, 0, 77])).unwrap();
    assert!(!caps.effective && caps.version == 3 && caps.root == 77);
    for wrong in [
        &[][..],
        &[0x0200_0000],
        &[0x0400_0000, 0, 0, 0, 0],
        &[0x0200_0000, 0, 0],
    ] {
        assert_eq!(FileCaps::from_bytes(&words(wrong)), None);
    }
}

proptest! {
    #[test]
    fn any_names_can_come(steps: Vec<(u8, Vec<u8>, u64, bool)>) {
        let mut names = Names::new();
        for (step, text, ino, flag) in &steps {
            match step % 6 {
                0 => names.begin(text).unwrap(),
                1 => names.found(file(ino % 4), *flag).unwrap(),
                2 => names.pass(text).unwrap(),
                3 => names.used(file(ino % 4)).unwrap(),
                _ => {
                    let kind = if *flag { Kind::Create } else { Kind::Delete };
                    let child = (step % 2 == 0).then(|| file(ino / 7));
                    names.child(file(ino % 4), text, child, kind).unwrap();
                }
            }
        }
        for name in names.all() {
            names.told(name);
        }
        prop_assert!(names.all().len() <= 2 * steps.len());
    }

    #[test]
    fn a_directory_and_a_name_are_the_path(path: Vec<u8>) {
        let len = parent_len(&path);
        prop_assert!(len <= path.len());
        prop_assert!(len == 0 || path[len - 1] == b'/');
    }
}
