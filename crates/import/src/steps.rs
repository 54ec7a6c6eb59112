//! Rules that are asked one after another, as routes of which the first match decides.
//!
//! A route has neither a negated condition nor a "change this, then go on". So a rule `if A and not
//! B` becomes: what is `A and B` goes on with the rules behind it, then what is left of `A` ends
//! here. A change goes with every route behind it. Both repeat the rules behind, which is bounded:
//! of rules that make too many routes changes of headers for some requests are left out first. If
//! the rest is still too much, a refusal ends the list, as of what comes there nothing is known.

use std::collections::BTreeSet;

use crate::{
    condition::When,
    model::PROTECTED,
    write::{inline, text},
};

/// One rule.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Which rule of the file it is of: what is wrong is told with it.
    pub(crate) rule: usize,
    /// Conditions that must hold.
    pub(crate) yes: When,
    /// None of these may.
    pub(crate) no: Vec<When>,
    pub(crate) act: Act,
}

/// What a rule does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Decides.
    End(End),
    /// Changes what is sent, whatever decides.
    Edit(Edit),
    /// The same after all such changes, those of rules behind it included.
    Late(Edit),
    /// Skips this many of the rules behind it.
    Skip(usize),
}

/// What decides: keys of a route with their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) keys: Vec<(String, String)>,
    /// Whether a server is asked, so that changes make sense.
    pub(crate) is_service: bool,
    /// Keys and headers of a fixed response.
    pub(crate) answer: Option<(Entries, Entries)>,
    /// Whether headers that an earlier rule sets are those of the fixed response, too.
    pub(crate) is_open: bool,
}

/// Names with their values as the file writes them.
pub(crate) type Entries = Vec<(String, String)>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    /// A header field: in which table (`request_headers.set`), its name and value.
    Header(&'static str, String, String),
    /// A key of the route, with its value.
    Key(&'static str, String),
    /// One that also makes sense where no server is asked.
    Always(&'static str, String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) when: When,
    pub(crate) end: End,
    pub(crate) edits: Vec<Edit>,
}

/// Routes, and the rules of which something cannot be said.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    pub(crate) routes: Vec<Route>,
    pub(crate) lost: Vec<(usize, String)>,
    /// Rules that some routes follow, whether or not they are lost to others.
    pub(crate) followed: BTreeSet<usize>,
    told: BTreeSet<usize>,
    looks: usize,
    /// Whether changes of headers for some requests are left out.
    drops_headers: bool,
    /// How many rules at the end have requests that no route takes; none where all are taken.
    cut: usize,
}

/// More than this nobody reads, and rules that multiply come to it fast.
const ROUTES_MAX: usize = 5000;
/// Rules that are looked at, over all routes.
const LOOKS_MAX: usize = 200_000;
/// Why a rule has requests that no route takes.
const TOO_MANY: &str = "together with the others it makes too many routes";
/// Routes before one that are looked at for one that takes all it takes.
const COMPARED_MAX: usize = 300;
/// Exceptions and changes within each other.
const DEPTH_MAX: usize = 100;

impl Edit {
    /// Why both cannot be said: they are values of one key.
    fn excludes(&self, other: &Self) -> Option<&'static str> {
        match (self, other) {
            _ if self == other => None,
            (
                Self::Key(key, _) | Self::Always(key, _),
                Self::Key(own, _) | Self::Always(own, _),
            ) if key == own => Some("a route says this once, and an earlier rule said it"),
            (Self::Header(table, name, _), Self::Header(own, other, _))
                if table == own && table.ends_with(".add") && name.eq_ignore_ascii_case(other) =>
            {
                Some("a route adds one field of a name")
            }
            _ => None,
        }
    }

    /// Whether nothing is left of an earlier change behind this one.
    fn undoes(&self, earlier: &Self) -> bool {
        let (Self::Header(table, name, _), Self::Header(own, other, _)) = (self, earlier) else {
            return false;
        };
        let side = |table: &'static str| table.split('.').next();
        !table.ends_with(".add") && side(table) == side(own) && name.eq_ignore_ascii_case(other)
    }
}

impl Step {
    /// A step for all requests.
    pub(crate) fn always(rule: usize, act: Act) -> Self {
        Self { rule, yes: When::default(), no: Vec::new(), act }
    }

