//! Metrics of certificates.

use loadline_core::state::{AcmeCertificate, Asking, Certificate};

use super::family::{Family, Subject};

const CERTIFICATE: Subject<Certificate> = Subject {
    labels: &["file"],
    each: |state, to| state.certificates.iter().for_each(|it| to(&[&it.file], it)),
};

const ACME: Subject<AcmeCertificate> = Subject {
    labels: &["file"],
    each: |state, to| state.acme.iter().for_each(|it| to(&[&it.file], it)),
};

const ASKING: Subject<Asking> = Subject {
    labels: &["file", "edge"],
    each: |state, to| {
        for it in &state.acme {
            if let Some(asking) = &it.asking {
                to(&[&it.file, &asking.edge], asking);
            }
        }
    },
};

/// The metrics of certificates. Prometheus wants seconds: promtool objects to a name with `days`.
pub(super) const FAMILIES: &[&dyn Family] = &[
    &CERTIFICATE.gauge(
        "certificate_expiry_timestamp_seconds",
        "Certificate expiry time, the earliest of its chain, in seconds since 1970",
        |it| it.not_after_s as f64,
    ),
    &CERTIFICATE.gauge(
        "certificate_remaining_seconds",
        "Time to expiry; negative once expired",
        |it| it.days_left * 86_400.0,
    ),
    &ACME.counter(
        "acme_certificates_issued",
        "Certificates issued by ACME, renewals included, by the file they went to",
        |it| it.issued,
    ),
    &ACME.counter("acme_failures", "Attempts to get a certificate by ACME that failed", |it| {
        it.failures
    }),
    &ACME.gauge_if_any(
        "acme_last_issued_timestamp_seconds",
        "When the certificate by ACME was issued, in seconds since 1970",
        |it| (it.issued_s > 0).then_some(it.issued_s as f64),
    ),
    &ASKING.gauge(
        "acme_asking_since_timestamp_seconds",
        "When an edge began to ask for it, in seconds since 1970, while one does",
        |it| it.since_s as f64,
    ),
];
