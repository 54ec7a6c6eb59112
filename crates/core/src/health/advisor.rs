//! What a check says to a server and wants to hear: a send/expect script, and the scripts of
//! protocols that are checked often. IBM's Network Dispatcher calls such checks advisors.
//!
//! ```text
//!        Send                    the answer is forgotten, bytes are to be sent
//! next -------> next
//!        Expect, Contains, Reply: found                the step is done
//!       ------------------------: not yet              listen for more
//!       ------------------------: it can never match   failed
//! ```
//! The answer is what came since the last `send`; a step that matches consumes it as far as it has
//! looked. A script that has no step left has passed.

use alloc::{string::String, vec, vec::Vec};
use core::fmt::{self, Write as _};

/// What is said and heard over one connection, or in datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// What carries it.
    pub transport: Transport,
    /// Steps in their order; at least one.
    pub steps: Vec<Step>,
}

/// What carries a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// A connection, with TLS where the service has it.
    #[default]
    Tcp,
    /// Datagrams. What was sent is not repeated: a lost one is a check that failed.
    Udp,
}

/// One step of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// These bytes are sent.
    Send(Vec<u8>),
    /// The answer begins with these.
    Expect(Pattern),
    /// These are somewhere in the answer.
    Contains(Pattern),
    /// A reply as in SMTP and FTP (RFC 959, section 4.2), of one line or many: `250-first`,
    /// `250 last`. The code on its last line begins with these bytes.
    Reply(Pattern),
}

/// Bytes of which some bits may not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Vec<Bits>);

/// The bits of a byte that matter, and how they have to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bits {
    value: u8,
    mask: u8,
}

/// Why text is no pattern of hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HexError {
    /// Neither a digit nor `?`.
    #[error("`{}` is no hexadecimal digit", .0.escape_debug())]
    Digit(char),
    /// A digit is missing at the end.
    #[error("the last byte has one digit")]
    Odd,
    /// There are no bytes.
    #[error("no bytes")]
    Empty,
}

/// Why a server did not pass: the step, counted from 1, and the beginning of what it answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("step {step}: expected {expected}, {}", said(heard))]
pub struct Mismatch {
    /// Which step.
    pub step: usize,
    /// The expected answer.
    pub expected: String,
    /// What the server had sent by then.
    pub heard: Vec<u8>,
}

/// A script on its way.
#[derive(Debug)]
pub struct Conversation<'s> {
    steps: &'s [Step],
    /// The step that comes next.
    next: usize,
    /// The answer, as far as no step has consumed it.
    heard: Vec<u8>,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckStep<'s> {
    /// Send these bytes.
    Say(&'s [u8]),
    /// Wait for more of the answer.
    Listen,
    /// The script is through.
    Passed,
    /// It will not get through.
    Failed(Mismatch),
}

/// What looking for a pattern gave.
enum Search {
    /// The pattern is found and ends here.
    Found(usize),
    /// More bytes may complete it.
    Open,
    /// No more bytes can.
    Never,
}

impl<'s> Conversation<'s> {
    /// A script from its first step.
    #[must_use]
    pub const fn new(script: &'s Script) -> Self {
        Self { steps: script.steps.as_slice(), next: 0, heard: Vec::new() }
    }

    /// What to do now. After [`CheckStep::Listen`] comes [`Conversation::hear`].
    #[must_use]
    pub fn turn(&mut self) -> CheckStep<'s> {
        while let Some(step) = self.steps.get(self.next) {
            if let Step::Send(bytes) = step {
                self.heard.clear();
                self.next += 1;
                return CheckStep::Say(bytes);
            }
            match step.search(&self.heard) {
                Search::Found(end) => {
                    self.heard.drain(..end);
                    self.next += 1;
                }
                Search::Open if self.heard.len() < ANSWER_MAX => return CheckStep::Listen,
                Search::Open | Search::Never => return CheckStep::Failed(self.mismatch()),
            }
        }
        CheckStep::Passed
    }

    /// Takes in what the server said.
    pub fn hear(&mut self, bytes: &[u8]) {
        self.heard.extend_from_slice(bytes);
    }

    /// What is missing if the server says no more.
    #[must_use]
    pub fn mismatch(&self) -> Mismatch {
        let expected = self.steps.get(self.next).map(Step::told).unwrap_or_default();
        let heard = self.heard.iter().copied().take(TOLD_MAX).collect();
        Mismatch { step: self.next + 1, expected, heard }
    }
}

