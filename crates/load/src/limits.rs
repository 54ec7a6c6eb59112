//! Descriptors: an open loop against a slow server holds one connection for each waiting request.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises this process's soft limit of open descriptors to its hard limit and returns the limit
/// in force after it; `None` where there is none.
///
/// # Errors
/// The system's error where the limit may not be changed; the old one stays in force.
pub fn raise_descriptor_limit() -> io::Result<Option<u64>> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    }
    Ok(limit.maximum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let raised = raise_descriptor_limit().unwrap();
        assert_eq!(getrlimit(Resource::Nofile).current, raised);
    }
}
