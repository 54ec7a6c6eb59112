//! What whoever watches wants to see: order, filter, pause, place; and what keys change of it.

use loadline_core::state::{Service, State};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::commands::chain;

/// The state, and how it is looked at.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) state: State,
    /// Why the last look failed.
    pub(super) failure: Option<String>,
    pub(super) order: Order,
    pub(super) filter: String,
    /// Keys go into the filter.
    pub(super) is_typing: bool,
    pub(super) shows_servers: bool,
    pub(super) shows_help: bool,
    /// Lines above the first that is seen.
    pub(super) scroll: usize,
    paused: bool,
}

/// In which order services are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// As in the file.
    File,
    /// The one nearest to its load line first.
    Fullness,
    /// The busiest first.
    Rate,
    /// The one with the most failures first.
    Errors,
}

/// What becomes of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    GoOn,
    Quit,
}

impl Order {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Fullness => "fullness",
            Self::Rate => "rate",
            Self::Errors => "errors",
        }
    }

    const fn next(self) -> Self {
        match self {
            Self::File => Self::Fullness,
            Self::Fullness => Self::Rate,
            Self::Rate => Self::Errors,
            Self::Errors => Self::File,
        }
    }

    /// What services are ordered by, the largest first.
    fn key(self, service: &Service) -> f64 {
        match self {
            Self::File => 0.0,
            Self::Fullness => {
                service.groups.iter().filter_map(|group| group.fullness).fold(0.0, f64::max)
            }
            Self::Rate => service.rates.requests_per_s,
            Self::Errors => service.rates.errors_per_s,
        }
    }
}

impl Watcher {
    pub(super) fn new(state: State) -> Self {
        Self {
            state,
            failure: None,
            order: Order::File,
            filter: String::new(),
            is_typing: false,
            shows_servers: true,
            shows_help: false,
            scroll: 0,
            paused: false,
        }
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.paused
    }

    /// Takes a look in; the last good one stays while there is none.
    pub(super) fn take(&mut self, look: anyhow::Result<State>) {
        match look {
            Ok(state) => (self.state, self.failure) = (state, None),
            Err(error) => self.failure = Some(chain(&error)),
        }
    }

    /// The services that are wanted, in the order that is wanted.
    pub(super) fn services(&self) -> Vec<&Service> {
        let wanted = self.filter.to_lowercase();
        let is_wanted = |service: &&Service| {
            let groups = service.groups.iter().map(|group| &group.name);
            std::iter::once(&service.name)
                .chain(groups)
                .any(|name| name.to_lowercase().contains(&wanted))
        };
        let mut services: Vec<&Service> = self.state.services.iter().filter(is_wanted).collect();
        services.sort_by(|a, b| self.order.key(b).total_cmp(&self.order.key(a)));
        services
    }

    /// Does what a key is for.
    pub(super) fn press(&mut self, key: KeyEvent) -> Next {
        if let (true, KeyCode::Char(letter)) =
            (key.modifiers.contains(KeyModifiers::CONTROL), key.code)
        {
            return self.press_control(letter);
        }
        if self.is_typing {
            self.type_in(key.code);
            return Next::GoOn;
        }
        if self.shows_help {
            self.shows_help = false;
            return Next::GoOn;
        }
        match key.code {
            KeyCode::Char('q') => return Next::Quit,
            KeyCode::Esc if self.filter.is_empty() => return Next::Quit,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char(' ' | 'p') => self.paused = !self.paused,
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('v') => self.shows_servers = !self.shows_servers,
            KeyCode::Char('?' | 'h') => self.shows_help = true,
            KeyCode::Down | KeyCode::Char('j') => self.scroll += 1,
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll += PAGE,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(PAGE),
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
        Next::GoOn
    }

    /// Does what a letter with Control is for: nothing, for most.
    fn press_control(&mut self, letter: char) -> Next {
        let filter = &mut self.filter;
        match letter {
            'c' => return Next::Quit,
            'u' if self.is_typing => filter.clear(),
            'w' if self.is_typing => {
                filter.truncate(filter.trim_end().rfind(' ').map_or(0, |space| space + 1));
            }
            // What some terminals send for Backspace.
            'h' if self.is_typing => drop(filter.pop()),
            _ => return Next::GoOn,
        }
        self.scroll = 0;
        Next::GoOn
    }

    fn type_in(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.scroll = 0;
    }
}

/// Lines that a page moves the view by.
const PAGE: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn watcher() -> Watcher {
        let named = |name: &str, rate: f64| {
            let mut service = Service { name: name.to_owned(), ..Service::default() };
            service.rates.requests_per_s = rate;
            service
        };
        let services = vec![named("web", 10.0), named("api", 30.0), named("files", 20.0)];
        Watcher::new(State { services, ..State::default() })
    }

