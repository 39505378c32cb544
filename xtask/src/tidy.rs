//! `cargo xtask tidy`: rules of the house that a program can check.
//!
//! Each rule is a function from a file (or all files) to complaints, with tests that plant a
//! violation. A complaint says where, what, and what to do.

mod docs;
mod ratchet;
mod rust;
mod text;

use std::fmt;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::shell;

/// A file that Git tracks or would track, as text.
pub struct Page {
    /// Path from the checkout's root, with `/`.
    pub path: String,
    /// Contents.
    pub text: String,
}

impl Page {
    fn is(&self, extension: &str) -> bool {
        self.path
            .rsplit_once('.')
            .is_some_and(|(_, end)| end == extension)
    }
}

/// A violation.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Complaint {
    /// Path of the file.
    pub path: String,
    /// Line, from 1; 0 for the file as a whole.
    pub line: usize,
    /// What is wrong and what to do.
    pub message: String,
}

impl Complaint {
    fn new(page: &Page, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: page.path.clone(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// Runs the task with its arguments.
pub fn run(arguments: &[String]) -> Result<()> {
    if let Some(other) = arguments.first() {
        bail!("`cargo xtask tidy` takes no arguments, not '{other}'");
    }
    check()
}

/// Checks the checkout.
pub fn check() -> Result<()> {
    let pages = read_pages()?;
    let mut complaints = complaints(&pages);
    complaints.sort();
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    if !complaints.is_empty() {
        bail!(
            "tidy found {} violations in {} files",
            complaints.len(),
            pages.len()
        );
    }
    eprintln!("tidy: {} files keep the rules", pages.len());
    Ok(())
}

fn complaints(pages: &[Page]) -> Vec<Complaint> {
    let mut all = Vec::new();
    for page in pages {
        all.extend(text::check(page));
        all.extend(rust::check(page));
        all.extend(docs::check(page, pages));
    }
    all.extend(rust::unreachable_files(pages));
    all.extend(ratchet::check(pages));
    all
}

/// Every file that is tracked or would be: a rule that spares new files finds a slip too late.
fn read_pages() -> Result<Vec<Page>> {
    let root = shell::root();
    let mut git = shell::command("git");
    git.args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);
    let list = shell::output(&mut git).context("tidy asks Git for the list of files")?;
    let mut pages = Vec::new();
    for path in list.split('\0').filter(|path| !path.is_empty()) {
        // Files that were deleted or that are not text have nothing to check.
        let Ok(bytes) = fs::read(root.join(path)) else {
            continue;
        };
        if bytes.contains(&0) {
            continue;
        }
        if let Ok(text) = String::from_utf8(bytes) {
            pages.push(Page {
                path: path.to_owned(),
                text,
            });
        }
    }
    Ok(pages)
}

#[cfg(test)]
fn page(path: &str, text: &str) -> Page {
    Page {
        path: path.to_owned(),
        text: text.to_owned(),
    }
}
