//! Compiles the programs for the kernel with clang.
//!
//! Without clang, or without the headers, the crate builds all the same: the object is then empty,
//! and loading it says what was missing. The next build tries again.

use std::{
    env, error, fs,
    path::{Path, PathBuf},
    process::Command,
};

fn main() -> Result<(), Box<dyn error::Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let arch = env::var("CARGO_CFG_TARGET_ARCH")?;
    println!("cargo::rerun-if-changed=bpf");
    let mut missing = String::new();
    for name in ["balancer", "check", "decapsulate"] {
        let object = out.join(name).with_extension("o");
        if let Err(reason) = compile(name, &object, &arch) {
            fs::write(&object, [])?;
            missing = reason;
        }
    }
    if !missing.is_empty() {
        let first = missing.lines().next().unwrap_or_default();
        println!("cargo::warning=packet forwarding is left out: {first}");
        // A file that never exists makes cargo run this again.
        println!("cargo::rerun-if-changed={}", out.join("always").display());
    }
    fs::write(out.join("missing.txt"), missing)?;
    Ok(())
}

/// Compiles `bpf/<name>.bpf.c`; the error is what to tell the user.
fn compile(name: &str, object: &Path, arch: &str) -> Result<(), String> {
    let output = Command::new("clang")
        .args(["-O2", "-g", "-Wall", "-Wextra", "-target", "bpf", "-mcpu=v3"])
        // Where Debian keeps asm/types.h: that of this machine, and that of others.
        .args(["-idirafter", &format!("/usr/include/{arch}-linux-gnu")])
        .args(["-idirafter", &format!("/usr/{arch}-linux-gnu/include")])
        .args(["-c", &format!("bpf/{name}.bpf.c"), "-o"])
        .arg(object)
        .output()
        .map_err(|error| format!("clang could not be run ({error}); Debian: apt install clang"))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("clang failed; Debian: apt install clang libbpf-dev linux-libc-dev\n{errors}"))
}
