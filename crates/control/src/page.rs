//! Pages of `docs/` that are made of the code.
//!
//! What makes them is larger than they are, so packages carry the pages instead (the feature
//! `embedded-pages`). `make generated` writes them; tests compare them with what makes them.

use serde_json::Value;

/// A page of `docs/` that is made of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// The reference of every key of the configuration (Markdown).
    Configuration,
    /// The JSON Schema of the configuration.
    ConfigurationSchema,
    /// The description of the admin API (`OpenAPI` 3.1, JSON).
    OpenApi,
    /// The reference of every field of records (Markdown).
    Records,
    /// The JSON Schema of records.
    RecordsSchema,
}

impl Page {
    /// The embedded text of the page, or what `make` makes.
    #[must_use]
    pub fn text_or(self, make: impl FnOnce() -> String) -> String {
        // A constant, so that what is not called is not in the binary.
        if cfg!(feature = "embedded-pages") { embedded(self) } else { make() }
    }

    /// As [`Page::text_or`], for one that is JSON.
    #[must_use]
    pub fn json_or(self, make: impl FnOnce() -> Value) -> String {
        self.text_or(|| format!("{:#}\n", make()))
    }

    /// One that is JSON, read.
    pub(crate) fn value_or(self, make: impl FnOnce() -> Value) -> Value {
        if cfg!(feature = "embedded-pages") {
            return embedded(self).parse().expect("it was written as JSON");
        }
        make()
    }
}

#[cfg(not(feature = "embedded-pages"))]
fn embedded(_: Page) -> String {
    String::new()
}

#[cfg(feature = "embedded-pages")]
fn embedded(page: Page) -> String {
    macro_rules! compressed {
        ($name:literal) => {
            &include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".gz"))[..]
        };
    }
    let compressed = match page {
        Page::Configuration => compressed!("configuration.md"),
        Page::ConfigurationSchema => compressed!("configuration.schema.json"),
        Page::OpenApi => compressed!("openapi.json"),
        Page::Records => compressed!("records.md"),
        Page::RecordsSchema => compressed!("records.schema.json"),
    };
    let text = std::io::read_to_string(flate2::read::GzDecoder::new(compressed));
    text.expect("the build compressed it")
}
