//! What a participant does with its lease, its shares and its reports.

use alloc::{string::ToString, vec, vec::Vec};

use super::*;
use crate::{
    cluster::{allot::Floors, share::Share, table::GroupReport},
    units::Ratio,
};

const OWN: SessionId = SessionId(7);

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn begin(when_away: WhenAway) -> Participant {
    let mut participant = Participant::new(Settings {
        name: "one".to_string(),
        lease: Duration::from_secs(3),
        margin: Duration::from_secs(1),
        floor: Ratio::percent(10),
        edges: 3,
        when_away,
    });
    let groups = vec!["near".to_string()];
    let service = SharedService { name: "web".to_string(), groups };
    participant.handle(at(0), Event::Configured(vec![service]));
    participant
}

fn drain(participant: &mut Participant, now: Instant) -> Vec<Action> {
    core::iter::from_fn(|| participant.poll(now)).collect()
}

/// The share that was brought into force last, in percent.
fn percent(actions: &[Action]) -> Option<u64> {
    let mut shares = actions.iter().filter_map(|action| match action {
        Action::Share { share, .. } => Some((share.parts() * 100).div_ceil(Share::WHOLE.parts())),
        _ => None,
    });
    shares.next_back()
}

fn asked(actions: &[Action]) -> Option<RequestId> {
    actions.iter().find_map(|action| match action {
        Action::Join(id) | Action::KeepAlive(id, _) => Some(*id),
        _ => None,
    })
}

/// The store as it is where this session has half of the group.
fn contents(revision: Revision, session: SessionId) -> Event {
    let share = Share::part(1, 2);
    let entry = Entry { session, share, bound: share, since: 0 };
    let groups = [("near".to_string(), vec![entry])].into();
    let table = Table { version: revision, reserved: Share::part(3, 10), groups };
    let report = Report::default();
    Event::Read(Contents {
        revision,
        sessions: vec![(SessionId(1), 1, report.clone()), (session, 2, report)],
        tables: vec![("web".to_string(), revision, table)],
    })
}

/// Joined at 0 with half of the group; the answer came at 1.5 s.
fn joined(when_away: WhenAway) -> Participant {
    let mut participant = begin(when_away);
    let actions = drain(&mut participant, at(0));
    assert_eq!(percent(&actions), Some(10), "the floor");
    let id = asked(&actions).expect("it asks for a lease");
    participant.handle(at(1_500), Event::Answered(id, Answer::Joined(OWN)));
    participant.handle(at(1_500), contents(5, OWN));
    assert_eq!(percent(&drain(&mut participant, at(1_500))), Some(60), "floor and share");
    participant
}

fn observe(participant: &mut Participant, now: Instant) -> Vec<Action> {
    participant.handle(now, Event::Observed(Vec::new()));
    drain(participant, now)
}

#[test]
fn a_lease_is_counted_from_before_it_was_asked_for() {
    let mut participant = joined(WhenAway::Floor);
    assert_eq!(percent(&observe(&mut participant, at(1_999))), None);
    assert_eq!(participant.next_deadline(), Some(at(2_000)), "3 s, less the margin of 1 s");
    assert_eq!(percent(&observe(&mut participant, at(2_000))), Some(10));
    assert!(!participant.is_joined(at(2_000)));
}

#[test]
fn a_renewal_that_is_answered_late_counts_from_when_it_was_asked() {
    let mut participant = joined(WhenAway::Floor);
    let actions = observe(&mut participant, at(2_250));
    assert_eq!(percent(&actions), Some(10));
    let id = asked(&actions).expect("a quarter of the lease later it asks again");
    participant.handle(at(2_500), Event::Answered(id, Answer::Done));
    assert_eq!(percent(&drain(&mut participant, at(2_500))), Some(60));
    assert_eq!(percent(&observe(&mut participant, at(4_249))), None);
    assert_eq!(percent(&observe(&mut participant, at(4_250))), Some(10), "2 s after 2.25 s");
}

