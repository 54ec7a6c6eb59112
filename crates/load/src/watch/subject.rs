//! Who is watched in which role, and what an interface can carry, as people write it.

use std::str::FromStr;

use loadline_measure::record::Role;

/// One whom a watch is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Who it is.
    pub who: Who,
    /// Its part in the run; its children have it too.
    pub role: Role,
}

/// Who a process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// By its number.
    Pid(u32),
    /// Every process of this name (at most 15 characters are compared, as the kernel keeps it).
    Name(String),
}

/// What of a subject or a limit cannot be understood.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SubjectError {
    /// The role does not exist.
    #[error("`{0}` is no role; roles are lb, server, generator and watched")]
    Role(String),
    /// Nobody where somebody should be.
    #[error("`{0}` names nobody; write process numbers or names, like lb=812 or server=12,nginx")]
    Nobody(String),
    /// A rate of bits or bytes that is none.
    #[error("`{0}` is no network rate; write it like `180Mb/s`, `22.5MB/s` or `eth0=1Gb/s`")]
    Limit(String),
}

/// Reads `812`, `lb=812`, `server=12,13,lb=haproxy`: a role holds until the next one.
///
/// # Errors
/// [`SubjectError`] where a role is unknown or a name is empty.
pub fn subjects(text: &str) -> Result<Vec<Subject>, SubjectError> {
    let mut role = Role::default();
    let mut found = Vec::new();
    for part in text.split(',').map(str::trim) {
        let name = match part.split_once('=') {
            Some((before, after)) => {
                role = role_of(before.trim())?;
                after.trim()
            }
            None => part,
        };
        found.push(Subject { who: who(name).ok_or(SubjectError::Nobody(text.into()))?, role });
    }
    Ok(found)
}

fn role_of(text: &str) -> Result<Role, SubjectError> {
    match text {
        "lb" => Ok(Role::LoadBalancer),
        "server" => Ok(Role::Server),
        "generator" => Ok(Role::Generator),
        "watched" => Ok(Role::Watched),
        other => Err(SubjectError::Role(other.into())),
    }
}

fn who(text: &str) -> Option<Who> {
    match text.parse() {
        _ if text.is_empty() => None,
        Ok(0) => None,
        Ok(pid) => Some(Who::Pid(pid)),
        Err(_) => Some(Who::Name(text.chars().take(KERNEL_NAME).collect())),
    }
}

/// What an interface can carry in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetLimit {
    /// Its name; none for every interface but the loopback.
    pub interface: Option<String>,
    /// Bytes per second in one direction.
    pub bytes_per_s: u64,
}

impl NetLimit {
    /// Whether this is about the interface of this name.
    #[must_use]
    pub fn is_for(&self, name: &str) -> bool {
        self.interface.as_ref().map_or(name != "lo", |interface| interface == name)
    }
}

impl FromStr for NetLimit {
    type Err = SubjectError;

    /// Reads `180Mb/s`, `22.5MB/s`, `eth0=1Gb/s`; prefixes are decimal, b is a bit, B a byte.
    fn from_str(text: &str) -> Result<Self, SubjectError> {
        let (interface, rate) = match text.split_once('=') {
            Some((interface, rate)) => (Some(interface.trim().to_owned()), rate),
            None => (None, text),
        };
        let wrong = || SubjectError::Limit(text.into());
        let bytes_per_s = rate_of(rate.trim()).ok_or_else(wrong)?;
        if interface.as_ref().is_some_and(String::is_empty) {
            return Err(wrong());
        }
        Ok(Self { interface, bytes_per_s })
    }
}

fn rate_of(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start().strip_suffix("/s")?;
    let (prefix, divisor) = match (unit.strip_suffix('b'), unit.strip_suffix('B')) {
        (Some(prefix), _) => (prefix, 8.0),
        (_, Some(prefix)) => (prefix, 1.0),
        _ => return None,
    };
    let scale = match prefix {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => return None,
    };
    let bytes = number.parse::<f64>().ok()? * scale / divisor;
    (bytes >= 1.0 && bytes < u64::MAX as f64).then_some(bytes as u64)
}

/// `TASK_COMM_LEN` of the kernel, less the terminating zero.
const KERNEL_NAME: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_holds_until_the_next_one() {
        let pid = |pid, role| Subject { who: Who::Pid(pid), role };
        assert_eq!(subjects("812").unwrap(), [pid(812, Role::Watched)]);
        let both = subjects("server=12,13, lb=haproxy").unwrap();
        let proxy = Subject { who: Who::Name("haproxy".into()), role: Role::LoadBalancer };
        assert_eq!(both, [pid(12, Role::Server), pid(13, Role::Server), proxy]);
    }

    #[test]
    fn nobody_and_a_role_that_is_none_are_refused_with_what_would_be_right() {
        for (text, hint) in [
            ("", "lb=812"),
            ("0", "lb=812"),
            ("lb=", "lb=812"),
            ("1,,2", "server=12"),
            ("proxy=12", "roles are lb, server"),
        ] {
            let error = subjects(text).unwrap_err().to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn a_limit_is_in_bits_or_bytes_for_one_interface_or_all_but_the_loopback() {
        let read = |text: &str| text.parse::<NetLimit>();
        assert_eq!(read("180Mb/s").unwrap().bytes_per_s, 22_500_000);
        assert_eq!(read("22.5 MB/s").unwrap().bytes_per_s, 22_500_000);
        assert!(read("180Mb/s").unwrap().is_for("eth0"));
        assert!(!read("180Mb/s").unwrap().is_for("lo"));
        let one = read("lo=1Gb/s").unwrap();
        assert!(one.is_for("lo") && !one.is_for("eth0"));
        for text in ["180", "180Mb", "Mb/s", "180Mbit/s", "1.2.3Mb/s", "0b/s", "=1Mb/s", "1Tb/s"] {
            assert!(read(text).unwrap_err().to_string().contains("180Mb/s"), "{text}");
        }
    }
}
