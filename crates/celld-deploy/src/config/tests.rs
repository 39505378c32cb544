//! The rules of reading a project, one test each.

use proptest::prelude::*;

use super::source::Source;
use super::tree::Format;
use super::*;

mod assets;

type Loaded = Result<(Project, Vec<Warning>), ConfigErrors>;

const DATE: &str = "\"compatibility_date\": \"2026-01-01\"";

fn parse(format: Format, text: &str, env: Option<&str>) -> Loaded {
    Project::parse(&Source::new("wrangler.x".into(), text.into()), format, env)
}

/// A project with a name, a main module and a date, and `rest`.
fn jsonc(rest: &str) -> Loaded {
    jsonc_env(rest, None)
}

fn jsonc_env(rest: &str, env: Option<&str>) -> Loaded {
    let text = format!("{{\"name\": \"w\", \"main\": \"m.js\", {DATE},\n{rest}\n}}");
    parse(Format::Jsonc, &text, env)
}

#[track_caller]
fn good(rest: &str) -> Project {
    let (project, warnings) = jsonc(rest).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(warnings.is_empty(), "{warnings:?}");
    project
}

/// The only error of a project with `rest`.
#[track_caller]
fn error(rest: &str) -> Diagnostic {
    let mut errors = jsonc(rest).map(|_| panic!("no error")).unwrap_err().errors;
    assert_eq!(errors.len(), 1, "{errors:#?}");
    errors.remove(0)
}

/// The only warning of a project with `rest`.
#[track_caller]
fn warning(rest: &str) -> Diagnostic {
    let mut warnings = jsonc(rest).unwrap_or_else(|errors| panic!("{errors}")).1;
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    warnings.remove(0).0
}

fn line_column(finding: &Diagnostic) -> (usize, usize) {
    let place = finding.place.as_ref().unwrap();
    (place.line, place.column)
}

#[test]
fn a_full_project_is_read() {
    let project = good(
        r#""compatibility_flags": ["nodejs_compat"],
        "vars": {"A": "x", "B": {"c": [1, null]}, "N": 3},
        "secrets": {"required": ["KEY"]},
        "durable_objects": {"bindings": [{"name": "C", "class_name": "Counter"}]},
        "services": [{"binding": "SELF", "service": "w", "entrypoint": "Admin", "props": {"a": 1}}],
        "migrations": [{"tag": "v1", "new_sqlite_classes": ["Counter"], "new_classes": ["Old"]},
          {"tag": "v2", "renamed_classes": [{"from": "Old", "to": "New"}], "deleted_classes": ["Counter"]}],
        "rules": [{"type": "Text", "globs": ["**/*.md"], "fallthrough": true}],
        "no_bundle": true, "base_dir": "lib", "define": {"X": "1"}, "alias": {"a": "./b"},
        "limits": {"cpu_ms": 50.0, "subrequests": 5}, "minify": true, "tsconfig": "t.json",
        "jsx_factory": "h", "jsx_fragment": "F", "observability": {"enabled": true}"#,
    );
    assert_eq!(
        (project.name.as_str(), project.compatibility_date.as_str()),
        ("w", "2026-01-01")
    );
    assert_eq!(project.vars[0], ("A".into(), VarValue::Text("x".into())));
    assert_eq!(
        project.vars[1].1,
        VarValue::Json(serde_json::json!({"c": [1, null]}))
    );
    assert_eq!(project.vars[2].1, VarValue::Json(3.into()));
    assert_eq!(project.durable_objects[0].class_name, "Counter");
    assert_eq!(project.services[0].entrypoint.as_deref(), Some("Admin"));
    assert_eq!(
        project.migrations[1].renamed_classes,
        [Rename {
            from: "Old".into(),
            to: "New".into()
        }]
    );
    assert_eq!(project.cpu_limit_ms, Some(50));
    let options = project.bundle_options();
    assert!(
        options.no_bundle
            && options.find_additional_modules
            && options.nodejs_compat
            && options.minify
    );
    assert_eq!(options.rules[0].fallthrough, Some(true));
    assert_eq!(options.alias["a"], "./b");
    let deploy = project.check_deploy().unwrap_err();
    assert!(deploy.errors[0].message.contains("KEY"));
}

