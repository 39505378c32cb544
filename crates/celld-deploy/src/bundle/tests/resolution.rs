//! What imports resolve to, and what becomes of the code.

use super::super::ModuleKind;
use super::support::{Fixture, main_of};

const MAIN: &str = "src/index.ts";

#[test]
fn typescript_enums_json_and_paths_become_one_module() {
    let fixture = Fixture::new(&[
        (
            MAIN,
            "import { Kind, type Shape } from '@/kind';\nimport data from './data.json';\n\
             import { size } from './data.json';\n\
             export default { kind: Kind.B satisfies number, data, size, x: (null as unknown as Shape) };",
        ),
        (
            "src/kind.ts",
            "export enum Kind { A = 40, B = A + 2 }\nexport interface Shape { a: string }",
        ),
        ("src/data.json", "{ \"size\": 7, \"odd key\": [1, null] }"),
        (
            "tsconfig.json",
            "{ /* paths */ \"compilerOptions\": { \"paths\": { \"@/*\": [\"./src/*\"] } } }",
        ),
    ]);
    let bundle = fixture.bundle();
    assert_eq!(bundle.main, "index.js");
    assert_eq!(bundle.modules.len(), 1);
    assert_eq!(main_of(&bundle).kind, ModuleKind::EsModule);
    let code = fixture.code();
    assert!(
        code.contains("kind: 42") && code.contains("\"odd key\""),
        "{code}"
    );
    assert!(
        !code.contains("satisfies") && !code.contains("import "),
        "{code}"
    );
    assert!(code.trim_end().ends_with("as default };"), "{code}");
}

#[test]
fn worker_conditions_win_over_node_and_default() {
    let package = r#"{ "name": "p", "exports": {
        ".": { "node": "./node.js", "workerd": { "import": "./workerd.mjs", "require": "./workerd.cjs" }, "default": "./other.js" },
        "./worker": { "node": "./node.js", "worker": "./worker.js", "default": "./other.js" },
        "./browser": { "browser": "./browser.js", "default": "./other.js" },
        "./default": { "node": "./node.js", "default": "./other.js" },
        "./deep/*": "./lib/*.js" } }"#;
    let export = |name: &str| format!("export const from = 'it is {name}';");
    let fixture = Fixture::new(&[
        (
            MAIN,
            "import * as a from 'p'; import * as b from 'p/worker'; import * as c from 'p/browser';\n\
             import * as d from 'p/default'; import * as e from 'p/deep/x'; import f from 'q';\n\
             export default [a.from, b.from, c.from, d.from, e.from, f];",
        ),
        ("node_modules/p/package.json", package),
        ("node_modules/p/workerd.cjs", "exports.from = 'it is cjs';"),
        ("node_modules/q/package.json", r#"{ "name": "q" }"#),
        (
            "node_modules/q/index.js",
            "module.exports = require('p').from;",
        ),
    ]);
    for name in [
        "node.js",
        "workerd.mjs",
        "worker.js",
        "browser.js",
        "other.js",
        "lib/x.js",
    ] {
        fixture.write(&format!("node_modules/p/{name}"), export(name));
    }
    let code = fixture.code();
    for wanted in [
        "workerd.mjs",
        "worker.js",
        "browser.js",
        "other.js",
        "lib/x.js",
        "cjs",
    ] {
        assert!(
            code.contains(&format!("it is {wanted}")),
            "{wanted} is missing in\n{code}"
        );
    }
    assert!(!code.contains("it is node.js"), "{code}");
}

#[test]
fn the_browser_field_replaces_files_and_drops_modules() {
    let fixture = Fixture::new(&[
        (
            MAIN,
            "import { who } from 'b'; import { m } from 'm'; export default [who, m];",
        ),
        (
            "node_modules/b/package.json",
            r#"{ "main": "./main.js", "browser": { "./main.js": "./web.js", "fs": false } }"#,
        ),
        ("node_modules/b/main.js", "export const who = 'main';"),
        (
            "node_modules/b/web.js",
            "import fs from 'fs'; export const who = 'web' + Object.keys(fs);",
        ),
        (
            "node_modules/m/package.json",
            r#"{ "main": "./main.js", "module": "./module.js" }"#,
        ),
        ("node_modules/m/main.js", "exports.m = 'from main';"),
        (
            "node_modules/m/module.js",
            "export const m = 'from module';",
        ),
    ]);
    let code = fixture.code();
    assert!(
        code.contains("web") && code.contains("from module"),
        "{code}"
    );
    assert!(!code.contains("from main"), "{code}");
}

