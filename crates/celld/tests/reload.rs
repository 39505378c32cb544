//! `celld dev` reloads sources; what does not build or start leaves the old code serving.

mod support;

use std::fs;
use std::thread;
use std::time::Duration;

use support::{Celld, Project, eventually};

const WRANGLER: &str = r#"{
  "name": "reload",
  "main": "src/index.ts",
  "compatibility_date": "2026-06-01",
  "vars": { "WORD": "first" },
  "durable_objects": { "bindings": [{ "name": "CELL", "class_name": "Cell" }] },
  "migrations": [{ "tag": "v1", "new_sqlite_classes": ["Cell"] }]
}"#;

fn code(version: &str) -> String {
    format!(
        r#"import {{ DurableObject }} from "cloudflare:workers";
import {{ helper }} from "./helper";

interface Env {{
  WORD: string;
  CELL: DurableObjectNamespace<Cell>;
}}

export class Cell extends DurableObject<Env> {{
  async count(): Promise<string> {{
    const count = ((await this.ctx.storage.get<number>("count")) ?? 0) + 1;
    await this.ctx.storage.put("count", count);
    return `{version} ${{count}}`;
  }}
}}

export default {{
  async fetch(request: Request, env: Env): Promise<Response> {{
    const {{ pathname }} = new URL(request.url);
    if (pathname === "/count") return new Response(await env.CELL.getByName("x").count());
    if (pathname === "/helper") return new Response(helper());
    if (pathname === "/word") return new Response(env.WORD);
    if (pathname === "/spin") for (const end = Date.now() + 1_000; Date.now() < end;);
    return new Response("{version}");
  }},
}};
"#
    )
}

fn start() -> (Project, Celld) {
    let project = Project::new(WRANGLER, "");
    project.write(
        "src/helper.ts",
        "export const helper = (): string => \"one\";\n",
    );
    project.write("src/index.ts", &code("v1"));
    let server = Celld::dev(&project);
    (project, server)
}

fn shows(server: &Celld, path: &str, text: &str) {
    eventually(&format!("{path} answers {text:?}"), || {
        server.get(path).text() == text
    });
}

#[test]
fn changed_code_is_served_and_data_is_kept() {
    let (project, server) = start();
    assert_eq!(server.get("/count").text(), "v1 1");
    project.write("src/index.ts", &code("v2"));
    shows(&server, "/", "v2");
    assert_eq!(server.get("/count").text(), "v2 2");
    project.write("src/helper.ts", "export const helper = () => \"two\";\n");
    shows(&server, "/helper", "two");
}

#[test]
fn a_syntax_error_keeps_the_old_code_and_is_shown() {
    let (project, server) = start();
    let broken = code("v2").replace(
        "return new Response(\"v2\");",
        "return new Response((\"v2\";",
    );
    project.write("src/index.ts", &broken);
    server.prints("index.ts:24");
    server.prints("return new Response((\"v2\";");
    assert_eq!(server.get("/").text(), "v1");
    assert_eq!(server.get("/count").text(), "v1 1");
    project.write("src/index.ts", &code("v3"));
    shows(&server, "/", "v3");
    assert_eq!(server.get("/count").text(), "v3 2");
}

#[test]
fn code_that_throws_at_start_keeps_the_old_code() {
    let (project, server) = start();
    let throwing = format!("{}\nthrow new Error(\"at start-up\");\n", code("v2"));
    project.write("src/index.ts", &throwing);
    server.prints("at start-up");
    assert_eq!(server.get("/").text(), "v1");
    project.write("src/index.ts", &code("v3"));
    shows(&server, "/", "v3");
}

#[test]
fn a_file_that_vanishes_keeps_the_old_code() {
    let (project, server) = start();
    fs::remove_file(project.path().join("src/helper.ts")).expect("remove");
    server.prints("./helper");
    assert_eq!(server.get("/helper").text(), "one");
    project.write("src/helper.ts", "export const helper = () => \"back\";\n");
    shows(&server, "/helper", "back");
}