#[test]
fn all_formats_give_the_same_project() {
    let toml = "name = \"w\"\nmain = \"m.js\"\ncompatibility_date = \"2026-01-01\"\n\
        [vars]\nA = \"x\"\nL = [1, { b = true }]\n[[durable_objects.bindings]]\nname = \"C\"\nclass_name = \"Counter\"\n\
        [[migrations]]\ntag = \"v1\"\nnew_sqlite_classes = [\"Counter\"]\n";
    let (from_toml, warnings) = parse(Format::Toml, toml, None).unwrap();
    assert!(warnings.is_empty());
    let from_json = good(
        r#""vars": {"A": "x", "L": [1, {"b": true}]}, // comment
        "durable_objects": {"bindings": [{"name": "C", "class_name": "Counter"}]},
        "migrations": [{"tag": "v1", "new_sqlite_classes": ["Counter"],},],"#,
    );
    assert_eq!(from_toml.vars, from_json.vars);
    assert_eq!(
        from_toml.durable_objects[0].name,
        from_json.durable_objects[0].name
    );
    assert_eq!(
        from_toml.migrations[0].new_sqlite_classes,
        from_json.migrations[0].new_sqlite_classes
    );
}

#[test]
fn positions_are_right_in_every_format() {
    let finding = error("  \"vars\": 3");
    assert_eq!(
        (line_column(&finding), finding.key.as_str()),
        ((2, 11), "vars")
    );
    let base = "name = \"w\"\nmain = \"m.js\"\ncompatibility_date = \"2026-01-01\"\n";
    let cases = [
        ("vars = 3\n", (4, 8), "vars"),
        ("[vars]\nA = 2026-01-01\n", (5, 5), "vars.A"),
        (
            "  kv_namespaces = [{ binding = \"K\" }]\n",
            (4, 3),
            "kv_namespaces",
        ),
        (
            "[[kv_namespaces]]\nbinding = \"K\"\n",
            (4, 3),
            "kv_namespaces",
        ),
        (
            "[[migrations]]\ntag = \"a\"\n[[migrations]]\ntag = 7\n",
            (7, 7),
            "migrations[1].tag",
        ),
        (
            "[[migrations]]\ntag = \"a\"\n[[migrations]]\nnew_classes = []\n",
            (6, 1),
            "migrations[1]",
        ),
        (
            "[durable_objects]\nbindings = [{ name = \"A\", class_name = \"1\" }]\n",
            (5, 40),
            "durable_objects.bindings[0].class_name",
        ),
        ("durable_object.bindings = []\n", (4, 1), "durable_object"),
    ];
    for (rest, place, key) in cases {
        let errors = parse(Format::Toml, &format!("{base}{rest}"), None)
            .unwrap_err()
            .errors;
        assert_eq!(errors.len(), 1, "{errors:#?}");
        assert_eq!(
            (line_column(&errors[0]), errors[0].key.as_str()),
            (place, key),
            "{rest}"
        );
    }
}

#[test]
fn every_error_is_reported_in_the_order_of_the_file() {
    let errors = jsonc(
        "\"vars\": 1,\n\"rules\": {},\n\"nme\": \"x\",\n\"r2_buckets\": [{}, {\"binding\": \"R\"}]",
    )
    .unwrap_err()
    .errors;
    let codes: Vec<_> = errors.iter().map(|error| error.code).collect();
    assert_eq!(codes, [Code::Type, Code::Type, Code::Unsupported]);
    let lines: Vec<_> = errors.iter().map(|error| line_column(error).0).collect();
    assert_eq!(lines, [2, 3, 5]);
}

