//! Listing: a walk of the directory tree in the byte order of the keys.

use std::fs;
use std::io;
use std::path::Path;

use super::frame::HEADER_BYTES;
use super::{MARK, io_not_found};
use crate::bucket::{ListedObject, Listing};
use crate::key::Key;

/// What a walk is after.
pub(super) struct Walk<'a> {
    pub prefix: &'a str,
    pub start_after: Option<&'a str>,
    pub limit: usize,
}

enum Entry {
    Object(Key, u64),
    /// Its path as the start of keys, with the slash at its end.
    Directory(String),
}

impl Entry {
    /// Every key below a directory begins with its path and slash, so this orders both kinds.
    fn order(&self) -> &str {
        match self {
            Self::Object(key, _) => key.as_str(),
            Self::Directory(path) => path,
        }
    }
}

impl Walk<'_> {
    /// Lists the tree at `root`.
    pub fn run(&self, root: &Path) -> io::Result<Listing> {
        let mut found = Listing::default();
        self.visit(root, "", &mut found)?;
        Ok(found)
    }

    fn visit(&self, root: &Path, parent: &str, found: &mut Listing) -> io::Result<()> {
        for entry in self.entries(root, parent)? {
            if found.truncated {
                return Ok(());
            }
            match entry {
                Entry::Directory(path) => self.visit(root, &path, found)?,
                Entry::Object(..) if found.objects.len() == self.limit => found.truncated = true,
                Entry::Object(key, size) => found.objects.push(ListedObject { key, size }),
            }
        }
        Ok(())
    }

    /// The entries of one directory that can matter, in order.
    fn entries(&self, root: &Path, parent: &str) -> io::Result<Vec<Entry>> {
        let listed = match fs::read_dir(root.join(parent)) {
            Ok(listed) => listed,
            // Another process may remove an emptied directory at any time.
            Err(error) if io_not_found(&error) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut entries = Vec::new();
        for item in listed {
            let item = item?;
            let Some(name) = item.file_name().to_str().map(str::to_owned) else {
                continue;
            };
            let kind = item.file_type()?;
            if kind.is_dir() && !name.contains(MARK) {
                let path = format!("{parent}{name}/");
                if self.wants_directory(&path) {
                    entries.push(Entry::Directory(path));
                }
            } else if kind.is_file()
                && let Some(stem) = name.strip_suffix(MARK)
                && let Ok(key) = Key::new(format!("{parent}{stem}"))
                && self.wants_key(key.as_str())
            {
                match item.metadata() {
                    Ok(meta) => entries.push(Entry::Object(
                        key,
                        meta.len().saturating_sub(HEADER_BYTES as u64),
                    )),
                    Err(error) if io_not_found(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        entries.sort_unstable_by(|a, b| a.order().cmp(b.order()));
        Ok(entries)
    }

    fn wants_key(&self, key: &str) -> bool {
        key.starts_with(self.prefix) && self.start_after.is_none_or(|after| key > after)
    }

    fn wants_directory(&self, path: &str) -> bool {
        let in_prefix = path.starts_with(self.prefix) || self.prefix.starts_with(path);
        in_prefix
            && self
                .start_after
                .is_none_or(|after| path > after || after.starts_with(path))
    }
}
