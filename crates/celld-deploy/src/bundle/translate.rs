//! From rolldown's findings to ours: every place with an excerpt, every error with a next step.

use std::path::Path;

use rolldown::BundleOutput;
use rolldown_error::{BuildDiagnostic, DiagnosticOptions, EventKind};

use super::builtins::is_bare_node_builtin;
use super::plugin::{Findings, Import, ImportedBy};
use super::source::{find_import, token_width};
use super::{Diagnostic, Project, Severity, defect};

/// Sources larger than this are not read again for an excerpt.
const EXCERPT_SOURCE_MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Errors and warnings of a build, sorted by place.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) errors: Vec<Diagnostic>,
    pub(super) warnings: Vec<Diagnostic>,
}

impl Verdict {
    fn tidy(&mut self) {
        for list in [&mut self.errors, &mut self.warnings] {
            list.sort_by(|a, b| {
                (&a.file, a.line, a.column, &a.message)
                    .cmp(&(&b.file, b.line, b.column, &b.message))
            });
            list.dedup();
        }
    }
}

/// Words rolldown's diagnostics for the user of one project.
pub(super) struct Translator<'a> {
    project: &'a Project,
    nodejs_compat: bool,
    rolldown: DiagnosticOptions,
}

impl<'a> Translator<'a> {
    pub(super) fn new(project: &'a Project, nodejs_compat: bool) -> Self {
        Self {
            project,
            nodejs_compat,
            rolldown: DiagnosticOptions {
                cwd: project.dir.clone(),
            },
        }
    }

    /// Judges a build. Some of rolldown's warnings are errors for a Worker.
    pub(super) fn judge(
        &self,
        result: &Result<BundleOutput, Vec<BuildDiagnostic>>,
        findings: &Findings,
    ) -> Verdict {
        let mut verdict = Verdict::default();
        match result {
            Ok(output) => {
                for warning in &output.warnings {
                    match warning.kind() {
                        EventKind::UnresolvedImport => {
                            self.unresolved_warning(warning, findings, &mut verdict)
                        }
                        // The options that these compare are chosen here, not by the user.
                        EventKind::ConfigurationFieldConflict | EventKind::PluginTimings => {}
                        _ => verdict.warnings.push(self.translate(warning)),
                    }
                }
            }
            Err(errors) => verdict.errors.extend(self.translate_all(errors)),
        }
        for (specifier, importer) in &findings.node_modules {
            let import = Import {
                importer: importer.clone(),
                specifier: specifier.clone(),
                how: ImportedBy::Static,
            };
            let warning = Diagnostic::warning(format!(
                "\"{specifier}\" is imported without Node.js compatibility"
            ))
            .with_hint(
                "add \"nodejs_compat\" to `compatibility_flags` if the import fails at run time",
            );
            verdict.warnings.push(self.locate(warning, &import));
        }
        self.add_own_errors(&mut verdict, findings);
        verdict.tidy();
        verdict
    }

    /// Adds what a build that went on behind unresolved imports found beyond `verdict`.
    pub(super) fn add_errors(
        &self,
        verdict: &mut Verdict,
        result: &Result<BundleOutput, Vec<BuildDiagnostic>>,
        findings: &Findings,
    ) {
        if let Err(errors) = result {
            verdict.errors.extend(self.translate_all(errors));
        }
        for (import, reason) in &findings.unresolved {
            // Packages probe for optional companions with `require` and `import()`.
            let optional = import.how != ImportedBy::Static && in_package(&import.importer);
            let quoted = format!("\"{}\"", import.specifier);
            let file = self.project.relative(&import.importer);
            let said = |error: &Diagnostic| {
                error.message.contains(&quoted) && error.file.as_deref() == Some(Path::new(&file))
            };
            if !optional && !verdict.errors.iter().any(said) {
                let error = self.unresolved(&import.specifier, reason.as_deref());
                verdict.errors.push(self.locate(error, import));
            }
        }
        self.add_own_errors(verdict, findings);
        verdict.tidy();
    }

