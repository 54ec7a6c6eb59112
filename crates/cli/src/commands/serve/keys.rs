//! Keys of tokens: the proxy verifies with those that the control half fetches.

use std::pin::Pin;

use loadline_control::jwks::{Front, Known};
use loadline_core::jwt::KeyUrl;
use loadline_proxy::runtime::Handle;

/// What verifies tokens with the keys that are fetched.
pub(super) struct Verifying(pub(super) Handle);

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
