//! The rolldown plugin that gives Workers their module resolution.
//!
//! It leaves the runtime's modules external, keeps files that module rules name as modules of
//! their own, and makes `require()` of either work in an ES module, where `require` does not
//! exist: the call gets a small module that imports the real one.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rolldown::ModuleType;
use rolldown_common::{ImportKind, PackageJson, ResolvedExternal};
use rolldown_error::{DiagnosticOptions, resolve_error_to_message};
use rolldown_plugin::{
    HookLoadArgs, HookLoadOutput, HookLoadReturn, HookResolveIdArgs, HookResolveIdOutput,
    HookResolveIdReturn, HookTransformArgs, HookTransformOutput, HookTransformOutputMap,
    HookTransformReturn, HookUsage, Plugin, PluginContext, SharedLoadPluginContext,
    SharedTransformPluginContext,
};
use rolldown_resolver::ResolveError;

use super::builtins::{is_bare_node_builtin, is_runtime_module};
use super::rules::{Rules, Verdict, out_of_force};
use super::{
    BundledModule, Diagnostic, ModuleKind, Project, SCRIPT_EXTENSIONS, content_name, read_module,
};

/// Prefix of the modules that stand in for `require()` of an external module. The zero byte
/// keeps other resolution away from it.
const REQUIRE_PREFIX: &str = "\0celld-require:";

/// Deepest nesting of brackets in a source file. People write dozens, generators hundreds; the
/// bundler needs stack and time beyond all reason for much more.
const NESTING_MAX: usize = 4_000;

/// What a [`WorkersPlugin`] needs to know.
#[derive(Debug)]
pub(super) struct PluginSettings {
    pub(super) project: Project,
    pub(super) rules: Arc<Rules>,
    pub(super) alias: BTreeMap<String, String>,
    pub(super) nodejs_compat: bool,
    /// Additional modules by absolute path, with their specifiers.
    pub(super) additional: BTreeMap<PathBuf, String>,
    /// Go on behind imports that can't be resolved, to find the errors of the other files.
    pub(super) tolerant: bool,
}

/// What a [`WorkersPlugin`] found during one build.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Modules kept apart, by specifier.
    pub(super) modules: BTreeMap<String, BundledModule>,
    /// Files read outside the bundler: module files and `package.json` files.
    pub(super) inputs: BTreeSet<PathBuf>,
    /// Imports that could not be resolved, with the resolver's reason unless it is plain absence.
    pub(super) unresolved: BTreeMap<Import, Option<String>>,
    /// Errors of this plugin, each with the import that caused it.
    pub(super) errors: Vec<(Import, Diagnostic)>,
    /// Errors about whole files, whoever imports them.
    pub(super) file_errors: Vec<Diagnostic>,
    /// `node:` modules imported without `nodejs_compat`, each with its first importer.
    pub(super) node_modules: BTreeMap<String, PathBuf>,
}

/// One import as the resolver sees it: no position, hence the search in [`super::source`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Import {
    pub(super) importer: PathBuf,
    pub(super) specifier: String,
    pub(super) how: ImportedBy,
}

/// The form of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ImportedBy {
    Static,
    Dynamic,
    Require,
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct WorkersPlugin {
    settings: PluginSettings,
    findings: Arc<Mutex<Findings>>,
}

impl WorkersPlugin {
    pub(super) fn new(settings: PluginSettings, findings: Arc<Mutex<Findings>>) -> Self {
        Self { settings, findings }
    }

    fn findings(&self) -> MutexGuard<'_, Findings> {
        // A panic elsewhere leaves the collections complete, each insertion being one step.
        self.findings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn resolve(
        &self,
        ctx: &PluginContext,
        args: &HookResolveIdArgs<'_>,
    ) -> Option<HookResolveIdOutput> {
        if let Some(inner) = args
            .importer
            .and_then(|importer| importer.strip_prefix(REQUIRE_PREFIX))
        {
            return Some(external(inner));
        }
        if args.is_entry {
            // An absolute path, which the resolver would cut at a `#` or `?` in it.
            return Some(self.entry());
        }
        let target = self.settings.alias.get(args.specifier).map(String::as_str);
        let specifier = target
            .filter(|target| self.is_provided(target))
            .unwrap_or(args.specifier);
        let aliased = target.is_some() && specifier == args.specifier;
        if !aliased && self.is_provided(specifier) {
            return Some(self.provided(specifier, args));
        }
        if specifier.starts_with("http://") || specifier.starts_with("https://") {
            let error = Diagnostic::error(format!(
                "cannot import \"{specifier}\": modules are not loaded over the network"
            ))
            .with_hint("install the package with npm, or put the file into the project");
            self.findings().errors.push((import_of(args), error));
            return Some(external(specifier));
        }
        self.resolve_file(ctx, args)
    }

