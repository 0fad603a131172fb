//! Files and folders that are made when they are missing or old. They appear complete or not at all, and are
//! made once, however many steps and runs want them at the same time.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use anyhow::{Context, Result};

use crate::tree;

/// `path`, made by `fill` if it is missing or older than the files in `of`. Other threads and processes that
/// want the same path wait for the one that makes it.
pub fn ensure(path: &Path, of: &[PathBuf], fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    if !tree::fresh(path, of) {
        let _alone = alone(path)?;
        if !tree::fresh(path, of) {
            forget_begun(path);
            let began = SystemTime::now();
            make(path, |new| {
                fill(new)?;
                date(new, began)?;
                if path.is_dir() {
                    // An old folder: a rename would not replace it.
                    std::fs::remove_dir_all(path)?;
                }
                Ok(())
            })?;
        }
    }
    Ok(path.to_owned())
}

/// Removes what a run that was killed left beside `path` while it made it. The caller holds the lock.
fn forget_begun(path: &Path) {
    let begun = path.with_added_extension("new-");
    let begun = begun.file_name().unwrap_or_default().as_encoded_bytes();
    let beside = path.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    for entry in beside.into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(begun) {
            let other = entry.path();
            let _ = std::fs::remove_file(&other).or_else(|_| std::fs::remove_dir_all(&other));
        }
    }
}

/// Sets the modification time of a made file to `began`, when the making began: a source that changed
/// meanwhile is then newer, and the file is made again.
pub fn date(path: &Path, began: SystemTime) -> Result<()> {
    File::open(path)
        .and_then(|made| made.set_modified(began))
        .with_context(|| format!("cannot date {}", path.display()))
}

/// Locks out other threads and processes from `path` while the value lives. The lock is a file beside it.
pub fn alone(path: &Path) -> Result<File> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let lock = path.with_file_name(format!(".{name}.lock"));
    let file = File::create(&lock).with_context(|| format!("cannot write {}", lock.display()))?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)
        .with_context(|| format!("cannot wait for the lock {}", lock.display()))?;
    Ok(file)
}

/// Replaces a file as a whole: no reader sees a part of it.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    make(path, |new| {
        std::fs::write(new, bytes).with_context(|| format!("cannot write {}", new.display()))
    })
}

/// `fill` makes a file or folder beside `path` under a unique name, which is then renamed to `path`. If it
/// fails, `path` is unchanged.
fn make(path: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let new = path.with_added_extension(format!("new-{}-{number}", std::process::id()));
    let done = fill(&new).and_then(|()| match std::fs::rename(&new, path) {
        // A rename does not replace a folder that is not empty: another process was quicker.
        Err(_) if new.is_dir() && path.is_dir() => Ok(std::fs::remove_dir_all(&new)?),
        done => done.with_context(|| format!("cannot make {}", path.display())),
    });
    if done.is_err() {
        let _ = std::fs::remove_file(&new).or_else(|_| std::fs::remove_dir_all(&new));
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> PathBuf {
        let place = std::env::temp_dir().join(format!("limen-made-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir_all(&place).unwrap();
        place
    }

    #[test]
    fn many_threads_make_it_once_and_see_it_whole() {
        let place = place("once");
        let path = place.join("program.with.dots");
        let times = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let made = ensure(&path, &[], |new| {
                        times.fetch_add(1, Ordering::Relaxed);
                        std::fs::write(new, "")?;
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        Ok(std::fs::write(new, "whole")?)
                    });
                    assert_eq!(std::fs::read(made.unwrap()).unwrap(), b"whole");
                });
            }
        });
        assert_eq!(times.into_inner(), 1);
        // The file and its lock.
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 2);
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn replacing_shows_one_content_or_the_other() {
        let place = place("replace");
        let path = place.join("file");
        replace(&path, &[0; 100_000]).unwrap();
        std::thread::scope(|scope| {
            for byte in 0..4u8 {
                let path = &path;
                scope.spawn(move || (0..50).for_each(|_| replace(path, &[byte; 100_000]).unwrap()));
            }
            for _ in 0..200 {
                let bytes = std::fs::read(&path).unwrap();
                assert_eq!(bytes.len(), 100_000);
                assert!(bytes.iter().all(|b| *b == bytes[0]));
            }
        });
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 1);
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn what_fails_leaves_nothing_and_keeps_the_old() {
        let place = place("fails");
        let path = place.join("file");
        std::fs::write(&path, "old").unwrap();
        let newer = place.join("source");
        std::fs::create_dir(&newer).unwrap();
        std::fs::write(newer.join("a"), "").unwrap();
        let failed = ensure(&path, &[newer], |new| {
            std::fs::write(new, "half")?;
            anyhow::bail!("the compiler failed")
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        // The old file, the lock, the source.
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 3);
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn what_changes_meanwhile_is_newer() {
        let place = place("meanwhile");
        let (path, source) = (place.join("file"), place.join("source"));
        std::fs::write(&source, "").unwrap();
        let wait = || std::thread::sleep(std::time::Duration::from_millis(20));
        wait();
        let times = AtomicU32::new(0);
        let again = || {
            ensure(&path, std::slice::from_ref(&source), |new| {
                wait();
                if times.fetch_add(1, Ordering::Relaxed) == 0 {
                    std::fs::write(&source, "changed")?;
                    wait();
                }
                Ok(std::fs::write(new, "made")?)
            })
            .unwrap();
        };
        again();
        again();
        again();
        assert_eq!(times.into_inner(), 2);
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn an_old_folder_is_made_again_and_leftovers_go() {
        let place = place("old");
        let (path, source) = (place.join("folder"), place.join("source"));
        let wait = || std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::create_dir_all(place.join("folder.new-1-0")).unwrap();
        for text in ["first", "second"] {
            std::fs::write(&source, text).unwrap();
            wait();
            let made = ensure(&path, std::slice::from_ref(&source), |new| {
                std::fs::create_dir_all(new)?;
                Ok(std::fs::write(new.join("in"), text)?)
            });
            assert_eq!(std::fs::read_to_string(made.unwrap().join("in")).unwrap(), text);
            wait();
        }
        // The folder, its lock, the source.
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 3);
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a_folder_that_is_there_already_stays() {
        let place = place("folder");
        let path = place.join("folder");
        let fill = |new: &Path| {
            std::fs::create_dir_all(new)?;
            Ok(std::fs::write(new.join("in"), "")?)
        };
        make(&path, fill).unwrap();
        make(&path, fill).unwrap();
        assert!(path.join("in").is_file());
        assert_eq!(std::fs::read_dir(&place).unwrap().count(), 1);
        std::fs::remove_dir_all(place).unwrap();
    }
}
