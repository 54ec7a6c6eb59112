//! The order of a wait queue, and that whoever ought to ask does.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

const NOW: Instant = Instant::ZERO;

/// Places are numbers, wakers are the places of whoever they wake.
type Queue = WaitQueue<u32, u32>;

fn places(queue: &mut Queue) -> Vec<u32> {
    let mut places = Vec::new();
    while let Some(first) = queue.first() {
        places.extend(queue.leave(first).map(|left| left.place));
    }
    places
}

fn woken(left: Option<Left<u32, u32>>) -> Vec<u32> {
    left.into_iter().flat_map(|left| left.wakers).flatten().collect()
}

#[test]
fn higher_classes_go_first_and_equals_in_the_order_they_came() {
    let mut queue = Queue::default();
    for (class, name) in [(Class::Low, 1), (Class::Normal, 2), (Class::High, 3)] {
        queue.join(class, name);
        queue.join(class, name + 10);
    }
    assert_eq!(places(&mut queue), [3, 13, 2, 12, 1, 11]);
}

#[test]
fn the_oldest_of_the_lowest_class_gives_way_to_a_higher_one_alone() {
    let mut queue = Queue::default();
    queue.join(Class::Normal, 1);
    queue.join(Class::Low, 2);
    queue.join(Class::Low, 3);
    let mut displaced = |newcomer| queue.displace(newcomer).map(|left| left.place);
    assert_eq!(displaced(Class::Low), None);
    assert_eq!(displaced(Class::Normal), Some(2));
    assert_eq!(displaced(Class::High), Some(3));
    assert_eq!(displaced(Class::High), Some(1));
    assert_eq!(displaced(Class::High), None);
}

#[test]
fn whoever_is_displaced_is_told_and_has_no_place_any_more() {
    let mut queue = Queue::default();
    let position = queue.join(Class::Low, 1);
    assert_eq!(queue.poll(position, NOW, 1), Next::Pick);
    assert_eq!(queue.poll(position, NOW, 1), Next::Wait(Some(NOW + RECHECK)));
    assert_eq!(woken(queue.displace(Class::High)), [1]);
    assert_eq!(queue.poll(position, NOW, 1), Next::Displaced);
    assert!(queue.leave(position).is_none());
}

#[test]
fn the_first_asks_once_until_something_changes_or_it_is_time() {
    let mut queue = Queue::default();
    let (first, second) = (queue.join(Class::Normal, 1), queue.join(Class::Normal, 2));
    assert_eq!(queue.poll(second, NOW, 2), Next::Wait(None), "it is woken when it is the first");
    assert_eq!(queue.poll(first, NOW, 1), Next::Pick);
    assert_eq!(queue.notify(), None, "it is about to poll again");
    assert_eq!(queue.poll(first, NOW, 1), Next::Pick, "something has changed while it asked");
    queue.no_room(first, Some(NOW + RECHECK / 2));
    queue.no_room(second, Some(NOW));
    assert_eq!(queue.poll(first, NOW, 1), Next::Wait(Some(NOW + RECHECK / 2)));
    assert_eq!(queue.poll(first, NOW + RECHECK / 2, 1), Next::Pick, "the plan named this instant");
    queue.no_room(first, Some(NOW + RECHECK * 9));
    let again = NOW + RECHECK / 2 + RECHECK;
    assert_eq!(queue.poll(first, NOW + RECHECK, 1), Next::Wait(Some(again)));
    assert_eq!(queue.notify(), Some(1));
    assert_eq!(queue.notify(), None, "it is woken once");
    assert_eq!(queue.poll(first, NOW + RECHECK, 1), Next::Pick);
    assert_eq!(woken(queue.leave(first)), [2]);
    assert_eq!(queue.poll(second, NOW + RECHECK, 2), Next::Pick);
}

#[test]
fn a_first_that_was_overtaken_waits_until_it_is_the_first_again() {
    let mut queue = Queue::default();
    let low = queue.join(Class::Low, 1);
    assert_eq!(queue.poll(low, NOW, 1), Next::Pick);
    let high = queue.join(Class::High, 2);
    assert_eq!(queue.poll(low, NOW, 1), Next::Wait(None));
    assert_eq!(queue.poll(high, NOW, 2), Next::Pick);
    assert_eq!(woken(queue.leave(high)), [1]);
    assert_eq!(queue.poll(low, NOW, 1), Next::Pick);
}

#[derive(Clone, Debug)]
enum Operation {
    Join(usize),
    /// A newcomer takes the place of somebody of a lower class, or does not come.
    Displace(usize),
    Leave(usize),
    /// Somebody that was told, or whose time has come, polls.
    Run(usize),
    NoRoom(Option<u64>),
    Notify,
    Pass(u64),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (0usize..3).prop_map(Operation::Join),
        1 => (0usize..3).prop_map(Operation::Displace),
        2 => any::<usize>().prop_map(Operation::Leave),
        8 => any::<usize>().prop_map(Operation::Run),
        2 => prop::option::of(0u64..60).prop_map(Operation::NoRoom),
        3 => Just(Operation::Notify),
        2 => (0u64..30).prop_map(Operation::Pass),
    ]
}

/// A waiter as whoever drives it sees it. Its number is that of its place.
#[derive(Debug)]
struct Driven {
    number: u32,
    class: usize,
    position: Position,
    /// It was told to poll, or has not yet.
    runs: bool,
    /// It polls then in any case.
    timer: Option<Instant>,
    displaced: bool,
}

#[derive(Debug, Default)]
struct Model {
    queue: Queue,
    now: Instant,
    waiters: Vec<Driven>,
    places: u32,
    given_back: Vec<u32>,
    /// Who asked last and when, and whether something has changed since.
    asked: Option<(u32, Instant)>,
    changed: bool,
}

