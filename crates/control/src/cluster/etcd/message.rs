//! The messages of etcd's API, version 3, as far as they are used: `rpc.proto` and `kv.proto`. Keys
//! and values are bytes; fields that nobody reads are left out, which protobuf allows.

/// What the store knew when it answered.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct Header {
    #[prost(uint64, tag = "1")]
    pub(crate) cluster_id: u64,
    #[prost(int64, tag = "3")]
    pub(crate) revision: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub(crate) create_revision: i64,
    #[prost(int64, tag = "3")]
    pub(crate) mod_revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) value: Vec<u8>,
    #[prost(int64, tag = "6")]
    pub(crate) lease: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    /// The first key that is no longer meant; empty for one key alone.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
    /// Without the values.
    #[prost(bool, tag = "8")]
    pub(crate) keys_only: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) lease: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
}

/// Something whose answer nobody reads.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct Done {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Compare {
    /// 0: equal, 1: greater.
    #[prost(int32, tag = "1")]
    pub(crate) result: i32,
    /// 1: the revision of creation, 2: that of the last change.
    #[prost(int32, tag = "2")]
    pub(crate) target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) key: Vec<u8>,
    #[prost(oneof = "Revision", tags = "5, 6")]
    pub(crate) revision: Option<Revision>,
}

#[derive(Clone, Copy, PartialEq, prost::Oneof)]
pub(crate) enum Revision {
    #[prost(int64, tag = "5")]
    Created(i64),
    #[prost(int64, tag = "6")]
    Changed(i64),
}

impl Compare {
    /// That a key was created at this revision; 0 where it is not there.
    pub(crate) const fn created(key: Vec<u8>, revision: i64) -> Self {
        Self { result: 0, target: 1, key, revision: Some(Revision::Created(revision)) }
    }

    /// That a key is there.
    pub(crate) fn is_there(key: Vec<u8>) -> Self {
        Self { result: 1, ..Self::created(key, 0) }
    }

    /// That a key was last changed at this revision; 0 where it is not there.
    pub(crate) const fn changed(key: Vec<u8>, revision: i64) -> Self {
        Self { result: 0, target: 2, key, revision: Some(Revision::Changed(revision)) }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RequestOp {
    #[prost(oneof = "Operation", tags = "1, 2, 3")]
    pub(crate) request: Option<Operation>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Operation {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    Delete(DeleteRangeRequest),
}

impl From<Operation> for RequestOp {
    fn from(operation: Operation) -> Self {
        Self { request: Some(operation) }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) failure: Vec<RequestOp>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub(crate) succeeded: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) create: Option<WatchCreateRequest>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct WatchCreateRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) start_revision: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct WatchResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(bool, tag = "4")]
    pub(crate) canceled: bool,
    #[prost(int64, tag = "5")]
    pub(crate) compact_revision: i64,
    #[prost(string, tag = "6")]
    pub(crate) cancel_reason: String,
    #[prost(message, repeated, tag = "11")]
    pub(crate) events: Vec<Event>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Event {
    /// 0: put, 1: deleted, or its lease has ended.
    #[prost(int32, tag = "1")]
    pub(crate) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) kv: Option<KeyValue>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct LeaseGrantRequest {
    #[prost(int64, tag = "1")]
    pub(crate) ttl: i64,
}

/// Of a grant, of a renewal and of a question.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LeaseResponse {
    #[prost(int64, tag = "2")]
    pub(crate) id: i64,
    /// Seconds; 0 or less where the lease has ended.
    #[prost(int64, tag = "3")]
    pub(crate) ttl: i64,
}

/// A request to renew a lease, to ask about it or to end it.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct LeaseRequest {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) password: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub(crate) token: String,
}

/// Nothing to say.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct StatusRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StatusResponse {
    #[prost(string, tag = "2")]
    pub(crate) version: String,
    #[prost(int64, tag = "3")]
    pub(crate) bytes: i64,
    /// The member that leads; 0 where there is none.
    #[prost(uint64, tag = "4")]
    pub(crate) leader: u64,
    /// Alarms, as text.
    #[prost(string, repeated, tag = "8")]
    pub(crate) errors: Vec<String>,
}