#[test]
fn wrong_types_name_what_was_expected_and_found() {
    for (rest, expected, found) in [
        ("\"vars\": [\"x\"]", "an object", "an array"),
        ("\"compatibility_flags\": \"rpc\"", "an array", "a string"),
        ("\"compatibility_flags\": [1]", "a string", "a number"),
        ("\"no_bundle\": \"yes\"", "a boolean", "a string"),
        ("\"limits\": {\"cpu_ms\": \"1\"}", "a number", "a string"),
        ("\"define\": {\"X\": 1}", "a string", "a number"),
        ("\"durable_objects\": []", "an object", "an array"),
        (
            "\"durable_objects\": {\"bindings\": {}}",
            "an array",
            "an object",
        ),
        ("\"services\": [3]", "an object", "a number"),
        ("\"migrations\": {}", "an array", "an object"),
        (
            "\"triggers\": {\"crons\": \"* * * * *\"}",
            "an array",
            "a string",
        ),
        (
            "\"rules\": [{\"type\": \"Text\", \"globs\": \"*\"}]",
            "an array",
            "a string",
        ),
    ] {
        let finding = error(rest);
        assert_eq!(finding.code, Code::Type, "{rest}");
        assert!(
            finding
                .message
                .contains(&format!("must be {expected}, found {found}")),
            "{}",
            finding.message
        );
    }
}

#[test]
fn numbers_must_be_whole_and_in_range() {
    for value in ["0", "-1", "1.5", "1e300", "300001"] {
        assert_eq!(
            error(&format!("\"limits\": {{\"cpu_ms\": {value}}}")).code,
            Code::Value,
            "{value}"
        );
    }
}

#[test]
fn misspelt_keys_are_errors_and_strange_ones_warnings() {
    let finding = error("\"kv_namespace\": []");
    assert_eq!(
        (finding.code, finding.help.as_str()),
        (Code::Misspelt, "did you mean `kv_namespaces`?")
    );
    let finding = error("\"durable_objects\": {\"binding\": []}");
    assert_eq!(
        (finding.key.as_str(), finding.help.as_str()),
        ("durable_objects.binding", "did you mean `bindings`?")
    );
    let finding = error("\"migrations\": [{\"tag\": \"v1\", \"new_sqlite_class\": [\"A\"]}]");
    assert!(finding.help.contains("new_sqlite_classes"));
    let finding = warning("\"x-our-own\": 1");
    assert_eq!(
        (finding.code, finding.key.as_str()),
        (Code::Unknown, "x-our-own")
    );
    assert_eq!(
        warning("\"services\": [{\"binding\": \"A\", \"service\": \"w\", \"comment\": \"\"}]").code,
        Code::Unknown
    );
}

#[test]
fn unsupported_keys_are_refused_by_name_unless_they_ask_for_nothing() {
    for key in keys::KEYS {
        if !matches!(key.treatment, keys::Treatment::Refused { .. }) {
            continue;
        }
        good(&format!("\"{0}\": []", key.name));
        good(&format!(
            "\"{0}\": {{\"bindings\": [], \"x\": null}}",
            key.name
        ));
        let finding = error(&format!("\"{}\": {{\"x\": 1}}", key.name));
        assert_eq!(
            (finding.code, finding.key.as_str(), line_column(&finding)),
            (Code::Unsupported, key.name, (2, 1))
        );
        assert!(
            finding
                .message
                .contains("this version of celld does not support")
                && !finding.help.is_empty()
        );
    }
}

#[test]
fn harmless_keys_are_accepted_silently() {
    for key in keys::KEYS
        .iter()
        .filter(|key| key.treatment == keys::Treatment::Ignored)
    {
        good(&format!("\"{}\": {{\"anything\": [1]}}", key.name));
    }
}

#[test]
fn settings_without_effect_say_so() {
    assert!(
        warning("\"triggers\": {\"crons\": [\"* * * * *\"]}")
            .message
            .contains("not run yet")
    );
    assert!(
        warning("\"routes\": [\"example.com/*\"]")
            .message
            .contains("routes are not applied")
    );
    assert!(
        warning("\"build\": {\"command\": \"npm run build\"}")
            .help
            .contains("npm run build")
    );
    good("\"triggers\": {\"crons\": []}");
}

#[test]
fn names_follow_wranglers_rule() {
    let with_name = |name: &str| {
        parse(
            Format::Jsonc,
            &format!("{{\"name\": {name}, \"main\": \"m.js\", {DATE}}}"),
            None,
        )
    };
    for name in ["\"a\"", "\"_a-b_9\"", "\"9\""] {
        assert!(with_name(name).is_ok(), "{name}");
    }
    for name in [
        "\"\"", "\"A\"", "\"-a\"", "\"a b\"", "\"a/b\"", "\"ä\"", "\"..\"",
    ] {
        let errors = with_name(name).unwrap_err().errors;
        assert_eq!(errors[0].code, Code::Value, "{name}");
    }
    assert!(with_name(&format!("\"{}\"", "a".repeat(201))).is_err());
}

