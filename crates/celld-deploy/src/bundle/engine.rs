//! Runs rolldown on a project, apart from the caller's threads.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rolldown::{
    BundleOutput, BundlerBuilder, BundlerOptions, BundlerTransformOptions, CodeSplittingMode,
    Either, InputItem, OutputFormat, Platform, RawMinifyOptions, ResolveOptions, SourceMapType,
    TsConfig,
};
use rolldown_common::{Output, OutputChunk};
use rolldown_error::{BuildDiagnostic, BuildResult};

use super::decorators::first_decorator;
use super::plugin::{Findings, PluginSettings, WorkersPlugin};
use super::rules::Rules;
use super::translate::Translator;
use super::{
    Bundle, BundleErrors, BundleOptions, BundledModule, Diagnostic, ModuleKind, Project,
    additional, defect, tsconfig,
};

/// Stack of the bundler's threads. Its parser and printers recurse as deep as the program
/// nests; generated code nests deeper than the usual 2 MiB allow. Only touched pages cost memory.
const STACK_BYTES: usize = 128 * 1024 * 1024;

/// Most threads of each kind, so that the stacks stay within any limit on address space.
const THREADS_MAX: usize = 4;

/// How often the build is checked for tasks that died.
const STALL_CHECK: Duration = Duration::from_millis(500);

/// Checks in a row without any live task after which a waiting build is given up.
const STALL_CHECKS: u32 = 6;

/// Bundles a project whose places are known.
///
/// The first attempt stops at imports that can't be resolved, with their exact places. If it
/// fails, a second one goes on behind them for the sake of the errors in other files.
pub(super) fn bundle(
    options: &BundleOptions,
    project: &Project,
    rules: Rules,
) -> Result<Bundle, BundleErrors> {
    let additional = if options.find_additional_modules {
        additional::find(project, &rules)?
    } else {
        Vec::new()
    };
    let rules = Arc::new(rules);
    let translator = Translator::new(project, options.nodejs_compat);
    let attempt = |tolerant| {
        let settings = PluginSettings {
            project: project.clone(),
            rules: Arc::clone(&rules),
            alias: options.alias.clone(),
            nodejs_compat: options.nodejs_compat,
            additional: additional
                .iter()
                .map(|module| {
                    (
                        project.base_dir.join(&module.specifier),
                        module.specifier.clone(),
                    )
                })
                .collect(),
            tolerant,
        };
        attempt(rolldown_options(options, project), settings)
    };

    let first = attempt(false).map_err(|crash| crash.into_diagnostic(project))?;
    let mut verdict = translator.judge(&first.built.result, &first.findings);
    if let Some(place) = &first.built.decorator {
        verdict
            .errors
            .push(translator.decorator(&place.file, place.line, place.column));
    }
    let mut inputs = first.inputs(options, project, &additional);
    if verdict.errors.is_empty()
        && let Ok(output) = first.built.result
    {
        return match assemble(output, first.findings, additional, project) {
            Ok((main, modules)) => Ok(Bundle {
                main,
                modules,
                inputs,
                warnings: verdict.warnings,
            }),
            Err(error) => Err(BundleErrors {
                errors: vec![error],
                warnings: verdict.warnings,
                inputs,
            }),
        };
    }
    if let Ok(second) = attempt(true) {
        translator.add_errors(&mut verdict, &second.built.result, &second.findings);
        inputs.extend(second.inputs(options, project, &additional));
    }
    Err(BundleErrors {
        errors: verdict.errors,
        warnings: verdict.warnings,
        inputs,
    })
}

/// What one run of rolldown brought.
struct Attempt {
    built: Built,
    findings: Findings,
}

impl Attempt {
    fn inputs(
        &self,
        options: &BundleOptions,
        project: &Project,
        additional: &[BundledModule],
    ) -> Vec<PathBuf> {
        let mut inputs: Vec<PathBuf> = self
            .built
            .read
            .iter()
            .filter(|path| path.is_absolute())
            .cloned()
            .collect();
        inputs.push(project.entry.clone());
        inputs.extend(tsconfig::files(options, project));
        inputs.extend(self.findings.inputs.iter().cloned());
        inputs.extend(
            additional
                .iter()
                .map(|module| project.base_dir.join(&module.specifier)),
        );
        inputs
    }
}

