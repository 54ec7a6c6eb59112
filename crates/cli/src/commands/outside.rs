//! Reads a configuration and tries what it names outside of itself: for `check`, for the start of
//! `serve` and for its reloads, so that they say the same.

use std::{
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use loadline_control::{Fault, Loaded, Moment};
use loadline_core::{fleet::Fleet, state::Certificate};
use loadline_l4::standby::check_key;
use loadline_proxy::tls::{Keys, TlsError};
use loadline_spanned::FileErrors;

use super::serve::identity::{Identity, IdentityError};

/// Reads the file at `path`.
///
/// # Errors
/// Everything that is wrong with it or with what it names, in the order of the file.
pub(crate) fn load(path: &Path, moment: Moment) -> Result<Loaded, FileErrors> {
    let loaded = loadline_control::load(path)?;
    let mut faults = of_tls(&loaded.fleet);
    if moment != Moment::Reload {
        faults.extend(of_standby(&loaded.fleet));
        faults.extend(of_user(&loaded));
    }
    loaded.tried(moment, faults)
}

fn of_tls(fleet: &Fleet) -> Vec<Fault> {
    match Keys::load_all(fleet) {
        Err(wrong) => wrong.iter().map(of_error).collect(),
        Ok(keys) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let now_s = now.as_secs().cast_signed();
            let certificates = keys.certificates(now_s).into_iter();
            certificates.filter_map(|it| of_time(it, now_s)).collect()
        }
    }
}

fn of_error(error: &TlsError) -> Fault {
    Fault {
        about: error.about(),
        message: error.to_string(),
        help: error.help().to_owned(),
        is_warning: false,
    }
}

/// A certificate that nobody believes now.
fn of_time(certificate: Certificate, now_s: i64) -> Option<Fault> {
    let days = |seconds: i64| format!("{:.1} days", seconds as f64 / 86_400.0);
    let Certificate { file, not_before_s, not_after_s, .. } = certificate;
    let message = if now_s > not_after_s {
        format!("the certificate `{file}` has expired, {} ago", days(now_s - not_after_s))
    } else if now_s < not_before_s {
        format!("the certificate `{file}` is not valid before {}", days(not_before_s - now_s))
    } else {
        return None;
    };
    let help = "clients refuse it: renew it, or set the clock of this machine".to_owned();
    Some(Fault { about: file, message, help, is_warning: true })
}

fn of_standby(fleet: &Fleet) -> Option<Fault> {
    let standby = fleet.forwarding.standby.as_ref()?;
    let error = check_key(Path::new(&standby.key_file)).err()?;
    Some(Fault {
        about: standby.key_file.clone(),
        message: super::chain(&error.into()),
        help: "all balancers of one virtual router have the same key".to_owned(),
        is_warning: false,
    })
}

fn of_user(loaded: &Loaded) -> Option<Fault> {
    let error = Identity::of(&loaded.process).err()?;
    let (about, help) = match &error {
        IdentityError::User(name) => (name, "make it: useradd --system NAME"),
        IdentityError::Group(name) => (name, "make it: groupadd --system NAME"),
        IdentityError::NotRoot(name) => (name, "start as root, or leave edge.user out"),
        IdentityError::Unknown { name, .. } => (name, "see whether `getent passwd` answers"),
    };
    // Whoever checks a file need not be who serves with it.
    let is_warning = matches!(error, IdentityError::NotRoot(_));
    let (about, message, help) = (about.clone(), error.to_string(), help.to_owned());
    Some(Fault { about, message, help, is_warning })
}