#[test]
fn missing_keys_say_what_to_add() {
    let errors = parse(Format::Jsonc, "{}", None).unwrap_err();
    let keys: Vec<_> = errors
        .errors
        .iter()
        .map(|error| (error.code, error.key.as_str()))
        .collect();
    assert_eq!(keys, [(Code::Missing, "name"), (Code::Missing, "main")]);
    assert_eq!(errors.warnings[0].0.code, Code::Compatibility);
    assert!(errors.errors[1].help.contains("src/index.ts"));
    let pages = parse(
        Format::Jsonc,
        "{\"name\": \"w\", \"pages_build_output_dir\": \"p\"}",
        None,
    )
    .unwrap_err();
    assert_eq!(pages.errors.len(), 1, "{pages}");
}

#[test]
fn python_is_refused() {
    let text = format!(
        "{{\"name\": \"w\", \"main\": \"src/entry.py\", {DATE}, \"compatibility_flags\": [\"python_workers\"]}}"
    );
    let errors = parse(Format::Jsonc, &text, None).unwrap_err().errors;
    assert!(errors.len() == 2 && errors.iter().all(|error| error.message.contains("Python")));
}

#[test]
fn compatibility_dates_are_checked() {
    let with_date = |date: &str| {
        parse(
            Format::Jsonc,
            &format!("{{\"name\": \"w\", \"main\": \"m.js\", \"compatibility_date\": {date}}}"),
            None,
        )
    };
    assert_eq!(
        with_date("\"2026-02-30\"").unwrap_err().errors[0].code,
        Code::Compatibility
    );
    let (project, warnings) = with_date("\"2027-01-01\"").unwrap();
    assert_eq!(
        (project.compatibility_date.as_str(), warnings[0].0.code),
        ("2027-01-01", Code::Compatibility)
    );
    assert!(
        with_date(&format!("\"{}\"", compat::NEWEST_DATE))
            .unwrap()
            .1
            .is_empty()
    );
    let (project, warnings) = with_date("null").unwrap();
    assert_eq!(
        (project.compatibility_date.as_str(), warnings.len()),
        (compat::NEWEST_DATE, 1)
    );
    assert!(
        project.bundle_options().nodejs_compat,
        "on by default since 2026-08-04"
    );
}

#[test]
fn compatibility_flags_are_checked() {
    good("\"compatibility_flags\": [\"nodejs_compat\", \"no_rpc\", \"no_precise_timers\"]");
    let finding = error("\"compatibility_flags\": [\"rpc\",\n  \"node_compat\"]");
    assert_eq!(
        (line_column(&finding), finding.help.as_str()),
        ((3, 3), "did you mean `nodejs_compat`?")
    );
    assert!(
        error("\"compatibility_flags\": [\"precise_timers\"]")
            .message
            .contains("experimental")
    );
    assert!(
        error("\"compatibility_flags\": [\"rpc\", \"no_rpc\"]")
            .message
            .contains("exclude each other")
    );
}

