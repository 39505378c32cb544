//! Log lines on standard error: coloured on a terminal, plain in a pipe, JSON for programs.

use std::fmt;
use std::io::IsTerminal;
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::table::{BAD, DIM, GOOD, WARN, paint};

/// Starts logging. `CELLD_LOG` overrides the filter, in the syntax of `RUST_LOG`.
pub fn start(json: bool, filter: &str) {
    let filter = std::env::var("CELLD_LOG")
        .ok()
        .and_then(|text| EnvFilter::try_new(text).ok())
        .unwrap_or_else(|| EnvFilter::new(filter));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    // A second subscriber in one process is a mistake that only tests make.
    let _ = if json {
        builder.json().flatten_event(true).try_init()
    } else {
        builder.event_format(Lines { colour: colour() }).try_init()
    };
}

/// The same rule as for everything else that is printed.
fn colour() -> bool {
    let choice = anstream::AutoStream::choice(&std::io::stderr());
    choice != anstream::ColorChoice::Never
        && (std::io::stderr().is_terminal() || choice == anstream::ColorChoice::Always)
}

/// Milliseconds since 1970.
pub fn epoch_ms() -> u128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis())
}

/// Time of day in UTC, with ms.
pub fn clock() -> String {
    let ms = epoch_ms();
    let (s, ms) = (ms / 1000, ms % 1000);
    format!(
        "{:02}:{:02}:{:02}.{ms:03}",
        s / 3600 % 24,
        s / 60 % 60,
        s % 60
    )
}

struct Lines {
    colour: bool,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let text = if event.metadata().target() == "celld::access" {
            fields.access_line()
        } else {
            let level = *event.metadata().level();
            let style = match level {
                Level::ERROR => BAD,
                Level::WARN => WARN,
                _ => DIM,
            };
            let level = level.to_string().to_lowercase();
            format!(
                "{} {}{}",
                paint(style, format!("{level:<5}")),
                fields.message,
                paint(DIM, &fields.rest)
            )
        };
        let line = format!("{} {text}", paint(DIM, clock()));
        if self.colour {
            writeln!(writer, "{line}")
        } else {
            writeln!(writer, "{}", anstream::adapter::strip_str(&line))
        }
    }
}

/// An event's fields as text.
#[derive(Default)]
struct Fields {
    message: String,
    rest: String,
    method: String,
    url: String,
    status: u64,
    ms: f64,
}

impl Fields {
    fn access_line(&self) -> String {
        let style = match self.status {
            500.. => BAD,
            400.. => WARN,
            _ => GOOD,
        };
        let time = if self.ms < 10.0 {
            format!("{:.1} ms", self.ms)
        } else {
            format!("{:.0} ms", self.ms)
        };
        format!(
            "{} {} {} {}",
            self.method,
            self.url,
            paint(style, self.status),
            paint(DIM, time)
        )
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            "method" => self.method = text,
            name => self.rest.push_str(&format!(" {name}={text}")),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            // Only the path: the rest of the address is in the table at the start.
            "url" => {
                self.url = value
                    .splitn(4, '/')
                    .nth(3)
                    .map_or_else(|| value.to_owned(), |path| format!("/{path}"))
            }
            "message" => self.message = value.to_owned(),
            name => self.rest.push_str(&format!(" {name}={value}")),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "status" => self.status = value,
            name => self.rest.push_str(&format!(" {name}={value}")),
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        match field.name() {
            "ms" => self.ms = value,
            name => self.rest.push_str(&format!(" {name}={value}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_line_is_short() {
        let fields = Fields {
            method: "GET".into(),
            url: "/a".into(),
            status: 404,
            ms: 1.234,
            ..Fields::default()
        };
        let plain = anstream::adapter::strip_str(&fields.access_line()).to_string();
        assert_eq!(plain, "GET /a 404 1.2 ms");
    }
}