    fn is_always(&self) -> bool {
        self.yes.is_always() && self.no.is_empty()
    }

    /// Why it may be left out where there are too many routes: it changes a header for some
    /// requests, which each of the rules behind it has to be repeated for.
    fn spared(&self) -> Option<String> {
        let (Act::Edit(edit) | Act::Late(edit)) = &self.act else { return None };
        let Edit::Header(table, ..) = edit else { return None };
        let why = "with this change of a header for some requests there are too many routes";
        let is_guard = *table == "request_headers.remove";
        let why = if is_guard { format!("{PROTECTED}: {why}") } else { why.to_owned() };
        (!self.is_always()).then_some(why)
    }
}

impl Route {
    /// Whether it refuses what no route could be made for.
    pub(crate) fn is_cut(&self) -> bool {
        self.end == End::cut()
    }
}

impl End {
    pub(crate) fn service(name: &str) -> Self {
        let keys = vec![("service".to_owned(), text(name))];
        Self { keys, is_service: true, answer: None, is_open: false }
    }

    /// A key that decides without a server.
    pub(crate) fn key(name: &str, value: String) -> Self {
        let keys = vec![(name.to_owned(), value)];
        Self { keys, is_service: false, answer: None, is_open: false }
    }

    /// What no route could be made for.
    fn cut() -> Self {
        let body = "The rules for this request were not imported.\n";
        let entries = [("status", "503".to_owned()), ("body", text(body))];
        Self::answer(entries.map(|(name, value)| (name.to_owned(), value)).into(), Vec::new())
    }

    /// A fixed response.
    pub(crate) fn answer(entries: Entries, headers: Entries) -> Self {
        let mut all = entries.clone();
        if !headers.is_empty() {
            all.push(("headers".to_owned(), inline(&headers)));
        }
        Self { answer: Some((entries, headers)), ..Self::key("answer", inline(&all)) }
    }

    /// The fixed response with one more header, or with another one of its name.
    pub(crate) fn with_header(self, name: &str, value: &str) -> Self {
        let Some((entries, mut headers)) = self.answer else { return self };
        headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        headers.push((name.to_owned(), text(value)));
        Self { is_open: self.is_open, ..Self::answer(entries, headers) }
    }

    /// The fixed response with the headers that these changes set.
    fn with_edits(self, edits: &[Edit]) -> Self {
        edits.iter().fold(self, |end, edit| match edit {
            Edit::Header("answer_headers.set" | "answer_headers.add", name, value) => {
                end.with_header(name, value)
            }
            _ => end,
        })
    }
}

/// The routes of these rules.
pub(crate) fn routes(steps: &[Step]) -> Routes {
    let made = Routes::of(steps, false);
    if made.cut == 0 {
        return made;
    }
    let mut made = Routes::of(steps, true);
    if made.cut > 0 {
        let when = When::default();
        made.routes.push(Route { when, end: End::cut(), edits: Vec::new() });
    }
    made
}

/// What is asked in `yes` and `no` is asked beside what each of the steps asks. Those of which no
/// route can say both are left out, and given back with the reason.
pub(crate) fn confine(steps: &mut Vec<Step>, yes: &When, no: &[When]) -> Vec<(usize, String)> {
    let mut lost = Vec::new();
    keep(steps, |step| match step.yes.and(yes) {
        Ok(both) => {
            step.no.extend(no.iter().cloned());
            both.map(|both| step.yes = both).is_some()
        }
        Err(why) => {
            lost.push((step.rule, why));
            false
        }
    });
    lost
}

/// Leaves steps out. Those that skip others skip what is left of these.
pub(crate) fn keep(steps: &mut Vec<Step>, is_kept: impl FnMut(&mut Step) -> bool) {
    let kept: Vec<bool> = steps.iter_mut().map(is_kept).collect();
    for (index, step) in steps.iter_mut().enumerate() {
        if let Act::Skip(count) = &mut step.act {
            *count = kept[index + 1..].iter().take(*count).filter(|is_kept| **is_kept).count();
        }
    }
    let mut kept = kept.into_iter();
    steps.retain(|_| kept.next().unwrap_or(true));
}

