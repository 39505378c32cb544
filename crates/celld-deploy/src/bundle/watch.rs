//! Tells when a project has to be bundled again.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::event::{Event, EventKind, Flag, ModifyKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

/// Quiet time after a change before it is announced: editors and `git checkout` write many files
/// within milliseconds.
const QUIET: Duration = Duration::from_millis(75);

/// Longest time that a stream of changes can put off the announcement.
const PATIENCE: Duration = Duration::from_secs(1);

/// Most directories watched; the kernel's default budget per user is 8,192 or more.
const DIRS_MAX: usize = 4_096;

/// Events kept while nobody waits for them. Beyond that the oldest ones wake the receiver and
/// the names of the others are lost.
const QUEUE: usize = 4_096;

/// Directories whose files are no sources. Inputs that lie in them are watched all the same.
const SKIPPED_DIRS: &[&str] = &["node_modules", ".git", ".celld", ".wrangler"];

/// Files that package managers write at the end of an installation.
const INSTALL_MARKS: &[&str] = &[".package-lock.json", ".modules.yaml", ".yarn-state.yml"];

/// Why a project can't be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The system refused the watch.
    #[error("cannot watch {path}: {source}. Raise the limit with `sysctl fs.inotify.max_user_watches=524288`, or run without watching", path = .path.display())]
    Refused {
        /// What was to be watched.
        path: PathBuf,
        /// The system's reason.
        source: notify::Error,
    },
    /// The project has too many directories.
    #[error(
        "the project has more than {DIRS_MAX} directories outside node_modules; move what is no source out of {path}",
        path = .0.display()
    )]
    TooManyDirectories(PathBuf),
}

/// Files that changed together, sorted; empty when too many changed to name them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Absolute paths.
    pub files: Vec<PathBuf>,
}

/// A running watch. Dropping it ends the watch.
pub struct Watcher {
    project_dir: PathBuf,
    inputs: BTreeSet<PathBuf>,
    watched: HashSet<PathBuf>,
    ignored: Vec<PathBuf>,
    system: RecommendedWatcher,
    events: mpsc::Receiver<Event>,
    /// Changes collected and not yet announced.
    pending: BTreeSet<PathBuf>,
    overflow: bool,
}

/// Watches `project_dir` and the files in `inputs`.
///
/// The directory is watched with everything below it but `node_modules`, `.git`, `.celld` and
/// `.wrangler`. A change counts when it concerns a file of `inputs`, or when a file of the project
/// appears or disappears (it may be the one that an import missed). Pass the bundle's inputs
/// together with the configuration files and `.dev.vars`, whether these exist or not, and hand
/// over the new list after every build with [`Watcher::set_inputs`].
///
/// # Errors
/// [`WatchError`] when the system can't watch the project.
pub fn watch(project_dir: &Path, inputs: &[PathBuf]) -> Result<Watcher, WatchError> {
    let refused = |source| WatchError::Refused {
        path: project_dir.to_path_buf(),
        source,
    };
    let project_dir =
        std::fs::canonicalize(project_dir).map_err(|error| refused(notify::Error::io(error)))?;
    let (sender, events) = mpsc::channel(QUEUE);
    // Runs on the watcher's own thread, which must neither wait nor call the watcher.
    let forward = move |event: notify::Result<Event>| {
        let event = event.unwrap_or_else(|_| Event::new(EventKind::Other).set_flag(Flag::Rescan));
        if !matches!(event.kind, EventKind::Access(_)) {
            let _ = sender.try_send(event);
        }
    };
    let system = notify::recommended_watcher(forward).map_err(refused)?;
    let mut watcher = Watcher {
        project_dir: project_dir.clone(),
        inputs: BTreeSet::new(),
        watched: HashSet::new(),
        ignored: Vec::new(),
        system,
        events,
        pending: BTreeSet::new(),
        overflow: false,
    };
    watcher.add_tree(&project_dir)?;
    watcher.set_inputs(inputs)?;
    Ok(watcher)
}

impl Watcher {
    /// Replaces the files that count. Relative paths start from the project.
    ///
    /// # Errors
    /// [`WatchError`] when a directory that holds one of them can't be watched.
    pub fn set_inputs(&mut self, inputs: &[PathBuf]) -> Result<(), WatchError> {
        self.inputs = inputs
            .iter()
            .map(|path| self.project_dir.join(path))
            .collect();
        let parents: BTreeSet<PathBuf> = self
            .inputs
            .iter()
            .filter_map(|path| path.parent().map(Path::to_path_buf))
            .collect();
        for dir in parents.into_iter().filter(|dir| dir.is_dir()) {
            self.add(&dir)?;
        }
        Ok(())
    }

