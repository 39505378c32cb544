// The examples of this repository, and what their READMEs promise.

const hello = {
  async "greets whoever the path names"(t) {
    t.equal(await t.text("/Ada"), "Hello, Ada!\n");
    t.equal(await t.text("/"), "Hello, world!\n");
    t.equal((await t.fetch("/%ff")).status, 400);
  },
};

const counter = {
  async "counts POSTs per path"(t) {
    const up = () => t.text("/apples", { method: "POST" });
    t.equal([await up(), await up()], ["1\n", "2\n"]);
    t.equal(await t.text("/apples"), "2\n");
    t.equal(await t.text("/pears"), "0\n");
    t.equal((await t.fetch("/apples", { method: "PUT" })).status, 405);
  },
  async "loses no count under concurrency"(t) {
    const ups = Array.from({ length: 50 }, () =>
      t.text("/many", { method: "POST" }),
    );
    const seen = (await Promise.all(ups)).map(Number).sort((a, b) => a - b);
    t.equal(
      seen,
      Array.from({ length: 50 }, (_, i) => i + 1),
    );
  },
};

async function notice(socket, type) {
  for (;;) {
    const message = JSON.parse(await socket.next());
    if (message.type === type) return message;
  }
}

const chat = {
  async "serves its page"(t) {
    const response = await t.fetch("/");
    t.match(response.headers.get("content-type"), /^text\/html/);
    t.match(await response.text(), /<\/html>/);
  },
  async "passes messages between two members"(t) {
    const ann = await t.socket("/rooms/lobby?user=ann");
    t.equal((await notice(ann, "members")).users, ["ann"]);
    const bob = await t.socket("/rooms/lobby?user=bob");
    t.equal((await notice(bob, "members")).users, ["ann", "bob"]);
    bob.send("hello");
    for (const socket of [ann, bob]) {
      const { user, text } = await notice(socket, "message");
      t.equal([user, text], ["bob", "hello"]);
    }
    bob.send("ping");
    t.equal(await bob.next(), "pong");
    await bob.close(1000, "");
    t.equal((await notice(ann, "left")).user, "bob");
  },
  async "keeps the history of a room"(t) {
    const late = await t.socket("/rooms/lobby?user=late");
    t.equal((await notice(late, "message")).text, "hello");
  },
  async "refuses a bad name"(t) {
    t.equal((await t.fetch("/rooms/a!b")).status, 400);
    t.equal((await t.fetch("/rooms/ab")).status, 426);
  },
};

/** Folder below `examples/` and checks. */
export const examples = [
  ["hello", hello],
  ["counter", counter],
  ["chat", chat],
];
