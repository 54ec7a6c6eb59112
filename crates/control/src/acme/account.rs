//! The account with an authority, made when it is first needed.

use std::{fs, io, path::Path, sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use instant_acme::{Account, AccountCredentials, ExternalAccountKey, Key, NewAccount};
use loadline_core::{acme::Failure, fleet::acme::Issuer};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use tokio::{sync::Mutex, time::sleep};

use super::{
    client::Client,
    disk::Folder,
    fault::{Fault, again},
    shared::Shared,
};

/// An authority, with what is known of it here.
pub(super) struct Authority {
    pub(super) issuer: Arc<Issuer>,
    pub(super) folder: Folder,
    /// Where its account and certificates are, if not in the folder alone.
    pub(super) shared: Option<Shared>,
    pub(super) client: Client,
    account: Mutex<Option<Known>>,
}

/// The account that is used.
struct Known {
    account: Account,
    /// The revision at which it was shared.
    revision: i64,
}

/// The account as its file has it, and the store of a cluster.
#[derive(Deserialize, Serialize)]
pub(super) struct Kept {
    email: Option<String>,
    #[serde(deserialize_with = "usable")]
    credentials: AccountCredentials,
}

impl Authority {
    pub(super) fn new(
        issuer: Arc<Issuer>,
        folder: Folder,
        shared: Option<Shared>,
    ) -> io::Result<Self> {
        let client = Client::of(&issuer)?;
        Ok(Self { issuer, folder, shared, client, account: Mutex::default() })
    }

    /// The account: that of the file or of the store, otherwise a new one.
    pub(super) async fn account(&self) -> Result<Account, Fault> {
        let mut known = self.account.lock().await;
        if let Some(known) = &*known {
            return Ok(known.account.clone());
        }
        let (account, revision) = match &self.shared {
            Some(shared) => self.shared_account(shared).await?,
            None => {
                let kept = self.folder.account::<Kept>().map_err(Fault::local)?;
                let (account, kept) = self.restore_or_register(kept).await?;
                if let Some(kept) = kept {
                    self.folder.keep_account(&kept).map_err(Fault::local)?;
                }
                (account, 0)
            }
        };
        *known = Some(Known { account: account.clone(), revision });
        Ok(account)
    }

    /// The account of the cluster: the shared one, else the one on this disk, else a new one made
    /// by one edge.
    async fn shared_account(&self, shared: &Shared) -> Result<(Account, i64), Fault> {
        for _ in 0..ROUNDS {
            let (revision, kept) = shared.account()?;
            if let Some(kept) = kept.as_ref().filter(|kept| kept.email == self.issuer.email) {
                return Ok((self.account_of(kept).await?, revision));
            }
            let Some(hold) = shared.lock_account(revision).await? else {
                // Another edge makes it.
                sleep(LOOK_INTERVAL).await;
                continue;
            };
            let made = async {
                let kept = match kept {
                    Some(kept) => Some(kept),
                    None => self.folder.account::<Kept>().map_err(Fault::local)?,
                };
                let (account, kept) = self.restore_or_register(kept).await?;
                if let Some(kept) = &kept {
                    shared.keep_account(&hold, kept).await?;
                }
                Ok((account, shared.account()?.0))
            };
            let made = tokio::select! {
                made = made => made,
                () = hold.renew_until_lost() => {
                    Err(Fault::local("the store of the cluster is away"))
                }
            };
            hold.release().await;
            return made;
        }
        Err(Fault::local("another edge has begun to make the account"))
    }

    /// Learns from a failure what concerns more than one certificate.
    pub(super) async fn learn(&self, failure: Failure) {
        let mut known = self.account.lock().await;
        match failure {
            Failure::NoAccount => {
                tracing::warn!(directory = self.issuer.directory, "acme: unknown account");
                if let Err(error) = self.folder.forget_account() {
                    tracing::warn!(%error, "acme: the file of the account cannot be removed");
                }
                // Another edge may have made another one meanwhile.
                if let (Some(shared), Some(known)) = (&self.shared, &*known)
                    && let Err(error) = shared.forget_account(known.revision).await
                {
                    tracing::warn!(%error, "acme: the account cannot be removed from the store");
                }
            }
            // What its directory says may be another when it is back.
            Failure::Away => {}
            Failure::Nonce | Failure::RateLimited | Failure::Refused => return,
        }
        *known = None;
    }

    async fn account_of(&self, kept: &Kept) -> Result<Account, Fault> {
        let builder = Account::builder_with_http(Box::new(self.client.clone()));
        Ok(builder.from_credentials(copy(&kept.credentials)?).await?)
    }

    /// The kept account, or a new one; with what has to be stored of it, if anything.
    async fn restore_or_register(
        &self,
        kept: Option<Kept>,
    ) -> Result<(Account, Option<Kept>), Fault> {
        let Some(kept) = kept else {
            let (account, credentials) = self.register().await?;
            return Ok((account, Some(self.kept(credentials))));
        };
        let account = self.account_of(&kept).await?;
        if kept.email != self.issuer.email {
            let contact = self.contact();
            let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
            again(async || account.update_contacts(&contact).await).await?;
        } else if self.shared.is_none() {
            return Ok((account, None));
        }
        Ok((account, Some(self.kept(kept.credentials))))
    }

    async fn register(&self) -> Result<(Account, AccountCredentials), Fault> {
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
        let made = again(async || {
            let builder = Account::builder_with_http(Box::new(self.client.clone()));
            builder.create(&new, self.issuer.directory.clone(), external.as_ref()).await
        })
        .await?;
        tracing::info!(directory = self.issuer.directory, "acme: an account was made");
        Ok(made)
    }

    fn kept(&self, credentials: AccountCredentials) -> Kept {
        Kept { email: self.issuer.email.clone(), credentials }
    }

    fn contact(&self) -> Option<String> {
        self.issuer.email.as_ref().map(|email| format!("mailto:{email}"))
    }
}

/// Credentials whose key can sign: where they are read it is known which file they are of.
fn usable<'de, D: Deserializer<'de>>(from: D) -> Result<AccountCredentials, D::Error> {
    let credentials = AccountCredentials::deserialize(from)?;
    let key = Key::from_pkcs8_der(credentials.private_key().clone_key());
    key.map(|_| credentials).map_err(D::Error::custom)
}

/// They cannot be cloned, and are JSON anyway.
fn copy(credentials: &AccountCredentials) -> Result<AccountCredentials, Fault> {
    let text = serde_json::to_string(credentials).map_err(Fault::local)?;
    serde_json::from_str(&text).map_err(Fault::local)
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

/// How long another edge may take to make an account.
const ROUNDS: u32 = 120;
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
