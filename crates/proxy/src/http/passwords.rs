//! Checks passwords of basic authentication on threads of their own: a check is slow by design.
//!
//! ```text
//! request --known lately? yes--> goes on              (one hash of SHA-256, on the worker)
//!            | no
//!            v
//!         queue (bounded) --> threads --> right: remembered, and all that wait for it go on
//!                                         wrong: refused, and not remembered
//! ```
//! What is remembered is a keyed hash of user, password and the hash it has to have, so that memory
//! holds no password and another hash in the file is another question. Requests that ask the same
//! at the same time have one check, and none once all of them have gone. Where the queue is full
//! the rest is told to come again: guesses cost their turns, not those of users who are known.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet, VecDeque},
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
};

use aws_lc_rs::{
    hmac::{HMAC_SHA256, Key, sign},
    rand,
};
use loadline_core::rules::{HashScheme, PasswordCheck};
use sha_crypt::{PasswordVerifier as _, ShaCrypt};
use tokio::sync::oneshot;

/// A keyed hash of a question, under which its answer is remembered.
type Question = [u8; 16];

/// A password that somebody has shown, and what it has to have.
pub(crate) struct Shown {
    pub(crate) check: PasswordCheck,
    pub(crate) user: Vec<u8>,
    pub(crate) password: Vec<u8>,
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shown").field("check", &self.check).finish_non_exhaustive()
    }
}

/// It cannot be checked now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Busy;

/// The checks of all workers.
#[derive(Debug, Default)]
pub(crate) struct Passwords {
    secret: OnceLock<Key>,
    checker: Arc<Checker>,
}

/// What workers and threads share.
#[derive(Debug, Default)]
struct Checker {
    checks: Mutex<Checks>,
    /// There is a check in the queue, or there will never be another.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Checks {
    queue: VecDeque<(Question, Shown)>,
    /// Who waits for what is in the queue or being computed.
    waiting: HashMap<Question, Vec<oneshot::Sender<bool>>>,
    right: Recent,
    threads: usize,
    is_over: bool,
}

/// Questions whose answer was yes, the latest ones.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    known: HashSet<Question>,
    order: VecDeque<Question>,
}

impl Passwords {
    /// Whether the password is right. `own` is what the worker remembers of others.
    ///
    /// # Errors
    /// [`Busy`] if too many wait, or if no thread can be started.
    pub(crate) async fn check(&self, shown: Shown, own: &RefCell<Recent>) -> Result<bool, Busy> {
        let question = self.question(&shown)?;
        if own.borrow().has(&question) {
            return Ok(true);
        }
        let is_right = match self.checker.ask(question, shown)? {
            None => true,
            // Nobody answers where everything ends.
            Some(answer) => answer.await.unwrap_or(false),
        };
        if is_right {
            own.borrow_mut().add(question);
        }
        Ok(is_right)
    }

    fn question(&self, shown: &Shown) -> Result<Question, Busy> {
        if self.secret.get().is_none() {
            let mut bytes = [0; 32];
            rand::fill(&mut bytes).map_err(|_| Busy)?;
            // Whoever was first is as good.
            let _ = self.secret.set(Key::new(HMAC_SHA256, &bytes));
        }
        let secret = self.secret.get().ok_or(Busy)?;
        let Shown { check, user, password } = shown;
        let mut text = Vec::with_capacity(128);
        // Neither hash nor user has a zero in it, so that no two questions are the same text.
        text.extend_from_slice(check.hash.as_str().as_bytes());
        text.extend_from_slice(&[0, u8::from(check.is_known)]);
        text.extend_from_slice(user);
        text.push(0);
        text.extend_from_slice(password);
        let mut question = [0; 16];
        question.copy_from_slice(&sign(secret, &text).as_ref()[..16]);
        Ok(question)
    }
}

impl Drop for Passwords {
    fn drop(&mut self) {
        self.checker.lock().is_over = true;
        self.checker.changed.notify_all();
    }
}

