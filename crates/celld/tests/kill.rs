//! Acknowledged writes survive `kill -9` at any moment, and no data has two writers.

mod support;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use support::http::Connection;
use support::ledger::{Fault, Ledger};
use support::{Celld, Project, Random};

const WRANGLER: &str = r#"{
  "name": "ledger",
  "main": "index.js",
  "compatibility_date": "2026-06-01",
  "durable_objects": { "bindings": [{ "name": "LEDGER", "class_name": "Ledger" }] },
  "migrations": [{ "tag": "v1", "new_sqlite_classes": ["Ledger"] }]
}"#;

/// Each write stores its token in a table and as a key, in one turn: both or neither must be there.
const CODE: &str = r#"
import { DurableObject } from "cloudflare:workers";

export class Ledger extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS tokens (token INTEGER, padding TEXT)");
  }
  async write(token) {
    const padding = "x".repeat(token % 7 === 0 ? 20_000 : 20);
    this.ctx.storage.sql.exec("INSERT INTO tokens VALUES (?, ?)", token, padding);
    await this.ctx.storage.put(`token ${token}`, token);
  }
  async read() {
    const rows = this.ctx.storage.sql.exec("SELECT token FROM tokens").raw().toArray();
    const keys = await this.ctx.storage.list({ prefix: "token " });
    return { rows: rows.map(([token]) => token), keys: [...keys.values()] };
  }
}

export default {
  async fetch(request, env) {
    const [, cell, token] = new URL(request.url).pathname.split("/");
    if (cell === "ready") return new Response("ready");
    const stub = env.LEDGER.getByName(cell);
    if (request.method === "GET") return Response.json(await stub.read());
    await stub.write(Number(token));
    return new Response("stored");
  },
};
"#;

const CELLS: u64 = 8;
const WRITERS: u64 = 4;
const WRITES: usize = 1_000;
const KILLS_MIN: u32 = 10;
const SEED: u64 = 20_261_130;

#[derive(serde::Deserialize)]
struct Stored {
    rows: Vec<u64>,
    keys: Vec<u64>,
}

fn project() -> Project {
    Project::new(WRANGLER, CODE)
}

/// Writes tokens, each its own, until told to stop or until the connection breaks.
fn write_tokens(port: u16, stop: &AtomicBool, next: &AtomicU64, ledger: &Mutex<Ledger>) {
    let Ok(mut connection) = Connection::open(port) else {
        return;
    };
    while !stop.load(Ordering::Relaxed) {
        let token = next.fetch_add(1, Ordering::Relaxed);
        let cell = format!("cell{}", token % CELLS);
        ledger
            .lock()
            .expect("no writer panics")
            .attempt(&cell, token);
        let path = format!("/{cell}/{token}");
        match connection.request("POST", &path, b"") {
            Ok(answer) if answer.status == 200 && answer.body == b"stored" => {
                ledger
                    .lock()
                    .expect("no writer panics")
                    .acknowledge(&cell, token);
            }
            Ok(answer) => panic!("POST {path}: {} {}", answer.status, answer.text()),
            Err(_) => return,
        }
    }
}

/// Kills the server after a random time under load.
fn write_and_kill(
    server: Celld,
    random: &mut Random,
    next: &Arc<AtomicU64>,
    ledger: &Mutex<Ledger>,
) {
    let stop = AtomicBool::new(false);
    let port = server.port();
    thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| write_tokens(port, &stop, next, ledger));
        }
        thread::sleep(Duration::from_millis(random.between(20, 300)));
        server.kill();
        stop.store(true, Ordering::Relaxed);
    });
}

/// Reads every cell and holds it to the ledger.
fn verify(server: &Celld, ledger: &Ledger) {
    for number in 0..CELLS {
        let cell = format!("cell{number}");
        let answer = server.get(&format!("/{cell}"));
        assert_eq!(answer.status, 200, "{}\n{}", answer.text(), server.output());
        let mut stored: Stored = serde_json::from_slice(&answer.body).expect("JSON");
        if let Err(fault) = ledger.check(&cell, &stored.rows) {
            panic!("{fault}\n{}", server.output());
        }
        stored.rows.sort_unstable();
        stored.keys.sort_unstable();
        assert_eq!(stored.rows, stored.keys, "a commit is whole in {cell}");
    }
}

fn survives(project: &Project, start: impl Fn(&Project) -> Celld) {
    let ledger = Mutex::new(Ledger::default());
    let next = Arc::new(AtomicU64::new(1));
    let mut random = Random::new(SEED);
    let mut kills = 0;
    loop {
        let server = start(project);
        verify(&server, &ledger.lock().expect("no writer panics"));
        let count = ledger
            .lock()
            .expect("no writer panics")
            .acknowledged_count();
        if count >= WRITES && kills >= KILLS_MIN {
            println!("{count} acknowledged writes, {kills} kills, seed {SEED}");
            return;
        }
        write_and_kill(server, &mut random, &next, &ledger);
        kills += 1;
        assert!(kills < 200, "only {count} writes in {kills} lives");
    }
}

#[test]
fn acknowledged_writes_survive_kills_of_celld_dev() {
    survives(&project(), Celld::dev);
}

#[test]
fn acknowledged_writes_survive_kills_of_celld_run() {
    let project = project();
    let folder = project.path().to_str().expect("UTF-8");
    support::succeeds(&["deploy", folder, "--bucket", &project.bucket_url()]);
    survives(&project, Celld::run);
}

#[test]
fn a_second_process_on_the_same_data_is_refused() {
    let project = project();
    let first = Celld::dev(&project);
    assert_eq!(first.post("/cell1/1", b"").text(), "stored");
    let port = support::free_port().to_string();
    let folder = project.path().to_str().expect("UTF-8");
    let said = support::fails(&["dev", folder, "--port", &port]);
    assert!(
        said.contains("another celld") && said.contains("stop it"),
        "{said}"
    );
    assert_eq!(first.post("/cell1/2", b"").text(), "stored");
}

#[test]
fn writes_survive_an_orderly_stop() {
    let project = project();
    let first = Celld::dev(&project);
    assert_eq!(first.post("/cell1/1", b"").text(), "stored");
    let status = first.terminate();
    assert!(status.success(), "{status}");
    let second = Celld::dev(&project);
    let mut ledger = Ledger::default();
    ledger.attempt("cell1", 1);
    ledger.acknowledge("cell1", 1);
    verify(&second, &ledger);
}

#[test]
fn the_checker_finds_planted_faults() {
    let mut ledger = Ledger::default();
    for token in 1..=3 {
        ledger.attempt("a", token);
        ledger.acknowledge("a", token);
    }
    ledger.attempt("a", 4);
    let cell = || "a".to_owned();
    let cases: BTreeMap<&str, (&[u64], Result<(), Fault>)> = BTreeMap::from([
        ("all acknowledged", (&[1, 2, 3][..], Ok(()))),
        ("one more, never answered", (&[1, 2, 3, 4], Ok(()))),
        (
            "a dropped token",
            (&[1, 3], Err(Fault::Lost(cell(), vec![2]))),
        ),
        (
            "nothing left",
            (&[], Err(Fault::Lost(cell(), vec![1, 2, 3]))),
        ),
        (
            "a doubled token",
            (&[1, 2, 2, 3], Err(Fault::Doubled(cell(), vec![2]))),
        ),
        (
            "an invented token",
            (&[1, 2, 3, 9], Err(Fault::Invented(cell(), vec![9]))),
        ),
    ]);
    for (name, (stored, expected)) in cases {
        assert_eq!(ledger.check("a", stored), expected, "{name}");
    }
}