#[test]
fn environments_inherit_as_in_wrangler() {
    let rest = r#""minify": true, "migrations": [{"tag": "v1", "new_sqlite_classes": ["C"]}],
        "vars": {"A": "top", "B": "top"}, "define": {"X": "1"},
        "durable_objects": {"bindings": [{"name": "C", "class_name": "C"}]}, "alias": {"a": "b"},
        "env": {
          "own": {"name": "other", "main": "o.js", "vars": {"A": "own", "B": ""}, "define": {}, "durable_objects": {"bindings": []}, "minify": null},
          "bare": {},
          "wrong": {"vars": 3, "nam": 1}
        }"#;
    let (own, warnings) = jsonc_env(rest, Some("own")).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(
        (own.name.as_str(), own.build.main.to_str()),
        ("other", Some("o.js"))
    );
    assert!(own.build.minify && own.durable_objects.is_empty() && own.build.define.is_empty());
    assert_eq!(own.vars[0].1, VarValue::Text("own".into()));
    assert_eq!((own.migrations.len(), own.build.alias.len()), (1, 1));

    let (bare, warnings) = jsonc_env(rest, Some("bare")).unwrap();
    assert_eq!(
        (bare.name.as_str(), bare.environment.as_deref()),
        ("w-bare", Some("bare"))
    );
    assert!(bare.vars.is_empty() && bare.durable_objects.is_empty());
    let keys: Vec<_> = warnings
        .iter()
        .map(|warning| (warning.0.code, warning.0.key.as_str()))
        .collect();
    assert_eq!(
        keys,
        [
            (Code::NotInherited, "vars"),
            (Code::NotInherited, "define"),
            (Code::NotInherited, "durable_objects")
        ]
    );

    let errors = jsonc_env(rest, Some("wrong")).unwrap_err().errors;
    let keys: Vec<_> = errors.iter().map(|error| error.key.as_str()).collect();
    assert_eq!(keys, ["env.wrong.vars", "env.wrong.nam"]);
    assert!(
        jsonc_env(rest, None).is_ok(),
        "an environment that is not asked for is not judged"
    );
}

#[test]
fn an_environment_names_the_variables_that_it_lacks() {
    let rest = r#""vars": {"A": "1", "B": "2"}, "env": {"e": {"vars": {"A": "3"}}}"#;
    let (_, warnings) = jsonc_env(rest, Some("e")).unwrap();
    assert_eq!((warnings.len(), warnings[0].0.key.as_str()), (1, "vars.B"));
}

#[test]
fn keys_that_only_count_for_another_environment_are_not_refused() {
    let rest =
        r#""kv_namespaces": [{"binding": "K"}], "env": {"e": {}, "f": {"ai": {"binding": "AI"}}}"#;
    let (_, warnings) = jsonc_env(rest, Some("e")).unwrap();
    assert_eq!(
        (warnings[0].0.code, warnings[0].0.key.as_str()),
        (Code::NotInherited, "kv_namespaces")
    );
    let errors = jsonc_env(rest, Some("f")).unwrap_err().errors;
    assert_eq!((errors.len(), errors[0].key.as_str()), (1, "env.f.ai"));
    let inherited = r#""logfwdr": {"bindings": [1]}, "env": {"e": {}}"#;
    assert_eq!(
        jsonc_env(inherited, Some("e")).unwrap_err().errors[0].key,
        "logfwdr"
    );
}

#[test]
fn unknown_environments_are_reported() {
    let errors = jsonc_env("\"env\": {\"staging\": {}, \"live\": {}}", Some("stagin"))
        .unwrap_err()
        .errors;
    assert_eq!(
        (errors[0].code, errors[0].help.as_str()),
        (Code::Missing, "did you mean `staging`?")
    );
    let errors = jsonc_env("\"env\": {\"staging\": {}, \"live\": {}}", Some("x"))
        .unwrap_err()
        .errors;
    assert!(errors[0].help.contains("staging, live"));
    let (project, warnings) = jsonc_env("\"minify\": true", Some("x")).unwrap();
    assert_eq!(
        (project.name.as_str(), warnings[0].0.code),
        ("w-x", Code::Missing)
    );
    assert!(
        jsonc_env("\"env\": {\"Ä\": {}}", Some("Ä"))
            .unwrap_err()
            .errors[0]
            .help
            .contains("its own `name`")
    );
}

#[test]
fn top_level_keys_in_an_environment_have_no_effect() {
    let (project, warnings) =
        jsonc_env("\"env\": {\"e\": {\"alias\": {\"a\": \"b\"}}}", Some("e")).unwrap();
    assert_eq!(
        (warnings[0].0.code, warnings[0].0.key.as_str()),
        (Code::NoEffect, "env.e.alias")
    );
    assert!(project.build.alias.is_empty());
}

