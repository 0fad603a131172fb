//! `limen-embed-symbols KERNEL...`: fills the symbol table of kernel ELF files in place (see the library).

fn main() -> anyhow::Result<()> {
    for path in std::env::args_os().skip(1) {
        let mut image = std::fs::read(&path)?;
        let summary = limen_embed_symbols::embed(&mut image)?;
        let new = std::path::Path::new(&path).with_extension("symbols-tmp");
        std::fs::write(&new, &image)?;
        std::fs::rename(&new, &path)?;
        eprintln!(
            "{} symbols, {} of {} bytes",
            summary.symbols, summary.used, summary.room
        );
    }
    Ok(())
}
