//! What the user is told when a project has no bundle.

use super::support::Fixture;

const MAIN: &str = "src/index.ts";

/// Asserts that some error has all of these parts.
fn assert_error(fixture: &Fixture, cases: &[&[&str]]) {
    let errors = fixture.errors();
    for parts in cases {
        let found = errors
            .errors
            .iter()
            .map(ToString::to_string)
            .any(|text| parts.iter().all(|part| text.contains(part)));
        assert!(found, "no error has all of {parts:?}:\n{errors}");
    }
    assert_eq!(errors.errors.len(), cases.len(), "{errors}");
}

#[test]
fn a_missing_package_says_where_and_what_to_run() {
    let fixture = Fixture::new(&[
        (
            MAIN,
            "import a from 'absent';\nexport default [a, b];\n\timport b from \"@scope/listed/sub\";\n",
        ),
        (
            "package.json",
            r#"{ "dependencies": { "@scope/listed": "1" } }"#,
        ),
    ]);
    assert_error(
        &fixture,
        &[
            &[
                "cannot resolve \"absent\"",
                "--> src/index.ts:1:15",
                "import a from 'absent'",
                "^^^^^^^^",
                "npm install absent",
            ],
            &[
                "\"@scope/listed/sub\"",
                "--> src/index.ts:3:16",
                "not installed; run `npm install`",
            ],
        ],
    );
}

#[test]
fn all_files_are_checked_however_early_one_fails() {
    let fixture = Fixture::new(&[
        (
            MAIN,
            "import './one'; import './two'; import gone from './gone'; export default gone;",
        ),
        ("src/one.ts", "export const a = ;"),
        (
            "src/two.ts",
            "import x from 'nowhere'; import './three'; console.log(x);",
        ),
        ("src/three.tsx", "const b = <p>;"),
    ]);
    assert_error(
        &fixture,
        &[
            &["\"./gone\"", "src/index.ts:1:50", "no such file"],
            &["syntax error", "src/one.ts:1:18"],
            &["\"nowhere\"", "src/two.ts:1:15"],
            &["syntax error", "src/three.tsx:1:"],
        ],
    );
}

#[test]
fn node_modules_name_the_flag() {
    let fixture = Fixture::new(&[(MAIN, "import fs from 'fs'; export default fs;")]);
    assert_error(
        &fixture,
        &[&["\"fs\"", "src/index.ts:1:16", "nodejs_compat"]],
    );
}

#[test]
fn a_path_that_a_package_hides_is_explained() {
    let fixture = Fixture::new(&[
        (
            MAIN,
            "import a from 'p/inner'; import b from 'p'; export default [a, b];",
        ),
        (
            "node_modules/p/package.json",
            r#"{ "exports": { ".": { "node": "./n.js" } } }"#,
        ),
        ("node_modules/p/inner.js", ""),
    ]);
    assert_error(
        &fixture,
        &[&["\"p/inner\"", "exports"], &["\"p\"", "exports"]],
    );
}

#[test]
fn missing_exports_and_bad_assignments_are_errors() {
    let fixture = Fixture::new(&[
        (
            MAIN,
            "import { absent, present } from './lib';\npresent = 2;\nexport default absent;",
        ),
        ("src/lib.ts", "export let present = 1;"),
    ]);
    let errors = fixture.errors().to_string();
    assert!(errors.contains("src/index.ts:2:1"), "{errors}");
    let fixture = Fixture::new(&[
        (
            MAIN,
            "import { absent } from './lib';\nexport default absent;",
        ),
        ("src/lib.ts", "export let present = 1;"),
    ]);
    assert_error(
        &fixture,
        &[&[
            "\"absent\" is not exported by \"src/lib.ts\"",
            "src/index.ts:1:10",
            "^^^^^^",
        ]],
    );
}

#[test]
fn files_of_other_kinds_name_the_rule_to_add() {
    let fixture = Fixture::new(&[
        (
            MAIN,
            "import './s.css'; import logo from './logo.svg'; import bad from './bad.json'; export default [logo, bad];",
        ),
        ("src/s.css", "p {}"),
        ("src/logo.svg", "<svg/>"),
        ("src/bad.json", "{\n  \"a\": }\n"),
    ]);
    assert_error(
        &fixture,
        &[
            &["src/s.css is no JavaScript", "src/index.ts:1:8", "**/*.css"],
            &[
                "src/logo.svg is no JavaScript",
                "src/index.ts:1:36",
                "**/*.svg",
            ],
            &["invalid JSON", "src/bad.json:2:8", "\"a\": }"],
        ],
    );
}

#[test]
fn sources_that_are_no_text_are_errors() {
    let fixture = Fixture::new(&[(MAIN, "import './x.js'; export default 1;")]);
    fixture.write("src/x.js", b"export default '\xff\xfe';");
    assert_error(
        &fixture,
        &[&["src/x.js", "is no UTF-8 text", "save the file as UTF-8"]],
    );
}

#[test]
fn standard_decorators_are_refused_and_typescripts_are_compiled() {
    let main =
        "const mark = (...x: any[]): any => x;\nclass A {\n  @mark m() {}\n}\nexport default A;";
    let fixture = Fixture::new(&[(MAIN, main)]);
    assert_error(
        &fixture,
        &[&[
            "decorators",
            "src/index.ts:3:",
            "@mark m()",
            "experimentalDecorators",
        ]],
    );
    fixture.write(
        "tsconfig.json",
        r#"{ "compilerOptions": { "experimentalDecorators": true } }"#,
    );
    assert!(!fixture.code().contains("@mark"));
}

