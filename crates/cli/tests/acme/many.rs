//! Fifty certificates from an authority that refuses nonces and takes proofs of before at random,
//! and a process that is killed meanwhile.

use std::{collections::BTreeMap, thread::sleep, time::Duration};

use serde_json::json;

use crate::{edge::Edge, pebble::Pebble};

const FAULTS: &[(&str, &str)] = &[("PEBBLE_WFE_NONCEREJECT", "15"), ("PEBBLE_AUTHZREUSE", "50")];

#[test]
fn fifty_certificates_are_issued_and_renewed_and_nothing_is_lost_by_kill_9() {
    let pebble = Pebble::start(FAULTS, &json!({}));
    let names: Vec<String> = (0..COUNT).map(|index| format!("n{index}.test")).collect();
    let mut edge = Edge::of(&pebble, &format!("names = {names:?}"), true);
    edge.begin();
    edge.until(10, |it| it["issued"] == 1);
    edge.kill();
    let held = |edge: &Edge| -> BTreeMap<String, String> {
        let of = |name: &String| Some((name.clone(), edge.certificate(name)?));
        names.iter().filter_map(of).collect()
    };
    let before = held(&edge);
    let missing = COUNT - before.len();
    edge.begin();
    edge.until(missing, |it| it["issued"] == 1);
    let issued = held(&edge);
    assert_eq!(issued.len(), COUNT);
    assert!(before.iter().all(|(name, pem)| issued[name] == *pem), "kept as they were");
    assert!(edge.acme().iter().all(|it| it["failures"] == 0), "{}", edge.log());
    // An order whose answer was on its way when the process ended is not known to the next; one
    // that was invalid by then, as nobody answered for it, is begun anew.
    let orders = pebble.orders();
    assert!((COUNT..=COUNT + 2 * AT_ONCE).contains(&orders), "{orders} orders");
    names.iter().for_each(|name| edge.serves(name));

    issued.values().for_each(|pem| pebble.suggest_renewal(pem));
    edge.kill();
    edge.begin();
    edge.until(10, |it| it["issued"] == 1);
    edge.kill();
    edge.begin();
    // Those that were renewed before the end do not count again.
    let deadline = std::time::Instant::now() + Duration::from_secs(40);
    while held(&edge).iter().filter(|(name, pem)| issued[*name] != **pem).count() < COUNT {
        assert!(std::time::Instant::now() < deadline, "{}", edge.log());
        sleep(Duration::from_millis(50));
    }
    assert!(edge.acme().iter().all(|it| it["failures"] == 0), "{}", edge.log());
    names.iter().for_each(|name| edge.serves(name));
    assert!(pebble.log().contains("is a replacement of"), "replaced, not just added");
}

const COUNT: usize = 50;
/// As many as the edge asks for at a time.
const AT_ONCE: usize = 8;
