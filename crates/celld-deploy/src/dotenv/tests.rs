//! What the syntax means, which file counts, and that values stay secret.

use proptest::prelude::*;

use super::*;

#[track_caller]
fn one(text: &str) -> String {
    let mut values = parse(text).unwrap();
    assert_eq!((values.len(), values[0].0.as_str()), (1, "A"), "{text:?}");
    values.remove(0).1
}

#[test]
fn values_are_read_as_written() {
    for (text, value) in [
        ("A=x", "x"),
        ("A=", ""),
        ("\u{feff}A = x y \r\n", "x y"),
        ("export A=x", "x"),
        ("\n# c\n  A=x # comment", "x"),
        ("A=x#y", "x"),
        ("A=# comment", ""),
        ("A=a=b", "a=b"),
        ("A='x # \\n \"y\"' # c", "x # \\n \"y\""),
        ("A=`it's \"x\"`", "it's \"x\""),
        ("A=\"a\\nb\\t\\\"c\\\" \\d\" # c", "a\nb\\t\\\"c\\\" \\d"),
        ("A=\"C:\\dir\\\"", "C:\\dir\\"),
        ("A=\"one\ntwo\n\"\n", "one\ntwo\n"),
        ("A='one\ntwo'", "one\ntwo"),
        ("A=first\nA=last", "last"),
        ("A=$HOME ${B}", "$HOME ${B}"),
        ("A=ä\u{1f600}", "ä\u{1f600}"),
    ] {
        assert_eq!(one(text), value, "{text:?}");
    }
    assert_eq!(parse("\n#A=1\n \n").unwrap(), []);
    assert_eq!(parse("export=1").unwrap(), [("export".into(), "1".into())]);
}

#[test]
fn errors_name_the_line_and_never_the_value() {
    for (text, line) in [
        ("A=1\nsecret", 2),
        ("A=1\n\nB=\"secret\n\n", 3),
        ("=secret", 1),
        ("A='x' secret", 1),
        ("A=\"x\n\" secret", 2),
        ("ä=secret", 1),
        ("A=\"secret\\\\", 1),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.line, line, "{text:?}");
        assert!(!error.to_string().contains("secret"));
    }
}

fn project(root: &Path, config: &str, env: Option<&str>) -> Project {
    std::fs::write(root.join("wrangler.jsonc"), config).unwrap();
    std::fs::write(root.join("m.js"), "").unwrap();
    Project::load(root, env).unwrap().0
}

const PLAIN: &str = r#"{"name": "w", "main": "m.js", "compatibility_date": "2026-01-01", "vars": {"A": {"x": 1}, "B": "b"}}"#;

#[test]
fn the_file_overrides_variables() {
    let dir = tempfile::tempdir().unwrap();
    let mut project = project(dir.path(), PLAIN, None);
    assert_eq!(apply(&mut project).unwrap(), Applied::default());
    std::fs::write(dir.path().join(".dev.vars"), "A=over\nNEW=n\n").unwrap();
    let applied = apply(&mut project).unwrap();
    assert_eq!(applied.names, ["A", "NEW"]);
    let text = |text: &str| VarValue::Text(text.into());
    assert_eq!(
        project.vars,
        [
            ("A".into(), text("over")),
            ("B".into(), text("b")),
            ("NEW".into(), text("n"))
        ]
    );
}

#[test]
fn the_environments_own_file_replaces_the_general_one() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(".dev.vars"), "A=general").unwrap();
    let load_value =
        |env: Option<&str>| load(dir.path(), env).unwrap().unwrap().values[0].1.clone();
    assert_eq!(load_value(Some("staging")), "general");
    std::fs::write(dir.path().join(".dev.vars.staging"), "A=staging").unwrap();
    assert_eq!(load_value(Some("staging")), "staging");
    assert_eq!(load_value(None), "general");
    assert_eq!(load_value(Some("x/../../etc")), "general");
}

#[test]
fn dot_env_files_that_wrangler_would_read_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut project = project(dir.path(), PLAIN, None);
    std::fs::write(dir.path().join(".env"), "A=1").unwrap();
    assert_eq!(
        apply(&mut project).unwrap().not_read,
        [dir.path().join(".env")]
    );
    std::fs::write(dir.path().join(".dev.vars"), "A=1").unwrap();
    assert!(apply(&mut project).unwrap().not_read.is_empty());
}

#[test]
fn declared_secrets_limit_what_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let config = PLAIN.replace(
        "\"vars\"",
        "\"secrets\": {\"required\": [\"KEY\", \"GONE\"]}, \"vars\"",
    );
    let mut project = project(dir.path(), &config, None);
    std::fs::write(dir.path().join(".dev.vars"), "KEY=k\nB=2\nOTHER=o\n").unwrap();
    let applied = apply(&mut project).unwrap();
    assert_eq!(applied.names, ["KEY", "B"]);
    assert_eq!(
        (applied.left_out, applied.missing),
        (vec!["OTHER".to_owned()], vec!["GONE".to_owned()])
    );
}

#[test]
fn values_are_hidden_from_debug_and_errors() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(".dev.vars"), "A=secret").unwrap();
    let vars = load(dir.path(), None).unwrap().unwrap();
    assert!(!format!("{vars:?}").contains("secret"));
    std::fs::write(dir.path().join(".dev.vars"), "A='secret").unwrap();
    let message = load(dir.path(), None).unwrap_err().to_string();
    assert!(
        message.contains(".dev.vars:1:") && !message.contains("secret"),
        "{message}"
    );
    std::fs::write(dir.path().join(".dev.vars"), b"A=\xff").unwrap();
    assert!(
        load(dir.path(), None)
            .unwrap_err()
            .to_string()
            .contains("UTF-8")
    );
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = parse(&text);
    }

    #[test]
    fn no_dotenv_like_text_panics(text in "[A-C=\"'`#\\\\ \n\r\t$ä]{0,60}") {
        let _ = parse(&text);
    }

    #[test]
    fn a_quoted_value_comes_back(value in "[^\"\\\\]{0,40}") {
        let text = format!("A=\"{value}\"\nB=1");
        prop_assert_eq!(parse(&text).unwrap(), vec![("A".to_owned(), value), ("B".to_owned(), "1".to_owned())]);
    }
}
