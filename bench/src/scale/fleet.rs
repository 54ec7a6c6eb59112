//! The configurations: one listener, a route by host for each service, groups of equal size.
//!
//! That is what a user with thousands of services writes: one address for all of them, told apart
//! by the host that is asked for. The route of the last is the one that is asked for here, and its
//! servers are the only ones that exist; the others have addresses of 127.0.0.0/8 where nobody
//! listens, so that nothing ever leaves the machine.

use std::net::Ipv4Addr;

use super::live;

/// How many services there are, and how many servers each of them has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) services: usize,
    pub(crate) each: usize,
}

/// One configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fleet {
    pub(crate) size: Size,
    pub(crate) port: u16,
    /// Of the administration, where there is one.
    pub(crate) admin: Option<u16>,
    /// Of the servers of the last service.
    pub(crate) live: u16,
    /// Where nobody listens: the only server of the service that no route names.
    pub(crate) dead: u16,
    /// Whether the last service is checked.
    pub(crate) checks: bool,
}

impl Size {
    /// What it is of everything that a cost is counted in.
    pub(crate) const fn servers(self) -> usize {
        self.services * self.each
    }
}

impl Fleet {
    /// Its configuration for loadline.
    pub(crate) fn toml(&self) -> String {
        let mut text = "[edge]\nthreads = 1\n".to_owned();
        if let Some(port) = self.admin {
            text += &format!("[admin]\nbind = \"127.0.0.1:{port}\"\n");
        }
        let port = self.port;
        text +=
            &format!("[[listener]]\nbind = \"127.0.0.1:{port}\"\nservice = \"dead\"\nroutes = [\n");
        for index in 0..self.size.services {
            text +=
                &format!("    {{ host = \"s{index}.example.com\", service = \"s{index}\" }},\n");
        }
        text += &format!("    {{ host = \"{LIVE_HOST}\", service = \"live\" }},\n]\n");
        for index in 0..self.size.services {
            let servers = self.servers(index);
            text += &format!(
                "\n[service.s{index}]\n[[service.s{index}.group]]\nservers = [\n{servers}]\n"
            );
        }
        text + &self.named()
    }

    /// The two that are not like the others.
    fn named(&self) -> String {
        let live: Vec<String> =
            live::addresses().map(|ip| format!("\"{ip}:{}\"", self.live)).collect();
        let checks = if self.checks { CHECKS } else { "" };
        format!(
            "\n[service.dead]\n[[service.dead.group]]\nservers = [\"127.0.0.1:{}\"]\n\
             \n[service.live]\n{checks}[[service.live.group]]\nservers = [{}]\n",
            self.dead,
            live.join(", "),
        )
    }

    fn servers(&self, service: usize) -> String {
        let first = service * self.size.each;
        let address = |index: usize| Ipv4Addr::from_bits(FIRST + index as u32);
        let all = first..first + self.size.each;
        all.map(|index| format!("    \"{}:80\",\n", address(index))).collect()
    }
}

/// The route that comes last.
pub(crate) const LIVE_HOST: &str = "live.example.com";

/// Each check can bring a server down or up. A hundred servers make a thousand checks a second.
const CHECKS: &str = "health = { http = \"/health\", interval = \"100ms\", \
                      fast_interval = \"100ms\", \
                      rise = 1, fall = 1 }\n";

/// 127.16.0.0.
const FIRST: u32 = 0x7f10_0000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_all_services_and_only_addresses_of_loopback() {
        let size = Size { services: 300, each: 10 };
        let fleet = Fleet { size, port: 1, admin: Some(2), live: 3, dead: 4, checks: true };
        let text = fleet.toml();
        assert_eq!(text.matches("\n[service.").count(), 302);
        assert_eq!(text.matches("host = ").count(), 301);
        assert_eq!(text.matches(":80\"").count(), size.servers());
        assert!(text.contains("\"127.16.11.183:80\""), "the last of 3,000 servers");
        assert!(text.matches('"').count().is_multiple_of(2) && text.contains("health = "));
    }

    #[test]
    fn a_reload_changes_one_line() {
        let size = Size { services: 3, each: 2 };
        let before = Fleet { size, port: 1, admin: None, live: 3, dead: 4, checks: false };
        let after = Fleet { live: 5, ..before }.toml();
        let changed = before.toml().lines().zip(after.lines()).filter(|(a, b)| a != b).count();
        assert_eq!(changed, 1);
    }
}