    fn entry(&self) -> HookResolveIdOutput {
        let entry = &self.settings.project.entry;
        let package = entry
            .ancestors()
            .skip(1)
            .map(|dir| dir.join("package.json"))
            .find(|path| path.is_file());
        let mut findings = self.findings();
        findings.inputs.extend(package.clone());
        let package = package.filter(|path| match invalid_json(path, &self.settings.project) {
            Some(error) => {
                findings.file_errors.push(error);
                false
            }
            None => true,
        });
        HookResolveIdOutput {
            package_json_path: package.map(|path| path.to_string_lossy().into_owned()),
            ..HookResolveIdOutput::from_id(entry.to_string_lossy().into_owned())
        }
    }

    /// Whether the runtime provides `specifier` in this project.
    fn is_provided(&self, specifier: &str) -> bool {
        is_runtime_module(specifier)
            || (self.settings.nodejs_compat && is_bare_node_builtin(specifier))
    }

    fn provided(&self, specifier: &str, args: &HookResolveIdArgs<'_>) -> HookResolveIdOutput {
        let specifier = if is_bare_node_builtin(specifier) {
            Cow::Owned(format!("node:{specifier}"))
        } else {
            Cow::Borrowed(specifier)
        };
        if specifier.starts_with("node:") && !self.settings.nodejs_compat {
            let importer = PathBuf::from(args.importer.unwrap_or_default());
            self.findings()
                .node_modules
                .entry(specifier.to_string())
                .or_insert(importer);
        }
        import_external(&specifier, args.kind)
    }

    fn resolve_file(
        &self,
        ctx: &PluginContext,
        args: &HookResolveIdArgs<'_>,
    ) -> Option<HookResolveIdOutput> {
        let importer = args.importer.map(Path::new);
        let found = match ctx
            .resolver()
            .resolve(importer, args.specifier, args.kind, false)
        {
            Ok(found) => found,
            Err(error) => return self.unresolved(&error, args),
        };
        if let Some(package) = &found.package_json {
            self.findings()
                .inputs
                .insert(package.realpath().to_path_buf());
        }
        let (path, query) = split_query(&found.path);
        if let Some(compiled) = compiled_sibling(args.specifier, path) {
            return Some(HookResolveIdOutput {
                package_json_path: found.package_json.as_ref().map(package_path),
                ..HookResolveIdOutput::from_id(compiled)
            });
        }
        if let Some(specifier) = self.settings.additional.get(path) {
            return Some(import_external(&format!("./{specifier}"), args.kind));
        }
        let relative = self.settings.project.relative(path);
        match self.settings.rules.judge_import(&relative, query) {
            Verdict::Module(kind) => Some(self.keep_apart(path, kind, args)),
            Verdict::OutOfForce(kind, glob) => {
                let error = out_of_force(&relative, kind, glob);
                self.findings().errors.push((import_of(args), error));
                Some(external(args.specifier))
            }
            Verdict::Unmatched if !is_source(path) => {
                self.findings()
                    .errors
                    .push((import_of(args), no_rule(&relative, path)));
                Some(external(args.specifier))
            }
            Verdict::Unmatched => Some(HookResolveIdOutput {
                package_json_path: found.package_json.as_ref().map(package_path),
                ..HookResolveIdOutput::from_id(found.path)
            }),
        }
    }

