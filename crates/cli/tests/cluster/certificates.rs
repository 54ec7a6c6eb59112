//! Certificates for a store.

use std::{fs, path::Path};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};

/// Writes `ca.pem`, a certificate of the store (`server.pem`, `server.key`) and one of an edge
/// (`edge.pem`, `edge.key`). That of the store has expired where `is_old`.
pub(crate) fn write(folder: &Path, is_old: bool) {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, "authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    fs::write(folder.join("ca.pem"), issuer.pem()).unwrap();
    for (name, is_old) in [("server", is_old), ("edge", false)] {
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        if is_old {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2020, 2, 1);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        fs::write(folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
        fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}
