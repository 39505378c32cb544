//! Latencies and what is said of them.

use std::time::Duration;

/// The outcome of a run.
#[derive(Default)]
pub struct Report {
    latencies: Vec<Duration>,
    errors: u64,
    /// Length of the run.
    pub elapsed: Duration,
}

impl Report {
    /// Records an answer; a status of 400 or more is an error and has no latency.
    pub fn add(&mut self, status: u16, latency: Duration) {
        if status < 400 {
            self.latencies.push(latency);
        } else {
            self.errors += 1;
        }
    }

    /// One line of JSON; latencies in microseconds.
    pub fn into_json(mut self) -> String {
        self.latencies.sort_unstable();
        let at = |share| self.at(share).as_secs_f64() * 1e6;
        format!(
            r#"{{"requests":{},"errors":{},"seconds":{:.4},"p50_us":{:.1},"p99_us":{:.1},"max_us":{:.1}}}"#,
            self.latencies.len(),
            self.errors,
            self.elapsed.as_secs_f64(),
            at(0.5),
            at(0.99),
            at(1.0),
        )
    }

    /// The latency that `share` of the answers do not exceed; zero without answers.
    fn at(&self, share: f64) -> Duration {
        let rank = (self.latencies.len() as f64 * share).ceil() as usize;
        let index = rank.saturating_sub(1);
        self.latencies.get(index).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_latencies() {
        let mut report = Report::default();
        for number in (1..=100).rev() {
            report.add(200, Duration::from_micros(number));
        }
        report.add(500, Duration::from_secs(9));
        report.elapsed = Duration::from_secs(2);
        let expected = r#"{"requests":100,"errors":1,"seconds":2.0000,"p50_us":50.0,"p99_us":99.0,"max_us":100.0}"#;
        assert_eq!(report.into_json(), expected);
    }

    #[test]
    fn an_empty_run_has_zeroes() {
        assert!(Report::default().into_json().contains(r#""p99_us":0.0"#));
    }
}
