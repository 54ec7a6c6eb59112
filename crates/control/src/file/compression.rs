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
    /// Compression algorithms that may be used. Of those that the client accepts with the same
    /// weight, the first is used.
    #[schemars(extend("default" = ["zstd", "gzip", "br"]))]
    pub(crate) algorithms: Key<Vec<Text<Word<Algorithm>>>>,
    /// Media types that are compressed. Default: text, JSON, XML, JavaScript, WebAssembly, SVG and
    /// uncompressed fonts.
    #[schemars(extend("examples" = [["text/*", "application/json", "application/*+json"]]))]
    pub(crate) types: Key<OneOrMore<MediaType>>,
    /// Minimum size of a body that is compressed, if the size is known in advance.
    #[schemars(extend("default" = "1kB"))]
    pub(crate) min_size: Key<Size<0, { 1 << 30 }>>,
    /// Compression levels. Under CPU load lower levels are used, and in the end no compression.
    pub(crate) levels: Key<Levels>,
    /// Whether responses to requests with credentials (a cookie, or an `Authorization` that
    /// browsers remember) are always compressed. If not, they are compressed only if the browser
    /// says that the site itself asks (`Sec-Fetch-Site`), or if the response is for everybody
    /// (`Cache-Control: public`): otherwise an attacker who makes a browser send such requests with
    /// text of his choice may guess secrets beside that text from the length of responses (BREACH).
    #[schemars(extend("default" = false))]
    pub(crate) credentials: Key<bool>,
}

/// Compression levels of the algorithms; a higher one takes more CPU time for fewer bytes.
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