    fn names(watcher: &Watcher) -> Vec<&str> {
        watcher.services().into_iter().map(|service| service.name.as_str()).collect()
    }

    fn press(watcher: &mut Watcher, keys: &str) -> Next {
        let press = |key| watcher.press(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE));
        keys.chars().map(press).last().unwrap()
    }

    #[test]
    fn s_goes_through_the_orders() {
        let mut watcher = watcher();
        assert_eq!(names(&watcher), ["web", "api", "files"]);
        press(&mut watcher, "ss");
        assert_eq!(names(&watcher), ["api", "files", "web"]);
        press(&mut watcher, "ss");
        assert_eq!(names(&watcher), ["web", "api", "files"]);
    }

    #[test]
    fn a_filter_is_typed_and_taken_back() {
        let mut watcher = watcher();
        press(&mut watcher, "/Eq");
        assert_eq!(names(&watcher), [""; 0], "q is a letter while typing");
        watcher.press(KeyCode::Backspace.into());
        watcher.press(KeyCode::Enter.into());
        assert_eq!(names(&watcher), ["web", "files"]);
        assert_eq!(watcher.press(KeyCode::Esc.into()), Next::GoOn);
        assert_eq!(names(&watcher).len(), 3);
        assert_eq!(watcher.press(KeyCode::Esc.into()), Next::Quit);
    }

    #[test]
    fn a_letter_with_control_is_not_typed_and_edits_the_filter_as_in_a_shell() {
        let mut watcher = watcher();
        let control = |watcher: &mut Watcher, keys: &str| {
            let key = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
            keys.chars().map(|letter| watcher.press(key(letter))).last().unwrap()
        };
        assert_eq!(control(&mut watcher, "sqvjp/"), Next::GoOn, "nor are they commands");
        assert!(watcher.order == Order::File && !watcher.is_typing && !watcher.is_paused());
        press(&mut watcher, "/web api");
        control(&mut watcher, "ax");
        assert_eq!(watcher.filter, "web api");
        control(&mut watcher, "h");
        assert_eq!(watcher.filter, "web ap");
        control(&mut watcher, "w");
        assert_eq!(watcher.filter, "web ");
        control(&mut watcher, "w");
        assert_eq!(watcher.filter, "");
        press(&mut watcher, "web");
        control(&mut watcher, "u");
        assert_eq!(watcher.filter, "");
        assert!(watcher.is_typing);
    }

    #[test]
    fn keys_pause_help_and_quit() {
        let mut watcher = watcher();
        assert!(press(&mut watcher, " ") == Next::GoOn && watcher.is_paused());
        assert!(press(&mut watcher, "?") == Next::GoOn && watcher.shows_help);
        assert_eq!(press(&mut watcher, "q"), Next::GoOn, "any key leaves the help");
        assert_eq!(press(&mut watcher, "q"), Next::Quit);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        watcher.is_typing = true;
        assert_eq!(watcher.press(interrupt), Next::Quit);
    }

    #[test]
    fn the_last_good_look_stays_where_the_next_fails() {
        let mut watcher = watcher();
        watcher.take(Err(anyhow::anyhow!("gone")));
        assert_eq!((watcher.failure.as_deref(), names(&watcher).len()), (Some("gone"), 3));
        watcher.take(Ok(State::default()));
        assert_eq!((&watcher.failure, names(&watcher).len()), (&None, 0));
    }
}
