//! Where credentials are looked for, and what is wrong with the sources that are configured.
//!
//! A search goes on behind a source that fails, and most sources say nothing of what is missing in
//! their settings. Both are noted here, and told where nothing is found.

use std::{
    error::Error as _,
    fs,
    sync::{Arc, Mutex, PoisonError},
};

use reqsign_aws_v4::{
    AssumeRoleWithWebIdentityCredentialProvider, ECSCredentialProvider, EnvCredentialProvider,
    IMDSv2CredentialProvider, ProcessCredentialProvider, ProfileCredentialProvider,
    SSOCredentialProvider,
};
use reqsign_azure_storage as azure;
use reqsign_core::{Context, Error, ProvideCredential, ProvideCredentialChain};

/// Why sources have no credentials.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    /// A source, of whose errors it is noted that they are those of `name`.
    fn of<P>(&self, name: &'static str, source: P) -> Noted<P> {
        Noted { name, source, notes: self.clone() }
    }

    fn add(&self, note: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(note);
    }

    /// What has been noted since this was last asked for.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A source whose errors are noted.
#[derive(Debug)]
struct Noted<P> {
    name: &'static str,
    source: P,
    notes: Notes,
}

impl<P: ProvideCredential> ProvideCredential for Noted<P> {
    type Credential = P::Credential;

    async fn provide_credential(
        &self,
        context: &Context,
    ) -> Result<Option<Self::Credential>, Error> {
        let found = self.source.provide_credential(context).await;
        if let Err(error) = &found {
            self.notes.add(format!("{}: {}", self.name, text_of(error)));
        }
        found
    }
}

/// The sources of AWS, in the order of its SDKs.
pub(super) fn aws(
    profile: Option<&str>,
    notes: &Notes,
) -> ProvideCredentialChain<reqsign_aws_v4::Credential> {
    let (files, sso, process) = (
        ProfileCredentialProvider::new(),
        SSOCredentialProvider::new(),
        ProcessCredentialProvider::new(),
    );
    let (files, sso, process) = match profile {
        None => (files, sso, process),
        Some(it) => (files.with_profile(it), sso.with_profile(it), process.with_profile(it)),
    };
    let web_identity = AssumeRoleWithWebIdentityCredentialProvider::new();
    ProvideCredentialChain::new()
        .push(notes.of("environment", EnvCredentialProvider::new()))
        .push(notes.of("shared files", files))
        .push(notes.of("SSO", sso))
        .push(notes.of("web identity", web_identity))
        .push(notes.of("credential_process", process))
        .push(notes.of("container", ECSCredentialProvider::new()))
        .push(notes.of("instance metadata", IMDSv2CredentialProvider::new()))
}

/// The sources of Azure. Programs are not run here, so that its command line is none of them.
pub(super) fn azure(notes: &Notes) -> ProvideCredentialChain<azure::Credential> {
    ProvideCredentialChain::new()
        .push(notes.of("environment", azure::EnvCredentialProvider::new()))
        .push(notes.of("client certificate", azure::ClientCertificateCredentialProvider::new()))
        .push(notes.of("client secret", azure::ClientSecretCredentialProvider::new()))
        .push(notes.of("Azure Pipelines", azure::AzurePipelinesCredentialProvider::new()))
        .push(notes.of("workload identity", azure::WorkloadIdentityCredentialProvider::new()))
        .push(notes.of("identity of the machine", azure::ImdsCredentialProvider::new()))
}

/// What is missing in the settings of the sources of AWS.
pub(super) fn gaps(context: &Context, profile: Option<&str>) -> Vec<String> {
    let is_set = |name: &str| context.env_var(name).is_some_and(|it| !it.is_empty());
    let mut gaps: Vec<String> = PAIRS
        .iter()
        .filter_map(|pair| without(pair, is_set))
        .map(|(has, lacks)| format!("{has} is set without {lacks}"))
        .collect();
    let named = profile.map(str::to_owned).or_else(|| context.env_var("AWS_PROFILE"));
    let name = named.as_deref().unwrap_or(DEFAULT);
    let in_config = if name == DEFAULT { name.to_owned() } else { format!("profile {name}") };
    let files = [
        ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", name.to_owned()),
        ("AWS_CONFIG_FILE", "~/.aws/config", in_config),
    ];
    let (mut is_wanted, mut is_there) = (named.is_some(), false);
    for (variable, usual, section) in files {
        let given = context.env_var(variable);
        is_wanted |= given.is_some();
        let path = context.expand_home_dir(given.as_deref().unwrap_or(usual));
        let Some(path) = path else { continue };
        match (fs::read(&path), given) {
            (Ok(bytes), _) => {
                let text = String::from_utf8_lossy(&bytes);
                let Some(keys) = keys_of(&text, &section) else { continue };
                is_there = true;
                let half = without(&FILE_PAIR, |key| keys.contains(&key));
                let half = half
                    .map(|(has, lacks)| format!("[{section}] in {path} has {has} without {lacks}"));
                gaps.extend(half);
            }
            (Err(error), Some(_)) => gaps.push(format!("{variable}: {path}: {error}")),
            (Err(_), None) => {}
        }
    }
    if is_wanted && !is_there {
        gaps.push(format!("there is no profile `{name}` in the shared files"));
    }
    gaps
}

