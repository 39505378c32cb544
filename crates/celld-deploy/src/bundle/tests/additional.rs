//! `no_bundle` and `find_additional_modules`.

use super::super::{ModuleKind, ModuleRule};
use super::support::{Fixture, main_of, text};

fn javascript_rule(glob: &str) -> ModuleRule {
    ModuleRule {
        kind: ModuleKind::EsModule,
        globs: vec![glob.to_owned()],
        fallthrough: Some(true),
    }
}

#[test]
fn no_bundle_takes_files_as_they_are() {
    let fixture = Fixture::new(&[
        (
            "dist/worker.js",
            "import './lib/a.js';\nexport default {};\n//# sourceMappingURL=worker.js.map\n",
        ),
        ("dist/worker.js.map", "{}"),
        ("dist/lib/a.js", "export const a: broken = "),
        ("dist/q.sql", "select"),
        ("dist/ignored.md", ""),
        ("other.js", ""),
    ])
    .with(|options| {
        options.entry = "dist/worker.js".into();
        options.no_bundle = true;
        options.find_additional_modules = true;
        options.rules = vec![javascript_rule("**/*.js")];
    });
    let bundle = fixture.bundle();
    assert_eq!(bundle.main, "worker.js");
    assert!(text(main_of(&bundle)).starts_with("import './lib/a.js'"));
    assert_eq!(main_of(&bundle).source_map.as_deref(), Some(&b"{}"[..]));
    let names: Vec<_> = bundle
        .modules
        .iter()
        .map(|m| (m.specifier.as_str(), m.kind))
        .collect();
    assert_eq!(
        names,
        [
            ("worker.js", ModuleKind::EsModule),
            ("lib/a.js", ModuleKind::EsModule),
            ("q.sql", ModuleKind::Text)
        ]
    );
    assert_eq!(
        bundle.inputs,
        [
            fixture.path("dist/lib/a.js"),
            fixture.path("dist/q.sql"),
            fixture.path("dist/worker.js")
        ]
    );
}

#[test]
fn no_bundle_needs_javascript_inside_the_base_directory() {
    let fixture = Fixture::new(&[
        ("src/index.ts", "export default 1;"),
        ("lib/x.txt", ""),
        ("a.mjs", ""),
    ])
    .with(|options| options.no_bundle = true);
    assert!(
        fixture
            .errors()
            .to_string()
            .contains("src/index.ts is no JavaScript")
    );
    let fixture = fixture.with(|options| {
        options.entry = "a.mjs".into();
        options.base_dir = Some("lib".into());
    });
    assert!(
        fixture
            .errors()
            .to_string()
            .contains("a.mjs lies outside the base directory lib")
    );
}

#[test]
fn additional_modules_stay_beside_the_bundle() {
    let fixture = Fixture::new(&[
        (
            "src/index.ts",
            "import { deep } from './deep/importer';\nexport default async (l: string) => [deep, await import(`./lang/${l}.mjs`)];",
        ),
        ("src/deep/importer.ts", "import de from '../lang/de.mjs'; import t from '../t.txt'; export const deep = [de, t];"),
        ("src/lang/de.mjs", "export default 'guten Tag';"),
        ("src/lang/fr.mjs", "export default 'bonjour';"),
        ("src/t.txt", "text"),
        ("src/plain.js", "1"),
    ])
    .with(|options| {
        options.find_additional_modules = true;
        options.rules = vec![javascript_rule("**/*.mjs")];
    });
    let bundle = fixture.bundle();
    let names: Vec<_> = bundle
        .modules
        .iter()
        .map(|module| module.specifier.as_str())
        .collect();
    assert_eq!(names, ["index.js", "lang/de.mjs", "lang/fr.mjs", "t.txt"]);
    let code = fixture.code();
    assert!(
        code.contains("from \"./lang/de.mjs\"") && code.contains("from \"./t.txt\""),
        "{code}"
    );
    assert!(code.contains("import(`./lang/${l}.mjs`)"), "{code}");
    assert!(bundle.inputs.contains(&fixture.path("src/lang/fr.mjs")));
}

#[test]
fn the_main_module_makes_way_for_an_additional_one() {
    let fixture = Fixture::new(&[
        ("src/main.ts", "export default 1;"),
        ("src/index.js", "export default 2;"),
    ])
    .with(|options| {
        options.entry = "src/main.ts".into();
        options.find_additional_modules = true;
        options.rules = vec![javascript_rule("**/*.js")];
    });
    let bundle = fixture.bundle();
    assert_eq!(bundle.main, "index-1.js");
    assert_eq!(bundle.modules.len(), 2);
}

#[test]
fn a_closed_rule_is_reported_for_files_of_the_project() {
    let fixture = Fixture::new(&[
        ("a.js", ""),
        ("b.txt", ""),
        ("node_modules/p/LICENSE.txt", ""),
    ])
    .with(|options| {
        options.entry = "a.js".into();
        options.no_bundle = true;
        options.find_additional_modules = true;
        options.rules = vec![ModuleRule {
            kind: ModuleKind::Text,
            globs: vec!["*.md".to_owned()],
            fallthrough: None,
        }];
    });
    let errors = fixture.errors();
    assert_eq!(errors.errors.len(), 1, "{errors}");
    assert!(
        errors
            .to_string()
            .contains("b.txt matches the module rule \"**/*.txt\" (Text)"),
        "{errors}"
    );
}
