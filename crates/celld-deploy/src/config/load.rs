//! Finding the configuration file, and reading it as a whole.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::diagnostic::{Code, ConfigErrors, Diagnostic, Severity, Warning, shown};
use super::report::Report;
use super::scope::Scopes;
use super::source::Source;
use super::tree::{self, Format, Parsed};
use super::{Project, assets, bindings, durable, settings};

/// In the order in which Wrangler looks for them.
const FILE_NAMES: [&str; 3] = ["wrangler.json", "wrangler.jsonc", "wrangler.toml"];

/// Largest configuration file, in bytes. Real ones have a few thousand.
const FILE_MAX_BYTES: u64 = 1 << 20;

impl Project {
    /// Reads a project. `path` is its directory or its configuration file; `env` names the
    /// environment to apply.
    ///
    /// # Errors
    /// All errors that the file has, with the warnings found on the way.
    pub fn load(path: &Path, env: Option<&str>) -> Result<(Project, Vec<Warning>), ConfigErrors> {
        let (file, shadowed) = find(path)?;
        let format = Format::of(&file).ok_or_else(|| {
            alone(
                &file,
                "this is not a configuration file".into(),
                "give a `.json`, `.jsonc` or `.toml` file, or a directory that has one".into(),
            )
        })?;
        let source = Source::new(file.clone(), read(&file)?);
        let (project, mut warnings) = Self::parse(&source, format, env)?;
        check_main(&project, &source)?;
        warnings.extend(shadowed.map(|other| shadowed_warning(&file, &other)));
        Ok((project, warnings))
    }

    /// Reads a project from a text. Looks at no other file.
    pub(super) fn parse(
        source: &Source,
        format: Format,
        env: Option<&str>,
    ) -> Result<(Project, Vec<Warning>), ConfigErrors> {
        let Parsed { root, warnings } =
            tree::parse(source, format).map_err(|error| ConfigErrors {
                errors: vec![*error],
                warnings: Vec::new(),
            })?;
        let mut report = Report::new(source, warnings);
        let scopes = Scopes::new(&mut report, &root, env);
        let project = read_project(&mut report, source.path(), &scopes);
        let warnings = report.finish()?;
        let project =
            project.expect("whatever keeps a project from being read is reported as an error");
        Ok((project, warnings))
    }
}

fn read_project(report: &mut Report<'_>, file: &Path, scopes: &Scopes<'_>) -> Option<Project> {
    scopes.check_keys(report);
    let name = settings::name(report, scopes);
    let build = settings::build(report, scopes);
    let compatibility_date = settings::compatibility_date(report, scopes);
    let compatibility_flags = settings::compatibility_flags(report, scopes);
    let vars = bindings::vars(report, scopes);
    let required_secrets = bindings::required_secrets(report, scopes);
    let durable_objects = durable::bindings(report, scopes, name.as_deref());
    let services = bindings::services(report, scopes, name.as_deref());
    let migrations = durable::migrations(report, scopes);
    let assets = assets::assets(report, scopes);
    let crons = settings::crons(report, scopes);
    let cpu_limit_ms = settings::cpu_limit_ms(report, scopes);
    bindings::check_unique(report, scopes);
    let deploy_errors = bindings::deploy_errors(report, scopes, required_secrets.as_deref());
    let root = file.parent().map(Path::to_owned).unwrap_or_default();
    Some(Project {
        root,
        config_file: file.to_owned(),
        environment: scopes.environment().map(str::to_owned),
        name: name?,
        build: build?,
        compatibility_date,
        compatibility_flags,
        vars,
        required_secrets,
        durable_objects,
        services,
        migrations,
        assets,
        crons,
        cpu_limit_ms,
        deploy_errors,
    })
}

/// The configuration file, and the one of lower precedence beside it, if there is one.
fn find(path: &Path) -> Result<(PathBuf, Option<PathBuf>), ConfigErrors> {
    let meta = std::fs::metadata(path).map_err(|error| {
        alone(
            path,
            format!("cannot read the project: {error}"),
            "give the directory of a Wrangler project, or its configuration file".into(),
        )
    })?;
    if !meta.is_dir() {
        return Ok((path.to_owned(), None));
    }
    let mut present = FILE_NAMES
        .iter()
        .map(|name| path.join(name))
        .filter(|file| file.is_file());
    match present.next() {
        Some(file) => Ok((file, present.next())),
        None => Err(alone(
            path,
            format!("no Wrangler configuration here: none of {} exists", FILE_NAMES.join(", ")),
            "go to the project's directory or name it, or create a `wrangler.jsonc` with `name`, `main` and `compatibility_date`".into(),
        )),
    }
}

fn read(file: &Path) -> Result<String, ConfigErrors> {
    let fail = |error: std::io::Error| {
        alone(
            file,
            format!("cannot read the file: {error}"),
            "check the path and the permissions".into(),
        )
    };
    let mut bytes = Vec::new();
    let handle = std::fs::File::open(file).map_err(fail)?;
    handle
        .take(FILE_MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(fail)?;
    if bytes.len() as u64 > FILE_MAX_BYTES {
        return Err(alone(
            file,
            format!("the file is larger than {FILE_MAX_BYTES} bytes"),
            "move large values into modules that the Worker imports".into(),
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let line = 1 + error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|b| **b == b'\n')
            .count();
        alone(
            file,
            format!("line {line} is not UTF-8"),
            "save the file as UTF-8".into(),
        )
    })
}

fn check_main(project: &Project, source: &Source) -> Result<(), ConfigErrors> {
    let main = &project.build.main;
    if project.build.command.is_some() || project.is_assets_only() || main.is_file() {
        return Ok(());
    }
    let origin = &project.build.main_origin;
    let why = if main.is_dir() {
        "is a directory"
    } else {
        "does not exist"
    };
    let message = format!(
        "the main module `{}` {why}",
        shown(&main.display().to_string())
    );
    let help = "correct `main`; it is relative to the configuration file".to_owned();
    let mut error = origin.finding(Severity::Error, Code::File, message, help);
    error.file = source.path().to_owned();
    Err(ConfigErrors {
        errors: vec![error],
        warnings: Vec::new(),
    })
}

fn shadowed_warning(file: &Path, other: &Path) -> Warning {
    Warning(Diagnostic {
        severity: Severity::Warning,
        code: Code::Conflict,
        key: String::new(),
        message: format!(
            "there is also `{}`, which is not read",
            other.file_name().unwrap_or_default().to_string_lossy()
        ),
        help: "keep one configuration file".into(),
        file: file.to_owned(),
        place: None,
    })
}

/// An error about a file as a whole.
fn alone(file: &Path, message: String, help: String) -> ConfigErrors {
    let error = Diagnostic {
        severity: Severity::Error,
        code: Code::File,
        key: String::new(),
        message,
        help,
        file: file.to_owned(),
        place: None,
    };
    ConfigErrors {
        errors: vec![error],
        warnings: Vec::new(),
    }
}
