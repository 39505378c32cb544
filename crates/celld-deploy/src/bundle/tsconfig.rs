//! What the project's `tsconfig.json` says about JSX, and which files it consists of.

use std::path::{Path, PathBuf};

use jsonc_parser::{JsonValue, ParseOptions};
use rolldown::{JsxOptions, Platform, ResolveOptions, TsConfig};
use rolldown_fs::{OsFileSystem, OxcResolverFileSystem as _};
use rolldown_resolver::Resolver;

use super::{BundleOptions, Project};

/// Longest chain of `extends` that is followed to its files.
const EXTENDS_MAX: usize = 16;

/// Chooses how JSX is compiled.
///
/// The settings of the entry's `tsconfig.json` hold for all files: the bundler itself would
/// ignore them for `.js` and `.jsx` files that `include` leaves out. Where they are silent, JSX
/// becomes calls of `React.createElement` as under esbuild and Wrangler. `preserve` would leave
/// JSX in the program, which no runtime takes, so it counts as silence.
pub(super) fn jsx_options(options: &BundleOptions, project: &Project) -> JsxOptions {
    let found = read(options, project);
    let automatic = match found.jsx.as_deref() {
        Some("react-jsx" | "react-jsxdev") => true,
        Some("react") => false,
        _ => found.import_source.is_some(),
    };
    let base = JsxOptions {
        // The development runtime writes paths of this machine into the program.
        development: Some(false),
        ..JsxOptions::default()
    };
    if automatic {
        JsxOptions {
            runtime: Some("automatic".to_owned()),
            import_source: found.import_source,
            ..base
        }
    } else {
        JsxOptions {
            runtime: Some("classic".to_owned()),
            pragma: options.jsx_factory.clone().or(found.factory),
            pragma_frag: options.jsx_fragment.clone().or(found.fragment),
            ..base
        }
    }
}

/// The JSX part of `compilerOptions`, `extends` followed.
#[derive(Debug, Default)]
struct JsxSettings {
    jsx: Option<String>,
    import_source: Option<String>,
    factory: Option<String>,
    fragment: Option<String>,
}

/// A file that does not parse counts as silent here; the bundler reports it.
fn read(options: &BundleOptions, project: &Project) -> JsxSettings {
    let Some(path) = locate(options, project) else {
        return JsxSettings::default();
    };
    let resolver = Resolver::new(
        OsFileSystem::new(false),
        project.dir.clone(),
        Platform::Neutral,
        &TsConfig::Manual(path.clone()),
        ResolveOptions::default(),
    );
    resolver.resolve_tsconfig(&path).map_or_else(
        |_| JsxSettings::default(),
        |tsconfig| {
            let compiler = &tsconfig.compiler_options;
            JsxSettings {
                jsx: compiler.jsx.clone(),
                import_source: compiler.jsx_import_source.clone(),
                factory: compiler.jsx_factory.clone(),
                fragment: compiler.jsx_fragment_factory.clone(),
            }
        },
    )
}

fn locate(options: &BundleOptions, project: &Project) -> Option<PathBuf> {
    match &options.tsconfig {
        Some(path) => Some(project.dir.join(path)),
        None => project
            .entry
            .ancestors()
            .skip(1)
            .map(tsconfig_in)
            .find(|path| path.is_file()),
    }
}

fn tsconfig_in(dir: &Path) -> PathBuf {
    dir.join("tsconfig.json")
}

/// The project's `tsconfig.json` with the files that it extends, as far as those are given by a
/// path. (Packages that it extends change with an installation, which is watched for anyway.)
pub(super) fn files(options: &BundleOptions, project: &Project) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = locate(options, project).into_iter().collect();
    let mut next = 0;
    while let Some(path) = files.get(next).cloned() {
        next += 1;
        if files.len() > EXTENDS_MAX {
            break;
        }
        for base in extended(&path) {
            if !files.contains(&base) {
                files.push(base);
            }
        }
    }
    files
}

fn extended(path: &Path) -> Vec<PathBuf> {
    let Ok(text) = std::fs::read_to_string(path) else {
        return Vec::new();
    };
    let string = |value: &JsonValue<'_>| match value {
        JsonValue::String(text) => Some(text.to_string()),
        _ => None,
    };
    let specifiers: Vec<String> =
        match jsonc_parser::parse_to_value(&text, &ParseOptions::default()) {
            Ok(Some(JsonValue::Object(object))) => match object.get("extends") {
                Some(JsonValue::Array(list)) => list.iter().filter_map(string).collect(),
                Some(one) => string(one).into_iter().collect(),
                None => Vec::new(),
            },
            _ => Vec::new(),
        };
    let dir = path.parent().unwrap_or(path);
    specifiers
        .iter()
        .filter(|specifier| specifier.starts_with('.') || specifier.starts_with('/'))
        .map(|specifier| {
            let base = dir.join(specifier);
            // The name may be given without its extension.
            if base.is_file() || specifier.ends_with(".json") {
                base
            } else {
                dir.join(format!("{specifier}.json"))
            }
        })
        .collect()
}
