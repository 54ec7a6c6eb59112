//! Which URLs there are, and when each is asked for its keys.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
    time::{Duration, Instant as StdInstant},
};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header::CACHE_CONTROL};
use http_body_util::Empty;
use loadline_core::{
    cache::{Field, Fields, ResponseDirectives},
    fleet::{Fleet, Listener},
    jwt::{KeySet, KeySource, KeyUrl, Refresh},
    rules::Authentication,
    time::{self, Instant},
};
use tokio::{
    sync::watch,
    task::{JoinSet, spawn_blocking},
    time::{sleep, timeout},
};

use super::{Front, Known, Secrets, View, parse};
use crate::{admin::LiveConfiguration, https::Client};

/// Asks URLs for their keys, again and again.
pub(super) struct Agent {
    front: Arc<dyn Front>,
    view: View,
    began: StdInstant,
    urls: BTreeMap<KeyUrl, Followed>,
    under_way: JoinSet<Done>,
}

/// What is known of a URL.
struct Followed {
    refresh: Refresh,
    keys: Option<Arc<KeySet>>,
    /// Requests for an unknown key that have been told the result.
    answered: u64,
}

/// What has come of a fetch.
struct Done {
    url: KeyUrl,
    /// How many had asked when it began.
    asked: u64,
    fetched: Result<Fetched, String>,
}

struct Fetched {
    keys: KeySet,
    max_age: Option<time::Duration>,
}

impl Agent {
    pub(super) fn new(front: Arc<dyn Front>, view: View) -> Self {
        let (urls, under_way) = (BTreeMap::new(), JoinSet::new());
        Self { front, view, began: StdInstant::now(), urls, under_way }
    }

    /// Ends once nothing names a URL any more.
    pub(super) async fn run(
        mut self,
        site: &Arc<LiveConfiguration>,
        reloads: &mut watch::Receiver<()>,
    ) {
        self.follow(&site.file());
        while !self.urls.is_empty() {
            self.answer();
            self.begin_due();
            let wait = self.wait();
            tokio::select! {
                Some(done) = self.under_way.join_next() => {
                    if let Ok(done) = done {
                        self.conclude(done);
                    }
                }
                // Whoever has asked is counted, whichever of these comes first.
                () = self.front.wait_for_asks() => {}
                () = sleep(wait) => {}
                changed = reloads.changed() => match changed {
                    Ok(()) => self.follow(&site.file()),
                    Err(_) => return,
                }
            }
        }
    }

    fn now(&self) -> Instant {
        Instant::ZERO + time::Duration::from_std(self.began.elapsed())
    }

    /// Takes in which URLs are named now.
    fn follow(&mut self, fleet: &Fleet) {
        let (wanted, now) = (wanted(fleet), self.now());
        for url in self.urls.keys().filter(|url| !wanted.contains(*url)) {
            let answered = self.front.asked(url);
            self.front.tell(url, Known { keys: None, answered, is_away: true });
        }
        self.urls.retain(|url, _| wanted.contains(url));
        self.view.follow(wanted.iter().map(|url| &*url.url));
        for url in wanted {
            if let Entry::Vacant(entry) = self.urls.entry(url) {
                // Whoever asked before gets its answer when the first fetch ends.
                let answered = self.front.asked(entry.key());
                let followed = Followed { refresh: Refresh::new(now), keys: None, answered };
                self.front.tell(entry.key(), followed.known());
                entry.insert(followed);
            }
        }
    }

    /// Fetches keys for requests with an unknown one, or tells them that there are none.
    fn answer(&mut self) {
        let now = self.now();
        for (url, followed) in &mut self.urls {
            let asked = self.front.asked(url);
            let is_idle = followed.refresh.next_deadline().is_some();
            if asked > followed.answered && is_idle && !followed.refresh.want(now) {
                followed.answered = asked;
                self.front.tell(url, followed.known());
            }
        }
    }

    fn begin_due(&mut self) {
        let now = self.now();
        for (url, followed) in &mut self.urls {
            if followed.refresh.next_deadline().is_some_and(|due| due <= now) {
                followed.refresh.begin();
                let asked = self.front.asked(url);
                self.under_way.spawn(fetch(url.clone(), asked));
            }
        }
    }