#[test]
fn modules_of_the_runtime_stay_imports() {
    let main = "import { DurableObject } from 'cloudflare:workers'; import { Buffer } from 'node:buffer';\n\
        import fs from 'fs'; import { x } from 'old';\n\
        export class A extends DurableObject {}\nexport default [Buffer, fs, x, () => import('util')];";
    let fixture = Fixture::new(&[
        (MAIN, main),
        (
            "node_modules/old/index.js",
            "const { EventEmitter } = require('events'); const path = require('node:path');\n\
             exports.x = [EventEmitter, path];",
        ),
        ("node_modules/util/index.js", "export default 'a polyfill';"),
    ])
    .with(|options| options.nodejs_compat = true);
    let bundle = fixture.bundle();
    let code = fixture.code();
    for specifier in [
        "cloudflare:workers",
        "node:buffer",
        "node:fs",
        "node:events",
        "node:path",
    ] {
        assert!(
            code.contains(&format!("from \"{specifier}\"")),
            "{specifier} is missing in\n{code}"
        );
    }
    assert!(code.contains("import(\"node:util\")"), "{code}");
    assert!(
        !code.contains("require(\"") && !code.contains("a polyfill"),
        "{code}"
    );
    assert_eq!(bundle.warnings, []);
}

#[test]
fn without_nodejs_compat_a_package_may_stand_in_for_a_node_module() {
    let fixture = Fixture::new(&[
        (
            MAIN,
            "import b from 'buffer'; import 'node:path'; export default b;",
        ),
        (
            "node_modules/buffer/index.js",
            "module.exports = 'a polyfill';",
        ),
    ]);
    let bundle = fixture.bundle();
    assert!(fixture.code().contains("a polyfill"));
    assert_eq!(bundle.warnings.len(), 1, "{:?}", bundle.warnings);
    let warning = bundle.warnings[0].to_string();
    assert!(
        warning.contains("\"node:path\"") && warning.contains("src/index.ts:1:32"),
        "{warning}"
    );
}

#[test]
fn commonjs_packages_keep_their_meaning() {
    let fixture = Fixture::new(&[
        (
            MAIN,
            "import whole, { named } from 'c'; export default [whole, named];",
        ),
        (
            "node_modules/c/index.js",
            "let extra; try { extra = require('not-installed'); } catch { extra = 'none'; }\n\
             module.exports = Object.assign(() => 1, { named: 'the name', extra, env: process.env.NODE_ENV });",
        ),
    ]);
    let code = fixture.code();
    assert!(
        code.contains("the name") && code.contains("env: \"production\""),
        "{code}"
    );
}

#[test]
fn dynamic_imports_go_into_the_one_module() {
    let fixture = Fixture::new(&[
        (
            MAIN,
            "export default async () => (await import('./late')).value;",
        ),
        ("src/late.ts", "export const value = 'late value';"),
    ]);
    let bundle = fixture.bundle();
    assert_eq!(bundle.modules.len(), 1);
    assert!(fixture.code().contains("late value"));
}

#[test]
fn unused_code_is_dropped() {
    let fixture = Fixture::new(&[
        (
            MAIN,
            "import { used } from './lib'; if (process.env.NODE_ENV === 'test') console.log('dead'); export default used;",
        ),
        (
            "src/lib.ts",
            "export const used = 'kept'; export const unused = 'dropped';",
        ),
    ]);
    let code = fixture.code();
    assert!(
        code.contains("kept") && !code.contains("dropped") && !code.contains("dead"),
        "{code}"
    );
}