impl Step {
    fn search(&self, answer: &[u8]) -> Search {
        match self {
            Self::Send(_) => Search::Found(0),
            Self::Expect(pattern) => pattern.at_start(answer),
            Self::Contains(pattern) => pattern.anywhere(answer),
            Self::Reply(code) => code.in_reply(answer),
        }
    }

    fn told(&self) -> String {
        let (what, pattern) = match self {
            Self::Send(_) => return String::new(),
            Self::Expect(pattern) => ("", pattern),
            Self::Contains(pattern) => ("somewhere ", pattern),
            Self::Reply(pattern) => ("the reply ", pattern),
        };
        let mut told = String::from(what);
        // Writing to memory does not fail.
        let _ = write!(told, "{pattern}");
        told
    }
}

impl Pattern {
    /// Bytes that have to be as they are, at least one.
    #[must_use]
    pub fn exact(bytes: &[u8]) -> Self {
        Self(bytes.iter().map(|&value| Bits { value, mask: 0xff }).collect())
    }

    /// Pairs of hexadecimal digits, in which `?` stands for any digit; spaces do not matter.
    ///
    /// # Errors
    /// [`HexError`] for anything else, and for no byte at all.
    pub fn from_hex(text: &str) -> Result<Self, HexError> {
        let digits: Vec<_> = text.chars().filter(|c| *c != ' ').collect();
        let nibble = |digit: char| match digit.to_digit(16) {
            _ if digit == '?' => Ok((0, 0)),
            Some(value) => u8::try_from(value).map(|value| (value, 0xf)).or(Ok((0, 0))),
            None => Err(HexError::Digit(digit)),
        };
        let mut bytes = Vec::with_capacity(digits.len() / 2);
        for pair in digits.chunks(2) {
            let &[high, low] = pair else { return Err(HexError::Odd) };
            let ((high, high_mask), (low, low_mask)) = (nibble(high)?, nibble(low)?);
            bytes.push(Bits { value: high << 4 | low, mask: high_mask << 4 | low_mask });
        }
        if bytes.is_empty() { Err(HexError::Empty) } else { Ok(Self(bytes)) }
    }

    /// The bytes, if every digit is given.
    #[must_use]
    pub fn bytes(&self) -> Option<Vec<u8>> {
        self.0.iter().map(|bits| (bits.mask == 0xff).then_some(bits.value)).collect()
    }

    fn at_start(&self, answer: &[u8]) -> Search {
        match self.matches(answer) {
            false => Search::Never,
            true if answer.len() < self.0.len() => Search::Open,
            true => Search::Found(self.0.len()),
        }
    }

    fn anywhere(&self, answer: &[u8]) -> Search {
        let found = answer.windows(self.0.len().max(1)).position(|window| self.matches(window));
        found.map_or(Search::Open, |start| Search::Found(start + self.0.len()))
    }

    fn in_reply(&self, answer: &[u8]) -> Search {
        let mut end = 0;
        for line in answer.split_inclusive(|&byte| byte == b'\n') {
            end += line.len();
            let is_last = line.len() > CODE && line.get(CODE) != Some(&b'-');
            let is_code = line.iter().take(CODE).all(u8::is_ascii_digit);
            match (line.ends_with(b"\n"), is_last && is_code) {
                (false, _) => break,
                (true, true) if self.matches(line) => return Search::Found(end),
                (true, true) => return Search::Never,
                (true, false) => {}
            }
        }
        Search::Open
    }

    /// Whether as many bytes as there are of both agree.
    fn matches(&self, bytes: &[u8]) -> bool {
        self.0.iter().zip(bytes).all(|(bits, byte)| byte & bits.mask == bits.value)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(bytes) = self.bytes().filter(|bytes| bytes.is_ascii()) {
            return write!(f, "\"{}\"", bytes.escape_ascii());
        }
        for Bits { value, mask } in &self.0 {
            for shift in [4, 0] {
                match mask >> shift & 0xf {
                    0 => f.write_str("?")?,
                    _ => write!(f, "{:x}", value >> shift & 0xf)?,
                }
            }
        }
        Ok(())
    }
}

