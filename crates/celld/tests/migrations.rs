//! Migrations of Durable Object classes by `celld deploy`, while `celld run` serves.

mod support;

use support::{Celld, Project, eventually, files, succeeds};

fn wrangler(bindings: &[(&str, &str)], migrations: &str) -> String {
    let bindings: Vec<String> = bindings
        .iter()
        .map(|(name, class)| format!(r#"{{ "name": "{name}", "class_name": "{class}" }}"#))
        .collect();
    format!(
        r#"{{
  "name": "moving",
  "main": "index.js",
  "compatibility_date": "2026-06-01",
  "durable_objects": {{ "bindings": [{}] }},
  "migrations": [{migrations}]
}}"#,
        bindings.join(", ")
    )
}

/// A Worker that counts in objects of the classes; the first segment of a path names the binding.
fn code(version: &str, classes: &[&str]) -> String {
    let classes: Vec<String> = classes
        .iter()
        .map(|class| format!("export class {class} extends Counting {{}}\n"))
        .collect();
    format!(
        r#"import {{ DurableObject }} from "cloudflare:workers";
class Counting extends DurableObject {{
  async fetch() {{
    const count = ((await this.ctx.storage.get("count")) ?? 0) + 1;
    await this.ctx.storage.put("count", count);
    return new Response("{version} " + count);
  }}
}}
{}
export default {{
  async fetch(request, env) {{
    const [, name] = new URL(request.url).pathname.split("/");
    if (!(name in env)) return new Response("{version}");
    return env[name].getByName("one").fetch(request);
  }},
}};
"#,
        classes.concat()
    )
}

fn deploy(project: &Project) {
    let folder = project.path().to_str().expect("UTF-8");
    succeeds(&["deploy", folder, "--bucket", &project.bucket_url()]);
}

/// Records of a namespace in the project's bucket.
fn records(project: &Project, namespace: &str) -> usize {
    let folder = format!("/cells/{namespace}/");
    let all = files(&project.bucket()).expect("the bucket");
    let is_record = |path: &&std::path::PathBuf| path.to_string_lossy().contains(&folder);
    all.iter().filter(is_record).count()
}

const FIRST: &str = r#"{ "tag": "v1", "new_sqlite_classes": ["Cell", "Old"] }"#;
const SECOND: &str = r#"{ "tag": "v2", "renamed_classes": [{ "from": "Cell", "to": "Counter" }], "deleted_classes": ["Old"] }"#;
const THIRD: &str = r#"{ "tag": "v3", "new_sqlite_classes": ["Old"] }"#;

#[test]
fn a_renamed_class_keeps_its_data_and_that_of_a_deleted_one_goes_while_it_is_served() {
    let project = Project::new(
        &wrangler(&[("CELL", "Cell"), ("OLD", "Old")], FIRST),
        &code("v1", &["Cell", "Old"]),
    );
    deploy(&project);
    let server = Celld::run(&project);
    for count in 1..=2 {
        assert_eq!(server.get("/CELL").text(), format!("v1 {count}"));
        assert_eq!(server.get("/OLD").text(), format!("v1 {count}"));
    }
    assert!(server.terminate().success());
    let before = (
        records(&project, "moving-Cell"),
        records(&project, "moving-Old"),
    );
    assert_eq!(before, (1, 1), "both are in the bucket");

    let server = Celld::run(&project);
    assert_eq!(server.get("/OLD").text(), "v1 3", "it is resident");
    project.write(
        "wrangler.jsonc",
        &wrangler(&[("CELL", "Counter")], &format!("{FIRST}, {SECOND}")),
    );
    project.write("index.js", &code("v2", &["Counter"]));
    deploy(&project);
    eventually("the deployment is adopted", || {
        server.get("/").text() == "v2"
    });
    assert_eq!(server.get("/CELL").text(), "v2 3", "it kept its data");
    eventually("the data of the deleted class goes", || {
        records(&project, "moving-Old") == 0
    });

    project.write(
        "wrangler.jsonc",
        &wrangler(
            &[("CELL", "Counter"), ("OLD", "Old")],
            &format!("{FIRST}, {SECOND}, {THIRD}"),
        ),
    );
    project.write("index.js", &code("v3", &["Counter", "Old"]));
    deploy(&project);
    eventually("the deployment is adopted", || {
        server.get("/").text() == "v3"
    });
    assert_eq!(server.get("/OLD").text(), "v3 1", "it begins anew");
    assert_eq!(server.get("/CELL").text(), "v3 4");
    assert!(server.terminate().success());
    assert_eq!(records(&project, "moving-Old"), 0);
    assert_eq!(records(&project, "moving-Old-2"), 1);
}
