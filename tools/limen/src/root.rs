//! `limen root`: packs a directory and host programs into an initramfs, for `limen run --initrd` or any boot
//! loader. If the directory has no `/init` and BusyBox is packed, `/init` is a link to BusyBox.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::applets::Applets;
use crate::arch::Arch;
use crate::cli::RootOptions;
use crate::cpio::Archive;
use crate::{guest_files, image};

/// Writes the archive.
pub fn root(options: &RootOptions) -> Result<()> {
    let Some(arch) = options.arch.or(Arch::host()) else {
        bail!("this host's architecture is not one of Limen's; say which with --arch");
    };
    let mut archive = Archive::default();
    match &options.dir {
        Some(dir) if dir.is_dir() => guest_files::add_top_links(&mut archive, dir),
        Some(dir) => bail!("{} is no directory; give the tree to pack", dir.display()),
        None => guest_files::add_merged_usr(&mut archive),
    }
    image::add_requests(&mut archive, arch, &options.add, &options.with)?;
    if let Some(dir) = &options.dir {
        guest_files::add_tree(&mut archive, dir, Path::new(""))?;
    }
    if options.busybox {
        Applets::fetch(arch)?.add_installed(&mut archive)?;
        archive.symlink("init", "bin/busybox");
    }
    guest_files::add_basics(&mut archive);
    if let Some(problem) = archive.problem() {
        bail!("{problem}; look at what --add, --with and the directory bring");
    }
    let bytes = archive.finish();
    std::fs::write(&options.output, &bytes)
        .with_context(|| format!("cannot write {}", options.output.display()))?;
    eprintln!("limen: {} ({} bytes)", options.output.display(), bytes.len());
    Ok(())
}