/// Steps that see paths without this prefix ask for it. Those of which no route can say it are left
/// out, and given back with the reason.
pub(crate) fn put_below(steps: &mut Vec<Step>, prefix: &str) -> Vec<(usize, String)> {
    let mut lost = Vec::new();
    keep(steps, |step| {
        let no = step.no.iter().map(|no| no.below(prefix)).collect::<Result<Vec<_>, String>>();
        match step.yes.below(prefix).and_then(|yes| Ok((yes, no?))) {
            Ok(both) => {
                (step.yes, step.no) = both;
                true
            }
            Err(why) => {
                lost.push((step.rule, why));
                false
            }
        }
    });
    lost
}

/// The requests that come to a rule, and what is changed of them until then.
#[derive(Clone, Default)]
struct Where {
    base: When,
    edits: Vec<Edit>,
    /// Changes that come after the others, with their rules.
    late: Vec<(usize, Edit)>,
    depth: usize,
}

impl Where {
    fn of(&self, base: When) -> Self {
        Self { base, depth: self.depth + 1, ..self.clone() }
    }
}

impl Routes {
    fn of(steps: &[Step], drops_headers: bool) -> Self {
        let mut made = Self { drops_headers, ..Self::default() };
        made.run(steps, Where::default());
        made
    }

    fn run(&mut self, steps: &[Step], mut at: Where) {
        for (index, step) in steps.iter().enumerate() {
            self.looks += 1;
            let many = self.routes.len() >= ROUTES_MAX || self.looks >= LOOKS_MAX;
            if many || at.depth > DEPTH_MAX || self.cut > 0 {
                return self.cut(&steps[index..]);
            }
            let spared = if self.drops_headers { step.spared() } else { None };
            match (&step.act, spared) {
                (_, Some(why)) => self.lose(step.rule, &why),
                (Act::Edit(edit), None) if step.is_always() => {
                    self.edit(step.rule, edit, &mut at.edits);
                }
                (Act::Late(edit), None) if step.is_always() => {
                    at.late.push((step.rule, edit.clone()));
                }
                _ => match self.one(step, &steps[index + 1..], &at) {
                    Ok(true) => return,
                    Ok(false) => {}
                    Err(why) => self.lose(step.rule, &why),
                },
            }
        }
    }

    /// Makes no further route, as requests would come to it that no route could be made for. These
    /// are the rules left for some of them. Such rules are always the last ones of the same list.
    fn cut(&mut self, rest: &[Step]) {
        let new = rest.len().saturating_sub(self.cut);
        for step in &rest[..new] {
            self.lose(step.rule, TOO_MANY);
        }
        self.cut = self.cut.max(rest.len());
    }

    /// Follows a rule; whether no request is left for those behind it.
    fn one(&mut self, step: &Step, rest: &[Step], at: &Where) -> Result<bool, String> {
        let Some(hit) = at.base.and(&step.yes)? else { return Ok(false) };
        let mut excepted = Vec::new();
        for no in &step.no {
            excepted.extend(hit.and(no)?);
        }
        // All are exceptions: for none of them the rules behind have to be repeated.
        if excepted.contains(&hit) {
            return Ok(false);
        }
        for both in excepted {
            self.run(rest, at.of(both));
        }
        let is_all = hit == at.base;
        self.act(step.rule, &step.act, rest, at.of(hit));
        Ok(is_all)
    }

    fn act(&mut self, rule: usize, act: &Act, rest: &[Step], mut at: Where) {
        if self.cut > 0 {
            return self.lose(rule, TOO_MANY);
        }
        match act {
            Act::End(end) => {
                self.followed.insert(rule);
                for (rule, edit) in std::mem::take(&mut at.late) {
                    self.edit(rule, &edit, &mut at.edits);
                }
                let end = if end.is_open { end.clone().with_edits(&at.edits) } else { end.clone() };
                let makes_sense = |edit: &Edit| end.is_service || matches!(edit, Edit::Always(..));
                at.edits.retain(makes_sense);
                self.push(Route { when: at.base, end, edits: at.edits });
            }
            Act::Edit(edit) => {
                self.edit(rule, edit, &mut at.edits);
                self.run(rest, at);
            }
            Act::Late(edit) => {
                at.late.push((rule, edit.clone()));
                self.run(rest, at);
            }
            Act::Skip(count) => {
                self.followed.insert(rule);
                self.run(&rest[(*count).min(rest.len())..], at);
            }
        }
    }

