//! The dashboard: it is renewed by itself, every control can be reached by the keyboard, and it
//! fits a phone, in light and in the dark.

use serde_json::json;

use crate::{
    edge::Edge,
    page::{DESK, PHONE},
};

#[test]
fn figures_change_by_themselves_until_somebody_pauses() {
    let edge = Edge::start();
    let mut page = edge.dashboard(DESK);
    page.until("document.querySelector('.said').textContent.includes('0/s come in')");
    page.until("document.querySelector('.mark') !== null");

    let _load = edge.load();
    page.until("/\\d+\\/s come in: all to here/.test(document.querySelector('.said').textContent)");
    page.until("document.querySelector('polyline').getAttribute('points').split(' ').length > 1");

    page.run("document.getElementById('pause').click()");
    let seen = page.run("document.querySelector('header').textContent");
    page.until("document.getElementById('pause').textContent === 'Go on'");
    page.run("new Promise(done => events.addEventListener('message', () => done(1)))");
    assert_eq!(page.run("document.querySelector('header').textContent"), seen);
    page.run("document.getElementById('pause').click()");
    page.until(&format!("document.querySelector('header').textContent !== {seen}"));

    drop(edge);
    page.until("!document.getElementById('stale').hidden");
}

#[test]
fn figures_of_an_edge_that_hangs_are_told_to_be_old() {
    let edge = Edge::start();
    let mut page = edge.dashboard(DESK);
    page.until("document.readyState === 'complete' && document.getElementById('stale').hidden");
    edge.signal("STOP");
    page.until("!document.getElementById('stale').hidden");
    edge.signal("CONT");
    page.until("document.getElementById('stale').hidden");
}

#[test]
fn a_tab_that_nobody_sees_leaves_its_connection_to_others_and_takes_it_again() {
    let edge = Edge::start();
    let mut page = edge.dashboard(DESK);
    page.until("events.readyState === EventSource.OPEN");
    let changed = "document.dispatchEvent(new Event('visibilitychange'))";
    let hide = "Object.defineProperty(document, 'hidden', { value: true, configurable: true })";
    page.run(&format!("{hide}, {changed}"));
    // A connection that is silent for long is made anew, but not this one.
    page.run("heard = 0, new Promise(done => setTimeout(() => done(1), 2500))");
    assert_eq!(page.run("events.readyState === EventSource.CLOSED"), json!(true));
    page.run(&format!("delete document.hidden, {changed}"));
    page.run("new Promise(done => events.addEventListener('message', () => done(1)))");
    assert_eq!(page.run("document.getElementById('stale').hidden"), json!(true));
}

#[test]
fn the_keyboard_reaches_every_control_and_keeps_its_place() {
    let edge = Edge::start();
    let mut page = edge.dashboard(DESK);
    page.until("document.readyState === 'complete'");
    let mut reached = Vec::new();
    for _ in 0..3 {
        page.press("Tab", 9);
        reached.push(page.run("document.activeElement.id || document.activeElement.tagName"));
    }
    assert_eq!(reached, ["pause", "to-web", "SUMMARY"]);
    page.press("Enter", 13);
    page.until("document.querySelector('details').open");
    // The next news must neither close it nor take the focus away.
    page.run("new Promise(done => events.addEventListener('message', () => done(1)))");
    assert_eq!(page.run("document.querySelector('details').open"), json!(true));
    assert_eq!(page.run("document.activeElement.tagName"), json!("SUMMARY"));
}

#[test]
fn it_fits_a_phone_and_the_dark() {
    let edge = Edge::start();
    let mut page = edge.dashboard(PHONE);
    page.until("document.querySelector('summary') !== null");
    page.run("document.querySelector('summary').click()");
    page.until("document.querySelector('details').open");
    let width = "document.documentElement.scrollWidth <= window.innerWidth";
    assert_eq!(page.run(width), json!(true), "it scrolls to the side");

    let long = "document.querySelectorAll('h2, nav a, .name strong, .said').forEach( \
                element => element.textContent = 'x'.repeat(300)), \
                document.documentElement.scrollWidth <= document.documentElement.clientWidth";
    assert_eq!(page.run(long), json!(true), "long names are broken");

    let brightness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3) \
                      .reduce((sum, part) => sum + Number(part), 0)";
    page.prefer("light");
    page.until(&format!("{brightness} > 600"));
    page.prefer("dark");
    page.until(&format!("{brightness} < 150"));
}

#[test]
fn on_paper_the_bars_have_their_colours_and_there_are_no_controls() {
    let edge = Edge::start();
    let mut page = edge.dashboard(DESK);
    page.print();
    page.until("getComputedStyle(document.querySelector('.controls')).display === 'none'");
    let bar = "getComputedStyle(document.querySelector('.bar .own')).webkitPrintColorAdjust";
    assert_eq!(page.run(bar), json!("exact"));
}
