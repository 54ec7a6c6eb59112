//! Compresses the pages of `docs/` that a packaged binary carries.

use std::{env, fs, fs::File, io, path::Path};

use flate2::{Compression, write::GzEncoder};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_EMBEDDED_PAGES").is_none() {
        return Ok(());
    }
    let made = env::var("OUT_DIR").map_err(io::Error::other)?;
    for page in PAGES {
        let path = Path::new("../../docs").join(page);
        println!("cargo::rerun-if-changed={}", path.display());
        let file = File::create(Path::new(&made).join(format!("{page}.gz")))?;
        let mut compressed = GzEncoder::new(file, Compression::best());
        io::copy(&mut fs::read(path)?.as_slice(), &mut compressed)?;
        compressed.finish()?;
    }
    Ok(())
}

const PAGES: [&str; 5] = [
    "configuration.md", "configuration.schema.json", "openapi.json", "records.md",
    "records.schema.json",
];