fn attempt(options: BundlerOptions, settings: PluginSettings) -> Result<Attempt, Crash> {
    let findings = Arc::new(Mutex::new(Findings::default()));
    let plugin = WorkersPlugin::new(settings, Arc::clone(&findings));
    let built = isolated(move || build(options, plugin))?;
    let findings = std::mem::take(&mut *findings.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Attempt { built, findings })
}

fn rolldown_options(options: &BundleOptions, project: &Project) -> BundlerOptions {
    let strings = |list: &[&str]| Some(list.iter().map(|text| (*text).to_owned()).collect());
    BundlerOptions {
        input: Some(vec![InputItem {
            name: Some("index".to_owned()),
            import: project.entry.to_string_lossy().into_owned(),
        }]),
        cwd: Some(project.dir.clone()),
        platform: Some(Platform::Browser),
        format: Some(OutputFormat::Esm),
        // Nothing is written; source map paths are relative to this directory.
        dir: Some(".".to_owned()),
        entry_filenames: Some("[name].js".to_owned().into()),
        code_splitting: Some(CodeSplittingMode::Bool(false)),
        sourcemap: Some(SourceMapType::Hidden),
        keep_names: Some(true),
        minify: options.minify.then_some(RawMinifyOptions::Bool(true)),
        define: Some(defines(options).into_iter().collect()),
        resolve: Some(ResolveOptions {
            condition_names: strings(&["workerd", "worker", "browser", "module"]),
            main_fields: strings(&["browser", "module", "main"]),
            alias: Some(aliases(options, project)),
            ..ResolveOptions::default()
        }),
        transform: Some(BundlerTransformOptions {
            target: Some(Either::Left("es2024".to_owned())),
            jsx: Some(Either::Right(tsconfig::jsx_options(options, project))),
            ..BundlerTransformOptions::default()
        }),
        tsconfig: Some(match &options.tsconfig {
            Some(path) => TsConfig::Manual(project.dir.join(path)),
            None => TsConfig::Auto(true),
        }),
        ..BundlerOptions::default()
    }
}

fn defines(options: &BundleOptions) -> Vec<(String, String)> {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let node_env = options.node_env.as_deref().unwrap_or("production");
    let defaults = [
        ("process.env.NODE_ENV", quoted(node_env)),
        ("navigator.userAgent", quoted("Cloudflare-Workers")),
    ];
    defaults
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .filter(|(name, _)| !options.define.contains_key(name))
        .chain(options.define.clone())
        .collect()
}

/// Aliases for the resolver: longest first, since `a` also stands for `a/b`.
fn aliases(options: &BundleOptions, project: &Project) -> Vec<(String, Vec<Option<String>>)> {
    let mut aliases: Vec<_> = options
        .alias
        .iter()
        .map(|(from, to)| {
            let to = if to.starts_with("./") || to.starts_with("../") {
                project.dir.join(to).to_string_lossy().into_owned()
            } else {
                to.clone()
            };
            (from.clone(), vec![Some(to)])
        })
        .collect();
    aliases.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
    aliases
}

/// What rolldown answered, the files that it read, and where the program has a decorator left.
struct Built {
    result: Result<BundleOutput, Vec<BuildDiagnostic>>,
    read: Vec<PathBuf>,
    decorator: Option<SourcePlace>,
}

/// A place in a source file, as a source map gives it: line and UTF-16 column from 0.
#[derive(Debug)]
struct SourcePlace {
    file: String,
    line: u32,
    column: u32,
}

