//! Positions in every format, and that no input panics.

use proptest::prelude::*;

use super::*;

fn tree(format: Format, text: &str) -> Result<Parsed, Box<Diagnostic>> {
    parse(&Source::new("f".into(), text.into()), format)
}

fn at<'a>(node: &'a Node, path: &[&str]) -> &'a Node {
    path.iter().fold(node, |node, step| {
        match (&node.value, step.parse::<usize>()) {
            (Value::Array(items), Ok(index)) => &items[index],
            _ => &node.entry(step).unwrap().node,
        }
    })
}

fn text_at<'a>(text: &'a str, node: &Node) -> &'a str {
    &text[node.span.clone()]
}

#[test]
fn jsonc_values_know_their_place() {
    let text = "{ // c\n \"a\": [1, {\"b\": \"x\",},], /* d */ \"e\": null }";
    let root = tree(Format::Jsonc, text).unwrap().root;
    assert_eq!(text_at(text, at(&root, &["a", "1", "b"])), "\"x\"");
    assert_eq!(&text[root.entry("e").unwrap().key_span.clone()], "\"e\"");
}

#[test]
fn toml_values_know_their_place() {
    let text = "a.b = [1, { c = 'x' }]\n[t.u]\nv = 1.5\n[[list]]\nw = true\n[[list]]\nw = false\n";
    let root = tree(Format::Toml, text).unwrap().root;
    assert_eq!(text_at(text, at(&root, &["a", "b", "1", "c"])), "'x'");
    assert_eq!(text_at(text, at(&root, &["t", "u", "v"])), "1.5");
    assert_eq!(text_at(text, at(&root, &["list", "1", "w"])), "false");
    assert!(text_at(text, at(&root, &["list", "1"])).starts_with("[[list]]"));
    assert_eq!(
        &text[at(&root, &["t"]).entry("u").unwrap().key_span.clone()],
        "u"
    );
}

#[test]
fn the_last_of_two_equal_json_keys_counts_with_a_warning() {
    let parsed = tree(Format::Jsonc, "{\"a\": 1, \"a\": 2}").unwrap();
    assert_eq!(
        at(&parsed.root, &["a"]).to_json().unwrap(),
        serde_json::json!(2)
    );
    assert_eq!(parsed.warnings[0].place.as_ref().unwrap().column, 10);
}

#[test]
fn syntax_errors_have_a_place() {
    let error = tree(Format::Jsonc, "{\n  \"a\": 1\n  \"b\": 2\n}")
        .err()
        .unwrap();
    assert_eq!(error.place.as_ref().unwrap().line, 2, "{error}");
    let error = tree(Format::Jsonc, "{\n  'a': 1\n}").err().unwrap();
    assert_eq!(
        (
            error.place.as_ref().unwrap().line,
            error.place.as_ref().unwrap().column
        ),
        (2, 3)
    );
    let error = tree(Format::Toml, "a = 1\na = 2\n").err().unwrap();
    assert_eq!(error.place.as_ref().unwrap().line, 2);
    for text in ["", "// only a comment", "[]", "3"] {
        assert_eq!(tree(Format::Jsonc, text).err().unwrap().code, Code::Syntax);
    }
}

#[test]
fn deep_nesting_is_an_error() {
    let text = format!("{{\"vars\": {}{}}}", "[".repeat(70), "]".repeat(70));
    assert!(
        tree(Format::Jsonc, &text)
            .err()
            .unwrap()
            .message
            .contains("nested")
    );
    let text = format!("vars = {}{}", "[".repeat(70), "]".repeat(70));
    assert!(tree(Format::Toml, &text).is_err());
    let text = format!(
        "{{\"vars\": {}{}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    assert!(tree(Format::Jsonc, &text).is_err());
}

#[test]
fn numbers_that_json_cannot_hold_are_errors() {
    assert!(
        tree(Format::Toml, "a = nan")
            .err()
            .unwrap()
            .message
            .contains("NaN")
    );
    assert!(tree(Format::Jsonc, "{\"a\": 1e999}").is_err());
}

#[test]
fn numbers_do_not_depend_on_their_spelling() {
    let text = "{\"a\": [1.50, 15e-1, 18446744073709551615, -7], \"b\": 36893488147419103232}";
    let root = tree(Format::Jsonc, text).unwrap().root;
    let json = |key: &str| at(&root, &[key]).to_json().unwrap();
    assert_eq!(json("a").to_string(), "[1.5,1.5,18446744073709551615,-7]");
    assert_eq!(json("b").as_f64(), Some(36893488147419103232.0));
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = tree(Format::Jsonc, &text);
        let _ = tree(Format::Toml, &text);
    }

    #[test]
    fn nothing_that_looks_like_configuration_panics(text in "[\\{\\}\\[\\]\"',:=a-c0-9 .\n\t\\\\/*#eE+-]{0,120}") {
        let _ = tree(Format::Jsonc, &text);
        let _ = tree(Format::Toml, &text);
    }
}
