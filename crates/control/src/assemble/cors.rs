//! CORS: which pages of other origins may read the responses of a route.

use loadline_core::{
    rules::{Cors, Origin},
    time::Duration,
};
use loadline_spanned::{At, Key, Problems, Textual};

use super::set;
use crate::{file, value::one_or_more::OneOrMore};

/// What the file says of it.
pub(super) fn cors(given: &At<file::Cors>, problems: &mut Problems) -> Cors {
    let file = &given.value;
    if !file.origins.given() {
        let help = "say which: origins = \"https://app.example.com\"".to_owned();
        problems.absent(&given.span, &given.span, "`cors` without `origins`".to_owned(), help);
    }
    let mut cors = Cors {
        origins: each(&file.origins, |origin| origin.0.clone()).unwrap_or_default(),
        methods: each(&file.methods, |method| method.0.clone()).unwrap_or_default(),
        headers: each(&file.headers, |name| name.0.clone()),
        exposed: each(&file.exposed, |name| name.0.clone()).unwrap_or_default(),
        credentials: false,
        max_age: Duration::from_secs(5),
    };
    set(&file.credentials, |on| on, &mut cors.credentials);
    set(&file.max_age, |time| &time.0.0, &mut cors.max_age);
    if let (true, true, Some(at)) =
        (cors.credentials, cors.origins.contains(&Origin::Any), file.origins.at())
    {
        let message = "every page may read what is sent to users who are signed in".to_owned();
        let help = "name the origins, or leave `credentials` out".to_owned();
        problems.warning(&at.span, message, "all origins, with credentials", help);
    }
    cors
}

fn each<T: Textual, V>(given: &Key<OneOrMore<T>>, value: impl Fn(&T) -> V) -> Option<Vec<V>> {
    Some(given.get()?.iter().map(value).collect())
}
