//! Module rules: which files stay modules of their own, and of what kind.
//!
//! A rule names a kind and globs. The project's rules come first, then the defaults. The first
//! rule of a kind that has no `fallthrough: true` closes that kind: later rules of the same
//! kind, the default one included, are out of force, and a file that only such a rule would
//! match is an error, because its author believes the rule to be in force.

use globset::{GlobBuilder, GlobMatcher};

use super::ModuleKind;
use super::diagnostic::Diagnostic;

/// One entry of `rules` in a Wrangler configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleRule {
    /// What the matching files are.
    pub kind: ModuleKind,
    /// Globs, matched against the path relative to the project (to `base_dir` when additional
    /// modules are searched).
    pub globs: Vec<String>,
    /// Whether later rules of the same kind stay in force. `None` counts as `false`.
    pub fallthrough: Option<bool>,
}

/// The rules of a project, in force and out of force, compiled.
#[derive(Debug)]
pub(super) struct Rules {
    active: Vec<CompiledRule>,
    removed: Vec<CompiledRule>,
}

#[derive(Debug)]
struct CompiledRule {
    kind: ModuleKind,
    globs: Vec<CompiledGlob>,
}

#[derive(Debug)]
struct CompiledGlob {
    text: String,
    /// `*` stays within one directory: for files found by walking a directory.
    strict: GlobMatcher,
    /// `*` crosses directories: for imports, where `*.md` has always meant "any `.md`".
    loose: GlobMatcher,
}

/// What the rules say about a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict<'a> {
    /// A module of its own.
    Module(ModuleKind),
    /// Matched only by a rule that is out of force: kind and glob of that rule.
    OutOfForce(ModuleKind, &'a str),
    /// Not mentioned.
    Unmatched,
}

fn default_rules() -> Vec<ModuleRule> {
    let rule = |kind, globs: &[&str]| ModuleRule {
        kind,
        globs: globs.iter().map(|glob| (*glob).to_owned()).collect(),
        fallthrough: None,
    };
    vec![
        rule(ModuleKind::Text, &["**/*.txt", "**/*.html", "**/*.sql"]),
        rule(ModuleKind::Data, &["**/*.bin"]),
        rule(ModuleKind::CompiledWasm, &["**/*.wasm", "**/*.wasm?module"]),
    ]
}

impl Rules {
    /// Compiles the project's rules with the defaults behind them.
    ///
    /// # Errors
    /// One diagnostic per glob that does not parse.
    pub(super) fn new(user: &[ModuleRule]) -> Result<Self, Vec<Diagnostic>> {
        let mut errors = Vec::new();
        let mut closed = Vec::new();
        let mut rules = Self {
            active: Vec::new(),
            removed: Vec::new(),
        };
        for rule in user.iter().cloned().chain(default_rules()) {
            let compiled = CompiledRule {
                kind: rule.kind,
                globs: rule
                    .globs
                    .iter()
                    .filter_map(|glob| CompiledGlob::new(glob, &mut errors))
                    .collect(),
            };
            if closed.contains(&rule.kind) {
                rules.removed.push(compiled);
                continue;
            }
            if rule.fallthrough != Some(true) {
                closed.push(rule.kind);
            }
            rules.active.push(compiled);
        }
        if errors.is_empty() {
            Ok(rules)
        } else {
            Err(errors)
        }
    }

    /// Judges an imported file. JavaScript kinds never match: the bundler takes those in.
    ///
    /// `path` is relative to the project with `/` between its parts; `query` is what followed
    /// the path in the import, with its `?`, or empty.
    pub(super) fn judge_import(&self, path: &str, query: &str) -> Verdict<'_> {
        let with_query = (!query.is_empty()).then(|| format!("{path}{query}"));
        let hit = |rule: &CompiledRule| {
            if rule.kind.is_javascript() {
                return None;
            }
            rule.globs.iter().position(|glob| {
                glob.loose.is_match(path)
                    || with_query
                        .as_ref()
                        .is_some_and(|full| glob.loose.is_match(full))
            })
        };
        self.judge(hit)
    }

    /// Judges a file found by walking the directory of additional modules.
    pub(super) fn judge_file(&self, path: &str) -> Verdict<'_> {
        self.judge(|rule| {
            rule.globs
                .iter()
                .position(|glob| glob.strict.is_match(path))
        })
    }

    fn judge<'a>(&'a self, hit: impl Fn(&CompiledRule) -> Option<usize>) -> Verdict<'a> {
        if let Some(rule) = self.active.iter().find(|rule| hit(rule).is_some()) {
            return Verdict::Module(rule.kind);
        }
        self.removed
            .iter()
            .find_map(|rule| {
                hit(rule).map(|at| Verdict::OutOfForce(rule.kind, &rule.globs[at].text))
            })
            .unwrap_or(Verdict::Unmatched)
    }
}

