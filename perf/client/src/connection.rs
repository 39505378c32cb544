//! One keep-alive connection: a request out, an answer in.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use crate::options::Options;

/// Longest answer, head and body together, in bytes.
const ANSWER_MAX: usize = 1 << 20;

/// A connection and the answer it is reading.
pub struct Connection {
    stream: TcpStream,
    method: String,
    path: String,
    answer: Vec<u8>,
    sent: Option<Instant>,
}

/// What a read brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// The answer is not whole yet.
    Partial,
    /// The answer is whole.
    Answered {
        /// HTTP status.
        status: u16,
        /// Time from the request's write to the answer's last byte.
        latency: Duration,
    },
}

impl Connection {
    /// Connects the connection `number` of a run.
    pub fn open(options: &Options, number: usize) -> io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, options.port))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            method: options.method.clone(),
            path: options.path.replace("{connection}", &number.to_string()),
            answer: Vec::new(),
            sent: None,
        })
    }

    /// The socket, for polling.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// True while an answer is due.
    pub fn is_waiting(&self) -> bool {
        self.sent.is_some()
    }

    /// Sends the request `number` of the run.
    pub fn send(&mut self, number: u64) -> io::Result<()> {
        let path = self.path.replace("{request}", &number.to_string());
        let request = format!(
            "{} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
            self.method
        );
        self.answer.clear();
        self.sent = Some(Instant::now());
        self.stream.write_all(request.as_bytes())
    }

    /// Reads once; waits when the socket has nothing to read.
    pub fn read(&mut self) -> io::Result<Progress> {
        let mut buffer = [0; 16_384];
        let count = self.stream.read(&mut buffer)?;
        if count == 0 {
            return Err(broken("the server closed the connection"));
        }
        self.answer.extend_from_slice(&buffer[..count]);
        let Some(status) = parse(&self.answer)? else {
            return Ok(Progress::Partial);
        };
        let sent = self
            .sent
            .take()
            .ok_or_else(|| broken("an answer nobody asked for"))?;
        let latency = sent.elapsed();
        Ok(Progress::Answered { status, latency })
    }
}

/// The status of a whole answer; `None` while bytes are missing.
fn parse(answer: &[u8]) -> io::Result<Option<u16>> {
    if answer.len() > ANSWER_MAX {
        return Err(broken("the answer is longer than 1 MiB"));
    }
    let Some(end) = find(answer, b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&answer[..end]).map_err(|_| broken("a head that is no text"))?;
    let status = head
        .get(9..12)
        .and_then(|code| code.parse().ok())
        .ok_or_else(|| broken("a status line that is none"))?;
    let body = &answer[end + 4..];
    let header = |wanted: &str| {
        head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case(wanted).then(|| value.trim())
        })
    };
    let whole = if let Some(length) = header("content-length") {
        let length: usize = length.parse().map_err(|_| broken("a bad Content-Length"))?;
        body.len() >= length
    } else {
        header("transfer-encoding").is_none() || body.ends_with(b"0\r\n\r\n")
    };
    Ok(whole.then_some(status))
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

fn broken(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_when_its_length_is_there() {
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n";
        for (body, expected) in [(&b""[..], None), (b"ab", None), (b"abc", Some(200))] {
            let answer = [&head[..], body].concat();
            assert_eq!(parse(&answer).expect("an answer"), expected);
        }
        assert_eq!(parse(&head[..20]).expect("a part"), None);
    }

    #[test]
    fn chunked_and_empty_answers_end() {
        let chunked = b"HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n";
        assert_eq!(parse(chunked).expect("a part"), None);
        let whole = [&chunked[..], b"0\r\n\r\n"].concat();
        assert_eq!(parse(&whole).expect("an answer"), Some(500));
        assert_eq!(
            parse(b"HTTP/1.1 204 X\r\n\r\n").expect("an answer"),
            Some(204)
        );
    }

    #[test]
    fn what_is_not_http_is_an_error() {
        assert!(parse(b"hello\r\n\r\n").is_err());
        assert!(parse(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n").is_err());
    }
}