    /// Leaves a directory out, such as one inside the project that the running program writes
    /// to. Inputs in it still count. A relative path starts from the project.
    pub fn ignore(&mut self, dir: &Path) {
        let dir = self.project_dir.join(dir);
        self.ignored
            .push(std::fs::canonicalize(&dir).unwrap_or(dir));
    }

    /// Waits for the next relevant change, and then until the project has been quiet for a
    /// moment. `None` when the watch has ended. Cancel safe. Needs a Tokio runtime with timers.
    pub async fn changed(&mut self) -> Option<Changes> {
        while self.pending.is_empty() && !self.overflow {
            let event = self.events.recv().await?;
            self.note(&event);
        }
        let last = Instant::now() + PATIENCE;
        while let Ok(Some(event)) =
            timeout_at(last.min(Instant::now() + QUIET), self.events.recv()).await
        {
            self.note(&event);
        }
        let files = std::mem::take(&mut self.pending).into_iter().collect();
        let overflow = std::mem::take(&mut self.overflow);
        Some(if overflow {
            Changes::default()
        } else {
            Changes { files }
        })
    }

    fn note(&mut self, event: &Event) {
        self.overflow |= event.need_rescan();
        for path in &event.paths {
            let appears = matches!(
                event.kind,
                EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(_))
            );
            if path.is_dir() {
                // Files of a new directory may have been written before its watch stood.
                if appears && self.is_source_dir(path) && self.add_tree(path).is_ok() {
                    self.pending.insert(path.clone());
                }
            } else if self.counts(path, &event.kind) {
                self.pending.insert(path.clone());
            }
        }
    }

    fn counts(&self, path: &Path, kind: &EventKind) -> bool {
        let name = path.file_name().unwrap_or_default();
        if matches!(
            kind,
            EventKind::Access(_) | EventKind::Modify(ModifyKind::Metadata(_))
        ) {
            return false;
        }
        if self.inputs.contains(path) || INSTALL_MARKS.iter().any(|mark| name == *mark) {
            return true;
        }
        let comes_or_goes = matches!(
            kind,
            EventKind::Create(_) | EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))
        );
        comes_or_goes
            && !is_scratch_file(name)
            && path.parent().is_some_and(|dir| self.is_source_dir(dir))
    }

    /// Whether `dir` is the project or lies in it, outside the skipped directories.
    fn is_source_dir(&self, dir: &Path) -> bool {
        let inside = dir.strip_prefix(&self.project_dir);
        inside.is_ok_and(|inside| !inside.iter().any(is_skipped))
            && !self.ignored.iter().any(|ignored| dir.starts_with(ignored))
    }

    fn add_tree(&mut self, dir: &Path) -> Result<(), WatchError> {
        let mut pending = vec![dir.to_path_buf()];
        while let Some(dir) = pending.pop() {
            self.add(&dir)?;
            // A directory that vanished meanwhile has nothing to watch.
            let Ok(entries) = std::fs::read_dir(&dir) else {
                continue;
            };
            for entry in entries
                .flatten()
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            {
                let name = entry.file_name();
                if !is_skipped(&name) {
                    pending.push(entry.path());
                } else if name == "node_modules" {
                    // Not what is in it, but when an installation ends.
                    self.add(&entry.path())?;
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, dir: &Path) -> Result<(), WatchError> {
        // Membership alone does not decide: a directory that was removed and made again needs a
        // new watch, and adding an existing one again is harmless.
        if self.watched.len() >= DIRS_MAX && !self.watched.contains(dir) {
            return Err(WatchError::TooManyDirectories(self.project_dir.clone()));
        }
        match self.system.watch(dir, RecursiveMode::NonRecursive) {
            Ok(()) => {
                self.watched.insert(dir.to_path_buf());
                Ok(())
            }
            Err(_) if !dir.exists() => Ok(()),
            Err(source) => Err(WatchError::Refused {
                path: dir.to_path_buf(),
                source,
            }),
        }
    }
}

fn is_skipped(name: &OsStr) -> bool {
    SKIPPED_DIRS.iter().any(|skipped| name == *skipped)
}

/// Files that editors write beside the one being edited.
fn is_scratch_file(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.ends_with('~')
        || name.ends_with(".swp")
        || name.ends_with(".swx")
        || name.ends_with(".tmp")
        || name.starts_with(".#")
        || name.starts_with(".goutputstream-")
        || name == "4913"
        || name == ".DS_Store"
}
