//! The dotenv syntax: `NAME=value`, comments, `export`, quotes, values over several lines.

/// A line is not dotenv syntax. Holds no part of a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}; write NAME=value, with quotes around values that hold spaces, # or line ends")]
pub struct DotenvError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub why: &'static str,
}

/// Reads names and values, in the order of the text. Of equal names the last one counts.
///
/// A text means what it means to Node's `dotenv`, which Wrangler uses:
/// - Empty lines and lines that begin with `#` are skipped; `export` before a name is allowed.
/// - A bare value ends at `#` or at the end of the line, and is trimmed.
/// - Single, double and back quotes may hold anything, line ends included. A quote behind a
///   backslash does not end the value; the backslash stays part of it.
/// - In double quotes `\n` and `\r` become line ends. There are no other escapes.
///
/// What `dotenv` would skip without a word is an error here.
///
/// # Errors
/// The first line that fits none of this.
pub fn parse(text: &str) -> Result<Vec<(String, String)>, DotenvError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut scanner = Scanner {
        rest: text,
        line: 1,
    };
    let mut out: Vec<(String, String)> = Vec::new();
    let mut index_of = std::collections::HashMap::new();
    while let Some((name, value)) = scanner.next_pair()? {
        match index_of.get(&name) {
            Some(index) => {
                let slot: &mut (String, String) = &mut out[*index];
                slot.1 = value;
            }
            None => {
                index_of.insert(name.clone(), out.len());
                out.push((name, value));
            }
        }
    }
    Ok(out)
}

struct Scanner<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Scanner<'a> {
    fn next_pair(&mut self) -> Result<Option<(String, String)>, DotenvError> {
        loop {
            self.skip(|c| c == ' ' || c == '\t' || c == '\r' || c == '\u{c}');
            match self.rest.chars().next() {
                None => return Ok(None),
                Some('\n') => self.advance(1),
                Some('#') => self.skip(|c| c != '\n'),
                Some(_) => return self.pair().map(Some),
            }
        }
    }

    fn pair(&mut self) -> Result<(String, String), DotenvError> {
        let name = self.name()?;
        self.skip(|c| c == ' ' || c == '\t');
        if !self.rest.starts_with('=') {
            return Err(self.error("there is no `=` after the name"));
        }
        self.advance(1);
        self.skip(|c| c == ' ' || c == '\t');
        let value = match self.rest.chars().next() {
            Some(quote @ ('"' | '\'' | '`')) => self.quoted(quote)?,
            _ => self.bare().to_owned(),
        };
        Ok((name, value))
    }

    fn name(&mut self) -> Result<String, DotenvError> {
        let mut name = self.take(is_name);
        if name == "export" && self.rest.starts_with([' ', '\t']) {
            self.skip(|c| c == ' ' || c == '\t');
            name = self.take(is_name);
        }
        if name.is_empty() {
            Err(self.error("the line does not begin with a name"))
        } else {
            Ok(name.to_owned())
        }
    }

    fn bare(&mut self) -> &'a str {
        let line = self.take(|c| c != '\n');
        line.split('#').next().unwrap_or_default().trim()
    }

    fn quoted(&mut self, quote: char) -> Result<String, DotenvError> {
        let Some(length) = closing_quote(&self.rest[1..], quote) else {
            return Err(self.error("the quote is never closed"));
        };
        let raw = &self.rest[1..1 + length];
        self.advance(length + 2);
        let tail = self.take(|c| c != '\n').trim();
        if !tail.is_empty() && !tail.starts_with('#') {
            return Err(self.error("there is text after the closing quote"));
        }
        Ok(if quote == '"' {
            raw.replace("\\n", "\n").replace("\\r", "\r")
        } else {
            raw.to_owned()
        })
    }

    fn take(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !fits(c)).unwrap_or(self.rest.len());
        let taken = &self.rest[..end];
        self.advance(end);
        taken
    }

    fn skip(&mut self, fits: impl Fn(char) -> bool) {
        self.take(fits);
    }

    fn advance(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at(bytes);
        self.line += passed.bytes().filter(|b| *b == b'\n').count();
        self.rest = rest;
    }

    fn error(&self, why: &'static str) -> DotenvError {
        DotenvError {
            line: self.line,
            why,
        }
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

/// Where the closing quote is: the first one that no backslash precedes. A value that ends with a
/// backslash has none such; its last quote closes it.
fn closing_quote(text: &str, quote: char) -> Option<usize> {
    let mut escaped = None;
    for (at, _) in text.match_indices(quote) {
        if !text[..at].ends_with('\\') {
            return Some(at);
        }
        escaped = Some(at);
    }
    escaped
}
