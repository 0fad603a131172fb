//! `limen root`: packs a directory and host programs into an initramfs, for `limen run --initrd` or any other loader.
//! Without an `/init` of the tree's own, `/init` is a link to BusyBox's when BusyBox is packed.

use anyhow::{Context, Result, bail};

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
    image::add_requests(&mut archive, arch, &options.add, &options.with)?;
    if let Some(dir) = &options.dir {
        if !dir.is_dir() {
            bail!("{} is no directory; give the tree to pack", dir.display());
        }
        guest_files::add_tree(&mut archive, dir, "")?;
    }
    if options.busybox {
        image::add_busybox(&mut archive, arch)?;
        archive.symlink("init", "bin/busybox");
    }
    guest_files::add_basics(&mut archive);
    let bytes = archive.finish();
    std::fs::write(&options.output, &bytes)
        .with_context(|| format!("cannot write {}", options.output.display()))?;
    eprintln!("limen: {} ({} bytes)", options.output.display(), bytes.len());
    Ok(())
}
