//! `.dev.vars`: secrets and overrides for local development, in dotenv syntax.
//!
//! Values are secrets: nothing here puts one into a message, and [`DevVars`] hides them from
//! `Debug`.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::config::{Project, VarValue};

mod parse;

pub use parse::{DotenvError, parse};

/// Largest file, in bytes.
const FILE_MAX_BYTES: u64 = 1 << 20;

/// What `.dev.vars` holds.
#[derive(Clone, PartialEq, Eq)]
pub struct DevVars {
    /// The file that was read.
    pub file: PathBuf,
    /// Names and values, in the order of the file; of equal names the last one counts.
    pub values: Vec<(String, String)>,
}

impl fmt::Debug for DevVars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.values.iter().map(|(name, _)| name).collect();
        f.debug_struct("DevVars")
            .field("file", &self.file)
            .field("names", &names)
            .finish_non_exhaustive()
    }
}

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DevVarsError {
    /// It cannot be read.
    #[error("cannot read {}: {why}; correct the file or remove it", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A line is not dotenv syntax.
    #[error("{}:{}: {}", .file.display(), .error.line, .error)]
    Syntax {
        /// The file.
        file: PathBuf,
        /// What is wrong, and in which line.
        error: DotenvError,
    },
}

/// What applying `.dev.vars` did, for the person who develops. Holds names only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The file, if there is one.
    pub file: Option<PathBuf>,
    /// Names that the file gave to `env`.
    pub names: Vec<String>,
    /// Names in the file that are neither in `vars` nor in `secrets.required`, and so left out.
    pub left_out: Vec<String>,
    /// Names in `secrets.required` that the file lacks.
    pub missing: Vec<String>,
    /// `.env` files that Wrangler would read in place of `.dev.vars`, and celld does not.
    pub not_read: Vec<PathBuf>,
}

/// Reads `.dev.vars.<env>`, or `.dev.vars` where that does not exist. `None` when neither does.
///
/// # Errors
/// The file exists but cannot be read or understood.
pub fn load(root: &Path, env: Option<&str>) -> Result<Option<DevVars>, DevVarsError> {
    let of_env = env
        .filter(|env| is_file_name_part(env))
        .map(|env| root.join(format!(".dev.vars.{env}")));
    for file in of_env.into_iter().chain([root.join(".dev.vars")]) {
        if let Some(text) = read(&file)? {
            let values = parse(&text).map_err(|error| DevVarsError::Syntax {
                file: file.clone(),
                error,
            })?;
            return Ok(Some(DevVars { file, values }));
        }
    }
    Ok(None)
}

/// Lets `.dev.vars` override the project's variables, as Wrangler does: a project with `secrets`
/// takes only names that it declares, any other takes all.
///
/// # Errors
/// See [`load`].
pub fn apply(project: &mut Project) -> Result<Applied, DevVarsError> {
    let loaded = load(&project.root, project.environment.as_deref())?;
    let mut applied = Applied::default();
    let required = project.required_secrets.clone();
    for (name, value) in loaded.iter().flat_map(|vars| &vars.values) {
        let declared = required
            .as_ref()
            .is_none_or(|required| required.contains(name));
        let slot = project.vars.iter_mut().find(|(known, _)| known == name);
        match slot {
            Some((_, slot)) => *slot = VarValue::Text(value.clone()),
            None if declared => project
                .vars
                .push((name.clone(), VarValue::Text(value.clone()))),
            None => {
                applied.left_out.push(name.clone());
                continue;
            }
        }
        applied.names.push(name.clone());
    }
    let given = |name: &String| applied.names.contains(name);
    applied.missing = required
        .into_iter()
        .flatten()
        .filter(|name| !given(name))
        .collect();
    if loaded.is_none() {
        applied.not_read = dot_env_files(&project.root, project.environment.as_deref());
    }
    applied.file = loaded.map(|vars| vars.file);
    Ok(applied)
}

fn dot_env_files(root: &Path, env: Option<&str>) -> Vec<PathBuf> {
    let env = env.filter(|env| is_file_name_part(env));
    let of_env = env.map(|env| [format!(".env.{env}"), format!(".env.{env}.local")]);
    let names = [".env", ".env.local"]
        .map(str::to_owned)
        .into_iter()
        .chain(of_env.into_iter().flatten());
    names
        .map(|name| root.join(name))
        .filter(|file| file.is_file())
        .collect()
}

/// An environment's name comes from the command line: it must not lead out of the directory.
fn is_file_name_part(env: &str) -> bool {
    !env.contains(['/', '\\', '\0'])
}

fn read(file: &Path) -> Result<Option<String>, DevVarsError> {
    let fail = |why: String| DevVarsError::Read {
        file: file.to_owned(),
        why,
    };
    let handle = match std::fs::File::open(file) {
        Ok(handle) => handle,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(error.to_string())),
    };
    let mut bytes = Vec::new();
    handle
        .take(FILE_MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| fail(error.to_string()))?;
    if bytes.len() as u64 > FILE_MAX_BYTES {
        return Err(fail(format!("it is larger than {FILE_MAX_BYTES} bytes")));
    }
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| fail("it is not UTF-8".into()))
}

#[cfg(test)]
mod tests;
