//! A certificate authority of the test's own, and the files it writes.

use std::{fs, path::PathBuf, sync::Arc};

use loadline_core::fleet::Certificate;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::{
    ClientConfig, RootCertStore, SupportedProtocolVersion,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tempfile::TempDir;

/// Signs certificates and keeps them in a directory that goes with it.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: TempDir,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Not the name that certificates get by default: OpenSSL would take them for self-signed.
        params.distinguished_name.push(DnType::CommonName, "authority");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, directory }
    }

    /// The file of its own certificate.
    pub(crate) fn file(&self) -> String {
        self.path("ca.pem").display().to_string()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file with a certificate for these names and its key.
    pub(crate) fn sign(&self, names: &[&str]) -> Certificate {
        let file = format!("{}.pem", names[0].replace('*', "any"));
        self.sign_as(&file, names)
    }

    /// As [`Authority::sign`], into a file of this name.
    pub(crate) fn sign_as(&self, file: &str, names: &[&str]) -> Certificate {
        self.sign_key(file, names, &KeyPair::generate().unwrap())
    }

    /// As [`Authority::sign_as`], for this key.
    pub(crate) fn sign_key(&self, file: &str, names: &[&str], key: &KeyPair) -> Certificate {
        self.sign_with(file, names, key, |_| ())
    }

    /// As [`Authority::sign_key`], with what this changes.
    pub(crate) fn sign_with(
        &self,
        file: &str,
        names: &[&str],
        key: &KeyPair,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Certificate {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names.clone()).unwrap();
        params.distinguished_name.push(DnType::CommonName, names[0].clone());
        change(&mut params);
        let certificate = params.signed_by(key, &self.issuer);
        let path = self.path(file);
        fs::write(&path, certificate.unwrap().pem() + &key.serialize_pem()).unwrap();
        let path = path.display().to_string();
        Certificate { chain: path.clone(), key: path, staple: None }
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        roots
    }

    /// A client that trusts this authority, and shows a certificate if it has one.
    pub(crate) fn client(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        certificate: Option<&Certificate>,
    ) -> Arc<ClientConfig> {
        let builder = ClientConfig::builder_with_protocol_versions(versions)
            .with_root_certificates(self.roots());
        Arc::new(match certificate {
            None => builder.with_no_client_auth(),
            Some(files) => {
                let (chain, key) = read(files);
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        })
    }
}

/// The certificate and the key of a file.
pub(crate) fn read(files: &Certificate) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let chain = CertificateDer::pem_file_iter(&files.chain).unwrap().map(Result::unwrap);
    (chain.collect(), PrivateKeyDer::from_pem_file(&files.key).unwrap())
}