impl Checker {
    fn lock(&self) -> MutexGuard<'_, Checks> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has something checked; none where it is known to be right.
    fn ask(
        self: &Arc<Self>,
        question: Question,
        shown: Shown,
    ) -> Result<Option<oneshot::Receiver<bool>>, Busy> {
        let mut checks = self.lock();
        if checks.right.has(&question) {
            return Ok(None);
        }
        let (sender, receiver) = oneshot::channel();
        if let Some(waiting) = checks.waiting.get_mut(&question) {
            waiting.push(sender);
            return Ok(Some(receiver));
        }
        if checks.queue.len() >= QUEUE_MAX {
            checks.forget_gone();
        }
        if checks.queue.len() >= QUEUE_MAX {
            return Err(Busy);
        }
        if checks.threads < threads_max() {
            let checker = self.clone();
            let thread = thread::Builder::new().name("passwords".into());
            let started = thread.spawn(move || checker.work());
            checks.threads += usize::from(started.is_ok());
        }
        if checks.threads == 0 {
            return Err(Busy);
        }
        checks.queue.push_back((question, shown));
        checks.waiting.insert(question, vec![sender]);
        self.changed.notify_one();
        Ok(Some(receiver))
    }

    /// Checks one after another until there will be no more.
    fn work(&self) {
        let mut checks = self.lock();
        while !checks.is_over {
            checks.forget_gone();
            let Some((question, shown)) = checks.queue.pop_front() else {
                checks = self.changed.wait(checks).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(checks);
            // What a library makes of a hash is no reason to end the thread.
            let is_right = catch_unwind(AssertUnwindSafe(|| is_right(&shown))).unwrap_or(false);
            checks = self.lock();
            if is_right {
                checks.right.add(question);
            }
            let waiting = checks.waiting.remove(&question).unwrap_or_default();
            for sender in waiting {
                // Whoever has gone waits no more.
                let _ = sender.send(is_right);
            }
        }
    }
}

impl Checks {
    /// Takes out of the queue what nobody waits for any more.
    fn forget_gone(&mut self) {
        let Self { queue, waiting, .. } = self;
        queue.retain(|(question, _)| {
            let senders = waiting.get(question).map_or(&[][..], Vec::as_slice);
            let is_awaited = senders.iter().any(|sender| !sender.is_closed());
            if !is_awaited {
                waiting.remove(question);
            }
            is_awaited
        });
    }
}

impl Recent {
    fn has(&self, question: &Question) -> bool {
        self.known.contains(question)
    }