fn said(heard: &[u8]) -> String {
    if heard.is_empty() {
        return String::from("heard nothing");
    }
    let mut text = String::new();
    // Writing to memory does not fail.
    let _ = write!(text, "heard \"{}\"", heard.escape_ascii());
    text
}

impl Script {
    /// SMTP (RFC 5321): greeted with 220, EHLO answered with 250.
    #[must_use]
    pub fn smtp() -> Self {
        Self::replies(&[(None, "220"), (Some("EHLO loadline.invalid\r\n"), "250"), BYE])
    }

    /// FTP (RFC 959): greeted with 220, which a server that is not ready delays (120).
    #[must_use]
    pub fn ftp() -> Self {
        Self::replies(&[(None, "220"), BYE])
    }

    /// LDAP (RFC 4511): an anonymous bind, answered with success.
    #[must_use]
    pub fn ldap() -> Self {
        // SEQUENCE { messageID 1, bindRequest { version 3, name "", simple "" } }
        let bind = b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\x00\x80\x00";
        // messageID 1, bindResponse of a length of one to five octets, resultCode success (0).
        let success = b"\x0a\x01\x00";
        let steps = vec![
            Step::Send(bind.to_vec()),
            Step::Expect(Pattern::exact(b"\x30")),
            Step::Contains(Pattern::exact(b"\x02\x01\x01\x61")),
            Step::Contains(Pattern::exact(success)),
        ];
        Self { transport: Transport::Tcp, steps }
    }

    /// DNS over UDP (RFC 1035): the name servers of the root are asked for, and answered with
    /// NOERROR, or with REFUSED by a server that has nothing to do with the root.
    #[must_use]
    pub fn dns() -> Self {
        // An identifier, recursion not desired, one question: ".", NS, IN.
        let ask = b"\x6c\x6c\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x01";
        // The same identifier and an answer (QR); the rest of the flags and the code are free but
        // for SERVFAIL (2), which is told apart by its bits: 0 and 5 have the second bit clear.
        let head = [(0x6c, 0xff), (0x6c, 0xff), (0x80, 0x80), (0x00, 0x02)];
        let head = head.map(|(value, mask)| Bits { value, mask }).to_vec();
        let steps = vec![Step::Send(ask.to_vec()), Step::Expect(Pattern(head))];
        Self { transport: Transport::Udp, steps }
    }

    /// Commands, each with the code it is answered with.
    fn replies(exchanges: &[(Option<&str>, &str)]) -> Self {
        let steps = exchanges.iter().flat_map(|(command, code)| {
            let send = command.map(|command| Step::Send(command.as_bytes().to_vec()));
            let reply = Step::Reply(Pattern::exact(code.as_bytes()));
            send.into_iter().chain([reply])
        });
        Self { transport: Transport::Tcp, steps: steps.collect() }
    }
}

/// A server that was checked is not left without a word.
const BYE: (Option<&str>, &str) = (Some("QUIT\r\n"), "221");

/// Digits of the code of a reply.
const CODE: usize = 3;

/// No answer that a check waits for is longer.
const ANSWER_MAX: usize = 16 << 10;

