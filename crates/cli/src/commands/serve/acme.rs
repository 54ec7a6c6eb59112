//! Certificates by ACME: the proxy shows what the control half gets.

use std::sync::Arc;

use loadline_control::{
    acme::{Front, Issuing, Pair, View},
    admin::LiveConfiguration,
};
use loadline_proxy::runtime::Handle;

/// Asks for certificates that `site` names until the result is dropped. Must be called inside a
/// runtime.
pub(super) fn issue(site: Arc<LiveConfiguration>, proxy: Handle, view: View) -> Issuing {
    Issuing::start(site, Arc::new(Shown(proxy)), view)
}

struct Shown(Handle);

impl Front for Shown {
    fn show_issued(&self, file: &str) -> Result<(), String> {
        self.0.show_issued(file).map_err(|error| error.to_string())
    }

    fn answer_challenge(&self, token: &str, key_authorization: Option<&str>) {
        self.0.answer_challenge(token, key_authorization);
    }

    fn validate_with(&self, file: &str, pair: Option<Pair>) -> Result<(), String> {
        self.0.validate_with(file, pair).map_err(|error| error.to_string())
    }
}
