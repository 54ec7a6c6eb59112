//! Requests to the store, several at a time.

use std::time::Duration;

use loadline_core::cluster::{Action, Answer, RequestId, SessionId, Table};
use tokio::sync::mpsc::UnboundedSender;

use super::{Heard, link::Places};
use crate::cluster::{
    EtcdError, Settings,
    etcd::{
        Client,
        message::{Compare, Operation, PutRequest},
    },
    keys,
};

/// Whoever makes them; each answer goes to the channel.
pub(super) struct Requests {
    places: Places,
    lease_s: i64,
    answers: UnboundedSender<Heard>,
}

impl Requests {
    pub(super) fn new(settings: &Settings, answers: UnboundedSender<Heard>) -> Self {
        let lease = Duration::from_nanos(settings.lease.as_nanos());
        let lease_s = i64::try_from(lease.as_secs()).unwrap_or(i64::MAX);
        Self { places: Places::below(&settings.prefix), lease_s, answers }
    }

    /// Sends a request.
    pub(super) fn begin(&self, client: &Client, action: Action) {
        let is_write = matches!(action, Action::Report(..) | Action::Table { .. });
        let answers = self.answers.clone();
        let (client, places, lease_s) = (client.clone(), self.places.clone(), self.lease_s);
        tokio::spawn(async move {
            let request = Request { client, places, lease_s };
            let Some((id, answer)) = request.done(action).await else { return };
            let _ = answers.send(match answer {
                Ok(answer) => Heard::Answered(id, answer, is_write),
                Err(error) => Heard::Failed(id, error),
            });
        });
    }
}

struct Request {
    client: Client,
    places: Places,
    lease_s: i64,
}

impl Request {
    async fn done(&self, action: Action) -> Option<(RequestId, Result<Answer, EtcdError>)> {
        Some(match action {
            Action::Join(id) => {
                let granted = self.client.grant(self.lease_s).await;
                (id, granted.map(|lease| Answer::Joined(SessionId(lease))))
            }
            Action::KeepAlive(id, session) => {
                let left = self.client.renew(session.0).await;
                let answer = |left| if left > 0 { Answer::Done } else { Answer::SessionLost };
                (id, left.map(answer))
            }
            Action::Report(id, session, report) => {
                let key = self.places.session(session).into();
                let (value, lease) = (keys::written(&report), session.0);
                let put = Operation::Put(PutRequest { key, value, lease });
                let done = self.client.transaction(Vec::new(), vec![put]).await;
                (id, known(done.map(|_| Answer::Done)))
            }
            Action::Table { id, session, service, replaces, table } => {
                (id, known(self.table(session, &service, replaces, &table).await))
            }
            Action::Share { .. } | Action::Until(_) | Action::Leave(_) => return None,
        })
    }

    async fn table(
        &self,
        session: SessionId,
        service: &str,
        replaces: Option<u64>,
        table: &Table,
    ) -> Result<Answer, EtcdError> {
        let key = self.places.table(service);
        let replaces = i64::try_from(replaces.unwrap_or(0)).unwrap_or(i64::MAX);
        let own = self.places.session(session);
        let compare = vec![
            Compare::changed(key.clone().into(), replaces),
            Compare::is_there(own.clone().into()),
        ];
        let put = PutRequest { key: key.into(), value: keys::written(table), lease: 0 };
        let done = self.client.transaction(compare, vec![Operation::Put(put)]).await?;
        if done.succeeded {
            let revision = done.header.map_or(0, |header| header.revision);
            return Ok(Answer::Written(revision.unsigned_abs()));
        }
        let own = self.client.range(&own, "").await?;
        Ok(if own.kvs.is_empty() { Answer::SessionLost } else { Answer::Conflict })
    }
}

/// That a lease is not known is an answer.
fn known(done: Result<Answer, EtcdError>) -> Result<Answer, EtcdError> {
    match done {
        Err(error) if error.is_of_the_lease() => Ok(Answer::SessionLost),
        done => done,
    }
}
