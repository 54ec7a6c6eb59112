//! An explanation as text.

use std::fmt;

use super::{Answer, Explanation, Route, Target};

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.request)?;
        match self.other_port {
            Some(port) => {
                let only = "the only one with this scheme; not on port";
                line(f, "listener", &format_args!("{} ({only} {port})", self.listener))?;
            }
            None => line(f, "listener", &self.listener)?,
        }
        for passed in &self.passed {
            let label = format!("route {}", passed.number);
            line(f, &label, &format_args!("{}: {}", passed.conditions, passed.fails))?;
        }
        match &self.route {
            Some(route) => write_route(f, route)?,
            None if self.passed.is_empty() => {}
            None => line(f, "", &"none of the routes: the listener's own service gets it")?,
        }
        if let Some(authentication) = &self.authentication {
            line(f, authentication.by, &authentication.who)?;
        }
        match &self.answer {
            Answer::Redirect { status, location } => {
                line(f, "response", &format_args!("{status} to {location}"))
            }
            Answer::Response { status } => line(f, "response", &format_args!("{status}")),
            Answer::Refused { status, why } => {
                line(f, "response", &format_args!("{status}: {why}"))
            }
            Answer::Services(targets) => {
                let all = targets.iter().map(|it| u64::from(it.weight)).sum();
                targets.iter().try_for_each(|target| write_target(f, target, all))
            }
        }
    }
}

fn write_route(f: &mut fmt::Formatter<'_>, route: &Route) -> fmt::Result {
    let Route { number, of, conditions, .. } = route;
    let route_label = format!("route {number}");
    line(f, &route_label, &format_args!("{conditions}: decides (route {number} of {of})"))?;
    for (label, value) in [
        ("limit", &route.limit),
        ("class", &route.class),
        ("path", &route.path),
        ("mirror", &route.mirror),
    ] {
        if let Some(value) = value {
            line(f, label, value)?;
        }
    }
    for edit in &route.request_headers {
        line(f, "request", edit)?;
    }
    for edit in &route.response_headers {
        line(f, "response", edit)?;
    }
    if route.is_cached {
        line(f, "cache", &"may answer, and stores what may be stored")
    } else {
        Ok(())
    }
}

fn write_target(f: &mut fmt::Formatter<'_>, target: &Target, all: u64) -> fmt::Result {
    if u64::from(target.weight) == all {
        line(f, "service", &target.service)?;
    } else {
        line(f, "service", &format_args!("{}, {} of {all}", target.service, target.weight))?;
    }
    if target.is_stopped {
        return line(f, "", &"in maintenance: 503");
    }
    let width = target.groups.iter().map(|group| group.name.len()).max().unwrap_or(0);
    for (number, group) in (1..).zip(&target.groups) {
        line(
            f,
            &format!("group {number}"),
            &format_args!("{:width$}  {}", group.name, group.capacity),
        )?;
    }
    line(f, "in a group", &target.policy)?;
    line(f, "all full", &target.when_full)
}

fn line(f: &mut fmt::Formatter<'_>, label: &str, value: &dyn fmt::Display) -> fmt::Result {
    writeln!(f, "{label:10}  {value}")
}
