//! Paths: the source tree, and the folder under its `target/` in which built and fetched files are kept. No
//! file is kept anywhere else.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};

/// The top of the source tree: `LIMEN_TREE` as the script sets it, else found from this program's own place.
pub fn root() -> PathBuf {
    if let Some(tree) = std::env::var_os("LIMEN_TREE") {
        return PathBuf::from(tree);
    }
    let own = std::env::current_exe().unwrap_or_default();
    own.ancestors()
        .find(|dir| dir.join("tools/limen/Cargo.toml").is_file())
        .map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// The folder for everything cargo builds.
pub fn target() -> PathBuf {
    root().join("target")
}

/// This very program, also after a newer one has replaced its file.
pub fn own_program() -> PathBuf {
    PathBuf::from(format!("/proc/{}/exe", std::process::id()))
}

/// A folder under `target/limen`, made if it is missing.
pub fn cache(name: &str) -> Result<PathBuf> {
    let dir = target().join("limen").join(name);
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    Ok(dir)
}

/// A folder for what other trees of the same user can use, too: `limen/NAME` in `XDG_CACHE_HOME`, else in
/// `~/.cache`, else [`cache`]. Made if it is missing.
pub fn shared_cache(name: &str) -> Result<PathBuf> {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let of_user = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let dir = of_user.map(|dir| dir.join("limen").join(name));
    match dir {
        Some(dir) if std::fs::create_dir_all(&dir).is_ok() => Ok(dir),
        _ => cache(name),
    }
}

/// When the newest file below these paths changed. Missing paths do not count; neither do `target` folders.
pub fn newest(paths: &[PathBuf]) -> SystemTime {
    let mut newest = SystemTime::UNIX_EPOCH;
    let mut todo: Vec<PathBuf> = paths.to_vec();
    while let Some(path) = todo.pop() {
        let Ok(meta) = std::fs::metadata(&path) else {
            continue;
        };
        if let Ok(time) = meta.modified() {
            newest = newest.max(time);
        }
        if meta.is_dir() && path.file_name().is_none_or(|n| n != "target") {
            let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
            todo.extend(entries.map(|e| e.path()));
        }
    }
    newest
}

/// Whether `made` exists and is newer than all files in `of`.
pub fn fresh(made: &Path, of: &[PathBuf]) -> bool {
    let Ok(time) = std::fs::metadata(made).and_then(|m| m.modified()) else {
        return false;
    };
    time > newest(of)
}

/// Finds a program as a shell would: in `PATH`, and then in the system's folders.
pub fn find_tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(system)
        .map(|dir| dir.join(name))
        .find(|p| p.is_file())
}
