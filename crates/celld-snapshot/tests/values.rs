//! Stored values that are damaged: an error that names the key, and nothing worse.
#![allow(clippy::unwrap_used)]

mod support;

use celld_core::Txid;
use celld_storage::{CellDb, Image, OpenOptions};
use support::start;

const READER: &str = r#"
import { DurableObject } from "cloudflare:workers";
export class Other extends DurableObject {}
export class Counter extends DurableObject {
  async read() {
    const { storage } = this.ctx;
    const seen = { value: 0, error: 0, wrong: [] };
    for (let i = 0; i < 2000; i++) {
      const key = `k${i}`;
      try {
        if (await storage.get(key) !== undefined) seen.value++;
      } catch (error) {
        seen.error++;
        if (!error.message.includes(`"${key}"`)) seen.wrong.push(error.message);
      }
    }
    return seen;
  }
  async bad() {
    const { storage } = this.ctx;
    const texts = [];
    for (const read of [
      () => storage.get("bad"),
      () => storage.get(["good", "bad"]),
      () => storage.list(),
      async () => storage.kv.get("bad"),
      async () => [...storage.kv.list()],
    ]) texts.push(await read().then(() => "read", (error) => error.message));
    await storage.put("bad", "mended");
    return [texts, await storage.get("bad"), (await storage.list()).size];
  }
}
export default { async fetch(request, env) {
  const stub = env.COUNTER.getByName("x");
  return Response.json(await stub[new URL(request.url).pathname.slice(1)]());
} }
"#;

/// A snapshot of a cell with these keys and bytes.
fn snapshot(entries: &[(String, Vec<u8>)]) -> (Txid, bytes::Bytes) {
    let dir = tempfile::tempdir().unwrap();
    let image = Image {
        snapshot: None,
        tail: &[],
        txid: Txid::new(0),
    };
    let path = dir.path().join("planted.sqlite");
    let mut db = CellDb::create(&path, OpenOptions::default(), image).unwrap();
    for (key, value) in entries {
        db.kv_put(key, value).unwrap();
    }
    db.commit().unwrap();
    db.snapshot().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_value_is_an_error_that_names_its_key() {
    let worker = start(READER).await;
    let good = vec![0xff, 0x0f, b'I', 2];
    let entries = [("good".into(), good), ("bad".into(), vec![1, 2, 3])];
    *worker.world.planted.lock() = Some(snapshot(&entries));
    let answer = worker.get("/bad").await.unwrap();
    let text = r#"The value stored under the key \"bad\" cannot be read: its 3 bytes are not those of a serialized value. Overwrite or delete the key."#;
    let expected = format!(
        r#"[[{}],"mended",2]"#,
        vec![format!("\"{text}\""); 5].join(",")
    );
    assert_eq!(answer, expected);
}

/// Small numbers that are the same on every run.
fn numbers() -> impl FnMut(u64) -> usize {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below) as usize
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_bytes_in_the_database_break_the_process() {
    // A map with an object with a date, a BigInt, bytes, a cycle and a text of two-byte characters.
    let whole: &[u8] = b"\xff\x0f;o\"\x01aD\0\0\0\0\0\0\xf0?\"\x01bZ\x10\x01\0\0\0\0\0\0\0\"\x01cB\x03\x01\x02\x03VB\0\x03\0\"\x01d^\x01c\x04a\0b\0{\x04\"\x01xI\x02:\x02";
    let mut below = numbers();
    let tags = b"^_0TFINZd\"cSoOaADynsp;'\\BVtuxRrEw(bk{}@$:,-\xff";
    let mut entries = Vec::new();
    for index in 0..2000 {
        let mut bytes = whole.to_vec();
        match index % 4 {
            0 => bytes.truncate(below(whole.len() as u64)),
            1 => {
                for _ in 0..=below(4) {
                    let at = below(bytes.len() as u64);
                    bytes[at] = below(256) as u8;
                }
            }
            2 => {
                bytes.truncate(2);
                let length = below(60);
                bytes.extend((0..length).map(|_| tags[below(tags.len() as u64)]));
            }
            _ => bytes = (0..below(60)).map(|_| below(256) as u8).collect(),
        }
        entries.push((format!("k{index}"), bytes));
    }
    let worker = start(READER).await;
    *worker.world.planted.lock() = Some(snapshot(&entries));
    let answer = worker.get("/read").await.unwrap();
    assert!(answer.contains(r#""wrong":[]"#), "{answer}");
    let errors = answer.split(r#""error":"#).nth(1).unwrap();
    let errors: usize = errors.split(',').next().unwrap().parse().unwrap();
    assert!(errors > 1000, "{answer}");
}
