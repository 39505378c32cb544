//! Modules that rules keep apart from the bundle.

use super::super::{BUNDLE_MAX_BYTES, ModuleKind, ModuleRule};
use super::support::{Fixture, text};

const MAIN: &str = "src/index.ts";

fn rule(kind: ModuleKind, glob: &str, fallthrough: Option<bool>) -> ModuleRule {
    ModuleRule {
        kind,
        globs: vec![glob.to_owned()],
        fallthrough,
    }
}

#[test]
fn default_rules_keep_wasm_text_and_data_apart() {
    let fixture = Fixture::new(&[
        (
            MAIN,
            "import wasm from './a.wasm'; import again from './a.wasm?module'; import page from './p.html';\n\
             import query from './q.sql'; import note from './n.txt'; import data from './d.bin';\n\
             export default async () => [wasm, again, page, query, note, data, await import('./n.txt')];",
        ),
        ("src/a.wasm", "\0asm\u{1}\0\0\0"),
        ("src/p.html", "<p>"),
        ("src/q.sql", "select 1"),
        ("src/n.txt", "note"),
    ]);
    fixture.write("src/d.bin", [0xff, 0xfe]);
    let bundle = fixture.bundle();
    let code = fixture.code();
    let mut kinds: Vec<_> = bundle
        .modules
        .iter()
        .skip(1)
        .map(|module| {
            let (hash, name) = module.specifier.split_once('-').expect("hash and name");
            assert!(
                hash.len() == 32 && hash.bytes().all(|b| b.is_ascii_hexdigit()),
                "{hash}"
            );
            assert!(
                code.contains(&format!("\"./{}\"", module.specifier)),
                "{code}"
            );
            (name, module.kind)
        })
        .collect();
    kinds.sort();
    assert_eq!(
        kinds,
        [
            ("a.wasm", ModuleKind::CompiledWasm),
            ("d.bin", ModuleKind::Data),
            ("n.txt", ModuleKind::Text),
            ("p.html", ModuleKind::Text),
            ("q.sql", ModuleKind::Text),
        ]
    );
}

#[test]
fn package_alias_and_require_paths_reach_such_modules() {
    let fixture = Fixture::new(&[
        (
            MAIN,
            "import a from 'p/mod.wasm'; import b from 'p/hidden'; import c from 'data'; import d from '@/odd name.txt';\n\
             import e from 'old';\nexport default [a, b, c, d, e];",
        ),
        ("node_modules/p/package.json", r#"{ "exports": { "./mod.wasm": "./x/real.wasm", "./hidden": "./x/other.wasm" } }"#),
        ("node_modules/p/x/real.wasm", "\0asm1"),
        ("node_modules/p/x/other.wasm", "\0asm2"),
        ("node_modules/old/index.js", "module.exports = require('./old.txt');"),
        ("node_modules/old/old.txt", "old text"),
        ("assets/data.bin", "data"),
        ("src/odd name.txt", "odd"),
        ("tsconfig.json", r#"{ "compilerOptions": { "paths": { "@/*": ["./src/*"] } } }"#),
    ])
    .with(|options| options.alias = [("data".to_owned(), "./assets/data.bin".to_owned())].into());
    let bundle = fixture.bundle();
    let names: Vec<_> = bundle
        .modules
        .iter()
        .skip(1)
        .filter_map(|module| module.specifier.split_once('-'))
        .map(|(_, name)| name)
        .collect();
    for name in [
        "real.wasm",
        "other.wasm",
        "data.bin",
        "odd_name.txt",
        "old.txt",
    ] {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
    assert!(!fixture.code().contains("require(\""));
}

#[test]
fn the_projects_rules_come_first() {
    let fixture = Fixture::new(&[
        (
            MAIN,
            "import md from './a.md'; import t from './raw/b.txt'; export default [md, t];",
        ),
        ("src/a.md", "# a"),
        ("src/raw/b.txt", "b"),
    ])
    .with(|options| {
        options.rules = vec![
            rule(ModuleKind::Data, "src/raw/**", None),
            rule(ModuleKind::Text, "**/*.md", Some(true)),
        ];
    });
    let bundle = fixture.bundle();
    let kind = |end: &str| {
        bundle
            .modules
            .iter()
            .find(|m| m.specifier.ends_with(end))
            .map(|m| m.kind)
    };
    assert_eq!(kind("a.md"), Some(ModuleKind::Text));
    assert_eq!(kind("b.txt"), Some(ModuleKind::Data));
}

#[test]
fn a_file_that_only_a_closed_rule_covers_is_an_error() {
    let fixture = Fixture::new(&[
        (
            MAIN,
            "import md from './a.md';\nimport t from './b.txt';\nexport default [md, t];",
        ),
        ("src/a.md", "# a"),
        ("src/b.txt", "b"),
    ])
    .with(|options| options.rules = vec![rule(ModuleKind::Text, "**/*.md", None)]);
    let errors = fixture.errors();
    assert_eq!(errors.errors.len(), 1, "{errors}");
    let message = errors.to_string();
    assert!(
        message.contains("src/b.txt") && message.contains("fallthrough"),
        "{message}"
    );
    assert!(message.contains("src/index.ts:2:15"), "{message}");
}

#[test]
fn equal_contents_become_one_module() {
    let fixture = Fixture::new(&[
        (
            MAIN,
            "import a from './x/t.txt'; import b from './y/t.txt'; import c from './z/t.txt'; export default [a, b, c];",
        ),
        ("src/x/t.txt", "same"),
        ("src/y/t.txt", "same"),
        ("src/z/t.txt", "other"),
    ]);
    let bundle = fixture.bundle();
    let texts: Vec<_> = bundle.modules.iter().skip(1).map(text).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
}

#[test]
fn the_limit_is_on_the_sum() {
    let fixture = Fixture::new(&[(
        MAIN,
        "import a from './a.bin'; import b from './b.bin'; export default [a, b];",
    )]);
    let half = usize::try_from(BUNDLE_MAX_BYTES / 2).expect("it fits");
    fixture.write("src/a.bin", vec![1; half]);
    fixture.write("src/b.bin", vec![2; half]);
    let message = fixture.errors().to_string();
    assert!(
        message.contains("more than the limit of 67108864") && message.contains("-a.bin"),
        "{message}"
    );
    fixture.write("src/b.bin", vec![2; 2 * half + 1]);
    let message = fixture.errors().to_string();
    assert!(
        message.contains("src/b.bin can't be read: 67108865 bytes"),
        "{message}"
    );
}
