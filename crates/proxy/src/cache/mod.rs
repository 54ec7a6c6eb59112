//! The cache: responses that are kept, and fetches that many wait for.
//!
//! What may be stored, used and sent is decided by the rules of [`loadline_core::cache`]; here is
//! what carries that out. The way of a request (`http/exchange/cached.rs`): what it asks for
//! (`wanted`) is looked up (`store`); what is there (`object`) is sent (`answer`). Otherwise it
//! waits for a fetch, its own or another's.
//!
//! | | |
//! |---|---|
//! | `wanted` | what a request asks of the cache: its key |
//! | `store` | what is stored, what is being fetched, what cannot be stored; for all workers |
//! | `table` | what is stored by key, and in which order it leaves |
//! | `object`, `selectors` | a response that is stored, and which requests it answers |
//! | `coded` | its compressed forms |
//! | `fetch` | a request of the cache's own |
//! | `fill` | what becomes of its response |
//! | `incomplete` | a response of which a part is stored, or comes |
//! | `head` | what a response to `HEAD` says of what is stored |
//! | `arrival`, `pieces` | a response that is coming in, and everybody who reads it meanwhile |
//! | `reserved` | memory of what is coming in |
//! | `pinned` | memory of what is not stored any more and still sent |
//! | `disk` | the second tier, on disk |
//! | `load` | a response on its way from there to memory |
//! | `purge` | what is taken out on somebody's word, and what there is to tell |
//! | `sweeps` | what the last purges named |
//! | `result` | what it did for a request, as it is counted and logged |
//! | `answer` | what one client gets of a response |

mod answer;
mod arrival;
mod coded;
mod disk;
mod fetch;
mod fill;
mod head;
mod incomplete;
mod load;
mod object;
mod pieces;
mod pinned;
mod purge;
mod reserved;
mod result;
mod selectors;
mod store;
mod sweeps;
mod table;
#[cfg(test)]
mod testing;
mod wanted;

pub(crate) use answer::{
    Answer, Asked, Body, COPIED, Part, asks_for_all, condition, wants_another, write,
};
pub(crate) use arrival::{Begun, Failed, Known, Reader};
pub(crate) use coded::Coded;
pub(crate) use disk::{Body as DiskBody, Disk, Kept, Opened, Place};
pub(crate) use fetch::{Fetch, Start, Via, unix_now};
pub(crate) use fill::{CHANGED, Came, Filling};
pub(crate) use load::{BROKEN, Load};
pub(crate) use object::{Object, Response, fields_of};
pub(crate) use result::CacheResult;
pub(crate) use store::{Join, Key, Store, What};
pub(crate) use wanted::{SliceRange, StandIn, Wanted, is_for_cache, request_fields, write_passed};
