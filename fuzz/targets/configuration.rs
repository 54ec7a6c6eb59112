//! The configuration: any text gives a fleet, or errors that can be printed. Files it names are
//! not read for their contents, and no name is looked up.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loadline_control::{LocalOnly, parse_with};

fuzz_target!(|text: &str| {
    if let Err(errors) = parse_with("fuzz.toml", text, &LocalOnly) {
        assert!(!errors.to_string().is_empty());
    }
});