    /// How long there is nothing to begin with.
    fn wait(&self) -> Duration {
        let due = self.urls.values().filter_map(|it| it.refresh.next_deadline()).min();
        due.map_or(FAR, |due| due.since(self.now()).to_std()).min(FAR)
    }

    fn conclude(&mut self, Done { url, asked, fetched }: Done) {
        let now = self.now();
        let Some(followed) = self.urls.get_mut(&url) else { return };
        match fetched {
            Ok(fetched) => {
                self.view.succeed(&url.url, fetched.keys.keys().len());
                followed.take(&url, fetched, now);
            }
            Err(error) => {
                self.view.fail(&url.url, &error);
                followed.fail(&url, &error, now);
            }
        }
        followed.answered = asked.max(followed.answered);
        self.front.tell(&url, followed.known());
    }
}

impl Followed {
    fn known(&self) -> Known {
        let is_away = self.refresh.is_failing();
        Known { keys: self.keys.clone(), answered: self.answered, is_away }
    }

    fn take(&mut self, url: &KeyUrl, Fetched { keys, max_age }: Fetched, now: Instant) {
        let was_failing = self.refresh.is_failing();
        let (url, count) = (&url.url, keys.keys().len());
        let are_others = self.keys.as_deref() != Some(&keys);
        self.refresh.succeed(now, max_age, are_others);
        // The same keys stay the same set, so that tokens that are known stay known.
        if are_others {
            if count == 0 {
                tracing::warn!(url, "jwt: all keys are withdrawn, no token is accepted");
            } else {
                tracing::info!(url, keys = count, "jwt: new keys are in force");
            }
            self.keys = Some(Arc::new(keys));
        } else if was_failing {
            tracing::info!(url, "jwt: the keys can be fetched again");
        }
    }

    fn fail(&mut self, url: &KeyUrl, error: &str, now: Instant) {
        // Once, until it goes well again.
        if !self.refresh.is_failing() {
            let (url, known) = (&url.url, self.keys.as_ref().map_or(0, |keys| keys.keys().len()));
            tracing::warn!(url, known, "jwt: keys cannot be fetched: {error}");
        }
        self.refresh.fail(now, rand::random());
    }
}

/// The URLs that listeners and routes name.
fn wanted(fleet: &Fleet) -> BTreeSet<KeyUrl> {
    let of_listener = |listener: &Listener| {
        let rules = listener.routes.rules().iter().map(|(_, rule)| &rule.authentication);
        let all = rules.chain([&listener.authentication]).flatten();
        let urls = all.filter_map(|it| match it {
            Authentication::Jwt(jwt) => match &jwt.keys {
                KeySource::Url(url) => Some(url.clone()),
                KeySource::File { .. } => None,
            },
            Authentication::Basic(_) | Authentication::Forward(_) => None,
        });
        urls.collect::<Vec<_>>()
    };
    fleet.listeners.iter().flat_map(of_listener).collect()
}

async fn fetch(url: KeyUrl, asked: u64) -> Done {
    let fetched = match timeout(LIMIT, response(&url)).await {
        Ok(fetched) => fetched,
        Err(_) => Err(format!("no response within {} s", LIMIT.as_secs())),
    };
    Done { url, asked, fetched }
}

async fn response(url: &KeyUrl) -> Result<Fetched, String> {
    let authorities = url.authorities.clone();
    // Those of the system are hundreds, in a file.
    let client = spawn_blocking(move || Client::trusting(authorities.as_deref())).await;
    let client = client.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    let request = Request::get(&url.url).body(Empty::<Bytes>::new());
    let request = request.map_err(|error| error.to_string())?;
    let response = client.send(request).await.map_err(|error| with_causes(&*error))?;
    if response.status() != StatusCode::OK {
        return Err(format!("status {}", response.status().as_u16()));
    }
    let keys = parse(response.body(), Secrets::Refused)?;
    Ok(Fetched { keys, max_age: max_age(response.headers()) })
}

fn max_age(headers: &HeaderMap) -> Option<time::Duration> {
    let named = headers.get_all(CACHE_CONTROL).iter();
    let fields: Vec<Field<'_>> =
        named.map(|value| Field::new(b"cache-control", value.as_bytes())).collect();
    ResponseDirectives::of(Fields(&fields), &[]).max_age
}

fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// A URL that hangs is given up after this.
const LIMIT: Duration = Duration::from_secs(5);

/// Nobody's clock needs more.
const FAR: Duration = Duration::from_secs(3_600);