#[test]
fn who_was_without_store_renews_as_soon_as_there_is_a_connection() {
    let mut participant = joined(WhenAway::Floor);
    for millis in [2_250, 3_000, 3_750] {
        asked(&observe(&mut participant, at(millis))).expect("nobody answers");
    }
    participant.handle(at(3_800), contents(6, OWN));
    let id = asked(&drain(&mut participant, at(3_800))).expect("not a quarter of a lease later");
    participant.handle(at(3_900), Event::Answered(id, Answer::Done));
    assert_eq!(percent(&drain(&mut participant, at(3_900))), Some(60));
}

#[test]
fn who_asked_for_a_lease_without_a_connection_asks_again_once_there_is_one() {
    let mut participant = begin(WhenAway::Floor);
    let lost = asked(&drain(&mut participant, at(0))).expect("nobody answers");
    participant.handle(at(100), contents(5, SessionId(1)));
    let id = asked(&drain(&mut participant, at(100))).expect("at once");
    assert_ne!(id, lost);
    participant.handle(at(200), Event::Answered(id, Answer::Joined(OWN)));
    assert_eq!(participant.session(), Some(OWN));
}

#[test]
fn an_edge_whose_lease_has_ended_is_not_elected_and_knows_of_nobody_who_is() {
    let mut participant = joined(WhenAway::Floor);
    let others = SessionId(1);
    let told = |participant: &Participant, millis| {
        let elected = participant.elected(at(millis)).map(str::to_string);
        (participant.overview(at(millis)).elected, elected)
    };
    let report = |session, created, name: &str| {
        let report = Report { name: name.to_string(), ..Report::default() };
        Event::Changed(6, vec![Change::Report(session, created, report)])
    };
    participant.handle(at(1_600), report(others, 1, "two"));
    participant.handle(at(1_600), report(OWN, 2, "one"));
    assert_eq!(told(&participant, 1_600), (false, Some("two".to_string())));
    participant.handle(at(1_700), Event::Changed(7, vec![Change::Ended(others)]));
    assert_eq!(told(&participant, 1_999), (true, Some("one".to_string())));
    assert_eq!(told(&participant, 2_000), (false, None));
}

#[test]
fn what_it_had_is_kept_if_the_operator_says_so_and_given_up_for_another_share() {
    let mut participant = joined(WhenAway::Keep);
    assert_eq!(percent(&observe(&mut participant, at(2_500))), None, "it keeps 60 %");
    let id = asked(&observe(&mut participant, at(3_500))).expect("it goes on asking");
    participant.handle(at(3_500), Event::Answered(id, Answer::SessionLost));
    let id = asked(&drain(&mut participant, at(3_500))).expect("it joins anew");
    let new = SessionId(8);
    participant.handle(at(3_600), Event::Answered(id, Answer::Joined(new)));
    assert_eq!(percent(&drain(&mut participant, at(3_600))), None, "still");
    participant.handle(at(3_700), contents(9, SessionId(9)));
    assert_eq!(percent(&drain(&mut participant, at(3_700))), None, "others have theirs");
    participant.handle(at(3_800), Event::Changed(10, vec![Change::TableGone("web".to_string())]));
    let id = asked(&observe(&mut participant, at(5_000))).expect("it renews");
    participant.handle(at(5_001), Event::Answered(id, Answer::Done));
    assert_eq!(percent(&drain(&mut participant, at(5_001))), None);
    assert_eq!(percent(&observe(&mut participant, at(6_700))), Some(10), "a lease later");
}

#[test]
fn who_leaves_uses_nothing_and_gives_everything_back() {
    let mut participant = joined(WhenAway::Floor);
    participant.handle(at(1_600), Event::Leave);
    let actions = drain(&mut participant, at(1_600));
    assert_eq!(percent(&actions), Some(0));
    assert_eq!(actions.last(), Some(&Action::Leave(OWN)));
    assert_eq!(participant.next_deadline(), None);
    participant.handle(at(1_700), contents(6, OWN));
    assert_eq!(drain(&mut participant, at(1_700)), []);
}

