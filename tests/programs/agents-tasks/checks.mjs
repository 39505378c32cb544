/** A client of an agent: its state as it was told last, and calls. */
async function open(t, name) {
  const socket = await t.socket(`/agents/tasks/${name}`);
  const client = { state: undefined, socket };
  const answers = new Map();
  socket.ws.on("message", (data) => {
    const message = JSON.parse(data);
    if (message.type === "cf_agent_state") client.state = message.state;
    if (message.type === "rpc" && message.done !== false) {
      answers.get(message.id)?.(message);
    }
  });
  // What came before somebody listened.
  for (const early of socket.messages.splice(0)) {
    const message = JSON.parse(early);
    if (message.type === "cf_agent_state") client.state = message.state;
  }
  client.call = async (method, ...args) => {
    const id = `${method}-${answers.size}`;
    const answer = new Promise((resolve) => answers.set(id, resolve));
    socket.send(JSON.stringify({ type: "rpc", id, method, args }));
    return t.within(answer, 5_000, `the answer of ${method}`);
  };
  await t.until(() => client.state, 5_000, "the first state");
  return client;
}

export default {
  async "state is synchronized"(t) {
    const [ann, bob] = [await open(t, "shared"), await open(t, "shared")];
    t.equal(ann.state, { tasks: [], done: 0 });
    t.equal((await ann.call("add", "wash")).result, 1);
    await t.until(
      () => bob.state.tasks.length === 1,
      5_000,
      "the other's state",
    );
    bob.socket.send(
      JSON.stringify({
        type: "cf_agent_state",
        state: { tasks: ["wash", "dry"], done: 0 },
      }),
    );
    await t.until(() => ann.state.tasks.length === 2, 5_000, "the state");
    t.equal(await t.json("/agents/tasks/shared"), ann.state);
  },
  async "methods are called, errors come back"(t) {
    const ann = await open(t, "calls");
    const failed = await ann.call("fail");
    t.equal([failed.success, failed.error], [false, "no such task"]);
    t.equal((await ann.call("hidden")).success, false);
  },
  async "the current agent is known behind an await"(t) {
    const ann = await open(t, "current");
    t.equal((await ann.call("current")).result, [true, true, "current"]);
  },
  "schedules and SQL outlive the process": [
    async (t) => {
      const ann = await open(t, "scheduled");
      await ann.call("add", "iron");
      t.equal((await ann.call("remind", 2, "iron")).result, {
        type: "delayed",
        pending: 1,
      });
    },
    async (t) => {
      const ann = await open(t, "scheduled");
      await t.until(() => ann.state.done === 1, 8_000, "the schedule");
      t.equal(ann.state.tasks, ["iron"]);
      t.equal((await ann.call("finished")).result, [{ task: "iron" }]);
    },
  ],
};
