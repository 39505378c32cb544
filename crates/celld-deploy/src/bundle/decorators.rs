//! Finds decorators that the bundler left in the program.
//!
//! The bundler compiles the decorators of TypeScript's `experimentalDecorators`; those of the
//! ECMAScript proposal it passes on, and V8 does not parse them.

use oxc::allocator::Allocator;
use oxc::ast::ast::Decorator;
use oxc::ast_visit::Visit;
use oxc::parser::Parser;
use oxc::span::SourceType;

/// Byte offset of the first decorator in an ES module.
pub(super) fn first_decorator(code: &str) -> Option<usize> {
    if !may_hold_decorators(code) {
        return None;
    }
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, code, SourceType::mjs()).parse();
    let mut search = Search(None);
    search.visit_program(&parsed.program);
    search.0
}

/// A cheap test that spares most programs the parser: an `@` before a name or a parenthesis,
/// at the start of a line or behind a space or punctuation that can stand before a class.
fn may_hold_decorators(code: &str) -> bool {
    let bytes = code.as_bytes();
    code.match_indices('@').any(|(at, _)| {
        let starts = at == 0
            || matches!(
                bytes[at - 1],
                b' ' | b'\t' | b'\n' | b'(' | b'{' | b';' | b'=' | b',' | b'}'
            );
        let name = bytes
            .get(at + 1)
            .is_some_and(|next| next.is_ascii_alphabetic() || b"_$(".contains(next));
        starts && name && !code[at..].starts_with("@__") && !in_comment(code, at)
    })
}

/// Whether the line of `at` begins as a comment does.
fn in_comment(code: &str, at: usize) -> bool {
    let line = code[..at]
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .trim_start();
    line.starts_with('*') || line.starts_with("//") || line.starts_with("/*")
}

struct Search(Option<usize>);

impl<'a> Visit<'a> for Search {
    fn visit_decorator(&mut self, decorator: &Decorator<'a>) {
        self.0.get_or_insert(decorator.span.start as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decorators_are_found_where_they_are() {
        let code = "const s = \" @no \"; // @no\n/** @no */\nvar A = @yes class { @m() f() {} };\n";
        assert_eq!(first_decorator(code), code.find("@yes"));
        assert_eq!(first_decorator("class A {\n\t@m() f() {}\n}"), Some(11));
    }

    #[test]
    fn text_that_looks_like_one_is_none() {
        assert_eq!(
            first_decorator("const s = \"a @b c\"; const t = `\n@x class {}`;"),
            None
        );
        assert!(!may_hold_decorators(
            "/* @__PURE__ */ f(); \"a@b.c\"\n * @param x\n"
        ));
    }
}
