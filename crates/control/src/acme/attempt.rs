//! One attempt to get a certificate: an order from where it stands to its end.

use std::{sync::Arc, time::Duration};

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeHandle, ChallengeType, Error,
    Identifier, NewOrder, Order, OrderStatus, RetryPolicy,
};
use loadline_core::{
    acme::{self, Failure, OrderStep, wait_s},
    fleet::acme::Challenge,
};

use super::{
    Front,
    account::Authority,
    client::with_retry_after,
    disk::{KeptOrder, Progress},
    fault::{Fault, again},
    issued::{Issued, new_key, now_s, request, validation},
    shared::{Locked, Proof, renewed},
};

/// An attempt to get a certificate.
pub(super) struct Attempt {
    pub(super) authority: Arc<Authority>,
    pub(super) front: Arc<dyn Front>,
    pub(super) name: String,
    /// Where the certificate goes.
    pub(super) file: String,
    /// How attempts before this one have ended.
    pub(super) progress: Progress,
    /// The certificate that the new one replaces.
    pub(super) replaced: Option<CertificateIdentifier<'static>>,
    /// The right to try it, where edges of a cluster share what comes of it.
    pub(super) locked: Option<Arc<Locked>>,
}

/// What is answered for a name until this is dropped.
struct Answer<'a> {
    attempt: &'a Attempt,
    /// The token of http-01.
    token: Option<String>,
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        let Attempt { front, file, .. } = self.attempt;
        match &self.token {
            Some(token) => front.answer_challenge(token, None),
            None => drop(front.validate_with(file, None)),
        }
    }
}

impl Attempt {
    /// Tries it; the certificate is kept and shown then. With it, how the next attempt stands.
    pub(super) async fn run(mut self) -> (Result<Issued, Fault>, Progress) {
        let (obtained, retry_after_s) = with_retry_after(self.obtain()).await;
        let fault = match obtained {
            Ok(issued) => return (Ok(issued), renewed()),
            Err(fault) => fault,
        };
        self.authority.learn(fault.failure).await;
        let order = self.progress.order.take().filter(|_| fault.failure.keeps_order());
        let failures = self.progress.failures.saturating_add(1);
        let wait_s = wait_s(failures, retry_after_s, rand::random());
        let name = &self.name;
        tracing::warn!(name, failures, retry_in_s = wait_s, "acme: no certificate: {fault}");
        // What an authority says may be as long as it likes.
        let told = Some(fault.why.chars().take(FAULT_MAX).collect());
        let settings = Some(self.authority.issuer.settings());
        let not_before_s = now_s() + wait_s;
        self.progress = Progress { failures, not_before_s, order, fault: told, settings };
        if let Err(error) = self.keep_progress(&self.progress).await {
            tracing::warn!(name, %error, "acme: the state of the order cannot be kept");
        }
        (Err(fault), self.progress)
    }

    async fn keep_progress(&self, progress: &Progress) -> Result<(), Fault> {
        match &self.locked {
            Some(locked) => locked.keep_progress(progress).await,
            None => {
                let folder = &self.authority.folder;
                folder.keep_progress(&self.name, progress).map_err(Fault::local)
            }
        }
    }

    async fn obtain(&mut self) -> Result<Issued, Fault> {
        let account = self.authority.account().await?;
        if let Some(kept) = self.progress.order.clone() {
            match self.resume(&account, &kept).await {
                // It has come to nothing while nobody looked after it: that is no failed attempt.
                Err(fault) if fault.failure == Failure::Refused => {
                    tracing::info!(name = self.name, %fault, "acme: a new order is begun");
                    self.progress.order = None;
                }
                ended => return ended,
            }
        }
        let mut order = self.begin(&account).await?;
        let kept = KeptOrder { url: order.url().to_owned(), key: new_key()? };
        self.progress.order = Some(kept.clone());
        // Whatever happens from here on, another process goes on with the same order and key.
        self.keep_progress(&self.progress).await?;
        self.complete(&mut order, &kept.key).await
    }

    async fn resume(&self, account: &Account, kept: &KeptOrder) -> Result<Issued, Fault> {
        let mut order = again(async || account.order(kept.url.clone()).await).await?;
        tracing::info!(name = self.name, url = kept.url, "acme: an order is resumed");
        self.complete(&mut order, &kept.key).await
    }

    async fn begin(&self, account: &Account) -> Result<Order, Fault> {
        let identifiers = [Identifier::Dns(self.name.clone())];
        if let Some(replaced) = &self.replaced {
            let new = NewOrder::new(&identifiers).replaces(replaced.clone());
            match again(async || account.new_order(&new).await).await {
                // It may be replaced already, or come from elsewhere (RFC 9773, section 5).
                Err(fault) if fault.failure == Failure::RateLimited => return Err(fault),
                Err(_) => {}
                begun => return begun,
            }
        }
        again(async || account.new_order(&NewOrder::new(&identifiers)).await).await
    }

