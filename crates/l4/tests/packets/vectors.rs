//! The vectors: frames with what must become of them, each with empty tables.

use loadline_l4::{Action, Hook, TestRunResult, Verdict};

use crate::{
    frame::frame,
    world::{decapsulator, is_possible, judge, world},
};

const FILES: [(&str, &str); 6] = [
    ("mac", include_str!("vectors/mac.txt")),
    ("nat", include_str!("vectors/nat.txt")),
    ("ipip", include_str!("vectors/ipip.txt")),
    ("icmp", include_str!("vectors/icmp.txt")),
    ("refused", include_str!("vectors/refused.txt")),
    ("passed", include_str!("vectors/passed.txt")),
];

const DECAPSULATE: &str = include_str!("vectors/decapsulate.txt");

/// A frame, the name of its verdict, and the frame that leaves, where one does.
type Step = (String, String);

#[test]
fn every_packet_ends_as_its_vector_says() {
    try_all(Hook::Xdp);
}

#[test]
fn every_packet_ends_so_in_traffic_control() {
    try_all(Hook::TrafficControl);
}

fn try_all(hook: Hook) {
    let (mut failed, mut count) = (Vec::new(), 0);
    for (file, text) in FILES {
        let Some(mut datapath) = world(hook) else { return };
        for (name, steps) in vectors(text) {
            // Making one takes a while, and only NAT leaves something behind.
            if text.contains("send-nat") && count > 0 {
                datapath = world(hook).unwrap();
            }
            count += 1;
            for (arrives, ends) in steps {
                let given = frame(&arrives);
                if !is_possible(hook, &given) {
                    continue;
                }
                let (verdict, tried) = judge(&datapath, &given);
                let wrong = compare(&given, verdict.name(), &tried, &ends);
                failed.extend(wrong.map(|wrong| format!("{file}: {name}\n  {arrives}\n  {wrong}")));
            }
        }
    }
    assert!(failed.is_empty(), "{} wrong:\n{}", failed.len(), failed.join("\n"));
    assert!(count >= 140, "only {count} vectors");
}

#[test]
fn tunnels_end_as_their_vectors_say() {
    for (name, steps) in vectors(DECAPSULATE) {
        let Some(decapsulator) = decapsulator() else { return };
        for (arrives, ends) in steps {
            let given = frame(&arrives);
            let tried = decapsulator.try_packet(&given).unwrap();
            let verdict = ends.split_whitespace().next().unwrap();
            assert_eq!(compare(&given, verdict, &tried, &ends), None, "{name}");
        }
    }
}

/// The verdicts that no vector can provoke: a table that is full is tested in `ports`; a driver
/// without room in front of packets is none that can be asked here.
#[test]
fn every_verdict_has_a_vector() {
    let all: String = FILES.iter().map(|(_, text)| *text).chain([DECAPSULATE]).collect();
    let missing: Vec<_> = Verdict::ALL
        .into_iter()
        .map(Verdict::name)
        .filter(|name| !all.contains(&format!("< {name}")))
        .collect();
    assert_eq!(missing, ["drop-nat-full", "drop-no-room"]);
}

/// What is wrong with how a frame ended, if anything.
fn compare(given: &[u8], verdict: &str, tried: &TestRunResult, ends: &str) -> Option<String> {
    let (wanted, leaves) = ends.split_once(' ').unwrap_or((ends, ""));
    if verdict != wanted {
        return Some(format!("is {verdict}, should be {wanted}"));
    }
    let action = match wanted.split_once('-')?.0 {
        "pass" => Action::Pass,
        "send" => Action::Send,
        _ => Action::Drop,
    };
    if tried.action != action {
        return Some(format!("is {:?}, should be {action:?}", tried.action));
    }
    let wanted = match leaves {
        "" => given.to_vec(),
        leaves => frame(&leaves.replace("LABEL", &label(leaves, &tried.frame))),
    };
    (tried.frame != wanted)
        .then(|| format!("leaves as\n    {:02x?}\n  should be\n    {wanted:02x?}", tried.frame))
}

/// The flow label that a tunnel was given, in which any number is right.
fn label(leaves: &str, frame: &[u8]) -> String {
    let tags = leaves.split_whitespace().filter(|word| ["vlan", "qinq"].contains(word)).count();
    let at = 14 + 4 * tags;
    let bytes =
        frame.get(at..at + 4).map_or([0; 4], |bytes| [0, bytes[1] & 15, bytes[2], bytes[3]]);
    u32::from_be_bytes(bytes).to_string()
}

/// The vectors of a file with their names.
fn vectors(text: &str) -> Vec<(&str, Vec<Step>)> {
    let paragraphs = text.split("\n\n").filter_map(|paragraph| paragraph.trim().strip_prefix("# "));
    paragraphs
        .map(|paragraph| {
            let (name, steps) = paragraph.split_once('\n').unwrap();
            (name, steps_of(&steps.replace("\n    ", " ")))
        })
        .collect()
}

fn steps_of(text: &str) -> Vec<Step> {
    let lines: Vec<&str> = text.lines().collect();
    let step = |pair: &[&str]| {
        let arrives = pair[0].strip_prefix("> ").unwrap().to_owned();
        (arrives, pair[1].strip_prefix("< ").unwrap().to_owned())
    };
    lines.chunks(2).map(step).collect()
}

/// Every frame that arrives in a vector.
pub(crate) fn frames() -> Vec<Vec<u8>> {
    let all = FILES.iter().flat_map(|(_, text)| vectors(text));
    all.flat_map(|(_, steps)| steps).map(|(arrives, _)| frame(&arrives)).collect()
}
