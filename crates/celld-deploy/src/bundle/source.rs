//! Finding an import in source text.
//!
//! The resolver learns which file imports what, not where. For messages the place is searched
//! in the text; a wrong guess costs a misplaced caret, never a wrong bundle.

use super::plugin::ImportedBy;

/// A place in a source file, counted from 1, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: u32,
    pub(super) column: u32,
    pub(super) width: u32,
}

/// Finds the string literal by which `source` imports `specifier`.
///
/// A literal after `from`, `import` or `require(` is preferred to the first equal literal.
pub(super) fn find_import(source: &str, specifier: &str, how: ImportedBy) -> Option<Place> {
    let mut fallback = None;
    for quote in ['"', '\'', '`'] {
        let literal = format!("{quote}{specifier}{quote}");
        for (offset, _) in source.match_indices(&literal) {
            let before = source[..offset].trim_end();
            let fits = match how {
                ImportedBy::Static => before.ends_with("from") || before.ends_with("import"),
                ImportedBy::Dynamic => before.ends_with("import("),
                ImportedBy::Require => before.ends_with("require("),
            };
            let place = place_at(source, offset, &literal);
            if fits {
                return Some(place);
            }
            fallback.get_or_insert(place);
        }
    }
    fallback
}

fn place_at(source: &str, offset: usize, literal: &str) -> Place {
    let before = &source[..offset];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    Place {
        line: count(before.matches('\n').count()) + 1,
        column: count(before[line_start..].chars().count()) + 1,
        width: count(literal.chars().count()),
    }
}

fn count(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Characters to underline at a place: the string literal or name that begins there.
pub(super) fn token_width(source: &str, line: u32, column: u32) -> u32 {
    let rest: Vec<char> = source
        .split('\n')
        .nth(line.saturating_sub(1) as usize)
        .unwrap_or_default()
        .chars()
        .skip(column.saturating_sub(1) as usize)
        .take(200)
        .collect();
    let width = match rest.first() {
        Some(quote @ ('"' | '\'')) => rest
            .iter()
            .skip(1)
            .position(|c| c == quote)
            .map_or(1, |at| at + 2),
        Some(c) if is_name(*c) => rest.iter().take_while(|c| is_name(**c)).count(),
        _ => 1,
    };
    count(width)
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_import_is_preferred_to_an_equal_string() {
        let source = "const a = 'pkg';\nimport b from 'pkg';\nconst c = await import('pkg');\nrequire( 'pkg' );\n";
        let at = |how| {
            find_import(source, "pkg", how).map(|place| (place.line, place.column, place.width))
        };
        assert_eq!(at(ImportedBy::Static), Some((2, 15, 5)));
        assert_eq!(at(ImportedBy::Dynamic), Some((3, 24, 5)));
        assert_eq!(at(ImportedBy::Require), Some((4, 10, 5)));
        assert_eq!(find_import(source, "other", ImportedBy::Static), None);
        assert_eq!(
            find_import("x = \"é\"; y = \"p\"", "p", ImportedBy::Static).map(|p| p.column),
            Some(14)
        );
    }

    #[test]
    fn tokens_are_measured() {
        assert_eq!(token_width("import { foo$1 } from \"a-b\";", 1, 10), 5);
        assert_eq!(token_width("import { foo$1 } from \"a-b\";", 1, 23), 5);
        assert_eq!(token_width("x = ;", 1, 5), 1);
        assert_eq!(token_width("\"open", 1, 1), 1);
        assert_eq!(token_width("", 9, 9), 1);
    }
}
