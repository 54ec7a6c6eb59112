//! Certificates by ACME: the proxy shows what the control half gets.

use std::sync::Arc;

use loadline_control::{
    acme::{Front, Issuing, Pair, View},
    admin::LiveConfiguration,
    cluster,
};
use loadline_proxy::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

/// How it goes with certificates, which are asked for until this is dropped.
#[derive(Default)]
pub(super) struct Acme {
    pub(super) view: View,
    /// None until it begins.
    issuing: Option<Issuing>,
}

impl Acme {
    /// Begins to ask for those that `site` names. Must be called inside a runtime.
    pub(super) fn begin(
        &mut self,
        site: Arc<LiveConfiguration>,
        proxy: Handle,
        cluster: Option<(cluster::Settings, cluster::View)>,
    ) {
        let (front, view) = (Arc::new(Shown(proxy)), self.view.clone());
        self.issuing = Some(Issuing::start(site, front, view, cluster));
    }
}

struct Shown(Handle);

impl Front for Shown {
    fn show_issued(&self, file: &str) -> Result<(), String> {
        self.0.show_issued(file).map_err(|error| error.to_string())
    }

    fn answer_challenge(&self, token: &str, key_authorization: Option<&str>) {
        self.0.answer_challenge(token, key_authorization);
    }

    fn look_up(&self, asked: mpsc::Sender<oneshot::Sender<()>>) {
        self.0.look_up_challenges(asked);
    }

    fn validate_with(&self, file: &str, pair: Option<Pair>) -> Result<(), String> {
        self.0.validate_with(file, pair).map_err(|error| error.to_string())
    }
}
