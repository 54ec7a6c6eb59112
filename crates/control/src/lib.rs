//! Configuration: one TOML file, parsed into a Fleet, with errors that point into the file.
#![forbid(unsafe_code)]