impl Model {
    fn operate(&mut self, operation: &Operation) {
        let at = |index: usize| (!self.waiters.is_empty()).then(|| index % self.waiters.len());
        match *operation {
            Operation::Join(class) => {
                self.places += 1;
                self.join(class, self.places);
            }
            Operation::Displace(class) => self.displace(class),
            Operation::Leave(index) => at(index).into_iter().for_each(|at| self.leave(at)),
            Operation::Run(index) => at(index).into_iter().for_each(|at| self.run(at)),
            Operation::NoRoom(millis) => self.no_room(millis),
            Operation::Notify => {
                self.changed = true;
                let waker = self.queue.notify();
                self.wake(waker);
            }
            Operation::Pass(millis) => self.now = self.now + Duration::from_millis(millis),
        }
    }

    fn join(&mut self, class: usize, number: u32) {
        let position = self.queue.join(Class::ALL[class], number);
        let (runs, timer, displaced) = (true, None, false);
        self.waiters.push(Driven { number, class, position, runs, timer, displaced });
    }

    fn displace(&mut self, class: usize) {
        let lowest = self.there().map(|it| it.class).max();
        let expected = lowest.filter(|lowest| *lowest > class).and_then(|lowest| {
            self.there().filter(|it| it.class == lowest).map(|it| it.number).min()
        });
        let left = self.queue.displace(Class::ALL[class]);
        assert_eq!(left.as_ref().map(|left| left.place), expected);
        let Some(left) = left else { return };
        let displaced = self.waiters.iter_mut().find(|it| it.number == left.place).unwrap();
        displaced.displaced = true;
        self.wake(left.wakers.into_iter().flatten());
        // The newcomer has the place now, under a number of its own.
        self.given_back.push(left.place);
        self.places += 1;
        self.join(class, self.places);
    }

    fn leave(&mut self, at: usize) {
        let leaver = self.waiters.remove(at);
        let left = self.queue.leave(leaver.position);
        assert_eq!(left.is_none(), leaver.displaced);
        let Some(left) = left else { return };
        self.given_back.push(left.place);
        self.wake(left.wakers.into_iter().flatten());
    }

    fn run(&mut self, at: usize) {
        let (now, first) = (self.now, self.first());
        let waiter = &mut self.waiters[at];
        if !waiter.runs && waiter.timer.is_none_or(|timer| now < timer) {
            return;
        }
        (waiter.runs, waiter.timer) = (false, None);
        let next = self.queue.poll(waiter.position, now, waiter.number);
        assert_eq!(next == Next::Displaced, waiter.displaced);
        match next {
            Next::Pick => {
                assert_eq!(first, Some(waiter.number), "only the first asks");
                waiter.runs = true;
                (self.asked, self.changed) = (Some((waiter.number, now)), false);
            }
            Next::Wait(until) => waiter.timer = until,
            Next::Displaced => waiter.runs = true,
        }
    }

    fn no_room(&mut self, millis: Option<u64>) {
        let until = millis.map(|millis| self.now + Duration::from_millis(millis));
        let asker = self.asked.map(|(number, _)| number);
        if let Some(asker) = self.waiters.iter().find(|it| Some(it.number) == asker && it.runs) {
            self.queue.no_room(asker.position, until);
        }
    }

    fn wake(&mut self, wakers: impl IntoIterator<Item = u32>) {
        for woken in wakers {
            let waiter = self.waiters.iter_mut().find(|it| it.number == woken);
            waiter.expect("nobody is woken that is gone").runs = true;
        }
    }

    fn there(&self) -> impl Iterator<Item = &Driven> {
        self.waiters.iter().filter(|it| !it.displaced)
    }

    fn first(&self) -> Option<u32> {
        self.there().min_by_key(|it| (it.class, it.number)).map(|it| it.number)
    }

    fn check(&self) {
        let told = |it: &Driven| it.runs;
        assert!(self.waiters.iter().filter(|it| it.displaced).all(told), "who lost its place runs");
        let Some(first) = self.there().find(|it| Some(it.number) == self.first()) else { return };
        let asked = self.asked.filter(|(number, _)| *number == first.number && !self.changed);
        match asked {
            None => assert!(first.runs, "the first has a reason to ask, and is not told"),
            Some((_, at)) => assert!(
                first.runs || first.timer.is_some_and(|timer| timer <= at + RECHECK),
                "the first does not ask again in time"
            ),
        }
    }

    fn end(mut self) {
        while !self.waiters.is_empty() {
            self.leave(0);
            self.check();
        }
        self.given_back.sort_unstable();
        assert_eq!(self.given_back, (1..=self.places).collect::<Vec<u32>>());
        assert_eq!(self.queue.first(), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_order_of_operations_loses_a_wake_or_a_place(
        operations in prop::collection::vec(operation(), 1..200),
    ) {
        let mut model = Model::default();
        for operation in &operations {
            model.operate(operation);
            model.check();
        }
        model.end();
    }

    #[test]
    fn nobody_gives_way_to_an_equal_or_lower_class(
        classes in prop::collection::vec(0usize..3, 1..40),
        newcomer in 0usize..3,
    ) {
        let mut queue = Queue::default();
        for (class, number) in classes.iter().zip(0..) {
            queue.join(Class::ALL[*class], number);
        }
        let lowest = classes.iter().max().copied().filter(|lowest| *lowest > newcomer);
        let displaced = queue.displace(Class::ALL[newcomer]).map(|left| left.place);
        prop_assert_eq!(displaced.map(|number| classes[number as usize]), lowest);
    }
}