    /// Adds a change to those before it.
    fn edit(&mut self, rule: usize, edit: &Edit, edits: &mut Vec<Edit>) {
        match edits.iter().find_map(|other| edit.excludes(other)) {
            Some(why) => return self.lose(rule, why),
            None if edits.contains(edit) => {}
            None => {
                edits.retain(|earlier| !edit.undoes(earlier));
                edits.push(edit.clone());
            }
        }
        self.followed.insert(rule);
    }

    /// Adds a route, unless an earlier one takes all that it takes. What only differs in one list
    /// from the one before is added to that list.
    fn push(&mut self, route: Route) {
        if self.cut > 0 {
            return;
        }
        let earlier = self.routes.iter().rev().take(COMPARED_MAX);
        let covers = |it: &Route| it.when.covers(&route.when);
        if earlier.into_iter().any(covers) {
            return;
        }
        let last = self.routes.last_mut();
        let same = last.filter(|last| last.end == route.end && last.edits == route.edits);
        match same.and_then(|last| Some((last.when.or(&route.when)?, last))) {
            Some((either, last)) => last.when = either,
            None => self.routes.push(route),
        }
    }

    fn lose(&mut self, rule: usize, why: &str) {
        if self.told.insert(rule) {
            self.lost.push((rule, why.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Path;

    fn begins(text: &str) -> When {
        When::path(vec![Path::Begins(text.to_owned())])
    }

    fn step(yes: When, no: Vec<When>, act: Act) -> Step {
        Step { rule: 0, yes, no, act }
    }

    fn told(steps: &[Step]) -> Vec<(When, String)> {
        let made = routes(steps);
        assert!(made.lost.is_empty(), "{made:?}");
        made.routes.into_iter().map(|route| (route.when, route.end.keys[0].1.clone())).collect()
    }

    #[test]
    fn what_an_exception_takes_out_goes_on_with_the_rules_behind() {
        let deny = Act::End(End::key("deny", "403".to_owned()));
        let web = Act::End(End::service("web"));
        let steps = [
            step(When::default(), vec![begins("/open")], deny.clone()),
            step(When::default(), vec![], web),
        ];
        let expected =
            [(begins("/open"), "\"web\"".to_owned()), (When::default(), "403".to_owned())];
        assert_eq!(told(&steps), expected);
    }

    #[test]
    fn a_step_skips_the_same_where_others_are_left_out() {
        let deny = |status: &str| Act::End(End::key("deny", status.to_owned()));
        let mut steps = vec![
            step(begins("/a"), vec![], Act::Skip(2)),
            step(begins("/b"), vec![], deny("401")),
            step(When::default(), vec![], deny("403")),
            step(When::default(), vec![], Act::End(End::service("web"))),
        ];
        assert!(confine(&mut steps, &begins("/a"), &[]).is_empty());
        assert_eq!(told(&steps), [(begins("/a"), "\"web\"".to_owned())]);
    }

    #[test]
    fn a_rule_that_is_lost_for_some_requests_is_kept_for_others() {
        let regex = When::path(vec![Path::Regex("[0-9]$".to_owned())]);
        let steps = [
            step(begins("/a"), vec![], Act::Skip(0)),
            Step { rule: 7, ..step(regex, vec![], Act::End(End::service("web"))) },
        ];
        let made = routes(&steps);
        assert_eq!((made.lost.len(), made.followed.contains(&7)), (1, true));
    }

    #[test]
    fn a_change_goes_with_the_routes_behind_and_not_with_refusals() {
        let set = Edit::Header("request_headers.set", "X-A".to_owned(), "1".to_owned());
        let steps = [
            step(begins("/a"), vec![], Act::Edit(set.clone())),
            step(begins("/a/x"), vec![], Act::End(End::key("deny", "403".to_owned()))),
            step(When::default(), vec![], Act::End(End::service("web"))),
        ];
        let made = routes(&steps).routes;
        let edits: Vec<_> = made.iter().map(|route| route.edits.len()).collect();
        let paths: Vec<_> = made.iter().map(|route| route.when.clone()).collect();
        assert_eq!(edits, [0, 1, 0]);
        assert_eq!(paths, [begins("/a/x"), begins("/a"), When::default()]);
    }

    #[test]
    fn a_route_behind_one_that_takes_all_it_takes_is_left_out() {
        let deny = |status: &str| Act::End(End::key("deny", status.to_owned()));
        let steps = [
            step(begins("/auth-more"), vec![], deny("401")),
            step(begins("/auth"), vec![], deny("401")),
            step(begins("/auth"), vec![], deny("404")),
        ];
        assert_eq!(told(&steps).len(), 1);
    }

    #[test]
    fn rules_that_multiply_are_given_up_and_told() {
        let mut steps: Vec<_> = (0..20)
            .map(|n| {
                let name = format!("X-{n}");
                let when = When::field(crate::condition::Place::Header, &name, vec![]);
                let edit = Edit::Header("request_headers.set", name, "1".to_owned());
                step(when, vec![], Act::Edit(edit))
            })
            .collect();
        steps.push(step(When::default(), vec![], Act::End(End::service("web"))));
        for (rule, step) in steps.iter_mut().enumerate() {
            step.rule = rule;
        }
        // Where a request goes comes before what of its headers is changed.
        let made = routes(&steps);
        assert_eq!((made.routes.len(), made.lost.len()), (1, 20), "{made:?}");
        assert!(made.routes[0].end.is_service && made.routes[0].edits.is_empty());
    }

    #[test]
    fn what_no_route_could_be_made_for_is_refused_and_comes_to_no_later_rule() {
        let host = |n: usize| format!("h{n}.example.com");
        let to = |n: usize| {
            let when = When::host(vec![crate::condition::Host::Exact(host(n))]);
            Step { rule: n, ..step(when, vec![], Act::End(End::service(&host(n)))) }
        };
        let mut steps: Vec<_> = (0..ROUTES_MAX + 10).map(to).collect();
        let last = Act::End(End::service("web"));
        steps.push(Step { rule: ROUTES_MAX + 10, ..step(When::default(), vec![], last) });
        let made = routes(&steps);
        assert_eq!(made.routes.len(), ROUTES_MAX + 1);
        let (last, others) = made.routes.split_last().unwrap();
        assert!(last.is_cut() && last.when.is_always() && !others.iter().any(Route::is_cut));
        let lost: Vec<usize> = made.lost.iter().map(|(rule, _)| *rule).collect();
        assert_eq!(lost, (ROUTES_MAX..=ROUTES_MAX + 10).collect::<Vec<_>>());
    }

    #[test]
    fn a_rule_that_some_routes_follow_is_told_apart_from_one_that_none_follows() {
        let ends = |text: &str| When::path(vec![Path::Regex(format!("{text}$"))]);
        let to = |rule, yes, name| Step { rule, ..step(yes, vec![], Act::End(End::service(name))) };
        let set = Edit::Header("request_headers.set", "X-A".to_owned(), "1".to_owned());
        let steps = [
            Step { rule: 1, ..step(begins("/a/"), vec![], Act::Edit(set)) },
            to(2, ends("[0-9]"), "files"),
            to(3, When::default(), "web"),
        ];
        let made = routes(&steps);
        assert_eq!(made.lost.iter().map(|(rule, _)| *rule).collect::<Vec<_>>(), [2]);
        assert!([1, 2, 3].iter().all(|rule| made.followed.contains(rule)), "{made:?}");
    }

    #[test]
    fn what_is_skipped_is_skipped_without_what_is_left_out_of_it() {
        let deny = Act::End(End::key("deny", "403".to_owned()));
        let mut steps = vec![
            step(When::default(), vec![], Act::Skip(2)),
            step(begins("/a/"), vec![], deny.clone()),
            step(begins("/b/"), vec![], deny),
            step(When::default(), vec![], Act::End(End::service("web"))),
        ];
        assert!(confine(&mut steps, &begins("/b/"), &[]).is_empty());
        assert_eq!(steps.iter().map(|step| step.act.clone()).next(), Some(Act::Skip(1)));
        assert_eq!(told(&steps), [(begins("/b/"), "\"web\"".to_owned())]);
    }

    #[test]
    fn changes_for_all_requests_are_never_too_many() {
        let set = |n: usize| Edit::Header("request_headers.set", format!("X-{n}"), "1".to_owned());
        let mut steps: Vec<_> =
            (0..500).map(|n| step(When::default(), vec![], Act::Edit(set(n)))).collect();
        steps.push(step(When::default(), vec![], Act::End(End::service("web"))));
        let made = routes(&steps);
        assert!(made.lost.is_empty() && made.routes[0].edits.len() == 500);
    }
}