#[test]
fn service_bindings_reach_this_worker_only() {
    good("\"services\": [{\"binding\": \"A\", \"service\": \"w\", \"remote\": false}]");
    let finding = error("\"services\": [{\"binding\": \"A\", \"service\": \"other\"}]");
    assert_eq!(
        (finding.code, finding.key.as_str(), line_column(&finding)),
        (Code::Unsupported, "services[0].service", (2, 42))
    );
    assert_eq!(
        error("\"services\": [{\"binding\": \"A\", \"service\": \"w\", \"remote\": true}]").code,
        Code::Unsupported
    );
    assert_eq!(
        error("\"services\": [{\"binding\": \"A\", \"service\": \"w\", \"props\": []}]").code,
        Code::Type
    );
    let rest = r#""env": {"e": {"services": [{"binding": "A", "service": "w", "environment": "e"}, {"binding": "B", "service": "w-e"}]}}"#;
    assert_eq!(jsonc_env(rest, Some("e")).unwrap().0.services.len(), 2);
    let rest = r#""env": {"e": {"services": [{"binding": "A", "service": "w"}]}}"#;
    assert_eq!(
        jsonc_env(rest, Some("e")).unwrap_err().errors[0].code,
        Code::Unsupported
    );
}

#[test]
fn durable_object_bindings_are_checked() {
    good(
        r#""durable_objects": {"bindings": [{"name": "A", "class_name": "Ünï$_1", "script_name": "w"}]}"#,
    );
    for (binding, code) in [
        (r#"{"name": "A"}"#, Code::Missing),
        (r#"{"class_name": "A"}"#, Code::Missing),
        (r#"{"name": "", "class_name": "A"}"#, Code::Value),
        (r#"{"name": "A", "class_name": "a-b"}"#, Code::Value),
        (r#"{"name": "A", "class_name": "1a"}"#, Code::Value),
        (
            r#"{"name": "A", "class_name": "A", "environment": "e"}"#,
            Code::Missing,
        ),
        (
            r#"{"name": "A", "class_name": "A", "script_name": "other"}"#,
            Code::Unsupported,
        ),
    ] {
        assert_eq!(
            error(&format!(
                "\"durable_objects\": {{\"bindings\": [{binding}]}}"
            ))
            .code,
            code,
            "{binding}"
        );
    }
}

#[test]
fn two_bindings_cannot_share_a_name() {
    let finding = error(
        "\"vars\": {\"A\": \"1\"},\n\"durable_objects\": {\"bindings\": [{\"name\": \"A\", \"class_name\": \"C\"}]}",
    );
    assert_eq!((finding.code, line_column(&finding).0), (Code::Conflict, 3));
    assert!(finding.message.contains("vars.A"));
}

#[test]
fn migrations_are_checked() {
    for (migrations, code) in [
        (r#"[{"new_classes": ["A"]}]"#, Code::Missing),
        (r#"[{"tag": ""}]"#, Code::Value),
        (r#"[{"tag": "a"}, {"tag": "a"}]"#, Code::Conflict),
        (
            r#"[{"tag": "a", "transferred_classes": [{"from": "A", "from_script": "s", "to": "B"}]}]"#,
            Code::Unsupported,
        ),
        (
            r#"[{"tag": "a", "renamed_classes": [{"from": "A"}]}]"#,
            Code::Missing,
        ),
        (r#"[{"tag": "a", "renamed_classes": ["A"]}]"#, Code::Type),
        (
            r#"[{"tag": "a", "new_classes": ["not a class"]}]"#,
            Code::Value,
        ),
    ] {
        assert_eq!(
            error(&format!("\"migrations\": {migrations}")).code,
            code,
            "{migrations}"
        );
    }
}

#[test]
fn rules_are_checked() {
    for (rule, code) in [
        (r#"{"globs": ["*"]}"#, Code::Missing),
        (r#"{"type": "Text"}"#, Code::Missing),
        (r#"{"type": "text", "globs": ["*"]}"#, Code::Value),
        (
            r#"{"type": "PythonModule", "globs": ["*"]}"#,
            Code::Unsupported,
        ),
        (r#"{"type": "Text", "globs": ["[a"]}"#, Code::Value),
        (
            r#"{"type": "Text", "globs": ["*"], "fallthrough": 1}"#,
            Code::Type,
        ),
    ] {
        assert_eq!(error(&format!("\"rules\": [{rule}]")).code, code, "{rule}");
    }
    assert_eq!(
        error(r#""rules": [{"type": "text", "globs": ["*"]}]"#).help,
        "did you mean `Text`?"
    );
}

mod files {
    use super::*;

    fn dir(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        dir
    }

    #[test]
    fn the_file_is_found_in_wranglers_order() {
        let json =
            b"{\"name\": \"json\", \"main\": \"m.js\", \"compatibility_date\": \"2026-01-01\"}";
        let toml = b"name = \"toml\"\nmain = \"m.js\"\ncompatibility_date = \"2026-01-01\"\n";
        let dir = dir(&[
            ("wrangler.jsonc", json),
            ("wrangler.toml", toml),
            ("m.js", b""),
        ]);
        let (project, warnings) = Project::load(dir.path(), None).unwrap();
        assert_eq!(
            (project.name.as_str(), project.root.as_path()),
            ("json", dir.path())
        );
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].0.message.contains("wrangler.toml"));
        let (project, warnings) = Project::load(&dir.path().join("wrangler.toml"), None).unwrap();
        assert_eq!((project.name.as_str(), warnings.len()), ("toml", 0));
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let empty = dir(&[("x.yaml", b"")]);
        let message = |path: &std::path::Path| Project::load(path, None).unwrap_err().to_string();
        assert!(message(empty.path()).contains("wrangler.json, wrangler.jsonc, wrangler.toml"));
        assert!(message(&empty.path().join("none")).contains("cannot read the project"));
        assert!(message(&empty.path().join("x.yaml")).contains("not a configuration file"));
        let binary = dir(&[("wrangler.toml", b"name = \"a\"\n\xff\n")]);
        assert!(message(binary.path()).contains("line 2 is not UTF-8"));
        let huge = dir(&[("wrangler.toml", &vec![b'#'; (1 << 20) + 1])]);
        assert!(message(huge.path()).contains("larger than"));
    }

    #[test]
    fn the_main_module_must_exist() {
        let dir = dir(&[("wrangler.jsonc", b"{\"name\": \"w\",\n \"main\": \"src/none.ts\", \"compatibility_date\": \"2026-01-01\"}")]);
        let errors = Project::load(dir.path(), None).unwrap_err().errors;
        assert_eq!(
            (errors[0].code, line_column(&errors[0])),
            (Code::File, (2, 10))
        );
        let text = b"{\"name\": \"w\", \"main\": \"made.js\", \"build\": {\"command\": \"make\"}}";
        std::fs::write(dir.path().join("wrangler.jsonc"), text).unwrap();
        assert!(
            Project::load(dir.path(), None).is_ok(),
            "the build command may create it"
        );
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>(), env in proptest::option::of(any::<String>())) {
        let _ = parse(Format::Jsonc, &text, env.as_deref());
        let _ = parse(Format::Toml, &text, env.as_deref());
    }

    /// Any value under any known key is either read or refused with a place.
    #[test]
    fn any_value_of_any_key_is_judged(index in 0..keys::KEYS.len(), value in json(), in_env in any::<bool>()) {
        let name = keys::KEYS[index].name;
        let text = if in_env {
            serde_json::json!({"name": "w", "main": "m.js", "env": {"e": {name: value}}})
        } else {
            serde_json::json!({"name": "w", "main": "m.js", name: value})
        };
        if let Err(errors) = parse(Format::Jsonc, &text.to_string(), in_env.then_some("e")) {
            prop_assert!(!errors.errors.is_empty());
            for error in &errors.errors {
                prop_assert!(!error.help.is_empty());
                prop_assert!(error.place.is_some() || error.code == Code::Missing);
                let _ = error.to_string();
            }
        }
    }
}

/// JSON that looks a little like configuration.
fn json() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let word = proptest::sample::select(vec![
        "bindings",
        "name",
        "class_name",
        "service",
        "binding",
        "tag",
        "new_classes",
        "renamed_classes",
        "from",
        "to",
        "type",
        "globs",
        "crons",
        "cpu_ms",
        "required",
        "props",
        "environment",
        "x",
        "e",
        "\u{1b}[0m",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((word.clone(), inner), 0..5).prop_map(|pairs| Value::Object(
                pairs
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect()
            )),
        ]
    })
}
