//! Load client of `perf/bench.mjs`: a closed loop over keep-alive connections, in one thread, so
//! that it takes as little as possible from the server that shares the machine.
//!
//! `celld-bench --port 8787 --method POST --path '/c{connection}' --seconds 3` prints one line of
//! JSON: requests, errors, seconds, and latencies in microseconds.

mod connection;
mod options;
mod report;

use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use connection::{Connection, Progress};
use options::Options;
use report::Report;

/// No answer for this long ends the run: the server hangs.
const SILENCE_MAX: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("error: {error}\n\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(report) => {
            println!("{}", report.into_json());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> io::Result<Report> {
    let mut connections = (0..options.connections)
        .map(|number| Connection::open(options, number))
        .collect::<io::Result<Vec<_>>>()?;
    let started = Instant::now();
    let mut report = Report::default();
    let mut sent: u64 = 0;
    for connection in &mut connections {
        if sent < options.requests {
            connection.send(sent)?;
            sent += 1;
        }
    }
    while connections.iter().any(Connection::is_waiting) {
        for number in readable(&connections)? {
            let connection = &mut connections[number];
            if let Progress::Answered { status, latency } = connection.read()? {
                report.add(status, latency);
                if sent < options.requests && started.elapsed() < options.time {
                    connection.send(sent)?;
                    sent += 1;
                }
            }
        }
    }
    report.elapsed = started.elapsed();
    Ok(report)
}

/// Waits until some of the connections that wait for an answer have something to read.
fn readable(connections: &[Connection]) -> io::Result<Vec<usize>> {
    let waiting: Vec<usize> = (0..connections.len())
        .filter(|&number| connections[number].is_waiting())
        .collect();
    let mut polled: Vec<PollFd<'_>> = waiting
        .iter()
        .map(|&number| PollFd::new(connections[number].stream(), PollFlags::IN))
        .collect();
    let limit = Timespec {
        tv_sec: SILENCE_MAX.as_secs() as i64,
        tv_nsec: 0,
    };
    if poll(&mut polled, Some(&limit))? == 0 {
        return Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no answer within {} s", SILENCE_MAX.as_secs()),
        ));
    }
    let ready = waiting.into_iter().zip(&polled);
    Ok(ready
        .filter(|(_, fd)| !fd.revents().is_empty())
        .map(|(number, _)| number)
        .collect())
}
