//! Keys of tokens: the proxy verifies with those that the control half fetches.

use std::{pin::Pin, sync::Arc};

use loadline_control::{
    admin::LiveConfiguration,
    jwks::{self, Front, Known, View},
};
use loadline_core::jwt::KeyUrl;
use loadline_proxy::runtime::Handle;

/// How it goes with the keys that are fetched.
#[derive(Default)]
pub(super) struct Keys {
    pub(super) view: View,
}

impl Keys {
    /// Begins to fetch those that `site` names. Must be called inside a runtime.
    pub(super) fn begin(&self, site: Arc<LiveConfiguration>, proxy: Handle) {
        tokio::spawn(jwks::follow(site, Arc::new(Verifying(proxy)), self.view.clone()));
    }
}

/// What verifies tokens with the keys that are fetched.
struct Verifying(Handle);

impl Front for Verifying {
    fn asked(&self, url: &KeyUrl) -> u64 {
        self.0.keys_asked(url)
    }

    fn tell(&self, url: &KeyUrl, Known { keys, is_away, answered }: Known) {
        self.0.tell_keys(url, keys, is_away, answered);
    }

    fn wait_for_asks(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.0.wait_for_key_asks())
    }
}
