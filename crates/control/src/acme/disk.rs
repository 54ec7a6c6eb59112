//! The folder of one authority: the account, and for each name a certificate and how the attempt
//! to get the next one stands. Files are replaced as a whole and readable to their owner alone.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::private_file;

/// The folder, held against other processes until this is dropped.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
}

/// How the attempt to get a certificate stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Progress {
    /// Attempts that failed, one after the other.
    #[serde(default)]
    pub(super) failures: u32,
    /// Not to be tried before, in seconds since 1970.
    #[serde(default)]
    pub(super) not_before_s: u64,
    /// The order that is under way.
    #[serde(default)]
    pub(super) order: Option<KeptOrder>,
    /// Why the last of the attempts failed; unknown where an earlier version has kept this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) fault: Option<String>,
    /// The settings of the issuer with which it failed; unknown as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) settings: Option<String>,
}

/// An order that is resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeptOrder {
    pub(super) url: String,
    /// The key of the certificate, in PEM.
    pub(super) key: String,
}

impl Folder {
    /// Opens the folder, creating it if needed; none while another process holds it.
    pub(super) fn open(path: &Path) -> io::Result<Option<Self>> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let mut options = OpenOptions::new();
        let lock = options.write(true).create(true).truncate(false).mode(0o600);
        let lock = lock.open(path.join("lock"))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(Self { path: path.to_owned(), _lock: lock })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// What the account is; none where there is none yet.
    pub(super) fn account<T: DeserializeOwned>(&self) -> io::Result<Option<T>> {
        self.json(ACCOUNT).map_err(|error| {
            let path = self.path.join(ACCOUNT).display().to_string();
            let why = format!("`{path}`: {error}; remove it, and another account is made");
            io::Error::new(error.kind(), why)
        })
    }

    pub(super) fn keep_account(&self, account: &impl Serialize) -> io::Result<()> {
        self.replace(ACCOUNT, &serde_json::to_vec(account)?)
    }

    pub(super) fn forget_account(&self) -> io::Result<()> {
        self.remove(ACCOUNT)
    }

    /// How the attempt for `name` stands. The order of a certificate that is here is done with.
    pub(super) fn progress(&self, name: &str) -> Progress {
        let mut progress: Progress = match self.json(&format!("{name}.json")) {
            Ok(progress) => progress.unwrap_or_default(),
            Err(error) => {
                tracing::warn!(name, %error, "acme: the unfinished order cannot be read");
                Progress::default()
            }
        };
        let held = self.certificate(name).unwrap_or_default();
        progress.order.take_if(|order| held.contains(order.key.trim()));
        progress
    }

    pub(super) fn keep_progress(&self, name: &str, progress: &Progress) -> io::Result<()> {
        let file = format!("{name}.json");
        if *progress == Progress::default() {
            return self.remove(&file);
        }
        self.replace(&file, &serde_json::to_vec(progress)?)
    }

    /// The key and the certificate for `name`, in PEM; none where there is none yet.
    pub(super) fn certificate(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path.join(format!("{name}.pem"))).ok()
    }

    pub(super) fn keep_certificate(&self, name: &str, pem: &str) -> io::Result<()> {
        self.replace(&format!("{name}.pem"), pem.as_bytes())
    }

    fn json<T: DeserializeOwned>(&self, file: &str) -> io::Result<Option<T>> {
        match fs::read(self.path.join(file)) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        private_file::replace(&self.path.join(name), bytes)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

const ACCOUNT: &str = "account.json";

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::acme::account::Kept;

    #[test]
    fn what_is_kept_is_there_for_one_process_at_a_time_and_its_owner_alone() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("acme").join("ca.test");
        let folder = Folder::open(&path).unwrap().unwrap();
        assert!(Folder::open(&path).unwrap().is_none(), "another process has it");
        let order = KeptOrder { url: "https://ca.test/1".to_owned(), key: "KEY".to_owned() };
        let [fault, settings] = ["refused", "by http-01"].map(|it| Some(it.to_owned()));
        let order = Some(order);
        let progress = Progress { failures: 2, not_before_s: 7, order, fault, settings };
        folder.keep_progress("a.test", &progress).unwrap();
        folder.keep_certificate("b.test", "PEM").unwrap();
        drop(folder);
        let folder = Folder::open(&path).unwrap().unwrap();
        assert_eq!(folder.progress("a.test"), progress);
        assert_eq!(folder.certificate("b.test").unwrap(), "PEM");
        for entry in fs::read_dir(&path).unwrap() {
            let mode = entry.unwrap().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0);
        }
        folder.keep_progress("a.test", &Progress::default()).unwrap();
        assert!(!path.join("a.test.json").exists());
    }

    #[test]
    fn what_a_version_before_this_one_has_kept_of_an_attempt_is_read() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path()).unwrap().unwrap();
        let text = "{\"failures\":2,\"not_before_s\":7,\"order\":null}";
        fs::write(place.path().join("a.test.json"), text).unwrap();
        let before = Progress { failures: 2, not_before_s: 7, ..Progress::default() };
        assert_eq!(folder.progress("a.test"), before);
    }

    #[test]
    fn an_account_that_is_damaged_is_told_with_its_file_and_what_helps() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path()).unwrap().unwrap();
        fs::write(place.path().join(ACCOUNT), "{ \"email\": ").unwrap();
        let told = folder.account::<serde_json::Value>().unwrap_err().to_string();
        assert!(told.contains("/account.json`: EOF") && told.contains("remove it"), "{told}");
    }

    #[test]
    fn an_account_whose_key_is_damaged_is_told_with_its_file_and_what_helps() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path()).unwrap().unwrap();
        let text = r#"{ "email": null, "credentials": {
            "id": "https://ca.test/1", "key_pkcs8": "AAAA", "directory": "https://ca.test/dir"
        } }"#;
        fs::write(place.path().join(ACCOUNT), text).unwrap();
        let told = folder.account::<Kept>().err().unwrap().to_string();
        assert!(told.contains("/account.json`: invalid key"), "{told}");
        assert!(told.contains("remove it"), "{told}");
    }

    #[test]
    fn an_order_whose_certificate_is_here_is_not_resumed_again() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(place.path()).unwrap().unwrap();
        let order = KeptOrder { url: "https://ca.test/1".to_owned(), key: "KEY\n".to_owned() };
        let progress = Progress { order: Some(order), ..Progress::default() };
        folder.keep_progress("a.test", &progress).unwrap();
        folder.keep_certificate("a.test", "OTHER KEY OF BEFORE\n").unwrap();
        fs::write(place.path().join("b.test.json"), "{").unwrap();
        assert_eq!(folder.progress("b.test"), Progress::default(), "damaged");
        folder.keep_certificate("a.test", "KEY\nCHAIN").unwrap();
        assert_eq!(folder.progress("a.test").order, None);
    }
}
