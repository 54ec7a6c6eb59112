//! Single requests and pings, one after another, each with its phases.
