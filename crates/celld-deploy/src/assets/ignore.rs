//! `.assetsignore`: patterns with the meaning that they have in `.gitignore`.

use globset::{GlobBuilder, GlobMatcher};

/// Most patterns of a file.
const RULES_MAX: usize = 10_000;

/// The patterns of a file, in its order.
#[derive(Default)]
pub(super) struct IgnoreRules(Vec<Rule>);

struct Rule {
    matcher: GlobMatcher,
    /// Takes back what an earlier pattern ignored.
    negated: bool,
    dirs_only: bool,
}

impl IgnoreRules {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let rule = Rule::parse(line).map_err(|why| format!("line {}: {why}", index + 1))?;
            rules.extend(rule);
            if rules.len() > RULES_MAX {
                return Err(format!("it has more than {RULES_MAX} patterns"));
            }
        }
        Ok(Self(rules))
    }

    /// Whether a path from the root is left out. The last pattern that matches decides. What lies
    /// in an ignored directory is not asked about, so it cannot be taken back.
    pub(super) fn ignores(&self, path: &str, is_dir: bool) -> bool {
        let decisive = self
            .0
            .iter()
            .rev()
            .find(|rule| (is_dir || !rule.dirs_only) && rule.matcher.is_match(path));
        decisive.is_some_and(|rule| !rule.negated)
    }
}

impl Rule {
    /// `None` for empty lines and comments.
    fn parse(line: &str) -> Result<Option<Self>, String> {
        // A blank at the end counts only behind a backslash.
        let trimmed = line.trim_end();
        let line = match trimmed.ends_with('\\') && trimmed.len() < line.len() {
            true => &line[..=trimmed.len()],
            false => trimmed,
        };
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let (negated, pattern) = match line.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let (dirs_only, pattern) = match pattern.strip_suffix('/') {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        // A slash at the start or within ties the pattern to the root.
        let anchored = match pattern.strip_prefix('/') {
            Some(rest) => rest.to_owned(),
            None if pattern.contains('/') => pattern.to_owned(),
            None => format!("**/{pattern}"),
        };
        let glob = GlobBuilder::new(&anchored)
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|error| format!("{:?} is not a pattern ({})", line, error.kind()))?;
        Ok(Some(Self {
            matcher: glob.compile_matcher(),
            negated,
            dirs_only,
        }))
    }
}
