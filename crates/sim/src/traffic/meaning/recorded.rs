//! Keys that name what was recorded: access logs and runs.

use std::{rc::Rc, sync::Arc};

use loadline_core::{fleet::ServerAddress, time::Duration};
use loadline_spanned::{At, known};

use super::Reader;
use crate::{
    arrivals::Arrivals,
    recorded::{Log, Which, service_times},
    traffic::file::ServerEntry,
};

impl Reader<'_> {
    /// The arrivals of a service as a log has them.
    pub(super) fn logged_arrivals(
        &mut self,
        service: usize,
        log: &At<String>,
        logged_as: Option<&At<String>>,
    ) -> Option<Arrivals> {
        let name = self.fleet.services[service].name.clone();
        let (read, service) = self.log_with(log, logged_as, Some(&name))?;
        let cached = self.has_caches;
        let arrivals = read.arrivals(&Which { service, cached, ..Which::default() });
        if arrivals.is_empty() {
            let message = format!("no request of `{}` asked for a server", log.value);
            self.error(&log.span, message, "what loadline answered itself does not come again");
            return None;
        }
        Some(Arrivals::Listed(arrivals.into()))
    }

    /// How long servers took as a log has it.
    pub(super) fn logged_times(
        &mut self,
        server: &ServerEntry,
        log: &At<String>,
        logged_as: Option<&At<String>>,
    ) -> Option<Arc<[Duration]>> {
        let name = server.service.as_ref().map(|at| &at.value);
        let (read, service) = self.log_with(log, logged_as, name)?;
        let group = server.group.as_ref().map(|at| at.value.clone());
        let address = server.address.as_ref();
        let address = address.and_then(|at| at.value.parse::<ServerAddress>().ok());
        let server = address.map(|address| address.0);
        let times = read.times(&Which { service, group, server, cached: false });
        if times.is_empty() {
            let message = format!("`{}` does not tell how long these servers took", log.value);
            self.error(&log.span, message, TELLING);
            return None;
        }
        Some(times.into())
    }

    pub(super) fn recorded_times(&mut self, run: &At<String>) -> Option<Arc<[Duration]>> {
        let times = service_times(&self.folder.join(&run.value));
        times
            .map_err(|message| self.error(&run.span, message, "name what `bench --json` wrote"))
            .ok()
    }

    /// A log, and what it calls the service of this name.
    fn log_with(
        &mut self,
        at: &At<String>,
        logged_as: Option<&At<String>>,
        name: Option<&String>,
    ) -> Option<(Rc<Log>, Option<String>)> {
        let log = self.log(at)?;
        let said = logged_as.map(|at| &at.value).or(name).cloned();
        let names = log.services();
        if let Some(said) =
            said.as_deref().filter(|said| !names.is_empty() && !names.contains(said))
        {
            let message = format!("`{}` has no request of service `{said}`", at.value);
            let help = format!("{}; say `log_service`", known(said, &names));
            self.error(logged_as.map_or(&at.span, |at| &at.span), message, help);
            return None;
        }
        Some((log, said))
    }

    /// Reads a log, if it was not read before.
    fn log(&mut self, at: &At<String>) -> Option<Rc<Log>> {
        let path = self.folder.join(&at.value);
        if let Some(log) = self.logs.get(&path) {
            return log.clone();
        }
        let log = match Log::load(&path) {
            Ok(log) => Some(Rc::new(log)),
            Err(message) => {
                self.error(&at.span, message, FORMATS);
                None
            }
        };
        if let Some((lines, first)) = log.as_ref().and_then(|log| log.unreadable) {
            let message =
                format!("{lines} lines of `{}` are left out, the first is line {first}", at.value);
            self.problems.warning(&at.span, message, "this", FORMATS);
        }
        self.logs.insert(path, log.clone());
        log
    }
}

const FORMATS: &str = "a log is in loadline's text, combined or json, in the Common or Combined \
                       Log Format, or HAProxy's httplog";

const TELLING: &str = "loadline's formats and HAProxy's httplog tell it; nginx if its log_format \
                       has urt=$upstream_response_time";