#[test]
fn a_share_that_is_lowered_is_told_at_once() {
    let mut participant = joined(WhenAway::Floor);
    let lower = |share: Share, version: u64| {
        let entry = Entry { session: OWN, share, bound: Share::part(1, 2), since: version };
        let groups = [("near".to_string(), vec![entry])].into();
        let table = Table { version, reserved: Share::part(3, 10), groups };
        Event::Changed(version, vec![Change::Table("web".to_string(), table)])
    };
    participant.handle(at(1_550), lower(Share::part(1, 5), 6));
    let actions = drain(&mut participant, at(1_550));
    assert_eq!(percent(&actions), Some(30));
    let Some(Action::Report(_, OWN, report)) = actions.last() else {
        panic!("it tells that it has seen it: {actions:?}")
    };
    assert_eq!(report.services["web"].seen, 6);
}

/// What an edge says that wants 50/s of a group of 100/s.
fn wanting(floors: Option<Floors>) -> Report {
    let (distance, capacity) = (Some(1_000), Some(100_000));
    let group = GroupReport { distance, capacity, ..GroupReport::default() };
    let groups = [("near".to_string(), group)].into();
    let service = ServiceReport { demand: [0, 50_000, 0], groups, ..ServiceReport::default() };
    Report { floors, services: [("web".to_string(), service)].into(), ..Report::default() }
}

/// Whether an edge that is elected, or is short, writes a table beside an edge that keeps these
/// floors, and whether it tells of a mismatch.
fn writes_beside(is_elected: bool, floors: impl Fn(Floors) -> Option<Floors>) -> (bool, bool) {
    let mut participant = joined(WhenAway::Floor);
    let own = participant.settings().floors();
    let free = Table { version: 6, reserved: own.sum(), groups: BTreeMap::new() };
    let mut changes = vec![
        Change::Report(OWN, 2, wanting(Some(own))),
        Change::Report(SessionId(9), 6, wanting(floors(own))),
        Change::Table("web".to_string(), free),
    ];
    if is_elected {
        changes.push(Change::Ended(SessionId(1)));
    }
    participant.handle(at(1_600), Event::Changed(6, changes));
    let mut actions = drain(&mut participant, at(1_600));
    for (millis, came) in [(1_650, 0), (1_700, 100)] {
        let distance = Some(Duration::from_millis(1));
        let group = GroupObservation { distance, capacity: Some(100_000), ..Default::default() };
        let observed = Observation { asked: [0, came, 0], groups: vec![group] };
        participant.handle(at(millis), Event::Observed(vec![observed]));
        actions.extend(drain(&mut participant, at(millis)));
    }
    let writes = actions.iter().any(|action| matches!(action, Action::Table { .. }));
    (writes, participant.is_mismatch())
}

#[test]
fn no_share_is_moved_while_edges_differ_in_their_floors() {
    for is_elected in [true, false] {
        assert_eq!(writes_beside(is_elected, Some), (true, false));
        assert_eq!(writes_beside(is_elected, |_| None), (true, false), "an earlier release");
        let other = |own| Some(Floors { each: Share::part(1, 5), ..own });
        assert_eq!(writes_beside(is_elected, other), (false, true));
        let for_fewer = |own| Some(Floors { edges: 2, ..own });
        assert_eq!(writes_beside(is_elected, for_fewer), (false, true));
    }
}

#[test]
fn a_report_of_an_earlier_release_is_read() {
    let old = r#"{"name":"one","services":{}}"#;
    let read: Report = serde_json::from_str(old).expect("it is read");
    assert_eq!((read.name.as_str(), read.floors), ("one", None));
    assert_eq!(serde_json::to_string(&read).expect("it is written"), old);
}