    /// The error for a decorator that neither the bundler nor V8 takes.
    ///
    /// `line` and `column` count from 0, the column in UTF-16 units.
    pub(super) fn decorator(&self, file: &str, line: u32, column: u32) -> Diagnostic {
        let error = Diagnostic::error("decorators of the ECMAScript proposal are not supported")
            .in_file(file)
            .with_hint(
                "V8 does not know them yet. TypeScript's own decorators work: set\n\
             \"experimentalDecorators\": true in tsconfig.json if the library takes those",
            );
        match read_source(&self.project.dir.join(file)) {
            Some(source) => {
                let (line, column) = character_place(&source, line as usize + 1, column as usize);
                error.at(&source, line, column, 1, "")
            }
            None => error,
        }
    }

    fn add_own_errors(&self, verdict: &mut Verdict, findings: &Findings) {
        verdict.errors.extend(findings.file_errors.iter().cloned());
        verdict
            .errors
            .extend(findings.errors.iter().map(|(import, error)| {
                // The error is about the imported file; the place to look at is the import.
                self.locate(error.clone(), import)
            }));
    }

    fn unresolved_warning(
        &self,
        warning: &BuildDiagnostic,
        findings: &Findings,
        verdict: &mut Verdict,
    ) {
        let importer = warning.id().unwrap_or_default();
        let specifier = warning.exporter().unwrap_or_default();
        let imports = || {
            findings.unresolved.keys().filter(|import| {
                import.specifier == specifier && import.importer == Path::new(&importer)
            })
        };
        let only_dynamic =
            imports().next().is_some() && imports().all(|import| import.how == ImportedBy::Dynamic);
        let mut diagnostic = self.translate(warning);
        if only_dynamic && in_package(Path::new(&importer)) {
            // `import()` of something optional: it rejects at run time, where it is handled.
            diagnostic.severity = Severity::Warning;
            verdict.warnings.push(diagnostic);
        } else {
            diagnostic.severity = Severity::Error;
            verdict.errors.push(diagnostic);
        }
    }

    /// Errors that our own plugin caused are left out: it notes them in better words.
    fn translate_all(&self, errors: &[BuildDiagnostic]) -> Vec<Diagnostic> {
        errors
            .iter()
            .filter(|error| !matches!(error.kind(), EventKind::PluginError))
            .map(|error| self.translate(error))
            .collect()
    }

    fn translate(&self, from: &BuildDiagnostic) -> Diagnostic {
        let detail = from.to_diagnostic_with(&self.rolldown);
        let place = detail.get_primary_location();
        let rendered = Rendered::parse(&detail.convert_to_string(false));
        let file = place
            .as_ref()
            .map(|(file, ..)| file.clone())
            .or_else(|| from.id());
        let mut to = self.word(from, &rendered);
        if from.severity() != rolldown_error::Severity::Error {
            to.severity = Severity::Warning;
        }
        to.hint = to.hint.or(rendered.help);
        let Some(file) = file else {
            return to;
        };
        let path = self.project.dir.join(&file);
        to = to.in_file(self.project.relative(&path));
        if let (Some((_, line, column, _)), Some(source)) = (place, read_source(&path)) {
            let (line, column) = character_place(&source, line, column);
            let label = if from.kind().to_string() == EventKind::ParseError.to_string() {
                &*rendered.label
            } else {
                ""
            };
            to = to.at(
                &source,
                line,
                column,
                token_width(&source, line, column),
                label,
            );
        }
        to
    }