    /// Leaves the error to rolldown, which knows the place, unless the build is to go on.
    fn unresolved(
        &self,
        error: &ResolveError,
        args: &HookResolveIdArgs<'_>,
    ) -> Option<HookResolveIdOutput> {
        // A package.json says `false` for this file: an empty module.
        if matches!(error, ResolveError::Ignored(_)) {
            return None;
        }
        let reason = (!matches!(error, ResolveError::NotFound(_))).then(|| {
            resolve_error_to_message(
                error,
                &DiagnosticOptions {
                    cwd: self.settings.project.dir.clone(),
                },
            )
        });
        self.findings().unresolved.insert(import_of(args), reason);
        self.settings.tolerant.then(|| external(args.specifier))
    }

    fn keep_apart(
        &self,
        path: &Path,
        kind: ModuleKind,
        args: &HookResolveIdArgs<'_>,
    ) -> HookResolveIdOutput {
        let contents = read_module(path);
        let mut findings = self.findings();
        findings.inputs.insert(path.to_path_buf());
        match contents {
            Ok(bytes) => {
                let specifier = content_name(kind, path, &bytes);
                let output = import_external(&format!("./{specifier}"), args.kind);
                let module = BundledModule {
                    specifier: specifier.clone(),
                    kind,
                    bytes,
                    source_map: None,
                };
                findings.modules.insert(specifier, module);
                output
            }
            Err(error) => {
                let message = format!(
                    "{} can't be read: {error}",
                    self.settings.project.relative(path)
                );
                findings
                    .errors
                    .push((import_of(args), Diagnostic::error(message)));
                external(args.specifier)
            }
        }
    }
}

fn import_of(args: &HookResolveIdArgs<'_>) -> Import {
    Import {
        importer: PathBuf::from(args.importer.unwrap_or_default()),
        specifier: args.specifier.to_owned(),
        how: match args.kind {
            ImportKind::DynamicImport => ImportedBy::Dynamic,
            ImportKind::Require => ImportedBy::Require,
            _ => ImportedBy::Static,
        },
    }
}

/// Separates `?…` from a resolved path, unless the file's own name has the question mark.
fn split_query(path: &str) -> (&Path, &str) {
    match path.find('?') {
        Some(at) if !Path::new(path).exists() => (Path::new(&path[..at]), &path[at..]),
        _ => (Path::new(path), ""),
    }
}

/// Whether the bundler takes a file in: JavaScript, TypeScript, JSON, or a file whose name has
/// no extension.
fn is_source(path: &Path) -> bool {
    path.extension().is_none_or(|extension| {
        extension == "json" || SCRIPT_EXTENSIONS.iter().any(|known| extension == *known)
    })
}