#[test]
fn define_alias_and_node_env_apply() {
    let fixture = Fixture::new(&[
        (
            MAIN,
            "import a from 'real'; import b from 'real/sub'; import c from 'sys';\n\
             export default [a, b, c, VERSION, config.deep, process.env.NODE_ENV, navigator.userAgent];",
        ),
        ("mocks/real.ts", "export default 'the mock';"),
        ("mocks/sub.ts", "export default 'the sub mock';"),
    ])
    .with(|options| {
        options.alias = [("real", "./mocks/real.ts"), ("real/sub", "./mocks/sub.ts"), ("sys", "node:os")]
            .map(|(from, to)| (from.to_owned(), to.to_owned()))
            .into();
        options.define = [("VERSION", "\"1.2.3\""), ("config.deep", "{\"a\":1}")]
            .map(|(from, to)| (from.to_owned(), to.to_owned()))
            .into();
        options.node_env = Some("development".to_owned());
        options.nodejs_compat = true;
    });
    let code = fixture.code();
    for wanted in [
        "the mock",
        "the sub mock",
        "from \"node:os\"",
        "\"1.2.3\"",
        "\"development\"",
        "\"Cloudflare-Workers\"",
    ] {
        assert!(code.contains(wanted), "{wanted} is missing in\n{code}");
    }
}

#[test]
fn jsx_follows_the_tsconfig() {
    let main = "export default <><p class=\"x\">hi</p></>;";
    let of = |tsconfig: &str, file: &str| {
        Fixture::new(&[
            (file, main),
            ("tsconfig.json", tsconfig),
            (
                "node_modules/j/package.json",
                r#"{ "exports": { "./jsx/*": "./*.js" } }"#,
            ),
            (
                "node_modules/j/jsx-runtime.js",
                "export const jsx = 'auto', Fragment = 'f', jsxs = 's';",
            ),
        ])
        .with(|options| options.entry = file.into())
    };
    let automatic = r#"{ "compilerOptions": { "jsx": "react-jsx", "jsxImportSource": "j/jsx" } }"#;
    for file in ["src/index.tsx", "src/index.jsx", "src/index.js"] {
        let code = of(automatic, file).code();
        assert!(
            code.contains("auto") && !code.contains("createElement"),
            "{file}: {code}"
        );
    }
    assert!(
        of("{}", "src/index.tsx")
            .code()
            .contains("React.createElement(\"p\", { class: \"x\" }, \"hi\")")
    );
    let factory = r#"{ "compilerOptions": { "jsx": "react", "jsxFactory": "h", "jsxFragmentFactory": "F" } }"#;
    assert!(of(factory, "src/index.tsx").code().contains("h(F, null, "));
    let configured = of(
        r#"{ "compilerOptions": { "jsx": "preserve" } }"#,
        "src/index.tsx",
    )
    .with(|options| {
        options.jsx_factory = Some("make".to_owned());
        options.jsx_fragment = Some("Many".to_owned());
    });
    assert!(configured.code().contains("make(Many, null, "));
}

#[test]
fn names_survive_renaming_and_minifying() {
    let fixture = Fixture::new(&[
        (
            MAIN,
            "import { Same as A } from './a'; import { Same as B } from './b'; export class Room {}\nexport default [A, B];",
        ),
        ("src/a.ts", "export class Same { a = 1 }"),
        ("src/b.ts", "export class Same { b = 2 }"),
    ]);
    assert!(fixture.code().contains("__name(this, \"Same\")"));
    let long = fixture.code().len();
    let fixture = fixture.with(|options| options.minify = true);
    let code = fixture.code();
    assert!(
        code.len() < long && code.contains("`Same`") && code.contains("export{Room,"),
        "{code}"
    );
}

#[test]
fn source_maps_show_the_sources_by_relative_path() {
    let text = "// a comment\nexport const greet = (name: string): string => `hello ${name}`;\n";
    let fixture = Fixture::new(&[
        (
            MAIN,
            "import { greet } from './lib/greet';\nexport default () => { throw new Error(greet('x')); };\n",
        ),
        ("src/lib/greet.ts", text),
    ]);
    let bundle = fixture.bundle();
    let map = main_of(&bundle).source_map.clone().expect("a source map");
    let map: serde_json::Value = serde_json::from_slice(&map).expect("JSON");
    assert_eq!(map["version"], 3);
    assert_eq!(
        map["sources"],
        serde_json::json!(["src/lib/greet.ts", "src/index.ts"])
    );
    assert_eq!(map["sourcesContent"][0], text);
    assert!(!fixture.code().contains("sourceMappingURL"));
}

