//! The account with an authority, made when it is first needed.

use std::{fs, io, path::Path, sync::Arc};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use instant_acme::{Account, AccountCredentials, ExternalAccountKey, NewAccount};
use loadline_core::{acme::Failure, fleet::acme::Issuer};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::{
    client::Client,
    disk::Folder,
    fault::{Fault, again},
};

/// An authority, with what is known of it here.
pub(super) struct Authority {
    pub(super) issuer: Arc<Issuer>,
    pub(super) folder: Folder,
    pub(super) client: Client,
    account: Mutex<Option<Account>>,
}

/// The account as its file has it.
#[derive(Deserialize, Serialize)]
struct Kept {
    email: Option<String>,
    credentials: AccountCredentials,
}

impl Authority {
    pub(super) fn new(issuer: Arc<Issuer>, folder: Folder) -> io::Result<Self> {
        let client = Client::of(&issuer)?;
        Ok(Self { issuer, folder, client, account: Mutex::default() })
    }

    /// The account: that of the file, otherwise a new one.
    pub(super) async fn account(&self) -> Result<Account, Fault> {
        let mut account = self.account.lock().await;
        if let Some(known) = &*account {
            return Ok(known.clone());
        }
        let kept = self.folder.account::<Kept>().map_err(Fault::local)?;
        let found = match kept {
            Some(kept) => self.restore(kept).await?,
            None => self.register().await?,
        };
        *account = Some(found.clone());
        Ok(found)
    }

    /// Learns from a failure what concerns more than one certificate.
    pub(super) async fn learn(&self, failure: Failure) {
        match failure {
            Failure::NoAccount => {
                tracing::warn!(directory = self.issuer.directory, "acme: the account is gone");
                if let Err(error) = self.folder.forget_account() {
                    tracing::warn!(%error, "acme: the file of the account stays");
                }
            }
            // What its directory says may be another when it is back.
            Failure::Away => {}
            Failure::Nonce | Failure::RateLimited | Failure::Refused => return,
        }
        *self.account.lock().await = None;
    }

    async fn restore(&self, kept: Kept) -> Result<Account, Fault> {
        let builder = Account::builder_with_http(Box::new(self.client.clone()));
        let text = serde_json::to_string(&kept.credentials).map_err(Fault::local)?;
        let account = builder.from_credentials(kept.credentials).await?;
        if kept.email != self.issuer.email {
            let contact = self.contact();
            let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
            again(async || account.update_contacts(&contact).await).await?;
            let credentials = serde_json::from_str(&text).map_err(Fault::local)?;
            self.keep(credentials)?;
        }
        Ok(account)
    }

    async fn register(&self) -> Result<Account, Fault> {
        let external = self.issuer.external_account.as_ref().map(|external| {
            let key = account_key(Path::new(&external.key_file));
            key.map(|key| ExternalAccountKey::new(external.kid.clone(), &key))
        });
        let external = external.transpose().map_err(Fault::local)?;
        let contact = self.contact();
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        let new = NewAccount {
            contact: &contact,
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let (account, credentials) = again(async || {
            let builder = Account::builder_with_http(Box::new(self.client.clone()));
            builder.create(&new, self.issuer.directory.clone(), external.as_ref()).await
        })
        .await?;
        self.keep(credentials)?;
        tracing::info!(directory = self.issuer.directory, "acme: an account was made");
        Ok(account)
    }

    fn keep(&self, credentials: AccountCredentials) -> Result<(), Fault> {
        let email = self.issuer.email.clone();
        self.folder.keep_account(&Kept { email, credentials }).map_err(Fault::local)
    }

    fn contact(&self) -> Option<String> {
        self.issuer.email.as_ref().map(|email| format!("mailto:{email}"))
    }
}

/// The HMAC key in the first line of a file.
///
/// # Errors
/// Why there is none; it is not repeated.
pub(crate) fn account_key(path: &Path) -> io::Result<Vec<u8>> {
    let text = fs::read_to_string(path)?;
    let line = text.lines().next().unwrap_or_default().trim().trim_end_matches('=');
    let key = BASE64_URL_SAFE_NO_PAD.decode(line).ok().filter(|key| !key.is_empty());
    let wrong = || format!("the first line of `{}` is no key in base64url", path.display());
    key.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, wrong()))
}
