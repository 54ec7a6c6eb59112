//! The validity of certificates.

use loadline_core::state::Certificate;
use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::ocsp::{Staple, StapleFault};

/// From when to when a certificate and the chain it is shown with can be believed.
#[derive(Clone, Debug)]
pub(super) struct Validity {
    pub(super) file: String,
    names: Vec<String>,
    /// Seconds since 1970.
    not_before_s: i64,
    not_after_s: i64,
    pub(super) staple: Option<Staple>,
}

impl Validity {
    /// That of the chain in `file`; none where it cannot be read as X.509, which rustls may take.
    pub(super) fn of(file: &str, chain: &[CertificateDer<'_>]) -> Option<Self> {
        let names = EndEntityCert::try_from(chain.first()?).ok()?;
        let parsed = chain.iter().filter_map(|it| X509Certificate::from_der(it).ok());
        let spans = parsed.map(|(_, it)| {
            let validity = it.validity();
            (validity.not_before.timestamp(), validity.not_after.timestamp())
        });
        let (not_before_s, not_after_s) = spans.reduce(|a, b| (a.0.max(b.0), a.1.min(b.1)))?;
        Some(Self {
            file: file.to_owned(),
            names: names.valid_dns_names().map(str::to_owned).collect(),
            not_before_s,
            not_after_s,
            staple: None,
        })
    }

    /// The same with this OCSP response.
    pub(super) fn stapled(self, staple: Option<Staple>) -> Self {
        Self { staple, ..self }
    }

    /// The file of its OCSP response, and why that is of no use at `now_s` seconds since 1970.
    pub(super) fn staple_fault(&self, now_s: i64) -> Option<(&str, StapleFault)> {
        self.staple.as_ref()?.fault(now_s)
    }

    /// As it is told at `now_s` seconds since 1970.
    pub(super) fn at(&self, now_s: i64) -> Certificate {
        Certificate {
            file: self.file.clone(),
            names: self.names.clone(),
            not_before_s: self.not_before_s,
            not_after_s: self.not_after_s,
            days_left: self.not_after_s.saturating_sub(now_s) as f64 / DAY_S,
        }
    }
}

const DAY_S: f64 = 86_400.0;
