//! Credentials for stores: found, and renewed before they expire, on a thread of their own.
//!
//! They are searched as the AWS SDKs do: environment, shared files, a web identity, addresses of
//! containers and instances; for Azure the environment, a workload identity and the identity of the
//! machine. A request takes what is known and waits only where nothing is yet, or
//! where the store has refused what was known.

use std::{
    collections::HashMap,
    fs, io,
    path::PathBuf,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use loadline_core::fleet::Access;
use reqsign_core::{
    Context, Env, Error, FileRead, OsEnv, ProvideCredential, SigningCredential as _,
};
use tokio::{
    runtime::Builder,
    sync::{Notify, watch},
    time::{sleep, timeout},
};
use tracing::{info, warn};

use super::{
    client::Client,
    sources::{self, Notes},
};

/// Who loadline is for a store.
#[derive(Clone, Debug)]
pub(super) enum Credential {
    Aws(reqsign_aws_v4::Credential),
    Azure(reqsign_azure_storage::Credential),
}

/// What all workers know of the credentials of one kind.
#[derive(Debug)]
pub(super) struct Credentials {
    known: watch::Receiver<Known>,
    refused: Arc<Notify>,
}

/// The credentials, as they were last read.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) credential: Option<Arc<Credential>>,
    /// Counts changes of the credentials.
    pub(super) generation: u64,
    /// When they were last read; never, if nobody was through with that.
    read_at: Option<Instant>,
}

impl Credentials {
    /// Begins to read them.
    ///
    /// # Errors
    /// If there cannot be another thread.
    pub(super) fn start(access: &Access) -> io::Result<Self> {
        let (sender, known) = watch::channel(Known::default());
        let refused = Arc::new(Notify::new());
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (access, wake) = (access.clone(), refused.clone());
        thread::Builder::new().name("credentials".to_owned()).spawn(move || {
            runtime.block_on(keep(&access, &sender, &wake));
        })?;
        Ok(Self { known, refused })
    }

    /// What is known; waits where nothing was read yet, for so long.
    pub(super) async fn known(&self, limit: Duration) -> Known {
        let known = self.known.borrow().clone();
        if known.read_at.is_some() {
            return known;
        }
        let mut receiver = self.known.clone();
        // Where the time is over there are no credentials, which is told.
        let _ = timeout(limit, receiver.wait_for(|known| known.read_at.is_some())).await;
        self.known.borrow().clone()
    }

    /// Reads the credentials again, since the store refused those of this generation; true if there
    /// are others. Credentials read a moment ago are not read again.
    pub(super) async fn renewed(&self, generation: u64, limit: Duration) -> bool {
        let is_other = |known: &Known| known.generation != generation;
        let known = self.known.borrow().clone();
        let is_fresh = known.read_at.is_some_and(|read_at| read_at.elapsed() < FRESH);
        if is_other(&known) || is_fresh {
            return is_other(&known);
        }
        let mut receiver = self.known.clone();
        receiver.mark_unchanged();
        self.refused.notify_one();
        let _ = timeout(limit, receiver.changed()).await;
        is_other(&self.known.borrow())
    }
}

/// Reads credentials, and again before they expire or when they are refused, until nobody wants
/// them any more.
async fn keep(access: &Access, known: &watch::Sender<Known>, refused: &Notify) {
    let context = Context::new().with_file_read(Files).with_http_send(Client).with_env(OsEnv);
    match access {
        Access::Anonymous => {}
        Access::Found { profile } => {
            let (notes, profile) = (Notes::default(), profile.as_deref());
            let provider = sources::aws(profile, &notes);
            let wrong = || [notes.take(), sources::gaps(&context, profile)].concat();
            let sources = (&provider, wrong);
            read(sources, &context, Credential::Aws, (known, refused)).await;
        }
        Access::Azure { account } => {
            let context = context.with_env(AccountEnv(account.clone()));
            let notes = Notes::default();
            let provider = sources::azure(&notes);
            let sources = (&provider, || notes.take());
            read(sources, &context, Credential::Azure, (known, refused)).await;
        }
    }
}

