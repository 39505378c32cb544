//! Alarms across `kill -9`: none is lost, and what a handler wrote is there exactly once.

mod support;

use std::thread;
use std::time::Duration;

use support::{Celld, Project, eventually};

const WRANGLER: &str = r#"{
  "name": "alarms",
  "main": "index.js",
  "compatibility_date": "2026-06-01",
  "durable_objects": { "bindings": [{ "name": "CELL", "class_name": "Cell" }] },
  "migrations": [{ "tag": "v1", "new_sqlite_classes": ["Cell"] }]
}"#;

/// The handler's write and the end of its alarm are one commit.
const CODE: &str = r#"
import { DurableObject } from "cloudflare:workers";

export class Cell extends DurableObject {
  async fetch(request) {
    const { searchParams } = new URL(request.url);
    const { storage } = this.ctx;
    if (searchParams.has("in")) {
      await storage.put("set", ((await storage.get("set")) ?? 0) + 1);
      await storage.setAlarm(Date.now() + Number(searchParams.get("in")));
    }
    const fired = (await storage.get("fired")) ?? [];
    return Response.json([fired.length, fired.at(-1) ?? null, await storage.getAlarm()]);
  }
  async alarm() {
    const fired = (await this.ctx.storage.get("fired")) ?? [];
    await this.ctx.storage.put("fired", [...fired, this.ctx.id.name]);
  }
}

export default {
  fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === "/ready") return new Response("ready");
    return env.CELL.getByName(pathname.slice(1)).fetch(request);
  },
};
"#;

const CELLS: usize = 20;

#[test]
fn alarms_that_became_due_while_the_process_was_dead_fire_once_at_the_start() {
    let project = Project::new(WRANGLER, CODE);
    let server = Celld::dev(&project);
    for number in 0..CELLS {
        let set = server.get(&format!("/cell{number}?in=2500"));
        assert_eq!(set.status, 200, "{}", set.text());
    }
    server.kill();
    // Overdue, with nobody there.
    thread::sleep(Duration::from_millis(2_600));
    let server = Celld::dev(&project);
    for number in 0..CELLS {
        let wanted = format!(r#"[1,"cell{number}",null]"#);
        let path = format!("/cell{number}");
        eventually("the alarm fires", || server.get(&path).text() == wanted);
    }
    // What has fired is done, also for the next process.
    server.kill();
    let server = Celld::dev(&project);
    for number in 0..CELLS {
        let wanted = format!(r#"[1,"cell{number}",null]"#);
        assert_eq!(server.get(&format!("/cell{number}")).text(), wanted);
    }
}

#[test]
fn an_alarm_set_anew_before_a_kill_fires_at_its_last_time() {
    let project = Project::new(WRANGLER, CODE);
    let server = Celld::dev(&project);
    // To an earlier time, and to a later one: acknowledged is acknowledged.
    server.get("/sooner?in=3600000");
    server.get("/sooner?in=500");
    server.get("/later?in=60000");
    server.get("/later?in=3600000");
    server.kill();
    let server = Celld::dev(&project);
    eventually("the alarm fires", || {
        server.get("/sooner").text() == r#"[1,"sooner",null]"#
    });
    let later = server.get("/later").text();
    assert!(later.starts_with("[0,null,1"), "{later}");
}