    /// Does what is still to be done for an order.
    async fn complete(&self, order: &mut Order, key: &str) -> Result<Issued, Fault> {
        let mut answers = Vec::new();
        for _ in 0..STEPS_MAX {
            match status(order.state().status).step() {
                OrderStep::Authorize => {
                    answers.extend(self.authorize(order).await?);
                    again(async || order.poll_ready(&patience()).await).await?;
                }
                OrderStep::Finalize => {
                    let request = request(&self.name, key)?;
                    again(async || order.finalize_csr(&request).await).await?;
                }
                OrderStep::Wait | OrderStep::Download => {
                    let chain = again(async || order.poll_certificate(&patience()).await).await?;
                    return self.keep(&format!("{}\n{chain}", key.trim_end())).await;
                }
                OrderStep::Discard => return Err(reason(order).await),
            }
        }
        Err(Fault::refused("the order goes in circles"))
    }

    /// Proves what is not proven yet. The authority looks at the answers as long as they are there.
    async fn authorize(&self, order: &mut Order) -> Result<Vec<Answer<'_>>, Fault> {
        let kind = match self.authority.issuer.challenge {
            Challenge::Http01 => ChallengeType::Http01,
            Challenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
        };
        let mut answers = Vec::new();
        let mut set_up = async || {
            let mut authorizations = order.authorizations();
            while let Some(authorization) = authorizations.next().await {
                let mut authorization = authorization?;
                // One that was proven for an order before may do for this one.
                if authorization.status != AuthorizationStatus::Pending {
                    continue;
                }
                let challenge = authorization.challenge(kind.clone());
                let mut challenge = challenge.ok_or(Error::Unsupported("this challenge"))?;
                let answer = self.answer(&challenge).await;
                answers.push(answer.map_err(|it| Error::Other(it.into()))?);
                challenge.set_ready().await?;
            }
            Ok(())
        };
        again(&mut set_up).await?;
        Ok(answers)
    }

    /// Answers it here and, where there are others, at all edges: the authority may ask any.
    async fn answer(&self, challenge: &ChallengeHandle<'_>) -> Result<Answer<'_>, Fault> {
        let authorization = challenge.key_authorization();
        let (proof, token) = if challenge.r#type == ChallengeType::Http01 {
            let (token, key) = (challenge.token.clone(), authorization.as_str().to_owned());
            self.front.answer_challenge(&token, Some(&key));
            (Proof::Http01 { token: token.clone(), key_authorization: key }, Some(token))
        } else {
            let digest = authorization.digest().as_ref().to_vec();
            let pair = validation(&self.name, &digest)?;
            self.front.validate_with(&self.file, Some(pair)).map_err(Fault::local)?;
            (Proof::TlsAlpn01 { digest }, None)
        };
        let answer = Answer { attempt: self, token };
        if let Some(locked) = &self.locked {
            locked.prove(&proof).await?;
        }
        Ok(answer)
    }

    /// Keeps the certificate, and has it shown. What others are to show is stored first: a copy
    /// on this disk alone would be asked for again by them.
    async fn keep(&self, pem: &str) -> Result<Issued, Fault> {
        let issued = Issued::read(pem, &self.name)?;
        if let Some(locked) = &self.locked {
            locked.keep_certificate(pem).await?;
        }
        let folder = &self.authority.folder;
        folder.keep_certificate(&self.name, pem).map_err(Fault::local)?;
        self.front.show_issued(&self.file).map_err(Fault::local)?;
        if let Err(error) = folder.keep_progress(&self.name, &Progress::default()) {
            tracing::warn!(self.name, %error, "acme: the state of the order cannot be kept");
        }
        Ok(issued)
    }
}

fn status(status: OrderStatus) -> acme::OrderStatus {
    match status {
        OrderStatus::Pending => acme::OrderStatus::Pending,
        OrderStatus::Ready => acme::OrderStatus::Ready,
        OrderStatus::Processing => acme::OrderStatus::Processing,
        OrderStatus::Valid => acme::OrderStatus::Valid,
        OrderStatus::Invalid => acme::OrderStatus::Invalid,
    }
}

/// Why an order is invalid, by what its authorizations say.
async fn reason(order: &mut Order) -> Fault {
    let mut authorizations = order.authorizations();
    while let Some(Ok(authorization)) = authorizations.next().await {
        if let Some(problem) = authorization.challenges.iter().find_map(|it| it.error.clone()) {
            return Fault { failure: Failure::Refused, ..Fault::from(Error::Api(problem)) };
        }
    }
    Fault::refused("the authority has given the order up")
}

/// How often an order is looked at, and how long; `Retry-After` goes before that.
fn patience() -> RetryPolicy {
    RetryPolicy::new()
        .initial_delay(Duration::from_millis(250))
        .backoff(1.5)
        .timeout(Duration::from_secs(120))
}

/// Characters of the reason of a failure that are kept.
const FAULT_MAX: usize = 1_000;

/// Twice as many as an order takes.
const STEPS_MAX: u32 = 8;