#[test]
fn a_changed_configuration_is_taken_and_a_broken_one_is_not() {
    let (project, server) = start();
    assert_eq!(server.get("/word").text(), "first");
    project.write(
        "wrangler.jsonc",
        &WRANGLER.replace("\"first\"", "\"second\""),
    );
    shows(&server, "/word", "second");
    project.write("wrangler.jsonc", &WRANGLER.replace("\"vars\"", "\"varz\""));
    server.prints("varz");
    assert_eq!(server.get("/word").text(), "second");
    project.write(".dev.vars", "WORD=\"third\"\n");
    project.write("wrangler.jsonc", WRANGLER);
    shows(&server, "/word", "third");
}

#[test]
fn a_changed_limit_of_cpu_time_is_taken() {
    let (project, server) = start();
    assert_eq!(server.get("/spin").status, 200);
    let limited = WRANGLER.replace("\"vars\"", "\"limits\": { \"cpu_ms\": 100 }, \"vars\"");
    project.write("wrangler.jsonc", &limited);
    server.prints("reloaded");
    assert!(server.get("/spin").status >= 500, "{}", server.output());
    shows(&server, "/", "v1");
}

#[test]
fn a_change_right_after_the_start_is_taken() {
    for delay_ms in [0, 10, 50, 150, 400, 800] {
        let project = Project::new(WRANGLER, "");
        project.write("src/helper.ts", "export const helper = () => \"one\";\n");
        project.write("src/index.ts", &code("v1"));
        let port = support::free_port();
        let mut command = support::celld();
        command.arg("dev").arg(project.path());
        command.args(["--port", &port.to_string()]);
        let server = Celld::start(command, port, &project);
        thread::sleep(Duration::from_millis(delay_ms));
        project.write("src/index.ts", &code("v2"));
        project.write("wrangler.jsonc", &WRANGLER.replace("first", "second"));
        for (path, text) in [("/", "v2"), ("/word", "second")] {
            eventually(
                &format!("a change after {delay_ms} ms is served: {text}"),
                || support::http::get(port, path).is_ok_and(|answer| answer.text() == text),
            );
        }
        drop(server);
    }
}

#[test]
fn files_of_variables_that_are_not_read_are_named() {
    let project = Project::new(WRANGLER, "");
    project.write("src/helper.ts", "export const helper = () => \"one\";\n");
    project.write("src/index.ts", &code("v1"));
    project.write(".env", "WORD=from-env\n");
    let server = Celld::dev(&project);
    server.prints(".env is not read");
    shows(&server, "/word", "first");
}

#[test]
fn a_project_that_does_not_build_at_first_is_served_when_it_does() {
    let project = Project::new(WRANGLER, "");
    project.write("src/helper.ts", "export const helper = () => \"one\";\n");
    project.write("src/index.ts", "export default {{{");
    let port = support::free_port();
    let mut command = support::celld();
    command.arg("dev").arg(project.path());
    command.args(["--port", &port.to_string()]);
    let mut server = Celld::start(command, port, &project);
    server.prints("index.ts:1");
    assert!(
        server.lives(),
        "it waits for a repair:\n{}",
        server.output()
    );
    project.write("src/index.ts", &code("v1"));
    eventually("the repaired project is served", || {
        support::http::get(port, "/").is_ok_and(|answer| answer.text() == "v1")
    });
}

#[test]
fn an_exception_shows_the_line_of_the_source() {
    let project = Project::new(WRANGLER, "");
    let code = r#"interface Env {
  WORD: string;
}

type Unused = { a: number };

function inner(env: Env): never {
  throw new RangeError(`from inner ${env.WORD}`);
}

export class Cell {}

export default {
  fetch(request: Request, env: Env): Response {
    if (new URL(request.url).pathname === "/ready") return new Response("ready");
    return inner(env);
  },
};
"#;
    project.write("src/index.ts", code);
    let server = Celld::dev(&project);
    assert_eq!(server.get("/boom").status, 500);
    server.prints("from inner first");
    server.prints("src/index.ts:8:");
    server.prints("src/index.ts:16:");
}
