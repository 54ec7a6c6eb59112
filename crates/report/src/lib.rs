//! Records drawn: text, JSON, SVG and one self-contained HTML page.
#![forbid(unsafe_code)]
