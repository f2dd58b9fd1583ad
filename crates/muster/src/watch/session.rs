//! The loop that ties keys, answers, time and the screen together.
//!
//! Guarantee: the picture is drawn when something has changed and at most once in `FRAME`; only what
//! differs from the last picture is sent to the terminal.

use std::io;
use std::time::Duration;

use jiff::Timestamp;
use muster_client::Client;
use ratatui::crossterm::event::{self, Event};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};

use super::feed::{Feed, Pace};
use super::filter::Filter;
use super::input;
use super::model::{Arrangement, Message, Model, Order, Request};
use super::terminal::{self, Screen};
use super::view::{self, Theme};
use crate::exit;
use crate::failure::UsageError;
use crate::settings::Settings;
use crate::signals::Signals;

const FRAME: Duration = Duration::from_millis(60);
const TICK: Duration = Duration::from_secs(1);
/// Messages that may wait; a job that writes faster than the screen takes is slowed down, not we.
const QUEUE: usize = 64;

/// What to show at first.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) arrangement: Arrangement,
    pub(crate) order: Order,
    pub(crate) filter: String,
}

/// Shows the scheduler until the reader leaves.
pub(crate) async fn run(session: Session, settings: &Settings) -> anyhow::Result<u8> {
    let filter = Filter::parse(&session.filter).map_err(UsageError)?;
    if !terminal::is_there() {
        return Err(UsageError(
            "this view needs a terminal; `muster top --once` and `muster ls` print plain tables".to_owned(),
        )
        .into());
    }
    let client = settings.client()?;
    let mut model = Model::new(&settings.url, session.arrangement, session.order, Timestamp::now());
    model.zone = settings.screen.zone;
    model.filter = filter;
    model.filter_line = session.filter;
    let theme = Theme::find(settings.screen.colour);
    let mut signals = Signals::listen()?;
    let screen = Screen::borrow()?;
    Loop::new(model, theme, screen, client)?.run(&mut signals).await
}

struct Loop {
    model: Model,
    theme: Theme,
    screen: Screen,
    feed: Feed,
    news: mpsc::Receiver<Message>,
    keys: mpsc::Receiver<io::Result<Event>>,
    drawn: Option<Instant>,
    changed: bool,
}

/// What goes on after a message.
enum Next {
    Go,
    Leave(u8),
}

impl Loop {
    fn new(mut model: Model, theme: Theme, screen: Screen, client: Client) -> io::Result<Self> {
        model.size = screen.size()?;
        let (sender, news) = mpsc::channel(QUEUE);
        let feed = Feed::start(client, model.wanted(), Pace::default(), sender).in_zone(model.zone);
        Ok(Self { model, theme, screen, feed, news, keys: keys(), drawn: None, changed: true })
    }

    async fn run(mut self, signals: &mut Signals) -> anyhow::Result<u8> {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let frame = self.draw_when_due()?;
            let next = tokio::select! {
                key = self.keys.recv() => match key {
                    Some(event) => self.take_event(&event?)?,
                    None => Next::Leave(exit::FAILURE),
                },
                Some(message) = self.news.recv() => self.take(message)?,
                _ = ticks.tick() => self.take(Message::Tick(Timestamp::now()))?,
                code = signals.next() => Next::Leave(code),
                () = tokio::time::sleep_until(frame), if self.changed => Next::Go,
            };
            if let Next::Leave(code) = next {
                return Ok(code);
            }
        }
    }

    /// Draws, if the last picture is old enough; returns when the next one may be drawn.
    fn draw_when_due(&mut self) -> io::Result<Instant> {
        let due = self.drawn.map_or_else(Instant::now, |drawn| drawn + FRAME);
        if self.changed && Instant::now() >= due {
            let (model, theme) = (&self.model, self.theme);
            self.screen.draw(|frame| view::render(frame, model, theme))?;
            self.changed = false;
            self.drawn = Some(Instant::now());
        }
        Ok(due)
    }

    fn take_event(&mut self, event: &Event) -> io::Result<Next> {
        match event {
            Event::Key(key) => {
                for press in input::presses(*key) {
                    let Some(action) = input::action(press, &self.model.mode) else { continue };
                    if let Next::Leave(code) = self.take(Message::Key(action))? {
                        return Ok(Next::Leave(code));
                    }
                }
                Ok(Next::Go)
            }
            Event::Resize(width, height) => self.take(Message::Resized { width: *width, height: *height }),
            Event::FocusGained | Event::FocusLost | Event::Mouse(_) | Event::Paste(_) => Ok(Next::Go),
        }
    }

    fn take(&mut self, message: Message) -> io::Result<Next> {
        self.changed = true;
        for request in self.model.update(message) {
            match request {
                Request::Quit => return Ok(Next::Leave(exit::OK)),
                Request::Suspend => self.screen.suspend()?,
                Request::Redraw => self.screen.clear()?,
                other => self.feed.begin(other),
            }
        }
        Ok(Next::Go)
    }
}

/// Keys and changes of size, read by a thread of their own because the terminal cannot be awaited.
fn keys() -> mpsc::Receiver<io::Result<Event>> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    std::thread::spawn(move || {
        loop {
            let event = event::read();
            let failed = event.is_err();
            if sender.blocking_send(event).is_err() || failed {
                return;
            }
        }
    });
    receiver
}