    /// The message, and the hint where this module knows better than rolldown.
    fn word(&self, from: &BuildDiagnostic, rendered: &Rendered) -> Diagnostic {
        let message = one_line(&from.to_message_with(&self.rolldown));
        // Rolldown writes some paths in full.
        let message = message.replace(&format!("{}/", self.project.dir.display()), "");
        match from.kind() {
            EventKind::UnresolvedImport => self.unresolved(&from.exporter().unwrap_or_default(), None),
            EventKind::ResolveError => self.unresolved(&from.exporter().unwrap_or_default(), Some(&rendered.label)),
            EventKind::ParseError => Diagnostic::error(format!("syntax error: {}", lower(&message))),
            EventKind::UnhandleableError => {
                let text = message.split("Stack backtrace:").next().unwrap_or_default();
                let text = text.split_once("/issues. ").map_or(text, |(_, rest)| rest);
                defect(&format!("the bundler failed: {}", text.trim()))
            }
            EventKind::JsonParseError => {
                let message = message.split(" at line ").next().unwrap_or_default();
                Diagnostic::error(format!("invalid JSON: {message}"))
            }
            EventKind::UnloadableDependencyError if message.contains("UTF-8") => {
                let path = message.strip_prefix("Could not load ").and_then(|rest| rest.split(" - ").next());
                Diagnostic::error(format!("{} is no UTF-8 text", path.unwrap_or("a source file")))
                    .with_hint("save the file as UTF-8; for bytes use a module rule of type \"Data\"")
            }
            EventKind::InvalidDefineConfigError => Diagnostic::error(format!("invalid `define`: {message}")).with_hint(
                "values are JavaScript source: a string needs quotes of its own, as in \"\\\"text\\\"\"",
            ),
            _ => Diagnostic::error(lower(&message)),
        }
    }

    fn unresolved(&self, specifier: &str, reason: Option<&str>) -> Diagnostic {
        if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
            let error =
                Diagnostic::error(format!("cannot resolve \"{specifier}\": {}", lower(reason)));
            return if reason.contains("exports") {
                error.with_hint(
                    "the package does not offer this path for Workers (conditions workerd, worker,\n\
                     browser); see `exports` in its package.json",
                )
            } else {
                error
            };
        }
        Diagnostic::error(format!("cannot resolve \"{specifier}\""))
            .with_hint(self.unresolved_hint(specifier))
    }

    fn unresolved_hint(&self, specifier: &str) -> String {
        if specifier.starts_with("./") || specifier.starts_with("../") || specifier.starts_with('/')
        {
            return "there is no such file; check the path and its upper and lower case".to_owned();
        }
        if specifier.starts_with('#') {
            return "`imports` in package.json has no such entry".to_owned();
        }
        if !self.nodejs_compat && is_bare_node_builtin(specifier) {
            return "this is a module of Node.js; add \"nodejs_compat\" to `compatibility_flags` to use it".to_owned();
        }
        if specifier.ends_with("/jsx-runtime") || specifier.ends_with("/jsx-dev-runtime") {
            return "JSX imports this module; install the package, or name another one in `jsxImportSource` in\n\
                    tsconfig.json (\"hono/jsx\" for Hono)"
                .to_owned();
        }
        let Some(package) = package_name(specifier) else {
            return "no package has such a name; is it missing in `paths` in tsconfig.json or in `alias`?".to_owned();
        };
        let installed = self
            .project
            .entry
            .ancestors()
            .any(|dir| dir.join("node_modules").join(package).is_dir());
        if installed {
            return format!(
                "the package {package} is installed, but has no such file for Workers (conditions\n\
                 workerd, worker, browser); see `exports` and `main` in its package.json"
            );
        }
        if self
            .project
            .entry
            .ancestors()
            .skip(1)
            .any(|dir| lists_package(dir, package))
        {
            format!("{package} is in package.json but not installed; run `npm install`")
        } else {
            format!("run `npm install {package}`, or correct the import")
        }
    }

    /// Adds the place of an import, found in the text of the importer.
    fn locate(&self, diagnostic: Diagnostic, import: &Import) -> Diagnostic {
        let diagnostic = diagnostic.in_file(self.project.relative(&import.importer));
        let place = read_source(&import.importer).and_then(|source| {
            find_import(&source, &import.specifier, import.how).map(|place| (source, place))
        });
        match place {
            Some((source, place)) => {
                diagnostic.at(&source, place.line, place.column, place.width, "")
            }
            None => diagnostic,
        }
    }
}

