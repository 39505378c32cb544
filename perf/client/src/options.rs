//! The command line.

use std::time::Duration;

/// What is printed after a wrong command line.
pub const USAGE: &str = "celld-bench --port PORT [--method GET] [--path /{connection}] \
[--connections 8] [--seconds S] [--requests N]
In the path, {connection} and {request} stand for numbers. It ends after S seconds or N requests,
whichever comes first; one of them must be given.";

/// One run.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    /// Loopback port of the server.
    pub port: u16,
    /// HTTP method; the body is empty.
    pub method: String,
    /// Path, with `{connection}` and `{request}` standing for numbers.
    pub path: String,
    /// Connections, each with one request on its way.
    pub connections: usize,
    /// No request starts after this time.
    pub time: Duration,
    /// No more requests than this.
    pub requests: u64,
}

impl Options {
    /// Reads `--name value` pairs.
    pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut port = None;
        let mut options = Self {
            port: 0,
            method: "GET".into(),
            path: "/{connection}".into(),
            connections: 8,
            time: Duration::MAX,
            requests: u64::MAX,
        };
        while let Some(name) = arguments.next() {
            let value = arguments
                .next()
                .ok_or_else(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--port" => port = Some(number(&name, &value)?),
                "--method" => options.method = value,
                "--path" => options.path = value,
                "--connections" => options.connections = number(&name, &value)?,
                "--seconds" => {
                    let seconds = number(&name, &value)?;
                    options.time = Duration::try_from_secs_f64(seconds)
                        .map_err(|error| format!("--seconds {value}: {error}"))?;
                }
                "--requests" => options.requests = number(&name, &value)?,
                _ => return Err(format!("{name} is not known")),
            }
        }
        options.port = port.ok_or("--port is missing")?;
        if options.connections == 0 {
            return Err("--connections must be at least 1".into());
        }
        if options.time == Duration::MAX && options.requests == u64::MAX {
            return Err("--seconds or --requests is missing".into());
        }
        Ok(options)
    }
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
    value
        .parse()
        .map_err(|_| format!("{name} {value}: not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(text.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn all_options_are_read() {
        let options = parse("--port 80 --method POST --path /a --connections 2 --seconds 1.5");
        let expected = Options {
            port: 80,
            method: "POST".into(),
            path: "/a".into(),
            connections: 2,
            time: Duration::from_millis(1_500),
            requests: u64::MAX,
        };
        assert_eq!(options, Ok(expected));
    }

    #[test]
    fn an_endless_or_misspelt_run_is_refused() {
        assert!(parse("--port 80").is_err());
        assert!(parse("--seconds 1").is_err());
        assert!(parse("--port 80 --seconds -1").is_err());
        assert!(parse("--port 80 --second 1").is_err());
        assert!(parse("--port").is_err());
        assert!(parse("--port 80 --seconds 1 --connections 0").is_err());
    }
}
