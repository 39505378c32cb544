//! A project in a temporary directory.

use std::path::{Path, PathBuf};

use super::super::{Bundle, BundleErrors, BundleOptions, BundledModule, bundle};

/// A temporary project, removed when dropped.
pub(super) struct Fixture {
    dir: tempfile::TempDir,
    pub(super) options: BundleOptions,
}

impl Fixture {
    /// A project with `src/index.ts` as main module and these files.
    pub(super) fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let options = BundleOptions {
            project_dir: dir.path().to_path_buf(),
            entry: "src/index.ts".into(),
            ..BundleOptions::default()
        };
        let fixture = Self { dir, options };
        for (path, text) in files {
            fixture.write(path, text);
        }
        fixture
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut BundleOptions)) -> Self {
        change(&mut self.options);
        self
    }

    pub(super) fn write(&self, path: &str, contents: impl AsRef<[u8]>) {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("created");
        std::fs::write(path, contents).expect("written");
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        std::fs::canonicalize(self.dir.path())
            .expect("it exists")
            .join(path)
    }

    pub(super) fn bundle(&self) -> Bundle {
        match bundle(&self.options) {
            Ok(bundle) => bundle,
            Err(errors) => panic!("{errors}"),
        }
    }

    pub(super) fn code(&self) -> String {
        text(main_of(&self.bundle()))
    }

    pub(super) fn errors(&self) -> BundleErrors {
        match bundle(&self.options) {
            Ok(bundle) => panic!("it was bundled:\n{}", text(main_of(&bundle))),
            Err(errors) => errors,
        }
    }

    /// All files of the project, to see that none was written.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(dir).expect("readable") {
                let path = entry.expect("readable").path();
                if path.is_dir() {
                    walk(&path, files);
                }
                files.push(path);
            }
        }
        let mut files = Vec::new();
        walk(self.dir.path(), &mut files);
        files.sort();
        files
    }
}

pub(super) fn main_of(bundle: &Bundle) -> &BundledModule {
    bundle
        .modules
        .iter()
        .find(|module| module.specifier == bundle.main)
        .expect("a main module")
}

pub(super) fn text(module: &BundledModule) -> String {
    String::from_utf8(module.bytes.to_vec()).expect("text")
}
