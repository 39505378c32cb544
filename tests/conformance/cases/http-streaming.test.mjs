import { request } from "node:http";

/** A request whose body is written by hand. */
function open(t, path) {
  const sending = request(`${t.url}${path}`, { method: "POST" });
  const answered = new Promise((resolve, reject) => {
    sending.on("error", reject);
    sending.on("response", resolve);
  });
  return { sending, answered };
}

const chunk = (response) =>
  new Promise((resolve) =>
    response.once("data", (data) => resolve(String(data))),
  );

export default {
  async "request and answer stream at the same time"(t) {
    const { sending, answered } = open(t, "/duplex");
    sending.write("one");
    const response = await t.within(answered, 5_000, "the answer's head");
    t.equal(await chunk(response), "one");
    sending.write("two");
    t.equal(await chunk(response), "two");
    sending.end();
    await new Promise((resolve) => response.on("end", resolve));
  },
  async "streams are transformed on the way"(t) {
    const { sending, answered } = open(t, "/upper");
    sending.write("ab");
    sending.end("cd");
    const response = await answered;
    let text = "";
    for await (const part of response) text += part;
    t.equal(text, "ABCD");
  },
  async "an answer may come before the body's end"(t) {
    const { sending, answered } = open(t, "/first");
    sending.write("part");
    const response = await t.within(answered, 5_000, "the answer");
    t.equal(await chunk(response), "first part");
    sending.destroy();
  },
  async "BYOB reads of a request"(t) {
    t.equal(
      await t.text("/byob", { method: "POST", body: "hello world" }),
      "true hello",
    );
  },
  async "a slow reader holds the source back"(t) {
    const controller = new AbortController();
    const response = await t.fetch("/endless", { signal: controller.signal });
    const reader = response.body.getReader();
    await reader.read();
    await t.sleep(300);
    const first = (await t.json("/pulled")).pulled;
    await t.sleep(300);
    const { pulled } = await t.json("/pulled");
    t.equal(
      pulled === first && pulled < 1_000,
      true,
      `pulled ${first}, then ${pulled}`,
    );
    controller.abort();
    await t.until(
      async () => (await t.json("/pulled")).cancelled,
      5_000,
      "cancel()",
    );
  },
  async "a large body can be iterated"(t) {
    t.equal(
      await t.text("/iterate", {
        method: "POST",
        body: Buffer.alloc(5_000_000),
      }),
      "5000000",
    );
  },
  async "a body that nobody reads does no harm"(t) {
    t.equal(
      await t.text("/unread", { method: "POST", body: Buffer.alloc(200_000) }),
      "did not read",
    );
    t.equal(
      await t.text("/twice", { method: "POST", body: "both" }),
      '["both","both"]',
    );
  },
};