async fn build(options: BundlerOptions, plugin: WorkersPlugin) -> Built {
    let bundler: BuildResult<_> = BundlerBuilder::default()
        .with_options(options)
        .with_plugins(vec![Arc::new(plugin)])
        .build();
    let mut bundler = match bundler {
        Ok(bundler) => bundler,
        Err(errors) => {
            return Built {
                result: Err(errors.into_vec()),
                read: Vec::new(),
                decorator: None,
            };
        }
    };
    let result = bundler.generate().await.map_err(|errors| errors.into_vec());
    let read = bundler
        .watch_files()
        .iter()
        .map(|path| PathBuf::from(path.as_str()))
        .collect();
    let decorator = result.as_ref().ok().and_then(find_decorator);
    Built {
        result,
        read,
        decorator,
    }
}

/// Finds a decorator in the output and where it comes from. Parses, so it belongs on a thread
/// with a large stack.
fn find_decorator(output: &BundleOutput) -> Option<SourcePlace> {
    let chunk = output.assets.iter().find_map(|asset| match asset {
        Output::Chunk(chunk) => Some(chunk),
        Output::Asset(_) => None,
    })?;
    let before = &chunk.code[..first_decorator(&chunk.code)?];
    let line = u32::try_from(before.matches('\n').count()).ok()?;
    let column = u32::try_from(before.rsplit('\n').next()?.encode_utf16().count()).ok()?;
    let unknown = SourcePlace {
        file: chunk.filename.to_string(),
        line,
        column,
    };
    let Some(map) = &chunk.map else {
        return Some(unknown);
    };
    let table = map.generate_lookup_table();
    let place = map
        .lookup_token_approx(&table, line, column)
        .and_then(|token| {
            let file = map.get_source(token.get_source_id()?)?.to_owned();
            Some(SourcePlace {
                file,
                line: token.get_src_line(),
                column: token.get_src_col(),
            })
        });
    Some(place.unwrap_or(unknown))
}

/// Puts the modules together, the main one first.
fn assemble(
    output: BundleOutput,
    findings: Findings,
    additional: Vec<BundledModule>,
    project: &Project,
) -> Result<(String, Vec<BundledModule>), Diagnostic> {
    let chunks: Vec<Arc<OutputChunk>> = output
        .assets
        .into_iter()
        .filter_map(|asset| match asset {
            Output::Chunk(chunk) => Some(chunk),
            Output::Asset(_) => None,
        })
        .collect();
    let entry = project.relative(&project.entry);
    let [chunk] = chunks.as_slice() else {
        return Err(
            defect(&format!("{} chunks came out instead of one", chunks.len())).in_file(entry),
        );
    };
    if chunk.exports.is_empty() {
        return Err(Diagnostic::error("the main module exports nothing")
            .in_file(entry)
            .with_hint(
                "export the handlers: `export default { fetch(request, env, ctx) { … } }`\n\
             (the older addEventListener(\"fetch\", …) form is not supported)",
            ));
    }
    let mut others: Vec<BundledModule> = findings.modules.into_values().chain(additional).collect();
    others.sort_by(|a, b| a.specifier.cmp(&b.specifier));
    let taken = |name: &str| others.iter().any(|module| module.specifier == name);
    let main = std::iter::once("index.js".to_owned())
        .chain((1u32..).map(|n| format!("index-{n}.js")))
        .find(|name| !taken(name))
        .unwrap_or_default();
    let first = BundledModule {
        specifier: main.clone(),
        kind: ModuleKind::EsModule,
        bytes: Bytes::from(chunk.code.clone()),
        source_map: chunk
            .map
            .as_ref()
            .map(|map| Bytes::from(map.to_json_string())),
    };
    Ok((main, std::iter::once(first).chain(others).collect()))
}

/// How the bundler itself can fail.
#[derive(Debug)]
enum Crash {
    Panicked(String),
    Stalled,
    NoThread(std::io::Error),
}

impl Crash {
    fn into_diagnostic(self, project: &Project) -> Diagnostic {
        let error = match self {
            Self::Panicked(message) => defect(&format!("the bundler crashed: {message}")),
            Self::Stalled => defect("the bundler stopped in the middle: one of its tasks crashed"),
            Self::NoThread(error) => Diagnostic::error(format!("the bundler can't start: {error}"))
                .with_hint("the machine has no room for more threads; close other programs"),
        };
        error.in_file(project.relative(&project.entry))
    }
}