/// Deepest nesting of brackets in `code`. Brackets in strings count too: telling them apart
/// takes a parser, and they come in pairs as a rule.
fn nesting(code: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for byte in code.bytes() {
        match byte {
            b'(' | b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The compiled file beside a TypeScript source that a package's own relative import hit.
///
/// Packages that ship both mean the compiled one: sources are meant for debuggers, and their
/// authors never ran them through our compiler. In the project itself TypeScript wins.
fn compiled_sibling(specifier: &str, path: &Path) -> Option<String> {
    let typescript = path
        .extension()
        .is_some_and(|extension| extension == "ts" || extension == "tsx");
    let relative = specifier.starts_with("./") || specifier.starts_with("../");
    let explicit = specifier.ends_with(".ts") || specifier.ends_with(".tsx");
    if !typescript || !relative || explicit || !path.iter().any(|part| part == "node_modules") {
        return None;
    }
    let compiled = path.with_extension("js");
    compiled
        .is_file()
        .then(|| compiled.to_string_lossy().into_owned())
}

/// The error of a file that has to be JSON and is not.
fn invalid_json(path: &Path, project: &Project) -> Option<Diagnostic> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim_start_matches('\u{feff}');
    let error = serde_json::from_str::<serde::de::IgnoredAny>(text).err()?;
    let relative = project.relative(path);
    let place = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).max(1);
    Some(
        Diagnostic::error(format!("{relative} is no valid JSON: {error}"))
            .in_file(relative)
            .at(text, place(error.line()), place(error.column()), 1, ""),
    )
}

fn package_path(package: &Arc<PackageJson>) -> String {
    package.realpath().to_string_lossy().into_owned()
}

fn no_rule(relative: &str, path: &Path) -> Diagnostic {
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    Diagnostic::error(format!("{relative} is no JavaScript and no module rule covers it")).with_hint(format!(
        "to import its contents, add to `rules` in the Wrangler configuration:\n\
         {{ \"type\": \"Text\", \"globs\": [\"**/*.{extension}\"], \"fallthrough\": true }} (or \"Data\" for bytes);\n\
         files for the browser belong to `assets`"
    ))
}

fn external(specifier: &str) -> HookResolveIdOutput {
    HookResolveIdOutput {
        external: Some(ResolvedExternal::Bool(true)),
        ..HookResolveIdOutput::from_id(specifier)
    }
}

fn import_external(specifier: &str, kind: ImportKind) -> HookResolveIdOutput {
    if kind == ImportKind::Require {
        HookResolveIdOutput::from_id(format!("{REQUIRE_PREFIX}{specifier}"))
    } else {
        external(specifier)
    }
}

/// Code of the module that stands in for `require(specifier)`.
fn require_stand_in(specifier: &str) -> String {
    let quoted = serde_json::Value::from(specifier);
    if specifier.starts_with("cloudflare:") || specifier.starts_with("workerd:") {
        // These have named exports; `require` is expected to show them all.
        format!("import * as provided from {quoted};\nmodule.exports = provided;\n")
    } else {
        format!("import provided from {quoted};\nmodule.exports = provided;\n")
    }
}

impl Plugin for WorkersPlugin {
    fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed("celld-workers")
    }

    fn register_hook_usage(&self) -> HookUsage {
        HookUsage::ResolveId | HookUsage::Load | HookUsage::Transform
    }

    async fn resolve_id(
        &self,
        ctx: &PluginContext,
        args: &HookResolveIdArgs<'_>,
    ) -> HookResolveIdReturn {
        Ok(self.resolve(ctx, args))
    }

    async fn load(&self, _ctx: SharedLoadPluginContext, args: &HookLoadArgs<'_>) -> HookLoadReturn {
        Ok(args
            .id
            .strip_prefix(REQUIRE_PREFIX)
            .map(|specifier| HookLoadOutput {
                code: require_stand_in(specifier).into(),
                module_type: Some(ModuleType::Js),
                ..Default::default()
            }))
    }

    /// Lets `.js` files of the project hold JSX, as they may under Wrangler. Packages are left
    /// out: their files are plain JavaScript, and the JSX transform would only cost time.
    async fn transform(
        &self,
        _ctx: SharedTransformPluginContext,
        args: &HookTransformArgs<'_>,
    ) -> HookTransformReturn {
        let depth = nesting(args.code);
        if depth > NESTING_MAX {
            let path = self.settings.project.relative(Path::new(args.id));
            let error = Diagnostic::error(format!(
                "{path} nests {depth} brackets, more than the limit of {NESTING_MAX}"
            ))
            .in_file(path)
            .with_hint("read deeply nested data at run time instead of importing it as code");
            self.findings().file_errors.push(error);
            anyhow::bail!("nested too deep");
        }
        let may_hold_jsx = *args.module_type == ModuleType::Js
            && !args.id.starts_with('\0')
            && !args.id.contains("/node_modules/")
            && (args.code.contains("</") || args.code.contains("/>"));
        Ok(may_hold_jsx.then(|| HookTransformOutput {
            map: HookTransformOutputMap::Null,
            module_type: Some(ModuleType::Jsx),
            ..Default::default()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_split_off_unless_a_file_has_that_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let odd = dir.path().join("a?b.wasm");
        std::fs::write(&odd, "").expect("written");
        let odd = odd.to_string_lossy().into_owned();
        assert_eq!(split_query(&odd), (Path::new(&odd), ""));
        assert_eq!(
            split_query("/x/a.wasm?module"),
            (Path::new("/x/a.wasm"), "?module")
        );
        assert_eq!(split_query("/x/a.wasm"), (Path::new("/x/a.wasm"), ""));
    }

    #[test]
    fn stand_ins_quote_the_specifier() {
        assert_eq!(
            require_stand_in("./a\"b"),
            "import provided from \"./a\\\"b\";\nmodule.exports = provided;\n"
        );
    }
}