#[test]
fn the_bundle_is_the_same_every_time_and_nothing_is_written() {
    let fixture = Fixture::new(&[("src/a.wasm", "\0asm"), ("src/b.txt", "b")]);
    let mut main = "import a from './a.wasm'; import b from './b.txt';\n".to_owned();
    for n in 0..40 {
        fixture.write(
            &format!("src/m{n}.ts"),
            format!("export const same = 'v{n}'; export default class Same {{}}"),
        );
        main +=
            &format!("import C{n}, {{ same as s{n} }} from './m{n}'; console.log(C{n}, s{n});\n");
    }
    fixture.write(MAIN, main + "export default [a, b];");
    let before = fixture.files();
    let first = fixture.bundle();
    for _ in 0..3 {
        let again = fixture.bundle();
        assert_eq!(again.modules, first.modules);
        assert_eq!(again.inputs, first.inputs);
    }
    assert_eq!(fixture.files(), before);
}

#[test]
fn inputs_name_every_file_that_took_part() {
    let fixture = Fixture::new(&[
        (
            MAIN,
            "import p from 'p'; import t from './t.txt'; import j from './j.json'; export default [p, t, j];",
        ),
        ("src/t.txt", "t"),
        ("src/j.json", "1"),
        ("src/unused.ts", "1"),
        ("package.json", "{}"),
        ("tsconfig.json", "{ \"extends\": \"./tsconfig.base\" }"),
        ("tsconfig.base.json", "{}"),
        ("node_modules/p/package.json", "{ \"main\": \"m.js\" }"),
        ("node_modules/p/m.js", "module.exports = 1;"),
    ]);
    let mut wanted: Vec<_> = [
        MAIN,
        "src/t.txt",
        "src/j.json",
        "package.json",
        "tsconfig.json",
        "tsconfig.base.json",
        "node_modules/p/package.json",
        "node_modules/p/m.js",
    ]
    .iter()
    .map(|path| fixture.path(path))
    .collect();
    wanted.sort();
    assert_eq!(fixture.bundle().inputs, wanted);
}

#[test]
fn packages_that_ship_sources_beside_compiled_files_mean_the_latter() {
    let fixture = Fixture::new(&[
        (
            MAIN,
            "import a from './own'; import b from 'p'; export default [a, b];",
        ),
        ("src/own.ts", "export default 'own ts';"),
        ("src/own.js", "export default 'own js';"),
        (
            "node_modules/p/index.js",
            "module.exports = [require('./x'), require('./only')];",
        ),
        ("node_modules/p/x.ts", "export default 'x ts';"),
        ("node_modules/p/x.js", "module.exports = 'x js';"),
        (
            "node_modules/p/only.ts",
            "export default 'only ts' as string;",
        ),
    ]);
    let code = fixture.code();
    for wanted in ["own ts", "x js", "only ts"] {
        assert!(code.contains(wanted), "{wanted} is missing in\n{code}");
    }
    assert!(!code.contains("own js") && !code.contains("x ts"), "{code}");
}

#[test]
fn the_place_of_the_project_does_not_show() {
    let make = |dir: &str| {
        let fixture = Fixture::new(&[]).with(|options| options.project_dir.push(dir));
        for (path, text) in [
            (
                MAIN,
                "import a from 'p'; import t from './t.txt'; import j from './j.json'; export default [a, t, j, <p/>];",
            ),
            ("src/t.txt", "t"),
            ("src/j.json", "[1]"),
            (
                "tsconfig.json",
                r#"{ "compilerOptions": { "jsx": "react-jsxdev", "jsxImportSource": "p" } }"#,
            ),
            ("node_modules/p/index.js", "module.exports = 1;"),
            ("node_modules/p/jsx-runtime.js", "exports.jsx = 1;"),
        ] {
            fixture.write(
                &format!("{dir}/{}", path.replace("index.ts", "index.tsx")),
                text,
            );
        }
        fixture
            .with(|options| options.entry = "src/index.tsx".into())
            .bundle()
            .modules
    };
    let plain = make("plain");
    for odd in ["with space", "ünï", "a#b", "a?b", "[x]{y}", "a%20b", "it's"] {
        assert_eq!(make(odd), plain, "{odd}");
    }
}