    fn add(&mut self, question: Question) {
        if !self.known.insert(question) {
            return;
        }
        self.order.push_back(question);
        if self.order.len() > RECENT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

/// The slow part. The hash is computed for names that nobody has, too.
fn is_right(shown: &Shown) -> bool {
    let hash = shown.check.hash.as_str();
    let matches = match shown.check.hash.scheme() {
        HashScheme::Bcrypt => bcrypt::verify(&shown.password, hash).unwrap_or(false),
        HashScheme::ShaCrypt => ShaCrypt::default().verify_password(&shown.password, hash).is_ok(),
    };
    matches && shown.check.is_known
}

/// Half of the processors at most: the others serve who is known.
fn threads_max() -> usize {
    static MAX: OnceLock<usize> = OnceLock::new();
    *MAX.get_or_init(|| {
        thread::available_parallelism().map_or(1, |all| (all.get() / 2).clamp(1, 8))
    })
}

/// Checks that wait: at 50 ms each, as of bcrypt at a cost of 10, the last waits three seconds for
/// one thread; each further step of the cost doubles that.
const QUEUE_MAX: usize = 64;

/// Users whose password is remembered as right, of 48 bytes each.
const RECENT_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use loadline_core::rules::PasswordHash;

    use super::*;

    fn shown(password: &str, is_known: bool) -> Shown {
        let hash = bcrypt::hash_with_result("open sesame", 4).unwrap();
        let hash = PasswordHash::parse(&hash.format_for_version(bcrypt::Version::TwoY)).unwrap();
        let check = PasswordCheck { hash, is_known };
        Shown { check, user: b"ali".to_vec(), password: password.as_bytes().to_vec() }
    }

    #[tokio::test]
    async fn a_password_is_right_by_bcrypt_and_by_both_kinds_of_sha_crypt() {
        let passwords = Passwords::default();
        let own = RefCell::default();
        for (hash, password) in [
            ("$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5", "Hello world!"),
            (
                "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFd\
                 cbYEdFCoEOfaS35inz1",
                "Hello world!",
            ),
        ] {
            let check = PasswordCheck { hash: PasswordHash::parse(hash).unwrap(), is_known: true };
            let shown = |password: &str| Shown {
                check: check.clone(),
                user: b"x".to_vec(),
                password: password.as_bytes().to_vec(),
            };
            assert_eq!(passwords.check(shown(password), &own).await, Ok(true), "{hash}");
            assert_eq!(passwords.check(shown("hello world!"), &own).await, Ok(false), "{hash}");
        }
        assert_eq!(passwords.check(shown("open sesame", true), &own).await, Ok(true));
        assert_eq!(passwords.check(shown("open", true), &own).await, Ok(false));
    }

    #[tokio::test]
    async fn nobody_gets_in_by_a_name_that_nobody_has_though_the_password_is_somebodys() {
        let passwords = Passwords::default();
        let own = RefCell::default();
        let (known, unknown) = (shown("open sesame", true), shown("open sesame", false));
        let unknown = Shown {
            check: PasswordCheck { hash: known.check.hash.clone(), ..unknown.check },
            ..unknown
        };
        assert_eq!(passwords.check(known, &own).await, Ok(true));
        assert_eq!(passwords.check(unknown, &own).await, Ok(false));
    }

    #[tokio::test]
    async fn guesses_fill_the_queue_and_those_who_are_known_still_come_in() {
        let passwords = Passwords::default();
        let own = RefCell::default();
        let known = || shown("open sesame", true);
        let first = known();
        let again = || Shown {
            check: first.check.clone(),
            user: first.user.clone(),
            password: first.password.clone(),
        };
        assert_eq!(passwords.check(again(), &own).await, Ok(true));
        // Nobody works any more, so that the queue fills.
        passwords.checker.lock().is_over = true;
        let asked: Vec<_> = (0..QUEUE_MAX + 10).map(|guess| ask(&passwords, guess)).collect();
        assert_eq!(asked.iter().filter(|answer| answer.is_err()).count(), 10);
        let elsewhere = RefCell::default();
        assert_eq!(passwords.check(again(), &elsewhere).await, Ok(true));
    }

    #[test]
    fn guesses_of_clients_that_have_gone_are_not_checked_and_take_nobodys_place() {
        let passwords = Passwords::default();
        // Nobody works, so that the queue is as it was filled.
        passwords.checker.lock().is_over = true;
        let mut asked: Vec<_> = (0..QUEUE_MAX).map(|guess| ask(&passwords, guess)).collect();
        let stays = asked.pop();
        // Two ask the same, and one of them stays.
        let same = ask(&passwords, 0);
        drop(asked);
        assert!(ask(&passwords, QUEUE_MAX).is_ok(), "there is room");
        let left = || {
            let mut checks = passwords.checker.lock();
            checks.forget_gone();
            (checks.queue.len(), checks.waiting.len())
        };
        assert_eq!(left(), (2, 2));
        drop((stays, same));
        assert_eq!(left(), (0, 0));
    }

    /// Asks for a guess of its own.
    fn ask(passwords: &Passwords, guess: usize) -> Result<Option<oneshot::Receiver<bool>>, Busy> {
        let question = [u8::try_from(guess).unwrap(); 16];
        passwords.checker.ask(question, shown("x", true))
    }

    #[test]
    fn what_is_remembered_has_an_end() {
        let mut recent = Recent::default();
        let question = |n: usize| {
            let mut question = [0; 16];
            question[..8].copy_from_slice(&n.to_be_bytes());
            question
        };
        (0..RECENT_MAX + 3).for_each(|n| recent.add(question(n)));
        assert_eq!((recent.known.len(), recent.order.len()), (RECENT_MAX, RECENT_MAX));
        assert!(!recent.has(&question(2)) && recent.has(&question(3)));
    }
}