async fn read<P: ProvideCredential>(
    (provider, wrong): (&P, impl Fn() -> Vec<String>),
    context: &Context,
    kind: fn(P::Credential) -> Credential,
    (known, refused): (&watch::Sender<Known>, &Notify),
) {
    let mut pause = PAUSE_MIN;
    loop {
        let found = timeout(LIMIT, provider.provide_credential(context)).await;
        let found = found.unwrap_or_else(|_| Err(Error::unexpected("it took too long")));
        let found = tell(found.map(|it| it.map(kind)), wrong());
        pause = if found.is_some() { PAUSE_MIN } else { (pause * 2).min(PAUSE_MAX) };
        known.send_modify(|known| {
            known.read_at = Some(Instant::now());
            if let Some(found) = found
                && known.credential.as_deref().is_none_or(|before| !before.is_same(&found))
            {
                known.credential = Some(Arc::new(found));
                known.generation += 1;
            }
        });
        if wait(known, refused, pause).await {
            return;
        }
    }
}

/// Waits until credentials are to be read again; true if nobody wants them any more.
async fn wait(known: &watch::Sender<Known>, refused: &Notify, pause: Duration) -> bool {
    loop {
        tokio::select! {
            () = known.closed() => return true,
            () = refused.notified() => return false,
            () = sleep(pause) => {}
        }
        let credential = known.borrow().credential.clone();
        if credential.is_none_or(|it| !it.is_valid()) {
            return false;
        }
    }
}

/// Says in the log what came of a search, and what is `wrong` with the sources where that is
/// nothing.
fn tell(found: Result<Option<Credential>, Error>, mut wrong: Vec<String>) -> Option<Credential> {
    match found {
        Ok(Some(credential)) => {
            info!("credentials for stores are read");
            return Some(credential);
        }
        Ok(None) => {}
        Err(error) => wrong.push(error.to_string()),
    }
    if wrong.is_empty() {
        warn!(
            "no credentials for stores: neither the environment (AWS_ACCESS_KEY_ID, \
             AZURE_STORAGE_ACCOUNT_KEY) nor files nor an instance has any"
        );
    } else {
        warn!("no credentials for stores: {}", wrong.join("; "));
    }
    None
}

impl Credential {
    fn is_valid(&self) -> bool {
        match self {
            Self::Aws(credential) => credential.is_valid(),
            Self::Azure(credential) => credential.is_valid(),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        use reqsign_azure_storage::Credential::{BearerToken, SasToken, SharedKey};
        match (self, other) {
            (Self::Aws(one), Self::Aws(other)) => {
                one.access_key_id == other.access_key_id
                    && one.secret_access_key == other.secret_access_key
                    && one.session_token == other.session_token
            }
            (Self::Azure(one), Self::Azure(other)) => match (one, other) {
                (SharedKey { account_key: one, .. }, SharedKey { account_key: other, .. })
                | (SasToken { token: one, .. }, SasToken { token: other, .. })
                | (BearerToken { token: one, .. }, BearerToken { token: other, .. }) => {
                    one == other
                }
                _ => false,
            },
            _ => false,
        }
    }
}

/// The environment, in which the account of the configuration is that of the key.
#[derive(Debug)]
struct AccountEnv(String);

impl Env for AccountEnv {
    fn vars(&self) -> HashMap<String, String> {
        let mut vars = OsEnv.vars();
        vars.insert(ACCOUNT.to_owned(), self.0.clone());
        vars
    }

    fn var(&self, name: &str) -> Option<String> {
        if name == ACCOUNT { Some(self.0.clone()) } else { OsEnv.var(name) }
    }

    fn home_dir(&self) -> Option<PathBuf> {
        OsEnv.home_dir()
    }
}

/// Files as they are: nobody waits on this thread.
#[derive(Debug)]
struct Files;

impl FileRead for Files {
    async fn file_read(&self, path: &str) -> Result<Vec<u8>, Error> {
        let wrong = |error: io::Error| Error::unexpected(format!("{path}: {error}"));
        fs::read(path).map_err(wrong)
    }
}

/// Where the name of the account is looked for.
const ACCOUNT: &str = "AZBLOB_ACCOUNT_NAME";

/// How long a search may take: there are addresses in it that answer nobody outside of a cloud.
const LIMIT: Duration = Duration::from_secs(10);

/// Credentials that were read so recently are as good as new.
const FRESH: Duration = Duration::from_secs(1);

const PAUSE_MIN: Duration = Duration::from_secs(1);

/// Longest pause while there are none.
const PAUSE_MAX: Duration = Duration::from_secs(30);
