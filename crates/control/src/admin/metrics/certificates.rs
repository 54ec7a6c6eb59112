//! Metrics of certificates.

use loadline_core::state::{AcmeCertificate, Certificate, State};

use super::{Family, Read, Samples};

fn certificates(state: &State, samples: &mut Samples<'_, f64>, value: fn(&Certificate) -> f64) {
    for certificate in &state.certificates {
        samples.add(&[&certificate.file], value(certificate));
    }
}

fn acme(state: &State, samples: &mut Samples<'_, u64>, value: fn(&AcmeCertificate) -> u64) {
    for certificate in &state.acme {
        samples.add(&[&certificate.file], value(certificate));
    }
}

const FILE: &[&str] = &["file"];

/// The metrics of certificates. Prometheus wants seconds: promtool objects to a name with `days`.
pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "certificate_expiry_timestamp_seconds",
        help: "Certificate expiry time, the earliest of its chain, in seconds since 1970",
        labels: FILE,
        read: Read::Gauge(|state, to| certificates(state, to, |it| it.not_after_s as f64)),
    },
    Family {
        name: "certificate_remaining_seconds",
        help: "Time to expiry; negative once expired",
        labels: FILE,
        read: Read::Gauge(|state, to| certificates(state, to, |it| it.days_left * 86_400.0)),
    },
    Family {
        name: "acme_certificates_issued",
        help: "Certificates issued by ACME, renewals included, by the file they went to",
        labels: FILE,
        read: Read::Counter(|state, to| acme(state, to, |it| it.issued)),
    },
    Family {
        name: "acme_failures",
        help: "Attempts to get a certificate by ACME that failed",
        labels: FILE,
        read: Read::Counter(|state, to| acme(state, to, |it| it.failures)),
    },
    Family {
        name: "acme_last_issued_timestamp_seconds",
        help: "When the certificate by ACME was issued, in seconds since 1970",
        labels: FILE,
        read: Read::Gauge(|state, to| {
            for it in state.acme.iter().filter(|it| it.issued_s > 0) {
                to.add(&[&it.file], it.issued_s as f64);
            }
        }),
    },
    Family {
        name: "acme_asking_since_timestamp_seconds",
        help: "When an edge began to ask for it, in seconds since 1970, while one does",
        labels: &["file", "edge"],
        read: Read::Gauge(|state, to| {
            for it in &state.acme {
                if let Some(asking) = &it.asking {
                    to.add(&[&it.file, &asking.edge], asking.since_s as f64);
                }
            }
        }),
    },
];
