//! From demands and distances to shares.
