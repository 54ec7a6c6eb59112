//! Compression of responses in the file.

use loadline_core::compress::Algorithm;
use loadline_spanned::{Key, Text};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{
    number::Whole, one_or_more::OneOrMore, pattern::MediaType, quantity::Size, word::Word,
};

/// Compression of responses for clients that accept it; see `docs/compression.md`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Compression {
    /// Algorithms that may be used. Of those that a client likes equally the first is taken.
    #[schemars(extend("default" = ["zstd", "gzip", "br"]))]
    pub(crate) algorithms: Key<Vec<Text<Word<Algorithm>>>>,
    /// Media types that are compressed. Default: text, JSON, XML, JavaScript, WebAssembly, SVG,
    /// fonts that are not compressed already.
    #[schemars(extend("examples" = [["text/*", "application/json", "application/*+json"]]))]
    pub(crate) types: Key<OneOrMore<MediaType>>,
    /// Minimum size of a body, where it is known before the body is sent.
    #[schemars(extend("default" = "1kB"))]
    pub(crate) min_size: Key<Size<0, { 1 << 30 }>>,
    /// Levels of the algorithms. Under load lower ones are used, and in the end none.
    pub(crate) levels: Key<Levels>,
    /// Whether responses to requests with credentials (a cookie, or an `Authorization` that
    /// browsers remember) are compressed in any case. An attacker who can make a browser send such
    /// requests with text of his choice may guess secrets beside that text from the length of
    /// responses (BREACH). Without it they are compressed where the browser says that the site
    /// itself asks (`Sec-Fetch-Site`), or where the response is for everybody (`Cache-Control:
    /// public`).
    #[schemars(extend("default" = false))]
    pub(crate) credentials: Key<bool>,
}

/// Levels as the algorithms count them; a higher one takes more CPU time for fewer bytes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Levels {
    /// Level of gzip.
    #[schemars(extend("default" = 5))]
    pub(crate) gzip: Key<Whole<1, 9>>,
    /// Level of brotli.
    #[schemars(extend("default" = 4))]
    pub(crate) br: Key<Whole<0, 9>>,
    /// Level of zstd.
    #[schemars(extend("default" = 3))]
    pub(crate) zstd: Key<Whole<1, 12>>,
}
