//! One JSON object a line.

use std::fmt;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// A layer that writes events as JSON lines.
#[derive(Debug)]
pub struct JsonLines<W> {
    out: Mutex<W>,
}

impl<W: Write> JsonLines<W> {
    pub fn new(out: W) -> Self {
        Self { out: Mutex::new(out) }
    }
}

/// Fields in the order they were given; a later value of the same name wins.
#[derive(Debug, Default)]
struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        match self.0.iter_mut().find(|(name, _)| *name == field.name()) {
            Some(known) => known.1 = value,
            None => self.0.push((field.name(), value)),
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }
}

impl<S, W> Layer<S> for JsonLines<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: Write + Send + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut own = Fields::default();
        event.record(&mut own);
        let message =
            own.0.iter().position(|(name, _)| *name == "message").map(|index| own.0.remove(index).1);
        let mut line = Vec::with_capacity(256);
        line.push(b'{');
        push(&mut line, "time", &jiff::Timestamp::now().to_string().into());
        push(&mut line, "level", &event.metadata().level().as_str().into());
        push(&mut line, "msg", &message.unwrap_or_default());
        for span in
            context.event_scope(event).into_iter().flat_map(tracing_subscriber::registry::Scope::from_root)
        {
            if let Some(fields) = span.extensions().get::<Fields>() {
                let hidden = |name: &str| own.0.iter().any(|(other, _)| *other == name);
                fields
                    .0
                    .iter()
                    .filter(|(name, _)| !hidden(name))
                    .for_each(|(name, value)| push(&mut line, name, value));
            }
        }
        own.0.iter().for_each(|(name, value)| push(&mut line, name, value));
        line.extend_from_slice(b"}\n");
        // There is nowhere to complain about a log that cannot be written.
        let _ = self.out.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line);
    }
}

fn push(line: &mut Vec<u8>, name: &str, value: &Value) {
    if line.len() > 1 {
        line.push(b',');
    }
    // Writing strings and values to memory cannot fail.
    let _ = serde_json::to_writer(&mut *line, name);
    line.push(b':');
    let _ = serde_json::to_writer(&mut *line, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tracing_subscriber::layer::SubscriberExt as _;

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_carry_time_level_message_and_typed_fields() {
        let captured = Captured::default();
        let subscriber = tracing_subscriber::registry().with(JsonLines::new(captured.clone()));
        tracing::subscriber::with_default(subscriber, || {
            let _span = tracing::info_span!("request", request_id = "r-1", job_id = "outer").entered();
            tracing::info!(job_id = %"job-1", attempt = 2, demo = true, "say \"hello\"");
        });
        let text = String::from_utf8(captured.0.lock().unwrap().clone()).unwrap();
        assert!(text.starts_with("{\"time\":\"") && text.ends_with("}\n"), "{text}");
        let line: Value = serde_json::from_str(&text).unwrap();
        assert!(line["time"].as_str().unwrap().ends_with('Z'));
        assert_eq!((&line["level"], &line["msg"]), (&"INFO".into(), &"say \"hello\"".into()));
        assert_eq!((&line["request_id"], &line["job_id"]), (&"r-1".into(), &"job-1".into()));
        assert_eq!((&line["attempt"], &line["demo"]), (&2.into(), &true.into()));
        assert_eq!(text.matches("job_id").count(), 1, "a name appears once");
    }
}
