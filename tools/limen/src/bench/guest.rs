//! The initramfs of a benchmark run: the programs of `programs/bench`, the dynamic one with its libraries.
//! Every kernel of a comparison gets the same file.

use std::path::Path;

use anyhow::{Context, Result};

use crate::agent::{self, Bench};
use crate::arch::Arch;
use crate::cpio::Archive;
use crate::image::TemporaryFile;
use crate::{guest_files, program};

/// The files a machine boots from.
pub struct Guest {
    /// The programs on the host.
    pub programs: Bench,
    /// The initramfs with every benchmark.
    pub rows: TemporaryFile,
    /// The initramfs with the hello program alone.
    pub hello: TemporaryFile,
    /// The initramfs with the rows of `--shared-lines`.
    pub shared: TemporaryFile,
    /// The initramfs with the rows of `--map`.
    pub map: TemporaryFile,
}

fn add(archive: &mut Archive, name: &str, path: &Path) -> Result<()> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    archive.file(name, 0o755, &bytes);
    Ok(())
}

/// Builds the programs and packs them.
pub fn prepare(arch: Arch) -> Result<Guest> {
    let programs = agent::bench(arch)?;
    let mut rows = Archive::default();
    add(&mut rows, "init", &programs.init)?;
    add(&mut rows, "tiny", &programs.tiny)?;
    add(&mut rows, "static", &programs.fixed)?;
    add(&mut rows, "dynamic", &programs.dynamic)?;
    let mut files = program::find(
        programs.dynamic.as_os_str(),
        Some(arch),
        &program::Guest::default(),
    )?
    .files;
    files.remove(&programs.dynamic);
    guest_files::add_all(&mut rows, &files, arch)?;
    guest_files::add_basics(&mut rows);
    let mut hello = Archive::default();
    add(&mut hello, "init", &programs.hello)?;
    guest_files::add_basics(&mut hello);
    let mut shared = Archive::default();
    add(&mut shared, "init", &programs.shared)?;
    guest_files::add_basics(&mut shared);
    let mut map = Archive::default();
    add(&mut map, "init", &programs.map)?;
    add(&mut map, "tiny", &programs.tiny)?;
    guest_files::add_basics(&mut map);
    Ok(Guest {
        programs,
        rows: TemporaryFile::new(&rows.finish())?,
        hello: TemporaryFile::new(&hello.finish())?,
        shared: TemporaryFile::new(&shared.finish())?,
        map: TemporaryFile::new(&map.finish())?,
    })
}