/// The parts of rolldown's rendered message that it offers in no other form.
#[derive(Debug, Default)]
struct Rendered {
    label: String,
    help: Option<String>,
}

impl Rendered {
    fn parse(text: &str) -> Self {
        let mut rendered = Self::default();
        let mut labels = text
            .lines()
            .filter_map(|line| line.split_once('╰'))
            .map(|(_, label)| label.trim_start_matches('─').trim())
            .filter(|label| !label.is_empty());
        // With several labels it is open which one belongs to the place.
        if let (Some(label), None) = (labels.next(), labels.next()) {
            rendered.label = label.to_owned();
        }
        rendered.help = text.lines().find_map(|line| {
            let content = line.trim_start_matches([' ', '│', '┃']);
            let (_, help) = content.strip_prefix("Help")?.split_once(": ")?;
            Some(help.trim().to_owned())
        });
        rendered
    }
}

fn in_package(path: &Path) -> bool {
    path.components()
        .any(|part| part.as_os_str() == "node_modules")
}

fn read_source(path: &Path) -> Option<String> {
    let length = std::fs::metadata(path).ok()?.len();
    if length > EXCERPT_SOURCE_MAX_BYTES {
        return None;
    }
    std::fs::read_to_string(path).ok()
}

/// From a line with a column in UTF-16 units from 0 to a column in characters from 1.
fn character_place(source: &str, line: usize, column: usize) -> (u32, u32) {
    let text = source
        .split('\n')
        .nth(line.saturating_sub(1))
        .unwrap_or_default();
    let mut units = 0;
    let before = text.chars().take_while(|c| {
        let fits = units < column;
        units += c.len_utf16();
        fits
    });
    let column = before.count() + 1;
    (
        u32::try_from(line).unwrap_or(u32::MAX),
        u32::try_from(column).unwrap_or(u32::MAX),
    )
}

/// `a` of `a/b`, `@s/a` of `@s/a/b`; nothing where npm allows no such name.
fn package_name(specifier: &str) -> Option<&str> {
    let scope = match specifier.strip_prefix('@') {
        Some(rest) => rest.find('/').filter(|at| *at > 0)? + 2,
        None => 0,
    };
    let rest = &specifier[scope..];
    let name = &rest[..rest.find('/').unwrap_or(rest.len())];
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    (!name.is_empty() && name.chars().all(allowed)).then(|| &specifier[..scope + name.len()])
}

fn lists_package(dir: &Path, package: &str) -> bool {
    let Some(value) = read_source(&dir.join("package.json"))
        .and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok())
    else {
        return false;
    };
    [
        "dependencies",
        "devDependencies",
        "optionalDependencies",
        "peerDependencies",
    ]
    .iter()
    .any(|field| {
        value
            .get(field)
            .and_then(|list| list.get(package))
            .is_some()
    })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn lower(text: &str) -> String {
    let text = one_line(text);
    let mut chars = text.chars();
    match (chars.next(), chars.clone().next()) {
        // Not an acronym such as `JSX`.
        (Some(first), Some(second)) if !second.is_uppercase() => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_names_end_at_the_right_slash() {
        assert_eq!(package_name("a"), Some("a"));
        assert_eq!(package_name("a/b/c"), Some("a"));
        assert_eq!(package_name("@s/a"), Some("@s/a"));
        assert_eq!(package_name("@s/a/b"), Some("@s/a"));
        for nameless in ["@s", "@/lib", "~/lib", "", "@s/", "virtual:x"] {
            assert_eq!(package_name(nameless), None, "{nameless}");
        }
    }

    #[test]
    fn columns_count_characters() {
        assert_eq!(character_place("a\n😀b", 2, 2), (2, 2));
        assert_eq!(character_place("a\n😀b", 2, 3), (2, 3));
        assert_eq!(character_place("", 5, 9), (5, 1));
    }

    #[test]
    fn acronyms_keep_their_case() {
        assert_eq!(
            lower("Expected `;`\n but found `x`"),
            "expected `;` but found `x`"
        );
        assert_eq!(lower("JSX is off"), "JSX is off");
    }
}