/// As much of an answer is told.
const TOLD_MAX: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;
    use proptest::prelude::*;

    /// Plays a script against a server that answers each message in turn, and first of all greets.
    fn play(script: &Script, answers: &[&[u8]]) -> (Vec<Vec<u8>>, CheckStep<'static>) {
        let mut conversation = Conversation::new(script);
        let (mut said, mut answers) = (Vec::new(), answers.iter());
        loop {
            match conversation.turn() {
                CheckStep::Say(bytes) => said.push(bytes.to_vec()),
                CheckStep::Passed => return (said, CheckStep::Passed),
                CheckStep::Failed(mismatch) => return (said, CheckStep::Failed(mismatch)),
                CheckStep::Listen => match answers.next() {
                    Some(answer) => conversation.hear(answer),
                    None => return (said, CheckStep::Listen),
                },
            }
        }
    }

    fn failure(script: &Script, answers: &[&[u8]]) -> String {
        match play(script, answers).1 {
            CheckStep::Failed(mismatch) => mismatch.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_mail_server_is_greeted_in_as_many_lines_as_it_likes() {
        let short: &[&[u8]] = &[b"220 mail ready\r\n", b"250 hello\r\n", b"221 bye\r\n"];
        let long: &[&[u8]] =
            &[b"220-mail\r\n22", b"0 ready\r\n", b"250-SIZE 1\r\n250 8BITMIME\r\n", b"221 bye\r\n"];
        for answers in [short, long] {
            let (said, end) = play(&Script::smtp(), answers);
            assert_eq!(said, [&b"EHLO loadline.invalid\r\n"[..], b"QUIT\r\n"]);
            assert_eq!(end, CheckStep::Passed);
        }
        assert_eq!(
            failure(&Script::smtp(), &[b"554 no service here\r\n"]),
            "step 1: expected the reply \"220\", heard \"554 no service here\\r\\n\""
        );
        let second = failure(&Script::smtp(), &[b"220 mail\r\n", b"421 busy\r\n"]);
        assert!(second.starts_with("step 3: expected the reply \"250\""), "{second}");
    }

    #[test]
    fn a_directory_answers_a_bind_in_either_form_of_length() {
        let openldap = b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x00\x04\x00\x04\x00";
        let active = b"\x30\x84\0\0\0\x10\x02\x01\x01\x61\x84\0\0\0\x07\x0a\x01\x00\x04\0\x04\0";
        assert_eq!(play(&Script::ldap(), &[openldap]).1, CheckStep::Passed);
        assert_eq!(play(&Script::ldap(), &[active]).1, CheckStep::Passed);
        let busy = b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x33\x04\x00\x04\x00";
        assert_eq!(play(&Script::ldap(), &[busy]).1, CheckStep::Listen, "no success in it");
    }

    #[test]
    fn a_name_server_may_refuse_the_root_but_not_fail() {
        for (flags, passes) in [(b"\x84\x00", true), (b"\x80\x05", true), (b"\x80\x02", false)] {
            let answer = [b"\x6c\x6c", &flags[..], &[0; 8]].concat();
            let end = play(&Script::dns(), &[&answer]).1;
            assert_eq!(end == CheckStep::Passed, passes, "{flags:?}");
        }
        assert!(matches!(play(&Script::dns(), &[b"\x6c\x6d\x84\x00"]).1, CheckStep::Failed(_)));
    }

    #[test]
    fn digits_of_a_pattern_may_be_left_open() {
        let pattern = Pattern::from_hex("0a ?1 f?").unwrap();
        assert_eq!(pattern.to_string(), "0a?1f?");
        assert!(matches!(pattern.at_start(b"\x0a\x71\xf3rest"), Search::Found(3)));
        assert!(matches!(pattern.at_start(b"\x0a\x72"), Search::Never));
        assert!(matches!(pattern.at_start(b"\x0a"), Search::Open));
        assert_eq!(Pattern::from_hex("0g"), Err(HexError::Digit('g')));
        assert_eq!(Pattern::from_hex("0a1"), Err(HexError::Odd));
        assert_eq!(Pattern::from_hex(" "), Err(HexError::Empty));
    }

    proptest! {
        #[test]
        fn it_does_not_matter_in_what_pieces_an_answer_comes(
            answer in prop::collection::vec(prop_oneof![
                Just(b"220 a\r\n".to_vec()), Just(b"250-x\r\n".to_vec()),
                Just(b"250 y\r\n".to_vec()), Just(b"9".to_vec()),
            ], 0..6),
            cut in 0usize..40,
        ) {
            let reply = Script::replies(&[(None, "220"), (None, "250")]);
            let whole = answer.concat();
            let cut = cut.min(whole.len());
            let at_once = play(&reply, &[&whole]).1;
            let in_two = play(&reply, &[&whole[..cut], &whole[cut..]]).1;
            prop_assert_eq!(
                matches!(at_once, CheckStep::Passed), matches!(in_two, CheckStep::Passed)
            );
        }
    }
}
