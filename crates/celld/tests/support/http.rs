//! HTTP/1.1 for tests: one request a connection, or a connection kept alive.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Header lines, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// A connection kept alive between requests.
pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Connects to a loopback port.
    pub fn open(port: u16) -> io::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Sends a request with a body and reads the answer.
    pub fn request(&mut self, method: &str, path: &str, body: &[u8]) -> io::Result<Answer> {
        self.head(method, path, &format!("Content-Length: {}", body.len()))?;
        self.raw().write_all(body)?;
        self.answer()
    }

    /// Sends a request line and headers.
    pub fn head(&mut self, method: &str, path: &str, header: &str) -> io::Result<()> {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n\r\n");
        self.raw().write_all(head.as_bytes())
    }

    /// The socket, to write what is no request.
    pub fn raw(&mut self) -> &mut TcpStream {
        self.stream.get_mut()
    }

    /// Reads an answer.
    pub fn answer(&mut self) -> io::Result<Answer> {
        let status_line = self.line()?;
        let status = status_line
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .ok_or_else(|| invalid(&status_line))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut answer = Answer {
            status,
            headers,
            body: Vec::new(),
        };
        answer.body = self.body(&answer)?;
        Ok(answer)
    }

    fn body(&mut self, answer: &Answer) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        if answer.header("transfer-encoding") == Some("chunked") {
            loop {
                let line = self.line()?;
                let size = usize::from_str_radix(&line, 16).map_err(|_| invalid(&line))?;
                let start = body.len();
                body.resize(start + size, 0);
                self.stream.read_exact(&mut body[start..])?;
                self.line()?;
                if size == 0 {
                    return Ok(body);
                }
            }
        }
        match answer.header("content-length") {
            Some(length) => {
                body.resize(length.parse().map_err(|_| invalid(length))?, 0);
                self.stream.read_exact(&mut body)?;
            }
            None if matches!(answer.status, 204 | 304) => {}
            None => {
                self.stream.read_to_end(&mut body)?;
            }
        }
        Ok(body)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}

/// One GET.
pub fn get(port: u16, path: &str) -> io::Result<Answer> {
    request(port, "GET", path, b"")
}

/// One request with a body.
pub fn request(port: u16, method: &str, path: &str, body: &[u8]) -> io::Result<Answer> {
    Connection::open(port)?.request(method, path, body)
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not HTTP: {text:?}"))
}