/// Which of two is there, and the other, which is not; none where both are or none is.
fn without<'p>(
    &[one, other]: &[&'p str; 2],
    is_there: impl Fn(&str) -> bool,
) -> Option<(&'p str, &'p str)> {
    match (is_there(one), is_there(other)) {
        (true, false) => Some((one, other)),
        (false, true) => Some((other, one)),
        _ => None,
    }
}

/// The keys in this section of a shared file; none where it has no such section.
fn keys_of<'t>(text: &'t str, section: &str) -> Option<Vec<&'t str>> {
    let (mut keys, mut is_in) = (None, false);
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            is_in = name.split(']').next().is_some_and(|it| it.trim() == section);
            if is_in {
                keys.get_or_insert_with(Vec::new);
            }
        } else if let (true, Some((key, _))) = (is_in, line.split_once(['=', ':'])) {
            keys.get_or_insert_with(Vec::new).push(key.trim());
        }
    }
    keys
}

/// An error with what caused it, on one line.
fn text_of(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    for context in error.context().iter().filter(|it| !it.starts_with("hint")) {
        text = format!("{text}, {context}");
    }
    let on_one_line = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(on_one_line).take(TEXT_MAX).collect()
}

/// Settings that go together.
const PAIRS: [[&str; 2]; 2] = [
    ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"],
    ["AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"],
];

/// The same in shared files.
const FILE_PAIR: [&str; 2] = ["aws_access_key_id", "aws_secret_access_key"];

/// The profile where none is named.
const DEFAULT: &str = "default";

/// Services may say much about an error.
const TEXT_MAX: usize = 500;

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, path::PathBuf};

    use reqsign_core::StaticEnv;

    use super::*;

    /// What is missing with these variables and files of a home directory.
    fn gaps_with(variables: &[(&str, &str)], files: &[(&str, &str)]) -> Vec<String> {
        let home = tempfile::tempdir().expect("a directory");
        fs::create_dir(home.path().join(".aws")).expect("a directory");
        for (name, text) in files {
            fs::write(home.path().join(".aws").join(name), text).expect("a file");
        }
        let envs: HashMap<String, String> =
            variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let environment = StaticEnv { home_dir: Some(PathBuf::from(home.path())), envs };
        let of_home = home.path().display().to_string();
        let gaps = gaps(&Context::new().with_env(environment), None);
        gaps.into_iter().map(|gap| gap.replace(&of_home, "~")).collect()
    }

    #[test]
    fn what_is_missing_in_the_settings_of_credentials_is_named() {
        let keys = "aws_access_key_id = a\naws_secret_access_key = b\n";
        let none: [&str; 0] = [];
        assert_eq!(gaps_with(&[], &[]), none);
        assert_eq!(
            gaps_with(&[("AWS_SECRET_ACCESS_KEY", "b"), ("AWS_ROLE_ARN", "c")], &[]),
            [
                "AWS_SECRET_ACCESS_KEY is set without AWS_ACCESS_KEY_ID",
                "AWS_ROLE_ARN is set without AWS_WEB_IDENTITY_TOKEN_FILE",
            ]
        );
        let web = [("AWS_PROFILE", "web")];
        let no_web = ["there is no profile `web` in the shared files"];
        assert_eq!(gaps_with(&web, &[]), no_web);
        assert_eq!(gaps_with(&web, &[("credentials", &*format!("[default]\n{keys}"))]), no_web);
        assert_eq!(gaps_with(&web, &[("config", "[web]\nregion = x\n")]), no_web);
        assert_eq!(gaps_with(&web, &[("config", "[profile web]\nregion = x\n")]), none);
        assert_eq!(
            gaps_with(&[], &[("credentials", "[default]\n# x = y\naws_access_key_id=a\n[b]\nc=d")]),
            ["[default] in ~/.aws/credentials has aws_access_key_id without aws_secret_access_key"]
        );
        assert_eq!(
            gaps_with(&[("AWS_CONFIG_FILE", "/nonexistent/config")], &[]),
            [
                "AWS_CONFIG_FILE: /nonexistent/config: No such file or directory (os error 2)",
                "there is no profile `default` in the shared files",
            ]
        );
    }

    #[test]
    fn an_error_is_told_with_its_causes_on_one_line() {
        let cause = Error::unexpected("http://x/y: refused");
        let error = Error::unexpected("failed to\nfetch").with_source(cause);
        let error = error.with_context("http_status: 500").with_context("hint: look");
        assert_eq!(text_of(&error), "failed to fetch: http://x/y: refused, http_status: 500");
    }
}