#[test]
fn a_program_without_exports_is_an_error() {
    let fixture = Fixture::new(&[(MAIN, "addEventListener('fetch', () => {});")]);
    assert_error(
        &fixture,
        &[&["exports nothing", "src/index.ts", "export default"]],
    );
}

#[test]
fn broken_settings_are_errors() {
    let fixture = Fixture::new(&[
        (MAIN, "export default X;"),
        ("tsconfig.json", "{ \"compilerOptions\": ["),
    ]);
    assert_error(&fixture, &[&["tsconfig.json"]]);
    let fixture = Fixture::new(&[(MAIN, "export default X;")])
        .with(|options| options.define = [("X".to_owned(), "not an expression".to_owned())].into());
    assert_error(&fixture, &[&["invalid `define`", "quotes of its own"]]);
    let fixture = Fixture::new(&[]);
    assert_error(&fixture, &[&["src/index.ts", "correct `main`"]]);
    let fixture = Fixture::new(&[("src/index.ts/x", "")]);
    assert_error(&fixture, &[&["is not a file"]]);
}

#[test]
fn deep_nesting_is_refused_and_moderate_nesting_works() {
    let nested = |depth: usize| {
        format!(
            "export default {}1{};",
            "[".repeat(depth),
            "]".repeat(depth)
        )
    };
    let fixture = Fixture::new(&[(MAIN, "import x from './data.js'; export default x;")]);
    fixture.write("src/data.js", nested(100_000));
    assert_error(
        &fixture,
        &[&["src/data.js nests 100000 brackets", "limit of 4000"]],
    );
    fixture.write("src/data.js", nested(800));
    fixture.bundle();
}

#[test]
fn failed_builds_name_their_inputs_too() {
    let fixture = Fixture::new(&[
        (MAIN, "import './a'; import 'gone'; export default 1;"),
        ("src/a.ts", "import './b';"),
        ("src/b.ts", "("),
    ]);
    let inputs = fixture.errors().inputs;
    for path in [MAIN, "src/a.ts", "src/b.ts"] {
        assert!(
            inputs.contains(&fixture.path(path)),
            "{path} is missing in {inputs:?}"
        );
    }
}

#[test]
fn no_garbage_makes_the_bundler_panic() {
    let pieces = [
        "import",
        "export",
        "default",
        "{",
        "}",
        "(",
        ")",
        "=>",
        "class",
        "extends",
        "`${",
        "`",
        "'",
        "\"",
        "/*",
        "*/",
        "//",
        "\n",
        "await",
        "async",
        "yield",
        "<p>",
        "</",
        "/>",
        "@",
        "#x",
        "?.",
        "...",
        "\u{0}",
        "\u{feff}",
        "é",
        "😀",
        "import(",
        "require(",
        "'./a'",
        "from",
        "as",
        "type",
        "enum",
        "namespace",
        ";",
        ",",
        "=",
        "1n",
        "/x/",
        "function*",
    ];
    // A fixed generator, so that a failure repeats.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % limit as u64).expect("it fits")
    };
    let fixture = Fixture::new(&[("src/a.ts", "export default 1;")]);
    for _ in 0..60 {
        let text: Vec<&str> = (0..next(40)).map(|_| pieces[next(pieces.len())]).collect();
        fixture.write(MAIN, text.join(" "));
        if let Err(errors) = super::super::bundle(&fixture.options) {
            assert!(!errors.errors.is_empty());
            assert!(
                !errors.to_string().contains("defect of celld"),
                "{text:?}\n{errors}"
            );
        }
    }
}

#[test]
fn mains_of_other_languages_and_network_imports_are_refused() {
    let fixture =
        Fixture::new(&[("main.py", "x")]).with(|options| options.entry = "main.py".into());
    assert_error(&fixture, &[&["main.py is no JavaScript or TypeScript"]]);
    let fixture = Fixture::new(&[(
        MAIN,
        "import x from 'https://example.com/x.js'; export default x;",
    )]);
    assert_error(
        &fixture,
        &[&["\"https://example.com/x.js\"", "src/index.ts:1:15", "npm"]],
    );
}

#[test]
fn a_tsconfig_that_is_not_there_is_an_error() {
    let fixture = Fixture::new(&[(MAIN, "export default 1;")])
        .with(|options| options.tsconfig = Some("tsconfig.missing.json".into()));
    assert_error(&fixture, &[&["tsconfig.missing.json"]]);
}

#[test]
fn a_broken_package_json_is_named_with_its_place() {
    let fixture = Fixture::new(&[
        (MAIN, "export default 1;"),
        ("package.json", "{\n  \"name\": \"x\",,\n}\n"),
    ]);
    assert_error(
        &fixture,
        &[&["package.json is no valid JSON", "package.json:2:15"]],
    );
    let fixture = Fixture::new(&[
        (MAIN, "import p from 'p'; export default p;"),
        ("node_modules/p/package.json", "{ \"main\": }"),
        ("node_modules/p/index.js", ""),
    ]);
    assert_error(
        &fixture,
        &[&[
            "\"p\"",
            "JSON",
            "node_modules/p/package.json",
            "src/index.ts:1:15",
        ]],
    );
}
