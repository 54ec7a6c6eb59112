//! etcd: what is asked of it, over a connection to one of its members.
//!
//! Its API is gRPC. The few calls that are needed are made with the HTTP/2, TLS and protobuf that
//! the program has anyway: the client library for Rust needs a compiler of protobuf (`protoc`)
//! wherever loadline is built, and brings a second client of HTTP/2 with it.

mod connect;
mod error;
mod grpc;
pub(super) mod message;

use std::{future::Future, time::Duration};

use http::HeaderValue;
use prost::Message;
use tokio::time::timeout;

use self::{grpc::Channel, message::*};
use super::Settings;

pub use error::EtcdError;
pub(super) use grpc::Stream;

/// A connection to a member of the store, authenticated.
#[derive(Clone, Debug)]
pub(super) struct Client {
    channel: Channel,
}

impl Client {
    /// Connects to the first member that answers, beginning with the one at `first`; tells which
    /// that was.
    pub(super) async fn connect(
        settings: &Settings,
        first: usize,
    ) -> Result<(Self, usize), EtcdError> {
        let tls = connect::tls(settings)?;
        let password = settings.user.as_ref().map(|(user, path)| {
            connect::first_line("the password", path).map(|it| (user.clone(), it))
        });
        let password = password.transpose()?;
        let (count, mut failed) = (settings.endpoints.len(), None);
        for index in (0..count).map(|nth| (first + nth) % count) {
            let endpoint = &settings.endpoints[index];
            let client = async {
                let channel = connect::channel(endpoint, tls.as_ref()).await?;
                Self { channel }.authenticated(password.as_ref()).await
            };
            match within(&endpoint.to_string(), client).await {
                Ok(client) => return Ok((client, index)),
                // What another member would say as well.
                Err(error @ (EtcdError::Status { .. } | EtcdError::Tls { .. })) => {
                    failed = Some(error);
                }
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        Err(failed.unwrap_or_else(|| EtcdError::File {
            what: "the list",
            path: "etcd".to_owned(),
            why: "it is empty".to_owned(),
        }))
    }

    async fn authenticated(
        mut self,
        password: Option<&(String, String)>,
    ) -> Result<Self, EtcdError> {
        let Some((name, password)) = password else { return Ok(self) };
        let request = AuthenticateRequest { name: name.clone(), password: password.clone() };
        let answer: Result<AuthenticateResponse, _> =
            self.channel.call("/etcdserverpb.Auth/Authenticate", &request).await;
        match answer {
            Ok(AuthenticateResponse { token }) => {
                self.channel.token = HeaderValue::from_str(&token).ok();
                Ok(self)
            }
            Err(error) if error.is_open() => Ok(self),
            Err(error) => Err(error),
        }
    }

    /// The URL of the member.
    pub(super) fn endpoint(&self) -> &str {
        &self.channel.endpoint
    }

    /// One key; or all keys from it up to `range_end`, which is excluded.
    pub(super) async fn range(
        &self,
        key: &str,
        range_end: &str,
    ) -> Result<RangeResponse, EtcdError> {
        let (key, range_end) = (key.into(), range_end.into());
        let request = RangeRequest { key, range_end, keys_only: false };
        self.call("/etcdserverpb.KV/Range", &request).await
    }

    /// All keys that begin with `prefix`.
    pub(super) async fn prefix(&self, prefix: &str) -> Result<RangeResponse, EtcdError> {
        self.range(prefix, &after(prefix)).await
    }

    /// The keys that begin with `prefix`, without their values.
    pub(super) async fn keys(&self, prefix: &str) -> Result<RangeResponse, EtcdError> {
        let (key, range_end) = (prefix.into(), after(prefix).into());
        let request = RangeRequest { key, range_end, keys_only: true };
        self.call("/etcdserverpb.KV/Range", &request).await
    }

    /// Carries out all operations if the comparisons hold; otherwise none.
    pub(super) async fn transaction(
        &self,
        compare: Vec<Compare>,
        operations: Vec<Operation>,
    ) -> Result<TxnResponse, EtcdError> {
        let success = operations.into_iter().map(RequestOp::from).collect();
        let request = TxnRequest { compare, success, failure: Vec::new() };
        self.call("/etcdserverpb.KV/Txn", &request).await
    }

    /// A lease for so many seconds.
    pub(super) async fn grant(&self, seconds: i64) -> Result<i64, EtcdError> {
        let request = LeaseGrantRequest { ttl: seconds };
        let answer: LeaseResponse = self.call("/etcdserverpb.Lease/LeaseGrant", &request).await?;
        Ok(answer.id)
    }

    /// Ends a lease, and with it all keys that have it.
    pub(super) async fn revoke(&self, id: i64) -> Result<(), EtcdError> {
        let request = LeaseRequest { id };
        self.call::<_, Done>("/etcdserverpb.Lease/LeaseRevoke", &request).await.map(drop)
    }

    /// How many seconds a lease has left; 0 or less where it has ended.
    pub(super) async fn left(&self, id: i64) -> Result<i64, EtcdError> {
        let request = LeaseRequest { id };
        let answer: LeaseResponse =
            self.call("/etcdserverpb.Lease/LeaseTimeToLive", &request).await?;
        Ok(answer.ttl)
    }

    /// A stream on which leases are renewed, the first at once.
    pub(super) async fn renewals(&self, id: i64) -> Result<Stream<LeaseResponse>, EtcdError> {
        let path = "/etcdserverpb.Lease/LeaseKeepAlive";
        let first = LeaseRequest { id };
        let stream = self.channel.open(path, &first, false);
        within(self.endpoint(), stream).await
    }

    /// Renews a lease once; how many seconds it has from now, 0 or less where it has ended.
    pub(super) async fn renew(&self, id: i64) -> Result<i64, EtcdError> {
        let request = LeaseRequest { id };
        let answer: LeaseResponse =
            self.call("/etcdserverpb.Lease/LeaseKeepAlive", &request).await?;
        Ok(answer.ttl)
    }

    /// What becomes of the keys that begin with `prefix` from a revision on.
    pub(super) async fn watch(
        &self,
        prefix: &str,
        start_revision: i64,
    ) -> Result<Stream<WatchResponse>, EtcdError> {
        let range_end = after(prefix).into();
        let create = WatchCreateRequest { key: prefix.into(), range_end, start_revision };
        let request = WatchRequest { create: Some(create) };
        let stream = self.channel.open("/etcdserverpb.Watch/Watch", &request, false);
        within(self.endpoint(), stream).await
    }

    /// The state of the store itself.
    pub(super) async fn status(&self) -> Result<StatusResponse, EtcdError> {
        self.call("/etcdserverpb.Maintenance/Status", &StatusRequest {}).await
    }

    async fn call<Q: Message, R: Message + Default>(
        &self,
        path: &str,
        message: &Q,
    ) -> Result<R, EtcdError> {
        within(self.endpoint(), self.channel.call(path, message)).await
    }
}

async fn within<T>(
    endpoint: &str,
    answer: impl Future<Output = Result<T, EtcdError>>,
) -> Result<T, EtcdError> {
    timeout(PATIENCE, answer).await.unwrap_or_else(|_| {
        Err(EtcdError::TimedOut { endpoint: endpoint.to_owned(), seconds: PATIENCE.as_secs() })
    })
}

/// The first key that does not begin with `prefix`, which is not empty and is ASCII.
fn after(prefix: &str) -> String {
    let mut bytes = prefix.as_bytes().to_vec();
    if let Some(last) = bytes.last_mut() {
        *last += 1;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A store that elects a leader answers after its election timeout, a second by default.
const PATIENCE: Duration = Duration::from_secs(3);