impl CompiledGlob {
    fn new(text: &str, errors: &mut Vec<Diagnostic>) -> Option<Self> {
        let pattern = text.strip_prefix("./").unwrap_or(text);
        let build = |literal_separator| {
            GlobBuilder::new(pattern)
                .literal_separator(literal_separator)
                .build()
                .map(|glob| glob.compile_matcher())
        };
        match (build(true), build(false)) {
            (Ok(strict), Ok(loose)) => Some(Self {
                text: text.to_owned(),
                strict,
                loose,
            }),
            (Err(error), _) | (_, Err(error)) => {
                errors.push(
                    Diagnostic::error(format!(
                        "the module rule glob \"{text}\" is not valid: {}",
                        error.kind()
                    ))
                    .with_hint("correct `rules[].globs` in the Wrangler configuration"),
                );
                None
            }
        }
    }
}

/// The error for a file that only a rule out of force matches.
pub(super) fn out_of_force(path: &str, kind: ModuleKind, glob: &str) -> Diagnostic {
    let kind = kind.rule_type();
    Diagnostic::error(format!(
        "{path} matches the module rule \"{glob}\" ({kind}), but an earlier {kind} rule puts it out of force"
    ))
    .with_hint(format!("set `fallthrough = true` on the earlier {kind} rule, or add \"{glob}\" to its globs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(kind: ModuleKind, glob: &str, fallthrough: Option<bool>) -> ModuleRule {
        ModuleRule {
            kind,
            globs: vec![glob.to_owned()],
            fallthrough,
        }
    }

    #[test]
    fn the_defaults_cover_wasm_text_sql_and_data() {
        let rules = Rules::new(&[]).expect("valid");
        for (path, query, kind) in [
            ("a.wasm", "", ModuleKind::CompiledWasm),
            ("src/a.wasm", "?module", ModuleKind::CompiledWasm),
            ("node_modules/p/a.wasm", "", ModuleKind::CompiledWasm),
            ("src/page.html", "", ModuleKind::Text),
            ("q.sql", "", ModuleKind::Text),
            ("q.txt", "", ModuleKind::Text),
            ("d/q.bin", "", ModuleKind::Data),
        ] {
            assert_eq!(
                rules.judge_import(path, query),
                Verdict::Module(kind),
                "{path}{query}"
            );
        }
        assert_eq!(rules.judge_import("src/index.ts", ""), Verdict::Unmatched);
        assert_eq!(rules.judge_import("data.json", ""), Verdict::Unmatched);
    }

    #[test]
    fn a_rule_without_fallthrough_puts_the_default_out_of_force() {
        let rules = Rules::new(&[rule(ModuleKind::Text, "**/*.md", None)]).expect("valid");
        assert_eq!(
            rules.judge_import("a.md", ""),
            Verdict::Module(ModuleKind::Text)
        );
        assert_eq!(
            rules.judge_import("a.txt", ""),
            Verdict::OutOfForce(ModuleKind::Text, "**/*.txt")
        );
        assert_eq!(
            rules.judge_import("a.bin", ""),
            Verdict::Module(ModuleKind::Data)
        );
    }

    #[test]
    fn a_rule_with_fallthrough_keeps_the_default() {
        let rules = Rules::new(&[rule(ModuleKind::Text, "**/*.md", Some(true))]).expect("valid");
        assert_eq!(
            rules.judge_import("a.md", ""),
            Verdict::Module(ModuleKind::Text)
        );
        assert_eq!(
            rules.judge_import("a.txt", ""),
            Verdict::Module(ModuleKind::Text)
        );
    }

    #[test]
    fn javascript_rules_concern_additional_modules_only() {
        let rules = Rules::new(&[rule(ModuleKind::EsModule, "**/*.mjs", None)]).expect("valid");
        assert_eq!(rules.judge_import("a.mjs", ""), Verdict::Unmatched);
        assert_eq!(
            rules.judge_file("lang/a.mjs"),
            Verdict::Module(ModuleKind::EsModule)
        );
    }

    #[test]
    fn a_star_crosses_directories_for_imports_only() {
        let rules = Rules::new(&[rule(ModuleKind::Text, "*.md", Some(true))]).expect("valid");
        assert_eq!(
            rules.judge_import("docs/a.md", ""),
            Verdict::Module(ModuleKind::Text)
        );
        assert_eq!(rules.judge_file("docs/a.md"), Verdict::Unmatched);
        assert_eq!(rules.judge_file("a.md"), Verdict::Module(ModuleKind::Text));
    }

    #[test]
    fn every_broken_glob_is_reported() {
        let errors = Rules::new(&[
            rule(ModuleKind::Text, "a{", None),
            rule(ModuleKind::Data, "[z-a]", None),
        ])
        .expect_err("both are broken");
        assert_eq!(errors.len(), 2);
        assert!(errors[0].message.contains("\"a{\""), "{}", errors[0]);
    }
}