/// Runs a build on a thread and a runtime of its own, and survives its panics.
fn isolated<T, F>(make: impl FnOnce() -> F + Send + 'static) -> Result<T, Crash>
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get().clamp(1, THREADS_MAX));
    let work = move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .max_blocking_threads(THREADS_MAX)
            .thread_name("celld-bundle")
            .thread_stack_size(STACK_BYTES)
            .enable_time()
            .build()
            .map_err(Crash::NoThread)?;
        // Rolldown links and prints in rayon's pool, whose threads have small stacks otherwise.
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .stack_size(STACK_BYTES)
            .thread_name(|n| format!("celld-bundle-{n}"))
            .build()
            .map_err(|error| Crash::NoThread(std::io::Error::other(error)))?;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            pool.install(|| runtime.block_on(until_stalled(make())))
        }));
        // Tasks may still run after a failure; nobody waits for them.
        runtime.shutdown_background();
        outcome.unwrap_or_else(|panic| Err(Crash::Panicked(panic_message(&*panic))))
    };
    let thread = std::thread::Builder::new()
        .name("celld-bundle".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(work)
        .map_err(Crash::NoThread)?;
    thread
        .join()
        .unwrap_or_else(|panic| Err(Crash::Panicked(panic_message(&*panic))))
}

/// Waits for `future`, unless it waits for tasks that no longer exist.
///
/// The bundler counts the answers of its tasks and would wait forever for one that panicked.
/// The runtime's count of live tasks tells: the timer only fires while `future` waits, and a
/// build that waits without any task has lost one.
async fn until_stalled<F: Future>(future: F) -> Result<F::Output, Crash> {
    let mut future = std::pin::pin!(future);
    let metrics = tokio::runtime::Handle::current().metrics();
    let mut idle = 0;
    while idle < STALL_CHECKS {
        tokio::select! {
            biased;
            output = &mut future => return Ok(output),
            () = tokio::time::sleep(STALL_CHECK) => {
                idle = if metrics.num_alive_tasks() == 0 { idle + 1 } else { 0 };
            }
        }
    }
    Err(Crash::Stalled)
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a message")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_the_build_is_an_error() {
        let crash = isolated(|| async { panic!("planted {}", 1) })
            .map(|(): ()| ())
            .expect_err("it panicked");
        assert!(matches!(crash, Crash::Panicked(message) if message == "planted 1"));
    }

    #[test]
    fn a_panic_in_a_task_of_the_build_is_an_error() {
        let crash = isolated(|| async {
            let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
            // Like the bundler's loader, which holds a sender of its own and never sees an end.
            let keep = Arc::new(sender);
            let task = Arc::clone(&keep);
            tokio::spawn(async move {
                let _held = task;
                panic!("planted");
            });
            let _ = receiver.await;
            drop(keep);
        })
        .expect_err("it stalled");
        assert!(matches!(crash, Crash::Stalled));
    }

    #[test]
    fn a_build_with_live_tasks_is_not_given_up() {
        let value = isolated(|| async {
            let task = tokio::spawn(async {
                tokio::time::sleep(STALL_CHECK * (STALL_CHECKS + 1)).await;
                7
            });
            task.await.expect("the task ends")
        });
        assert_eq!(value.expect("it ends"), 7);
    }

    #[test]
    fn longer_aliases_come_first() {
        let options = BundleOptions {
            alias: [("a", "./x"), ("a/b", "y")]
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .into(),
            ..BundleOptions::default()
        };
        let project = Project {
            dir: "/p".into(),
            entry: "/p/index.js".into(),
            base_dir: "/p".into(),
        };
        let names: Vec<_> = aliases(&options, &project);
        assert_eq!(names[0], ("a/b".to_owned(), vec![Some("y".to_owned())]));
        assert_eq!(names[1], ("a".to_owned(), vec![Some("/p/./x".to_owned())]));
    }
}
